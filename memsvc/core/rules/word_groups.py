"""Everyday words of six languages by group, from data files, and where a sentence has them."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from typing import Final
from unicodedata import normalize

WORDS_FILES: Final = ("health_words.txt", "instruction_words.txt")
"""Lines of a group, a language (or * for those with spaces), a colon and words, apart by ";".

`/` between words of a phrase stands for either. A word may begin or end with * for any letters
there; in scripts without spaces it is a pattern."""
CJK_LANGUAGES: Final = ("zh", "ja")
STEM_CHARS: Final = 3
"""Letters of a word that must stand at the place of a *, and by which stems are found."""
PLAIN_CHARS_MIN: Final = 6
SENTENCES_CACHED: Final = 8

WORD: Final = re.compile(r"[^\W_]+")

Hits = Mapping[str, Sequence[int]]
"""Places of words by group, counted in words, in scripts without spaces in characters."""
Entries = dict[str, list[tuple[str, str]]]


@lru_cache(SENTENCES_CACHED)
def word_hits(language: str, sentence: str) -> Hits:
    """Return where a sentence, in lower case, has words of each group."""
    if language in CJK_LANGUAGES:
        return {
            group: places
            for group, pattern in _patterns(language).items()
            if (places := [match.start() for match in pattern.finditer(sentence)])
        }
    hits = defaultdict[str, list[int]](list)
    phrases, stems, ends = _words(language)
    words = WORD.findall(sentence)
    for at, word in enumerate(words):
        for group, rest in phrases.get(word, ()):
            if not rest or words[at + 1 : at + 1 + len(rest)] == rest:
                hits[group].append(at)
        for group, stem in stems.get(word[:STEM_CHARS], ()):
            if word.startswith(stem):
                hits[group].append(at)
        for group, end in ends.get(word[-STEM_CHARS:], ()):
            if word.endswith(end) and len(word) >= len(end) + STEM_CHARS:
                hits[group].append(at)
    return hits


def words_of(group: str, language: str) -> list[str]:
    """Return the words of a group in a language, long ones first."""
    found = [
        word
        for name, code, words in _lines()
        if (name, code) == (group, language)
        for word in words
    ]
    return sorted(found, key=len, reverse=True)


@cache
def _lines() -> list[tuple[str, str, list[str]]]:
    folder = files("memsvc.core.rules")
    contents = [folder.joinpath(name).read_text(encoding="utf-8") for name in WORDS_FILES]
    found = []
    for line in "".join(contents).splitlines():
        head, _, phrases = line.partition(": ")
        group, code = head.split()
        split = [[word.split("/") for word in phrase.split()] for phrase in phrases.split(";")]
        words = [" ".join(either) for phrase in split for either in product(*phrase)]
        found.append((group, code, words))
    return found


@cache
def _patterns(language: str) -> Mapping[str, re.Pattern[str]]:
    return {
        group: re.compile("|".join(words)) for group, code, words in _lines() if code == language
    }


@cache
def _words(language: str) -> tuple[dict[str, list[tuple[str, list[str]]]], Entries, Entries]:
    """Return phrases by their first word, beginnings by their first letters, endings by their last."""
    phrases = defaultdict[str, list[tuple[str, list[str]]]](list)
    stems = defaultdict[str, list[tuple[str, str]]](list)
    ends = stems.copy()
    for group, code, entries in _lines():
        if code not in ("*", language):
            continue
        for entry in dict.fromkeys([*entries, *map(_plain, entries)]):
            if entry.endswith("*"):
                stems[entry[:STEM_CHARS]].append((group, entry[:-1]))
            elif entry.startswith("*"):
                ends[entry[-STEM_CHARS:]].append((group, entry[1:]))
            else:
                first, *rest = WORD.findall(entry)
                phrases[first].append((group, rest))
    return phrases, stems, ends


def _plain(word: str) -> str:
    """Return a long word without its accents, as it is often typed."""
    if len(word) < PLAIN_CHARS_MIN:
        return word
    return "".join(character for character in normalize("NFD", word) if character.isascii())
