"""Split a text into sentences, and sentences into clauses."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from memsvc.core.facts import STATEMENT_CHARS_MAX
from memsvc.core.rules.own_words import Span, pasted_spans
from memsvc.core.rules.sentence_model import is_conditional
from memsvc.core.rules.text_requests import LASTING

SENTENCE_CHARS_READ = 400
"""A longer sentence was hardly typed: no statement is read in it."""
VALUE_BYTES_MAX = 128
FRAGMENT_CHARS_MAX = 40
_AFTER = r"(?=[\s\"'”’»)]|$)"
_WITH_POINT = r"dr mr mrs ms st prof e\.g i\.e nr z\.b ca bzw sr sra vs approx p\.ej etc"
_DOTTED_WORDS = "".join(rf"(?<!\b{word}\.)" for word in _WITH_POINT.split())
_FRAGMENT = re.compile(
    r"\W*(?:(?:and |und |y |et )?(?:please|pls|bitte|por favor|s'il te plaît)? ?[^.!?\n]{3,28}|[^。！？\n]{2,12})[.!?。！？\s]*$"
)
"""A sentence of a few words, which may say that the one before is meant for all times."""
_KEPT_UP = re.compile(
    r"\b(?:keep (?:doing|it up|that up|that in mind)|(?:every|each) (?:single )?time|always|never again|from now on|from here on|going forward|by default|house rule|standing rule|without exception|no exceptions"
    r"|immer|jedes mal|ab jetzt|ab sofort|in zukunft|dauerhaft|grundsätzlich|ohne ausnahme|siempre|cada vez|de ahora en adelante|sin excepción|nunca más|toujours|à chaque fois|chaque fois|désormais|dorénavant|plus jamais|sans exception)\b"
    r"|以后都|每次都|一直这样|今后也|今後も|毎回|いつもそう|これからも|ずっと"
)
_MONTHS = r"(?:jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez)"
_END = re.compile(
    rf"[.!?;。！？；…\n](?:(?<=\.){_AFTER}(?<!\d\.){_DOTTED_WORDS}|(?<=\.)(?<=\d\.)(?=\s+(?!{_MONTHS})(?-i:[^\W\d_a-zß-öø-ÿ])|\s*$)(?<!\b\d\.)|(?<='\d\d\.)(?=\s)|(?<=\d\d\d\.)(?=\s)|(?<=[!?])[!?]*(?:{_AFTER}|(?=[^\x00-\x7f]))|(?<=[。！？；…\n])[。！？…]*|(?<=;)(?=\s))[\"'”’»)」』”）]*",
    re.IGNORECASE,
)
_INITIAL = re.compile(r"(?:^|[\"'“„«「(\s][^\W\d_a-zß-öø-ÿ]\. ?|[\"'“„«「(])[^\W\d_a-zß-öø-ÿ]\.$")
INITIAL_CHARS: Final = 6
"""Characters before the full stop of an initial: where a name begins, or behind another one."""
_QUOTES = frozenset('«“「"')
_QUOTED_PHRASE = re.compile(
    r"«[^«»\n]{1,30}»|“[^“”\n]{1,30}”|「[^「」\n]{1,30}」|(?<=\s)\"[^\"\n]{1,30}\"(?=\s)"
)
CLAUSE_END = re.compile(
    r"(?=¿)|[,;:，、；：](?=\s|[^\x00-\x7f])|\s[-–—]+\s|—|\s\(|\s(?:so|and|but|und|aber|also|y|pero|así que|et|mais|donc)\s"
)
_TOGETHER = re.compile(
    r" and i (?:are|were|both)\b| und ich \w+en\b| y yo \w+mos\b| et moi\b", re.IGNORECASE
)
"""The end of a subject of several people, which is no clause of its own."""
ASKED = re.compile(
    r"\W*(?:(?:so|and|but|ok|okay|hey|also|anyway|und|also|aber|y|et|alors),? )*(?:"
    r"(?:how|why|when|where|what|who|which)(?: \w+)? (?:do|does|did|can|could|should|shall|would|will|am|are|is|was|were) (?:i|we|you|it|they|there|he|she|this|that|my)\b|how (?:to|come)\b"
    r"|(?:how (?:long|much|many|often|far|soon)|where|who) (?:is|are|does|do|can)\b"
    r"|(?:can|could|should|shall|may|do|does|did|am|are|is|will|would) (?:i|we|it|they|there|he|she)\b"
    r"|(?:wie|wann|wo|warum|wieso|weshalb|was|wohin|woher|womit)(?: lange?| viel| oft)? \w+ (?:ich|wir|man|es|das|die|der|meine?)\b|(?:darf|soll|sollte|kann|könnte) (?:ich|man)\b(?!.*\b(?:nicht|nie|kein\w*)\b)"
    r"|(?:cómo|cuándo|dónde|cuánt[oa]s?|cuál|por qué) (?!no\b)\w|(?:comment|pourquoi|combien|est-ce que|quand est-ce|où est-ce|qu'est-ce) \w"
    r"|(?:我|我们)?(?:该|要|应该|得)?(?:怎么|如何|为什么)(?!都|也|样都)|(?:どうやって|どうすれば|なぜ|どうして))"
)
"""How a question begins that may have no mark, in lower case."""
TRIM = ' \t\n(（"“”„«»*_`#>-–—•:,'
SPEAKER_FIRST = re.compile(
    r"(?:\w+\W){0,2}?(?:i|i'm|i've|we|we're|ich|wir|yo|je|j'|on|nous|soy|somos|tengo|tenemos|llevo|trabajo|vivo|moi)\b|.{0,4}(?:我(?!妈|爸|哥|姐|弟|妹|们?老板|朋友|同事|同学|的)|[私僕俺咱])"
)
"""How a sentence begins whose subject is the speaker, beside a text that is worked on."""


class Message:
    """A user message on its way through the rules: what they share is read once."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def sentences(self) -> list[Span]:
        """Return its sentences, as `sentence_spans`."""
        return sentence_spans(self.text)

    @cached_property
    def pasted(self) -> Sequence[Span]:
        """Return the parts that are not the user's own words, as `pasted_spans`."""
        return pasted_spans(self.text)

    @cached_property
    def _supposed(self) -> list[int]:
        """Return where those sentences begin that only suppose something."""
        return [start for start, end in self.sentences if is_conditional(self.text[start:end])]

    def until(self, at: int) -> str:
        """Return it up to what it supposes behind a place: that says nothing of what stands there."""
        return self.text[: next((start for start in self._supposed if start > at), None)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the sentences of a text with their ends, in order.

    A quoted phrase ends none, and a fragment that says for how long belongs to the one before."""
    spans, start = [], 0
    for end in sentence_ends(text):
        spans.append((start, end))
        start = end
    spans.append((start, len(text)))
    for at in range(len(spans) - 1, 0, -1):
        left, right = spans[at]
        if right - left <= FRAGMENT_CHARS_MAX and _is_fragment(text[left:right].casefold()):
            spans[at - 1 : at + 1] = [(spans[at - 1][0], right)]
    return spans


def sentence_ends(text: str) -> Iterator[int]:
    """Yield where the sentences of a text end, ignoring quoted phrases and initials.

    A semicolon ends no standing order: "Never edit old ones; always add a new one"."""
    quoted = not _QUOTES.isdisjoint(text)
    phrases = [phrase.span() for phrase in _QUOTED_PHRASE.finditer(text)] if quoted else []
    start = 0
    for end in _END.finditer(text):
        before = text[start : end.start()].lower()
        is_order = end[0][0] in ";；" and LASTING.search(before) and not SPEAKER_FIRST.match(before)
        if (
            is_order
            or any(left < end.start() < right for left, right in phrases)
            or _INITIAL.search(text, max(0, end.start() - INITIAL_CHARS), end.start() + 1)
        ):
            continue
        yield end.end()
        start = end.end()


def _is_fragment(low: str) -> bool:
    return _FRAGMENT.match(low) is not None and _KEPT_UP.search(low) is not None


def cut_around(sentence: str, at: int, end: int) -> str:
    """Return a sentence without the clauses for which a fact has no room, around some words."""
    start, until = 0, len(sentence)
    positions = (
        [boundary.start() for boundary in CLAUSE_END.finditer(sentence)]
        if until > STATEMENT_CHARS_MAX
        else []
    )
    while until - start > STATEMENT_CHARS_MAX:
        before = next((boundary for boundary in positions if start < boundary <= at), None)
        after = next(
            (boundary for boundary in reversed(positions) if end <= boundary < until), None
        )
        if after is not None and (before is None or until - after <= before - start or before > at):
            until = after
        elif before is not None:
            start = before + 1
        else:
            start = max(start, min(at, until - STATEMENT_CHARS_MAX))
            until = start + STATEMENT_CHARS_MAX
            break
    return sentence[start:until].strip(TRIM).strip()


def clause_beside(sentence: str, at: int, end: int, others: Iterable[tuple[int, int]]) -> str:
    """Return the part of a sentence around some words that leaves out the clauses of other words."""
    places = [
        boundary.span()
        for boundary in CLAUSE_END.finditer(sentence)
        if not _TOGETHER.match(sentence, boundary.start())
    ]
    before = max((until for _, until in others if until <= at), default=-1)
    after = min((start for start, _ in others if start >= end), default=-1)
    start = max((right for left, right in places if 0 <= before <= left and right <= at), default=0)
    until = max((left for left, right in places if end <= left and right <= after), default=None)
    return sentence[start:until].strip(TRIM).strip()


def value_of(statement: str) -> str:
    """Return as much of a statement as a value may hold, in whole words."""
    value = statement.strip(" .!。！")
    if len(value.encode()) <= VALUE_BYTES_MAX:
        return value
    value = value.encode()[: VALUE_BYTES_MAX - 3].decode("utf-8", "ignore")
    return (value.rsplit(" ", 1)[0] if " " in value else value) + "…"
