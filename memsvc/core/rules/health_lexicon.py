"""What a sentence says of the speaker's health and food, by everyday words of six languages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final
from unicodedata import normalize

from memsvc.core.rules import topics as t
from memsvc.core.rules.rule import Topic

WORDS_FILE: Final = "health_words.txt"
"""Lines of a group, a language (or * for those with spaces), a colon and words, apart by ";".

A word may begin or end with * for any letters there."""
CJK_LANGUAGES: Final = ("zh", "ja")
NEAR: Final = 4
"""Words between two that belong together."""
FAR: Final = 9
"""Words between a food and what it does to somebody."""
PHRASE_WORDS: Final = 6
"""Words of a sentence without a subject that names an illness and hardly anything else."""
STEM_CHARS: Final = 3
"""Letters of a word that must stand at the place of a *, and by which stems are found."""
PLAIN_CHARS_MIN: Final = 6

_WORD = re.compile(r"[^\W_]+")
_PREDICATES: Final = re.compile(
    r"was|were|can|may|affects?|means|ist|sind|kann|es|son|puede|est|sont|peut"
)
"""Words behind the name of an illness by which a sentence speaks of it in general."""

Hits = Mapping[str, Sequence[int]]
"""Places of words by group, counted in words, in scripts without spaces in characters."""


def has_health_words(language: str, sentence: str) -> bool:
    """Return whether a sentence, in lower case, has a word of health or food, or a language."""
    return not _hits(language, sentence).keys().isdisjoint((*_SUBJECTS, "language"))


def health_topics(language: str, sentence: str, *, is_personal: bool = False) -> list[Topic]:
    """Return what a sentence, in lower case, says of the speaker's health and food.

    `is_personal` says that it is known to be about the speaker."""
    hits = _hits(language, sentence)
    subjects = [place for group in _SUBJECTS for place in hits.get(group, ())]
    if not subjects:
        return []
    is_cjk = language in CJK_LANGUAGES
    if any(_near(hits, group, "topic", NEAR) for group in _SUBJECTS):
        return []
    if not (is_personal or is_cjk or "me" in hits) and not _is_phrase(sentence, hits, subjects):
        return []
    return list(_topics(hits, 2 * FAR if is_cjk else FAR, 2 * NEAR if is_cjk else NEAR))


_SUBJECTS: Final = (
    *("allergic", "food", "substance", "diet", "regimen"),
    *("condition", "drug", "drugend", "medicine"),
)


def _topics(hits: Hits, far: int, near: int) -> Iterator[Topic]:
    if (
        "allergic" in hits
        or _near(hits, "food", "ill", far)
        or _near(hits, "substance", "ill", far)
    ):
        yield t.ALLERGY
    elif "regimen" in hits or (
        _near(hits, "food", "avoid", near)
        or (_near(hits, "not", "eat", near) and _near(hits, "food", "eat", near))
    ):
        yield t.FOOD_RULE
    elif "diet" in hits:
        yield t.DIET
    if "medicine" in hits or "drug" in hits or _near(hits, "drugend", "take", near):
        yield t.MEDICATION
    if "condition" in hits:
        yield t.CONDITION


def _near(hits: Hits, group: str, other: str, distance: int) -> bool:
    others = hits.get(other, ())
    return any(abs(at - place) <= distance for at in hits.get(group, ()) for place in others)


def _is_phrase(sentence: str, hits: Hits, subjects: Sequence[int]) -> bool:
    """Return whether a sentence leaves out that it is about the speaker: "Celiac here", "no eggs"."""
    words = _WORD.findall(sentence)
    first = min((*subjects, *hits.get("avoid", ())))
    if first >= NEAR or _PREDICATES.fullmatch(" ".join(words[first + 1 : first + 2])):
        return False
    has_rule = "avoid" in hits or "ill" in hits or "allergic" in hits
    return has_rule or len(words) <= PHRASE_WORDS or "," in sentence


def _hits(language: str, sentence: str) -> Hits:
    if language in CJK_LANGUAGES:
        return {
            group: places
            for group, pattern in _patterns(language).items()
            if (places := [match.start() for match in pattern.finditer(sentence)])
        }
    hits: dict[str, list[int]] = {}
    phrases, stems, ends = _words(language)
    words = _WORD.findall(sentence)
    for at, word in enumerate(words):
        for group, rest in phrases.get(word, ()):
            if not rest or words[at + 1 : at + 1 + len(rest)] == rest:
                hits.setdefault(group, []).append(at)
        for group, stem in stems.get(word[:STEM_CHARS], ()):
            if word.startswith(stem):
                hits.setdefault(group, []).append(at)
        for group, end in ends.get(word[-STEM_CHARS:], ()):
            if word.endswith(end) and len(word) >= len(end) + STEM_CHARS:
                hits.setdefault(group, []).append(at)
    return hits


Entries = dict[str, list[tuple[str, str]]]


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
    content = files("memsvc.core.rules").joinpath(WORDS_FILE).read_text(encoding="utf-8")
    heads = (line.partition(": ") for line in content.splitlines() if line)
    return [(*head.split(), words.split("; ")) for head, _, words in heads]  # type: ignore[misc]


@cache
def _patterns(language: str) -> Mapping[str, re.Pattern[str]]:
    return {
        group: re.compile("|".join(words)) for group, code, words in _lines() if code == language
    }


@cache
def _words(language: str) -> tuple[dict[str, list[tuple[str, list[str]]]], Entries, Entries]:
    """Return phrases by their first word, beginnings by their first letters, endings by their last."""
    phrases: dict[str, list[tuple[str, list[str]]]] = {}
    stems: Entries = {}
    ends: Entries = {}
    for group, code, entries in _lines():
        if code not in ("*", language):
            continue
        for entry in dict.fromkeys([*entries, *map(_plain, entries)]):
            if entry.endswith("*"):
                stems.setdefault(entry[:STEM_CHARS], []).append((group, entry[:-1]))
            elif entry.startswith("*"):
                ends.setdefault(entry[-STEM_CHARS:], []).append((group, entry[1:]))
            else:
                first, *rest = _WORD.findall(entry)
                phrases.setdefault(first, []).append((group, rest))
    return phrases, stems, ends


def _plain(word: str) -> str:
    """Return a long word without its accents, as it is often typed."""
    if len(word) < PLAIN_CHARS_MIN:
        return word
    return "".join(character for character in normalize("NFD", word) if character.isascii())
