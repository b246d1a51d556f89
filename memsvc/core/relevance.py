"""Answer threshold, order of results, and near-duplicates."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from math import exp, fsum, log, sqrt
from typing import Final, NamedTuple

from memsvc.core.ranking import Ranked

FLOOR: Final = 2.2
"""Minimum `Confidence.total` of an answer."""
PROMINENCE_POWER: Final = 1 / 6
PERSONAL_FACTOR: Final = 2.0
MEANING_RATE: Final = 3.0
MEANING_OF_NOISE: Final = 0.11
RELEVANCE_LEAST: Final = 0.5
"""Minimum relevance beside a clear similarity: an answer may share no word."""
TOP: Final = 10
"""Entries at the top that are not part of the bulk."""
BULK_MIN: Final = 10
PROMINENCE_TYPICAL: Final = 10.0
"""Prominence assumed where too few entries were found."""
PROMINENCE_LEAST: Final = 0.5
BEST_SHOWN: Final = 10
"""Ranked entries that come first, by their scores alone."""
OTHER_DAYS: Final = 3
"""Maximum number of entries of further days that come next."""
OTHER_DAYS_SHARE: Final = 0.4
"""Minimum share of the best score for such an entry."""


class Confidence(NamedTuple):
    """Evidence that the best of a ranking is an answer; every number is free of scale.

    - `relevance`: how much of the question one entry with its context covers (see Ranked), the maximum.
    - `prominence`: how many standard deviations the best score is above the mean of the bulk, which is all
      but the best ten. A question that memory answers has one or a few entries where its words meet; the
      words of any other are spread over many entries with one word each.
    - `personal`: whether the question names a speaker or is about the user's own matters.
    - `meaning`: how far the best cosine is above that of unrelated entries, 0 without vectors."""

    relevance: float
    prominence: float
    personal: bool
    meaning: float

    @property
    def total(self) -> float:
        """Return the log-odds of a logistic fit, with the relevance's weight as one.

        relevance x prominence ** (1/6) x 2 if personal, and more where the similarity is beyond
        noise."""
        known = self.relevance
        lifted = 0.0
        if self.meaning > MEANING_OF_NOISE:
            lifted = MEANING_RATE * (self.meaning - MEANING_OF_NOISE)
            known = max(known, RELEVANCE_LEAST)
        if known <= 0:
            return 0.0
        prominence = PROMINENCE_POWER * log(max(PROMINENCE_LEAST, self.prominence))
        return exp(log(known) + prominence + (log(PERSONAL_FACTOR) if self.personal else 0.0) + lifted)


def confidence(ranked: Sequence[Ranked], *, personal: bool) -> Confidence:
    """Return the confidence in the best of a ranking, best first."""
    relevance = max((one.relevance for one in ranked), default=0.0)
    meaning = max((one.meaning for one in ranked), default=0.0)
    bulk = [one.score for one in ranked[TOP:]]
    prominence = PROMINENCE_TYPICAL
    if len(bulk) >= BULK_MIN:
        middle = fsum(bulk) / len(bulk)
        deviation = sqrt(fsum((score - middle) ** 2 for score in bulk) / len(bulk))
        prominence = (ranked[0].score - middle) / deviation if deviation > 0 else PROMINENCE_TYPICAL
    return Confidence(relevance, prominence, personal, meaning)


def spread(ranked: Iterable[Ranked]) -> Iterator[Ranked]:
    """Yield a ranking in display order: the best, the best of some other days, then the rest.

    Answers that combine several days are seldom among the best of one."""
    rest = iter(ranked)
    best = list(islice(rest, BEST_SHOWN))
    yield from best
    days = {one.day for one in best}
    passed: list[Ranked] = []
    further = 0
    for one in rest:
        if one.day in days:
            passed.append(one)
        elif one.score < OTHER_DAYS_SHARE * best[0].score:
            passed.append(one)
            break
        else:
            days.add(one.day)
            yield one
            further += 1
            if further == OTHER_DAYS:
                break
    yield from passed
    yield from rest


class Distinct:
    """Filter of near-duplicate texts (Jaccard similarity of their words)."""

    def __init__(self, similarity_max: float = 0.8) -> None:
        self._similarity_max = similarity_max
        self._admitted: list[frozenset[str]] = []

    def admits(self, words: Collection[str]) -> bool:
        """Return whether a text of these words is new; then it is remembered."""
        own = frozenset(words)
        for other in self._admitted:
            fewer, more = sorted((len(own), len(other)))
            if fewer > self._similarity_max * more:  # else they cannot be that similar, whatever they share
                shared = len(own & other)
                if shared > self._similarity_max * (fewer + more - shared):
                    return False
        self._admitted.append(own)
        return True
