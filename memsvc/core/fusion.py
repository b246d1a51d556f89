"""Fusion of word scores and embedding similarities into one ranking."""

from collections.abc import Mapping
from statistics import median
from typing import Any, Final, Protocol, TypeVar


class _Ordered(Protocol):
    """A sortable key: a number, or a tuple of place and number."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=_Ordered)

COSINE_WEIGHT: Final = 0.3
"""Weight of the cosine in a fused score; words are more reliable for passages of a kilobyte."""
FLOOR_CANDIDATES_MIN: Final = 8
"""Minimum number of cosines whose median estimates unrelated text."""
COSINE_RANGE_MIN: Final = 0.1
"""Minimum distance above the floor at which a cosine counts fully, so that noise is not amplified.
"""


def merge_scores(
    bm25: Mapping[K, float], cosine: Mapping[K, float], *, cosine_weight: float = COSINE_WEIGHT
) -> dict[K, float]:
    """Return the score of every key, between 0 and 1, best first.

    The greater key first among equals.

    A convex sum of both sides, each over its own maximum: `(1 - cosine_weight) * bm25 +
    cosine_weight * cosine`. Bruch, Gai and Ingber (An Analysis of Fusion Functions for Hybrid
    Retrieval, ACM TOIS 2023) find it better than reciprocal ranks, which lose how clear a match
    was, and hardly sensitive to its weight. They subtract from each side its minimum. That of BM25
    is 0; that of the cosine, -1, means nothing, because models give unrelated texts anything
    between 0 and 0.8. Candidates by cosine are the nearest of an index whether or not they are
    near, so their median is taken as unrelated (`cosine_floor`).

    A key that one side lacks has 0 there. Where a side is empty, the other one has all the weight,
    so that recall without an embedder keeps its order. Values that are not finite, and negative
    ones, count as 0."""
    if not 0 <= cosine_weight <= 1:
        raise ValueError(f"a weight is between 0 and 1, not {cosine_weight}")
    words = _normalize(bm25, max(map(_finite, bm25.values()), default=0.0))
    distance_by_key, distance_max = floor_distance(cosine)
    cosine_scores = _normalize(distance_by_key, distance_max)
    share = cosine_weight if words and cosine_scores else float(not words)
    scores = {
        key: (1 - share) * words.get(key, 0.0) + share * cosine_scores.get(key, 0.0)
        for key in {**bm25, **cosine}
    }
    later_first = sorted(scores, reverse=True)
    return {key: scores[key] for key in sorted(later_first, key=lambda key: -scores[key])}


def floor_distance(cosine: Mapping[K, float]) -> tuple[dict[K, float], float]:
    """Return how far each cosine is above the floor, and the distance that counts fully.

    Cosines that are not above it are left out."""
    floor = cosine_floor(cosine)
    distance_by_key = {
        key: _finite(value) - floor for key, value in cosine.items() if _finite(value) > floor
    }
    return distance_by_key, max(COSINE_RANGE_MIN, max(distance_by_key.values(), default=0.0))


def cosine_floor(cosine: Mapping[K, float]) -> float:
    """Return the cosine that counts as none: the median of the candidates, or 0 for too few."""
    if len(cosine) < FLOOR_CANDIDATES_MIN:
        return 0.0
    return max(0.0, median(_finite(value) for value in cosine.values()))


def _normalize(values: Mapping[K, float], value_max: float) -> dict[K, float]:
    """Return the positive values as shares of the greatest; nothing if there are none."""
    return (
        {key: value / value_max for key, value in values.items() if _finite(value) > 0}
        if value_max > 0
        else {}
    )


def _finite(value: float) -> float:
    return value if -1e300 < value < 1e300 else 0.0
