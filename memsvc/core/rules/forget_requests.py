"""Requests to forget something, in six languages. Remembered, they would repeat what to forget."""

import re
from collections.abc import Iterator
from typing import Final

from memsvc.core.rules.own_words import Span
from memsvc.core.rules.quick_pattern import quick_pattern
from memsvc.core.rules.sentences import sentence_spans

# fmt: off
# A pattern is a line of data, however long.
_WORD: Final = quick_pattern(
    r"\b(?:forg[eo]t\w*|remember\w*|delete|erase|remove|wipe|want you to|vergi(?:ss|ß)|vergess\w*|lösch\w*|merk|weißt|olvid\w+|olvíd\w+|borra|sepas|recuerdes|oubli\w*|efface\w*|saches|souviennes|retiens)\b|[忘删]|我不|忘れ|記憶",
    re.IGNORECASE,
)
"""Matches a text that may contain a request."""
_LEAD: Final = r"[\W_]*(?:(?:please|pls|just|also|and|so|oh|ok|okay|no|actually|wait|hey|bitte|und|ach|also|nein|doch|et|stp|s'il te plaît|non|y|por favor|oye|no)\b[\s,.:–—-]*)*"
_POLITE: Final = (
    r"(?:(?:can|could|would|will) you (?:please |just )*|i(?:'d| would)? (?:want|need|like) you to |you (?:can|should|may|must|have to) (?:please |just )*|(?:kannst|könntest|würdest) du (?:bitte )?|(?:peux-tu|tu peux|pourrais-tu|tu pourrais) |¿?(?:puedes|podrías) )?"
)
_REQUEST: Final = re.compile(
    rf"{_LEAD}{_POLITE}(?:"
    # English
    r"(?:forget|stop remembering|(?:do not|don't) (?:you )?remember)\b(?!-)"
    r"|(?:delete|erase|remove|wipe) (?:that (?:i|we|my|our|he|she|they)\b|.{0,80}\bfrom (?:your |the )?memory\b|(?:everything|anything|what(?:ever)?) (?:you (?:know|remember)|i (?:said|told)))"
    r"|i (?:do not|don't) want you to (?:know|remember|keep|store|save)\b"
    # German
    r"|vergi(?:ss|ß)\b(?! (?:bitte )?(?:nicht|nie)\b)|vergessen sie\b(?! (?:bitte )?nicht\b)|lösche?(?: bitte)?,? (?:dass|alles,? was|was ich|.{0,80}aus (?:deinem|dem) gedächtnis)\b|merke? dir (?:das )?nicht\b|ich (?:will|möchte) nicht,? dass du (?:weißt|.{0,80}(?:weißt|merkst|behältst|speicherst))\b"
    # Spanish
    r"|olvida(?:te)?\b|olvíd(?:ate|alo|ala)\b|borra (?:que|todo lo que|lo que|.{0,80}de (?:tu|la) memoria)\b|no (?:recuerdes|quiero que (?:sepas|recuerdes|guardes))\b"
    # French
    r"|oublie[rz]?\b|efface[rz]? (?:que|qu'|tout ce que|ce que|.{0,80}de (?:ta|la) mémoire)\b|ne retiens pas\b|je ne veux pas que tu (?:saches|te souviennes|retiennes|gardes)\b"
    # Chinese
    r"|(?:请|麻烦|你|能不能|可以)+(?:帮我)?(?:忘(?!不)|不要再?记|别再?记)|(?:请|麻烦|你)*(?:帮我)?把.{1,80}?(?:忘|从记忆[里中]删)(?:了|掉|记|除)|忘掉|我不(?:想|希望)让?你(?:知道|记住|记得)"
    # Japanese
    r"|.{0,120}?(?:忘れて(?:ください|下さい|くれ|ほしい|欲しい|もらえ|いただけ|[ねよ]?[。！!\s]*$)|記憶から(?:消|削除)|覚えないで|覚えておかないで|知っていてほしくない)"
    r")",
    re.IGNORECASE,
)
_DONE: Final = re.compile(
    r"\bi(?:'ve| have|'ll| will)(?: now)? (?:forgotten|forget)\b|\bfrom (?:my )?memory\b|\bich (?:habe|werde)\b.{0,80}\bvergess|\b(?:he olvidado|olvidaré)\b|\bj'(?:ai oublié|oublierai|oublie)\b|(?:已经?|会)(?:把.{0,60})?忘(?:了|掉|记)|忘れ(?:ました|ます)",
    re.IGNORECASE,
)
"""Matches an assistant's sentence that confirms that something was forgotten."""
_CLAUSE_OF_ONES_OWN: Final = re.compile(
    r"[,;，、]\s*(?:but|aber|sino|pero|mais|但|でも)\b|[,;]\s*(?:i|i'?ve|we|ich|wir)\b|[,;]\s*im (?!frühling)\w+ing\b", re.IGNORECASE
)
"""Matches where a new clause follows a request: "forget it, I'm moving to Rome"."""
_DAY: Final = (
    r"(?:\d|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend|januar|februar|märz|mai|juni|juli|oktober|dezember"
    r"|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo)\b|[月日号周])"
)
_NOW: Final = (
    r"(?:\b(?:now|instead|will|jetzt|nun|stattdessen|wird|ahora|será|maintenant|désormais|sera)\b|改[成为]|换成|现在)"
)
_OBJECT: Final = (
    r"(?!(?:what|that|how|where|who|everything|anything|dass|daß|was|wie|wo|wer|alles|lo que|que|qué|todo|ce que|tout)\b)"
    r"(?P<old>(?:[^\s,;，；]{1,60} ){0,6}[^\s,;，；]{1,60}?)(?:[,;] ?+| [-–—]+ |[，；])"
)
"""A request's short object, up to the next clause."""
_OTHER_CLAUSE: Final = re.compile(
    rf"\W{{0,5}}{_OBJECT}"
    r"(?!(?:and|or|it|its|it's|he|she|they|my|our|his|her|their|who|which|that|und|oder|es|er|sie|meine?|unsere?|seine?|ihre?|y|o|él|ella|mi|su|que|et|ou|c'est|il|elle|ils|elles|mon|ma|notre|son|sa|ses|qui)\b|[他她它])"
    rf"(?P<new>(?:(?=.{{0,80}}{_NOW})|(?=.{{0,80}}{_DAY})).+)",
    re.IGNORECASE,
)
_CORRECTED: Final = re.compile(
    rf"\W{{0,5}}{_OBJECT}(?:it'?s|it is|it'?ll be|it will be|es ist|c'est|ce sera|es|será)\b(?P<new>.+)", re.IGNORECASE
)
"""Matches the rest of a request that may be a correction: "the number, it's 0171 now"."""
# fmt: on


