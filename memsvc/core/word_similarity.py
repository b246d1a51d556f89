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

_AMOUNT_PREFIX_TEXT: Final = """
    is are was were = : at to from takes take took costs cost has have had after every under over about than of in for
    by until within ist sind um kostet dauert est à coûte es son cuesta
"""
_AMOUNT_WORDS: Final = frozenset(_AMOUNT_PREFIX_TEXT.split())
"""Words before a number that is an amount or a time; after others it often only enumerates."""
_NEGATION_TEXT: Final = """
    not no never without cannot cant wont dont doesnt didnt isnt arent wasnt werent shouldnt mustnt neither nor nicht
    kein keine keinen nie niemals ohne pas jamais sans nunca jamás sin ninguno
"""
_NEGATION_WORDS: Final = frozenset(_NEGATION_TEXT.split())
_PAIRS_TEXT: Final = """
    always never; like dislike; love hate; on off; enable disable; enabled disabled; true false; allow forbid;
    allowed forbidden; before after; more less; most least; increase decrease; fast slow; light dark; up down;
    open closed; open close; success failure; succeed fail; passes fails; accept reject; safe unsafe; valid invalid;
    required optional; public private; early late; hot cold; left right; high low; start stop; sync async;
    synchronous asynchronous; prefer avoid; good bad; yes no; morning evening; possible impossible
"""
_WORD_PAIRS: Final = tuple((pair.split()[0], pair.split()[1]) for pair in _PAIRS_TEXT.split(";"))


Counts = Counter[str | tuple[str, str]]
"""Counts of each word and each pair of neighbouring words of a text."""


def word_similarity(one: str, other: str) -> float:
    """Return the similarity of two texts by their words, as `cosine` of their counts."""
    return cosine(counts_of(one), counts_of(other))


def cosine(counts: Counts, others: Counts) -> float:
    """Return 0 for no word in common to 1 for the same words in the same order."""
    shared = sum(times * others[key] for key, times in counts.items())
    if not shared:
        return 0.0
    size = sqrt(
        sum(times * times for times in counts.values())
        * sum(times * times for times in others.values())
    )
    return min(1.0, shared / size)


def overlap(one: str, other: str) -> float:
    """Return the cosine of the sets of content words: 0 for none in common, 1 for the same."""
    words, others = set(terms(one)), set(terms(other))
    return len(words & others) / sqrt(len(words) * len(others)) if words and others else 0.0


def is_subset(new: str, old: str) -> bool:
    """Return whether a text has no content word that the other one lacks."""
    return set(terms(new)) <= set(terms(old))


def is_contradiction(one: str, other: str) -> bool:
    """Return whether two texts contradict each other about the same subject, as far as rules see.

    One negates and the other does not, they differ in a word and its opposite, or only in one
    amount. Deliberately modest: it requires much in common, knows few opposites, and misses what
    takes knowledge of the world."""
    if _other_amount(one, other):
        return True
    words, others = _words(one), _words(other)
    conflicts = _word_conflicts(set(words), set(others))
    is_negated = _count_negation_words(words) % 2 != _count_negation_words(others) % 2
    if not (conflicts or is_negated):
        return False
    ignored_terms = {term for word in conflicts for term in terms(word)}
    terms_one = {term for term in terms(one) if not _NUMBER.fullmatch(term)} - ignored_terms
    terms_other = {term for term in terms(other) if not _NUMBER.fullmatch(term)} - ignored_terms
    return (
        bool(terms_one and terms_other)
        and len(terms_one & terms_other) / len(terms_one | terms_other) >= SUBJECT_SHARE_MIN
    )


def has_other_numbers(one: str, other: str) -> bool:
    """Return whether two texts have different numbers and so cannot be equivalent."""
    return sorted(_NUMBER.findall(one)) != sorted(_NUMBER.findall(other))


def _other_amount(one: str, other: str) -> bool:
    words, others = one.casefold().split(), other.casefold().split()
    if len(words) != len(others):
        return False
    places = [
        place for place, pair in enumerate(zip(words, others, strict=True)) if pair[0] != pair[1]
    ]
    if len(places) != 1 or places[0] == 0:
        return False
    place = places[0]
    has_amount = _NUMBER.search(words[place]) and _NUMBER.search(others[place])
    return bool(has_amount) and words[place - 1] in _AMOUNT_WORDS


def _word_conflicts(words: set[str], others: set[str]) -> set[str]:
    found: set[str] = set()
    for left, right in _WORD_PAIRS:
        for first, second in ((left, right), (right, left)):
            if (
                _has(words, first)
                and _has(others, second)
                and not _has(words, second)
                and not _has(others, first)
            ):
                found |= {left, left + "s", right, right + "s"}
    return found


def _has(words: set[str], word: str) -> bool:
    return word in words or f"{word}s" in words


def _count_negation_words(words: list[str]) -> int:
    return sum(1 for word in words if word in _NEGATION_WORDS or word.endswith("n't"))


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
