"""Guess of the language of short texts, among the six that the rules read."""

import re
from collections import Counter
from typing import Final

# fmt: off
_FUNCTION_WORDS: Final = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and is are was of to in my i you it that for with not on have this me at be your a he she we they do can from please",
        "de": "der die das und ist ich nicht ein eine zu mit von den dem auf für im mein meine bin du sie es wir bitte wie hat habe aus kann mir mal",
        "es": "el la los las y es que en un una por con para mi yo no se del al me lo soy tengo como más pero está este muy de",
        "fr": "le la les et est que je un une pour avec mon ma ne pas des du au me ce suis ai dans il elle vous nous sur plus c'est j'ai de",
    }.items()
}
"""Common words by which short texts of these languages are told apart."""
# fmt: on

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def detect_language(text: str) -> str:
    """Return the code of the language of a text; "" if unsure."""
    han = sum("\u4e00" <= character <= "\u9fff" for character in text)
    kana = sum("\u3040" <= character <= "\u30ff" for character in text)
    latin = [word.casefold() for word in _WORD.findall(text) if word[0] < "\u0250"]
    if han + kana > 2 * len(latin):
        return "ja" if kana * 5 > han else "zh"
    counts = Counter(
        language for word in latin for language, common in _FUNCTION_WORDS.items() if word in common
    ).most_common(2)
    if not counts or counts[0][1] < 2:
        return ""
    return counts[0][0] if len(counts) == 1 or counts[0][1] > 1.3 * counts[1][1] else ""


def is_foreign(text: str, frame: str) -> bool:
    """Return whether a text is in another language than its frame."""
    frame_language = detect_language(frame)
    if not frame_language:
        return False
    language = detect_language(text)
    if language:
        return language != frame_language
    if frame_language in ("zh", "ja"):
        return len(_WORD.findall(text)) > 5 and text.isascii()
    common = _FUNCTION_WORDS[frame_language]
    found = [word.casefold() in common for word in _WORD.findall(text)]
    return len(found) > 5 and 12 * sum(found) < len(found)