def forget_requests(text: str) -> Iterator[Span]:
    """Yield the spans of a user's text that ask to forget something.

    A clause that gives a new value is not part of them. "forget Monday, it's Tuesday" is a
    correction and yields nothing."""
    for start, end, _ in _requests(text):
        yield start, end


def asks_to_forget(text: str) -> bool:
    """Return whether a user's text asks to forget something without a new value for it."""
    return not all(is_replaced for *_, is_replaced in _requests(text))


def _requests(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where each request begins and ends, and whether a new value follows it."""
    if not _WORD.search(text):
        return
    for start, end in sentence_spans(text):
        request = _REQUEST.match(text, start, end)
        if request is None or _is_correction(text, request.end(), end):
            continue
        if (new := _new_value(text, request.end(), end)) is not None:
            yield start, new, True
        else:
            own = _CLAUSE_OF_ONES_OWN.search(text, request.end(), end)
            yield start, own.start() + 1 if own else end, False


def _is_correction(text: str, start: int, end: int) -> bool:
    """Return whether a request only corrects a number or a day: "forget Monday, it's Tuesday"."""
    found = _CORRECTED.match(text, start, end)
    if found is None or not re.search(_DAY, found["new"], re.IGNORECASE):
        return False
    return any(
        re.search(pattern, found[side], re.IGNORECASE)
        for pattern, side in ((_NOW, "new"), (_DAY, "old"))
    )


def _new_value(text: str, start: int, end: int) -> int | None:
    """Return where the clause begins that gives the new value; None if there is none.

    Such a clause contains a word like "now", or follows a day: "forget Friday, the dentist is on
    Monday"."""
    found = _OTHER_CLAUSE.match(text, start, end)
    if found is None:
        return None
    is_now = re.search(_NOW, found["new"], re.IGNORECASE)
    return found.start("new") if is_now or re.search(_DAY, found["old"], re.IGNORECASE) else None


def mentions_forgetting(text: str) -> bool:
    """Return whether a text may contain a request to forget something; quick to check."""
    return _WORD.search(text) is not None


def without_forgetting(text: str, *, is_users: bool) -> str:
    """Return a text without requests to forget something, or without answers that confirm one."""
    spans = forget_requests(text) if is_users else _answers(text)
    kept, start = "", 0
    for left, right in spans:
        kept, start = kept + text[start:left], right
    return kept + text[start:] if start else text


def _answers(text: str) -> Iterator[Span]:
    if _WORD.search(text):
        yield from (span for span in sentence_spans(text) if _DONE.search(text, *span))
