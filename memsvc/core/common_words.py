"""Words that nearly any question has, in six languages: sharing one is no evidence of an answer."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

from memsvc.core.analysis import normalized_text, query_terms, terms

WORDS_FILE: Final = "common_words.txt"
"""Lines of a language, a colon and words, with no diacritics."""

_WORD: Final = re.compile(r"[a-z]+")
_KANA: Final = re.compile(r"[\u3040-\u30ff]")
_JAPANESE: Final = re.compile(r"[\u3041-\u309f]|.[はがをにでともの]|.?[何誰言]")
_CHINESE: Final = re.compile(
    r".?[的了是我你您他她它们們这這那哪么麼什怎吗嗎呢吧啊呀呗把被给給跟和与與或就都也还還很不没沒个個里裡之请請问問谁誰为為说說讲講多少几幾]"
)
"""Pairs of characters that are grammar, or across the border of two words."""


def content_terms(question: str) -> list[str]:
    """Return the terms of a question that are not common words of its language.

    All of its terms where each of them is common."""
    text = normalized_text(question)
    words = set(_WORD.findall(text))
    _, common = max(_languages(), key=lambda language: len(words & language[0]))
    pairs = _JAPANESE if _KANA.search(text) else _CHINESE
    found = query_terms(question)
    return [term for term in found if term not in common and not pairs.match(term)] or found


@cache
def _languages() -> list[tuple[frozenset[str], frozenset[str]]]:
    """Return the common words of each language, and their terms."""
    content = files("memsvc.core").joinpath(WORDS_FILE).read_text(encoding="utf-8")
    found = [frozenset(line.split()[1:]) for line in content.splitlines()]
    return [(words, frozenset(term for word in words for term in terms(word))) for words in found]
