"""Phrases by their labels, and which of them a text has."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from memsvc.core.analysis import normalized_text

SENTENCE_WORDS_FILE: Final = "sentence_words.txt"
"""Lines of a language, a label, a colon and phrases.

`idiom`s, `mock`ery, `unreal` and `scene` (parts, lyrics, fiction) make that a sentence says nothing
of the speaker, so do `fond` beside `trouble` and `life` beside `trade`; `stranger`s as subjects;
`passing` what is true for the moment. Words of `habit` say what lasts."""
NEGATION_CHARS: Final = 24
_WORD: Final = re.compile(r"[^\W_]+")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


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


@lru_cache(256)
def sentence_labels(language: str, sentence: str) -> frozenset[str]:
    """Return what the phrases of a language in a sentence say of it."""
    return frozenset(sentence_words(language).labels_in(normalized_text(sentence)))


@cache
def sentence_words(language: str) -> Phrases:
    """Return the phrases by which sentences of a language are judged, by label."""
    content = files("memsvc.core.rules").joinpath(SENTENCE_WORDS_FILE).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for line in content.splitlines():
        label, _, phrases = line.partition(": ")
        code, _, name = label.partition(" ")
        if code == language:
            found[name] = f"{found.get(name, '')};{phrases}"
    return Phrases(found)
