"""Requests to remember something, in six languages, and what they ask to remember."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from memsvc.core.frozen import frozen
from memsvc.core.question_kinds import is_greeting_phrase
from memsvc.core.rules.own_words import (
    Span,
    holds_text,
    within,
)
from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.sentences import CLAUSE_END, SENTENCE_CHARS_READ, Message

CONTENT_CHARS_MIN: Final = 4
LISTED_MAX: Final = 8
"""Lines behind a request that ends with a colon."""

# fmt: off
# A pattern is a line of data, however long.
_WORD: Final = quick_pattern(
    r"\b(?:remember|memori[sz]e|forget|mind|note|this|that|it|merk\w*|vergiss|vergessen|notier\w*|behalt\w*|speicher\w*|abspeichern|schreibe?|halte?|denke?|reten\w*|retiens|note[rz]|mémori\w+|souv\w+|rappelle|oubli\w+|gard\w+|enregistre\w*"
    r"|rec[ou][eé]?rd\w+|ap[uú]nt\w+|an[oó]t\w+|memor[ií]\w+|olvid\w+|tenlo|ten|acuérdate|nota|guárda\w+|guarda)\b|[记忘]|覚え|忘れ|記憶|メモ|控え|記録",
    re.IGNORECASE,
)
"""A word of each request."""

_LEAD: Final = r"(?:(?:please|pls|just|also|and|so|oh|ok|okay|do|bitte|und|ach|übrigens|et|au fait|dis|s'il te plaît|y|por favor|oye)\b,? *|[¡¿*•-] *)*"
_POLITE: Final = (
    r"(?P<polite>(?:can|could|would|will) you (?:(?:please|just|possibly|kindly) )*|i(?:'d| would)? (?:want|need|like) you to |(?:kannst|könntest|würdest) du (?:bitte )?|(?:peux-tu|tu peux|pourrais-tu|tu pourrais) |¿?(?:puedes|podrías) )?"
)
_AIM: Final = r"(?: ?(?:for me|please|pls|bitte|mal|für mich|bien|stp|s'il te plaît|pour moi|por favor))*"
_MOMENT: Final = r"(?! (?:it|this|these|they)\b)"
_AHEAD: Final = (
    rf"(?:(?:remember|memori[sz]e|do(?:n't| not) (?:ever )?forget|never forget|make a (?:mental )?note){_AIM}(?:,? that\b(?! time\b)| ?[:,–—-]| (?!(?:to|when|how|what|why|who|where|which|if|me|about|of|this|that|the time)\b)(?=\S+ \S+ \S))"
    rf"|(?P<weak>(?:note|(?:keep|bear) in mind){_AIM}(?:,? that\b| ?:){_MOMENT})"
    rf"|(?:merke? dir|dir merken|vergiss(?: bitte)? nicht|nicht vergessen|behalte?(?: bitte)? im (?:hinter)?kopf|im (?:hinter)?kopf behalten|notiere? dir|dir notieren|schreibe? dir auf|halte?(?: bitte| mal)? fest|denke?(?: bitte)? (?:dr|dar)an){_AIM}"
    r"(?:,? dass\b| ?[:–—-]| ?,(?!.*(?:\bzu |zu)\w+en\W*$))"
    rf"|(?:retiens|retenir|note[rz]?|souviens-toi|te souvenir|rappelle-toi|n'oublie[rz]? (?:pas|jamais)|garde[rz]? en (?:tête|mémoire)|mémorise[rz]?){_AIM}(?:,? (?:que\b|qu')| ?[:,–—-])"
    rf"|(?:recuerd[ae]|recordar|apunta|anota|memoriza|no (?:te )?olvides|acuérdate|ten (?:presente|en cuenta)|toma nota){_AIM}(?: de)?(?:,? que\b| ?[:,–—-]))"
)
"""A request with what is to be remembered behind it; a weak one may only point it out."""
_KEPT: Final = r"(?:,? ?(?:down|somewhere|safe|in mind|in (?:your )?memory|for (?:me|later|next time)|please|would you|will you|could you|bitte|für (?:mich|später)|im kopf|quelque part|en (?:mémoire|tête)|pour (?:moi|plus tard)|s'il te plaît|para (?:mí|luego|más adelante)|por favor))"
_THAT: Final = (
    rf"(?:(?:remember|memori[sz]e|note|do(?:n't| not) (?:forget|lose)) (?:this|that|it){_KEPT}*|(?:keep|save|store|write|jot|put|record|hold on to) (?:(?:this|that|it){_KEPT}+|this(?= ?:))|(?:take|make a) note{_KEPT}*"
    rf"|(?:merke? dir|notiere? dir|speicher dir|schreibe? dir|behalte?)(?: bitte)? (?:das|dies)(?: (?:auf|ab))?{_KEPT}*|das(?: bitte)? (?:merken|notieren|abspeichern)|vergiss (?:das|es)(?: bitte)? nicht"
    rf"|(?:retiens|note|mémorise)(?:-le|-la| ça| cela){_KEPT}*|(?:garde|enregistre)(?:-le|-la| ça| cela){_KEPT}+|n'oublie pas (?:ça|cela)|ne l'oublie pas"
    rf"|(?:apúnta|anóta|recuérda|memoríza)(?:te|me)?l[oa]s?{_KEPT}*|(?:apunta|anota|recuerda|memoriza) (?:eso|esto){_KEPT}*|guarda (?:eso|esto){_KEPT}+|no lo olvides|tenlo (?:presente|en cuenta)|toma nota)(?= *(?:[.,:;!?…\n]|$))"
)
"""A request for what stands before it, or for the sentence behind it."""
_TELLS: Final = r"(?=[我他她咱]|.*[是在有叫不过])"
_ZH: Final = (
    r"(?:[请你您要能]|麻烦|一定|务必|可以|帮我|替我|给我|对了)*(?:记[住牢着](?!了吗)|记(?:一下|下来?)|备忘|(?:(?:别|不要)忘[了记]?|记得(?!.*吗))(?=[吧哦啊哈]*(?:[，：:！!。]|$)|" + _TELLS + r"))(?:一下|[了哦啊哈吧呀])*[，：:！!\s]*"
)
_JA: Final = r"(?:(?:覚え|おぼえ|記憶し|メモし|控え|記録し)て|忘れないで)(?:おいて|おけ|とい?て)?(?:ください|下さい|くれ(?:ますか|る)?|ほしい|もらえ(?:ますか|る)|いただけますか|[ねよな])*(?:[：:、！!\s]+|(?=[。？?]|$))"
_JA_BEHIND: Final = re.compile(rf"(?:(?:という|って)こと[をは]?|(?<=[だすたる])こと[をは](?!忘)|(?<=[てで]いる)こと[をは]|(?<=[だすたるい])(?:と|って)|[をは](?!忘))、?{_JA}")
"""A request right behind its content; の before it would name something to do."""
_REQUEST: Final = re.compile(
    rf"{_LEAD}{_POLITE}(?:(?P<that>{_THAT})|(?P<ahead>{_AHEAD}))|(?P<either>{_ZH}|(?:これ|次のこと)?[をもは]?、?{_JA})",
    re.IGNORECASE,
)
# fmt: on
_ASKED: Final = re.compile(r"\s*吗?[?？]\s*$")
_COLON: Final = re.compile(r"[:：]\s*$")
_STOPS: Final = " \t.,:;!?…。，、：；！？"
_MARKS: Final = _STOPS + "\n-–—\"'*•"
_FIRST_CJK: Final = "\u2e80"


@frozen
class MemoryRequest:
    """A request to remember: the places of its own words, and of what is to be remembered."""

    own: tuple[Span, ...]
    contents: tuple[Span, ...]


@frozen
class _Found:
    """A request in a sentence, from the clause before it or its first word on.

    `is_behind` says that its content stands before it."""

    start: int
    at: int
    end: int
    is_behind: bool
    is_weak: bool = False


def memory_requests(message: Message) -> tuple[Message, list[MemoryRequest]]:
    """Return a user message without its requests to remember, and these, in order.

    The message keeps its length: spaces stand in place of a request, behind a full stop where
    words stand before it. Requests in text that is quoted or given to be worked on are left."""
    text = message.text
    found = list(_requests(message)) if _WORD.search(text) else []
    if not found:
        return message, []
    rest = Message(_without(text, found))
    pasted = rest.pasted  # "save this: ..." asks to work on no text
    is_worked_on = holds_text(text, pasted)
    kept = [
        (request, is_weak)
        for request, is_weak in found
        if not within(pasted, request.contents[0][0]) and not (is_weak and is_worked_on)
    ]
    if len(kept) < len(found):
        rest = Message(_without(text, kept))
    return rest, [request for request, _ in kept]


def _without(text: str, requests: Sequence[tuple[MemoryRequest, bool]]) -> str:
    parts, start = [], 0
    for left, right in (span for request, _ in requests for span in request.own):
        before = text[start:left]
        stop = "。" if (last := before.rstrip()[-1:]) >= _FIRST_CJK else "."
        parts += [before, (stop if last.isalnum() else " ") + " " * (right - left - 1)]
        start = right
    return "".join(parts) + text[start:]


def _requests(message: Message) -> Iterator[tuple[MemoryRequest, bool]]:
    """Yield the requests of a message, and whether each may only point something out."""
    text = message.text
    sentences = [span for span in message.sentences if _tells(text, span)]
    for number, (start, end) in enumerate(sentences):
        found = _request_in(text, start, end)
        if found is None or within(message.pasted, found.at):
            continue
        asked = _ASKED.search(text, found.end, end)
        beside = [(found.end, asked.start() if asked else end), (start, found.start)]
        told = next(
            (span for span in beside[:: -1 if found.is_behind else 1] if _tells(text, span)), None
        )
        contents = (told,) if told else _neighbours(text, sentences, number)
        if contents:
            own = [(found.start, found.end)]
            if asked and told == beside[0]:
                own.append((asked.start(), end))
            yield MemoryRequest(tuple(own), contents), found.is_weak


def _request_in(text: str, start: int, end: int) -> _Found | None:
    """Return the request in a sentence that stands at the beginning of one of its clauses."""
    if end - start > SENTENCE_CHARS_READ:
        return None
    is_question = _ASKED.search(text, start, end) is not None
    indent = end - len(text[start:end].lstrip(_MARKS))
    clauses = [(clause.start(), clause.end()) for clause in CLAUSE_END.finditer(text, indent, end)]
    for left, right in [(indent, indent), *clauses]:
        at = right + len(text[right:end]) - len(text[right:end].lstrip())
        match = _REQUEST.match(text, at, end)
        if match and not (is_question and match["ahead"] and not match["polite"]):
            stops = text[match.end() : end]
            until = end - len(stops.lstrip(_STOPS))
            return _Found(left, at, until, bool(match["that"]), bool(match["weak"]))
    match = _JA_BEHIND.search(text, indent, end)
    return _Found(match.start(), match.start(), match.end(), is_behind=True) if match else None


def _tells(text: str, span: Span) -> bool:
    """Return whether a part of a text says anything."""
    words = text[slice(*span)].strip(_MARKS)
    return len(words) >= CONTENT_CHARS_MIN and not is_greeting_phrase(words)


def _neighbours(text: str, sentences: Sequence[Span], number: int) -> tuple[Span, ...]:
    """Return what a request asks to remember that stands alone: what was said before it, or follows.

    Behind a colon that is each line up to an empty one."""
    start, end = sentences[number]
    if _COLON.search(text, start, end):
        lines = list[Span]()
        for left, right in sentences[number + 1 : number + 1 + LISTED_MAX]:
            if "\n\n" in text[end - 1 : left]:
                break
            lines.append((left, right))
            end = right
        return tuple(lines)
    beside = [*sentences[max(0, number - 1) : number], *sentences[number + 1 : number + 2]]
    return tuple([span for span in beside if not _ASKED.search(text, *span)][:1])
