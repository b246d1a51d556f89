"""Phrases by their labels, found in a text by those of its words that a phrase has."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from memsvc.core.analysis import normalized_text

CJK: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
NEGATION_CHARS: Final = 24
_WORD: Final = re.compile(r"[^\W_]+")


class Phrases:
    """Phrases by their labels: only those with a word of the text are compared with it.

    `…` stands for up to four words, a `*` for any beginning or ending, `/` between words for either."""

    def __init__(self, phrases_by_label: Mapping[str, str]) -> None:
        self._by_prefix: dict[str, list[tuple[str, str, str]]] = {}
        self._by_phrase: dict[str, list[str]] = {}
        for label, phrases in phrases_by_label.items():
            for phrase in filter(None, map(_normalized, phrases.split(";"))):
                if CJK.search(phrase):
                    self._by_phrase.setdefault(phrase, []).append(label)
                    continue
                words = [word for word in phrase.split() if word[0] != "*"]
                word = max(words, key=lambda word: min(map(len, word.split("/"))))
                for part in {_part(either) for either in word.split("/")}:
                    self._by_prefix.setdefault(part[:4], []).append((label, part, phrase))

    def labels_in(self, words: str, refused: re.Pattern[str] | None = None) -> set[str]:
        """Return the labels of the phrases in a text, without those right after `refused`."""
        return {label for label, _ in self.found_in(words, refused)}

    def found_in(self, words: str, refused: re.Pattern[str] | None = None) -> set[tuple[str, str]]:
        """Return the phrases in a text with their labels, without those right after `refused`."""
        return {
            (label, phrase)
            for label, phrase, start in self.matches(words)
            if refused is None or not refused.search(words[max(0, start - NEGATION_CHARS) : start])
        }

    def is_in(self, words: str) -> bool:
        """Return whether a text has one of the phrases."""
        return next(self.matches(words), None) is not None

    def matches(self, words: str) -> Iterator[tuple[str, str, int]]:
        """Yield the phrases in a text with their labels and where they begin."""
        for start in self._by_prefix.keys() & {word[:4] for word in _WORD.findall(words)}:
            for label, part, phrase in self._by_prefix[start]:
                if part in words:
                    for match in _compiled(phrase).finditer(words):
                        yield label, phrase, match.start()
        if CJK.search(words):
            for phrase, labels in self._by_phrase.items():
                if (at := words.find(phrase)) >= 0:
                    yield from ((label, phrase, at) for label in labels)


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
