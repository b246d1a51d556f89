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
# fmt: on
# fmt: off
_CLAUSE_OF_ONES_OWN: Final = re.compile(
    r"[,;，、]\s*(?:but|aber|sino|pero|mais|但|でも)\b|[,;]\s*(?:i|im|i'?ve|we|ich|wir)\b", re.IGNORECASE
)
"""Matches where a new clause follows a request: "forget it, I'm moving to Rome"."""
_SHORT_OBJECT: Final = (
    r"\W*(?!(?:what|that|how|where|who|why|if|everything|anything|dass|daß|was|wie|wo|wer|warum|alles|que|qué|lo que|cómo|quién|todo|ce que|qui|tout|où|comment)\b)"
    r"(?:[^\s,;，；]+ ){0,5}[^\s,;，；]+?(?:[,;] ?| [-–—]+ |[，；])"
)
_NEW_VALUE: Final = re.compile(
    _SHORT_OBJECT
    + r"(?!(?:and|or|it|its|it's|he|she|they|his|her|their|who|which|that|und|oder|es|er|sie|seine?|ihre?|y|o|él|ella|su|que|et|ou|c'est|il|elle|ils|elles|son|sa|ses|qui)\b|[他她它])"
    r"(?=(?:[^\s,;]+ ){0,5}?(?:\S+'s|is|are|will|ist|sind|wird|liegt|es|son|está|será|est|sont|sera) \S|[^，。；]{0,10}(?:是|改|换|在))",
    re.IGNORECASE,
)
"""Matches a request's short object up to a clause that says what holds instead: "forget Friday, the
dentist is on Monday". A clause about a person belongs to what is to be forgotten."""
_CORRECTED: Final = re.compile(
    _SHORT_OBJECT + r"(?:it'?s|it is|it'?ll be|it will be|es ist|c'est|ce sera|es|será)\b.*(?:\d|\b(?:now|instead|jetzt|nun|stattdessen|maintenant|ahora)\b|\w(?:day|tag|di)\b)",
    re.IGNORECASE,
)
"""Matches what corrects a value, and asks to forget nothing: "forget the number, it's 0171 now"."""
# fmt: on


def forget_requests(text: str) -> Iterator[Span]:
    """Yield the spans of a user's text that ask to forget something."""
    if not _WORD.search(text):
        return
    for start, end in sentence_spans(text):
        request = _REQUEST.match(text, start, end)
        if request and not _CORRECTED.match(text, request.end(), end):
            new = _NEW_VALUE.match(text, request.end(), end)
            own = _CLAUSE_OF_ONES_OWN.search(text, request.end(), end)
            yield start, new.end() if new else own.start() + 1 if own else end


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
