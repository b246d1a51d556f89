"""Similarity of two texts by their words, used without an embedder, and contradiction rules."""

import re
from collections import Counter
from itertools import pairwise
from math import sqrt
from typing import Final
from unicodedata import normalize

from memsvc.core.analysis import terms

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
WORDS_MAX: Final = 2000

SUBJECT_SHARE_MIN: Final = 0.5
"""Minimum share of common content words for two texts to have the same subject."""
CONTRADICTION_SCORE: Final = 0.8
"""Confidence of a contradiction found by rules: just enough to count as one."""

_AMOUNTS: Final = """
    is are was were = : at to from takes take took costs cost has have had after every under over about than of in for
    by until within ist sind um kostet dauert est à coûte es son cuesta
"""
_AMOUNT_WORDS: Final = frozenset(_AMOUNTS.split())
"""Words before a number that is an amount or a time; after others it often only enumerates."""
_NEGATED: Final = """
    not no never without cannot cant wont dont doesnt didnt isnt arent wasnt werent shouldnt mustnt neither nor nicht
    kein keine keinen nie niemals ohne pas jamais sans nunca jamás sin ninguno
"""
_NEGATIONS: Final = frozenset(_NEGATED.split())
_OPPOSITES: Final = """
    always never; like dislike; love hate; on off; enable disable; enabled disabled; true false; allow forbid;
    allowed forbidden; before after; more less; most least; increase decrease; fast slow; light dark; up down;
    open closed; open close; success failure; succeed fail; passes fails; accept reject; safe unsafe; valid invalid;
    required optional; public private; early late; hot cold; left right; high low; start stop; sync async;
    synchronous asynchronous; prefer avoid; good bad; yes no; morning evening; possible impossible
"""
_OPPOSITE_PAIRS: Final = tuple((pair.split()[0], pair.split()[1]) for pair in _OPPOSITES.split(";"))


Counts = Counter[str | tuple[str, str]]
"""Counts of each word and each pair of neighbouring words of a text."""


def alike(one: str, other: str) -> float:
    """Return the similarity of two texts by their words, as `cosine` of their counts."""
    return cosine(counts_of(one), counts_of(other))


def cosine(counts: Counts, others: Counts) -> float:
    """Return 0 for no word in common to 1 for the same words in the same order."""
    shared = sum(times * others[key] for key, times in counts.items())
    if not shared:
        return 0.0
    size = sqrt(sum(times * times for times in counts.values()) * sum(times * times for times in others.values()))
    return min(1.0, shared / size)


def overlap(one: str, other: str) -> float:
    """Return the cosine of the sets of content words: 0 for none in common, 1 for the same."""
    words, others = set(terms(one)), set(terms(other))
    return len(words & others) / sqrt(len(words) * len(others)) if words and others else 0.0


def adds_nothing(new: str, old: str) -> bool:
    """Return whether a text has no content word that the other one lacks."""
    return set(terms(new)) <= set(terms(old))


def contradict(one: str, other: str) -> bool:
    """Return whether two texts contradict each other about the same subject, as far as rules see.

    One negates and the other does not, they differ in a word and its opposite, or only in one
    amount. Deliberately modest: it requires much in common, knows few opposites, and misses what
    takes knowledge of the world."""
    if _other_amount(one, other):
        return True
    words, others = _words(one), _words(other)
    opposed = _opposed(set(words), set(others))
    negated = _negations(words) % 2 != _negations(others) % 2
    if not (opposed or negated):
        return False
    aside = {term for word in opposed for term in terms(word)}
    mine = {term for term in terms(one) if not _NUMBER.fullmatch(term)} - aside
    theirs = {term for term in terms(other) if not _NUMBER.fullmatch(term)} - aside
    return bool(mine and theirs) and len(mine & theirs) / len(mine | theirs) >= SUBJECT_SHARE_MIN


def numbers_differ(one: str, other: str) -> bool:
    """Return whether two texts have different numbers and so cannot be equivalent."""
    return sorted(_NUMBER.findall(one)) != sorted(_NUMBER.findall(other))


def _other_amount(one: str, other: str) -> bool:
    words, others = one.casefold().split(), other.casefold().split()
    if len(words) != len(others):
        return False
    places = [place for place, pair in enumerate(zip(words, others, strict=True)) if pair[0] != pair[1]]
    if len(places) != 1 or places[0] == 0:
        return False
    place = places[0]
    amounts = _NUMBER.search(words[place]) and _NUMBER.search(others[place])
    return bool(amounts) and words[place - 1] in _AMOUNT_WORDS


def _opposed(words: set[str], others: set[str]) -> set[str]:
    found: set[str] = set()
    for left, right in _OPPOSITE_PAIRS:
        for here, there in ((left, right), (right, left)):
            if _has(words, here) and _has(others, there) and not _has(words, there) and not _has(others, here):
                found |= {left, left + "s", right, right + "s"}
    return found


def _has(words: set[str], word: str) -> bool:
    return word in words or f"{word}s" in words


def _negations(words: list[str]) -> int:
    return sum(1 for word in words if word in _NEGATIONS or word.endswith("n't"))


def _words(text: str) -> list[str]:
    found: list[str] = []
    for word in _WORD.findall(normalize("NFKC", text).casefold().replace("’", "'")):
        found += list(word) if ord(word[0]) > 0x2E80 else [word]
        if len(found) >= WORDS_MAX:
            break
    return found


def counts_of(text: str) -> Counts:
    """Return the words of a text and the pairs of neighbouring words.

    In scripts without spaces, a character is a word."""
    words = _words(text)
    counts: Counts = Counter(words)
    counts.update(pairwise(words))
    return counts
