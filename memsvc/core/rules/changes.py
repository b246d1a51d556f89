"""Sentences of a user's that say that something changed, and what they put in doubt."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Final

from memsvc.core.analysis import normalized_text, terms
from memsvc.core.facts import Claim, Doubt, Fact, Merge, Statement
from memsvc.core.rules import topics as t
from memsvc.core.rules.change_words import (
    BY_TOPIC,
    EVENT,
    FAMILY,
    GENERAL,
    MAYBE,
    OTHERS,
    SELF,
    TOPIC_WORDS,
    TOPICS_BY_FACT,
    WEAK,
)
from memsvc.core.rules.own_words import own_spans
from memsvc.core.rules.statements import grammars_for
from memsvc.core.rules.word_groups import is_done_by_others
from memsvc.core.text_cache import TextCache

CHANGE_CHARS_MAX: Final = 200
TEXT_CHARS_READ: Final = 8000
SHORT_NUMBER_DIGITS: Final = 2
SHORT_TERMS: Final = 12
CHANGES_MAX: Final = 4
"""Changes of one message that are read."""
CACHED_TEXTS_MAX: Final = 8192
"""Texts of which it is known where they say a change."""
EVENT_CHARS_MAX: Final = 400
"""A longer message is not read for news that no word of change tells."""
QUESTIONED_MAX: Final = 8
"""Facts that one change puts in doubt by its topic alone."""
NEGATION_CHARS: Final = 24

_WORD: Final = re.compile(r"[^\W_]+")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_SENTENCE: Final = re.compile(r"[^\n。！？!?.;；…]*(?:[。！？!?;；…\n]|\.(?=\s|$)|\.|$)")
_CLAUSE_END: Final = re.compile(
    r"[,，、:：()（）]|\s[-–—]+\s|…|\b(?:and|but|so|und|aber|y|pero|et|mais)\b"
)
_EVENT: Final = re.compile(EVENT)
_NEGATED: Final = re.compile(
    r"(?:\bnot|n't|\bnever|\bnicht|\bnie|\bno|\bnunca|\bpas|没|没有|不想|未)\W*(?:\w+\W+)?$"
)
_NAMED_LOSS: Final = re.compile(
    r"\W*(?:[^\W\d_a-z]\w+\W+){1,3}(?:has |is |ist |est )?"
    r"(?:died|dead|passed|gestorben|verstorben|mort|decede|murió|falleció|décédé)"
)
"""A death of somebody with a name, who has to be named by a fact."""
_QUESTION: Final = ("?", "？")
_COMMON: Final = frozenset(
    terms(
        "time day week month year today yesterday tomorrow morning evening night last next first new old now always"
        " never still also even good great nice thing people work go come make use say want need know think look feel"
        " monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
        " september october november december montag dienstag mittwoch donnerstag freitag samstag sonntag lunes martes"
        " miercoles jueves viernes sabado domingo lundi mardi mercredi jeudi vendredi samedi dimanche"
        " one two three every really much back way big little long own tag woche monat jahr heute gestern morgen abend"
        " neu alt gut immer semana mes hoy ayer ano nuevo siempre bien semaine mois jour annee hier bien toujours tout"
    )
)


class Phrases:
    """Phrases by their labels: only those with a word of the text are compared with it.

    `…` stands for up to four words, a `*` for any beginning or ending, `/` between words for either."""

    def __init__(self, phrases_by_label: Mapping[str, str]) -> None:
        self._by_prefix: dict[str, list[tuple[str, str, str]]] = {}
        self._by_phrase: dict[str, list[str]] = {}
        for label, phrases in phrases_by_label.items():
            for phrase in filter(None, map(_normalized, phrases.split(";"))):
                if _CJK.search(phrase):
                    self._by_phrase.setdefault(phrase, []).append(label)
                    continue
                words = [word for word in phrase.split() if word[0] != "*"]
                word = max(words, key=lambda word: min(map(len, word.split("/"))))
                for part in {_part(either) for either in word.split("/")}:
                    self._by_prefix.setdefault(part[:4], []).append((label, part, phrase))

    def labels_in(self, words: str, refused: re.Pattern[str] | None = None) -> set[str]:
        """Return the labels of the phrases in a text, without those right after `refused`."""
        return {
            label
            for label, start in self._matches(words)
            if refused is None or not refused.search(words[max(0, start - NEGATION_CHARS) : start])
        }

    def is_in(self, words: str) -> bool:
        """Return whether a text has one of the phrases."""
        return next(self._matches(words), None) is not None

    def _matches(self, words: str) -> Iterator[tuple[str, int]]:
        for start in self._by_prefix.keys() & {word[:4] for word in _WORD.findall(words)}:
            for label, part, phrase in self._by_prefix[start]:
                if part in words:
                    for match in _compiled(phrase).finditer(words):
                        yield label, match.start()
        if _CJK.search(words):
            for phrase, labels in self._by_phrase.items():
                if (at := words.find(phrase)) >= 0:
                    yield from ((label, at) for label in labels)


def _normalized(phrase: str) -> str:
    return normalized_text(phrase.strip()).replace("...", "…")


def _part(word: str) -> str:
    return max(_WORD.findall(word), key=len, default="")


@lru_cache(8192)
def _compiled(phrase: str) -> re.Pattern[str]:
    """Return the pattern of a phrase."""
    words = [
        r"(?:\w+\W+){0,4}?"
        if word == "…"
        else "(?:" + "|".join(map(_either, word.split("/"))) + ")"
        for word in phrase.split()
    ]
    pattern = r"\W+".join(words).replace(r"{0,4}?\W+", "{0,4}?")
    return re.compile((r"\b" if phrase[0].isalnum() else "") + pattern)


def _either(word: str) -> str:
    start, end = (r"\w*" if starred else r"\b" for starred in (word[0] == "*", word[-1] == "*"))
    return start + re.escape(word.strip("*")) + end


@dataclass(frozen=True)
class Change:
    """A sentence that says that something changed, and `text`, it with its neighbours.

    `text` has 200 characters at most. `expired_topics` are the topics whose facts its words of
    change end, `topics` those that it is about. One that is `weak` may say something else, as news
    that something happened: it puts nothing in doubt."""

    sentence: str
    text: str
    expired_topics: frozenset[str]
    topics: frozenset[str]
    weak: bool

    @cached_property
    def terms(self) -> frozenset[str]:
        """Return the terms of the sentence that are not common words."""
        return frozenset(terms(self.sentence)) - _COMMON

    @cached_property
    def name_terms(self) -> frozenset[str]:
        """Return the terms of what is written as names; a number of one or two digits is none."""
        return self.terms & _name_terms(self.text)

    @property
    def is_short(self) -> bool:
        """Return whether the change is all that its sentence says; others say it by the way."""
        return len(self.terms) <= SHORT_TERMS


_GENERAL, _WEAK = "general", "weak"
_CHANGE_PHRASES: Final = Phrases({**BY_TOPIC, _GENERAL: GENERAL, _WEAK: WEAK})
_TOPICS: Final = Phrases(TOPIC_WORDS)
_PERSON_PHRASES: Final = Phrases({"others": OTHERS, "family": FAMILY, "self": SELF})
_SHARED: Final = frozenset(("love", "life"))
"""Topics of a user that others of the family may change."""
_RESCHEDULED: Final = re.compile(
    r"\bmoved (?:up |back )?to (?:next |the |this |\d{1,2}(?:st|nd|rd|th)?\.? )?"
    r"(?:\d{1,2}(?:[:.]\d\d|(?:st|nd|rd|th)\b(?! (?:ave|st|floor))| ?(?:am|pm|o clock)\b)|noon\b|morning|afternoon|evening"
    r"|week|month|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:jan|febr)uary|march\b|april|may\b"
    r"|june|july|august|(?:septem|octo|novem|decem)ber)"
)
"""An appointment moves to another time, a person to another place."""
_MAYBE: Final = Phrases({"maybe": MAYBE})


_Told = tuple[set[str], bool, str]
_Labels = tuple[frozenset[str], frozenset[str], bool]
"""Of a change the topics that it ends, those that it is about, and whether it is weak."""
_Place = tuple[int, int, int, int, _Labels]
"""Where a sentence of change stands in its text, where it stands with its neighbours, its labels.
"""
_places = TextCache[tuple[_Place, ...]](CACHED_TEXTS_MAX)


def changes_in(text: str) -> tuple[Change, ...]:
    """Return the changes that a user's message says, in its order, the last ones of many.

    Where they stand is cached by the hash of the text: the latest are read with every recall."""
    text = text[-TEXT_CHARS_READ:]
    if not text.strip():
        return ()
    return tuple(
        Change(text[start:end], text[left:right].strip()[:CHANGE_CHARS_MAX], *labels)
        for start, end, left, right, labels in _places.get(text, _places_in)
    )


def _name_terms(text: str) -> frozenset[str]:
    words = [
        word
        for word in _WORD.findall(text)
        if word[0].isupper() or (word[0].isdigit() and len(word) > SHORT_NUMBER_DIGITS)
    ]
    return frozenset(terms(" ".join(words)))


def _places_in(text: str) -> tuple[_Place, ...]:
    if not _CHANGE_PHRASES.is_in(normalized_text(text)) and not _may_tell_event(text):
        return ()
    found: list[tuple[re.Match[str], _Told, tuple[int, int]]] = []
    events: list[tuple[re.Match[str], _Told, tuple[int, int]]] = []
    for start, end in own_spans(text):
        sentences = [match for match in _SENTENCE.finditer(text, start, end) if match[0].strip()]
        for at, match in enumerate(sentences):
            if (told := _told_change(match[0])) is not None:
                place = (match, told, _with_neighbours(sentences, at))
                (found if told[0] else events).append(place)
    return tuple(
        (*match.span(), *context, _labels(match[0], told))
        for match, told, context in found[-CHANGES_MAX:] or events[-1:]
    )


def _may_tell_event(text: str) -> bool:
    return len(text) <= EVENT_CHARS_MAX and _EVENT.search(text.casefold()) is not None


def _told_change(sentence: str) -> _Told | None:
    """Return the labels of a sentence that says a change or news, if they are sure, and its words.

    Beside a question or what is only considered a clause may still say one."""
    words = normalized_text(sentence)
    labels = _CHANGE_PHRASES.labels_in(words, _NEGATED)
    if not labels and not _may_tell_event(sentence):
        return None
    is_asked = sentence.rstrip().endswith(_QUESTION)
    if not is_asked and not _MAYBE.is_in(words):
        return labels, True, words
    clauses = _CLAUSE_END.split(sentence)[: -1 if is_asked else None]
    told = ", ".join(clause for clause in clauses if not _MAYBE.is_in(normalized_text(clause)))
    words = normalized_text(told)
    labels = _CHANGE_PHRASES.labels_in(words, _NEGATED)
    return (labels, False, words) if labels or _may_tell_event(told) else None


def _labels(sentence: str, told: _Told) -> _Labels:
    labels, is_certain, words = told
    context = _PERSON_PHRASES.labels_in(words)
    is_of_others = "others" in context and "self" not in context
    topics = frozenset() if is_of_others else topics_of(words)
    is_of_others |= "life" not in topics and _NAMED_LOSS.match(sentence) is not None
    expired_topics = frozenset() if is_of_others else frozenset(labels) - {_GENERAL, _WEAK}
    if ("family" in context and "self" not in context) or _is_of_others(sentence):
        topics, expired_topics = topics & _SHARED, expired_topics & _SHARED
    if _RESCHEDULED.search(words):
        topics, expired_topics = topics - {"home"}, expired_topics - {"home"}
    return expired_topics, topics, not is_certain or labels <= {_WEAK}


def _is_of_others(sentence: str) -> bool:
    """Return whether in some language a sentence is about others and not the speaker."""
    low = sentence.casefold()
    grammars = grammars_for(low, set(_WORD.findall(low)))
    return any(is_done_by_others(grammar.language, low) for grammar in grammars)


def _with_neighbours(sentences: Sequence[re.Match[str]], at: int) -> tuple[int, int]:
    """Return where a sentence and those around it stand, as long as they are short."""
    first = last = at
    while first or last + 1 < len(sentences):
        before, after = max(0, first - 1), min(len(sentences) - 1, last + 1)
        if sentences[after].end() - sentences[first].start() <= CHANGE_CHARS_MAX and after > last:
            last = after
        elif (
            sentences[last].end() - sentences[before].start() <= CHANGE_CHARS_MAX and before < first
        ):
            first = before
        else:
            break
    return sentences[first].start(), sentences[last].end()


def topics_of(words: str) -> frozenset[str]:
    """Return the topics that words, normalised, are about."""
    return frozenset(_TOPICS.labels_in(words))


def names(change: Change, words: frozenset[str]) -> bool:
    """Return whether a change names what a text of these terms says: two of them, or a name."""
    return len(change.terms & words) >= 2 or not change.name_terms.isdisjoint(words)


def matches_topic(change: Change, text: str, fact_id: str = "") -> bool:
    """Return whether a change may end what a text says, because both have the same topic.

    An allergy ends only if the change mentions one: an operation alone does not end it."""
    known = TOPICS_BY_FACT.get(fact_id)
    if fact_id == t.ALLERGY.fact_id and known not in change.topics:
        return False
    topics = frozenset((known,)) if known else topics_of(normalized_text(text))
    about = change.expired_topics or (change.topics if change.is_short else frozenset())
    return not change.weak and not topics.isdisjoint(about)


def questioned(
    merge: Merge,
    known: Sequence[Fact],
    claims: Sequence[Claim],
    doubts: Sequence[tuple[Change, Doubt]],
    now: datetime,
) -> Merge:
    """Return a merge that also puts known facts in doubt: those that changes end, each its last.

    What the claims of the same turn say of a fact goes before. A change that names some facts says
    nothing of the others of its topic; words of change in a fact itself are no change of it."""
    if not doubts:
        return merge
    claimed = {claim.identity for claim in claims if isinstance(claim, Statement)}
    ended = [fact for fact, _ in merge.replaced] + list(merge.deleted)
    open_facts = [
        fact
        for fact in known
        if fact.is_valid(now) and fact.statement.identity not in claimed and fact not in ended
    ]
    found = {(fact.index_id, fact.entry): (fact, doubt) for fact, doubt in merge.questioned}
    words = {(fact.index_id, fact.entry): frozenset(terms(_said(fact))) for fact in open_facts}
    for change, doubt in doubts:
        before = [fact for fact in open_facts if fact.valid_from <= doubt.said_at]
        named = [fact for fact in before if names(change, words[fact.index_id, fact.entry])]
        about = [
            fact
            for fact in before
            if matches_topic(change, fact.statement.told, fact.statement.fact_id)
        ]
        if change.expired_topics and about:
            named = [fact for fact in named if fact in about]
        found |= {
            (fact.index_id, fact.entry): (fact, doubt)
            for fact in named or sorted(about, key=lambda fact: fact.valid_from)[-QUESTIONED_MAX:]
            if not (
                named
                and _CHANGE_PHRASES.labels_in(normalized_text(fact.statement.statement)) - {_WEAK}
            )
        }
    return replace(merge, questioned=tuple(found.values()))


def _said(fact: Fact) -> str:
    return f"{fact.statement.value}\n{fact.statement.statement}"
