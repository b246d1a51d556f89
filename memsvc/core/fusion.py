"""Makes one ranking of two: how well words match, and how alike the meanings are."""

from collections.abc import Mapping
from statistics import median
from typing import Any, Final, Protocol, TypeVar


class _Ordered(Protocol):
    """What can be sorted and be a key: a number, or a tuple of place and number."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=_Ordered)

COSINE_WEIGHT: Final = 0.3
"""The share of the cosine in a fused score: with a small model words tell more, about passages of a kilobyte."""
FLOOR_CANDIDATES_MIN: Final = 8
"""Cosines from which their median tells what an unrelated text has."""
SPREAD_MIN: Final = 0.1
"""How far above the floor a cosine counts in full at the least, so that noise is not blown up to a match."""


def fuse(bm25: Mapping[K, float], cosine: Mapping[K, float], *, cosine_weight: float = COSINE_WEIGHT) -> dict[K, float]:
    """The score of every key of either side, between 0 and 1, best first; the greater (later) key first among equals.

    A convex sum of both sides, each over its own maximum: `(1 - cosine_weight) * bm25 + cosine_weight * cosine`.
    Bruch, Gai and Ingber (An Analysis of Fusion Functions for Hybrid Retrieval, ACM TOIS 2023) find it better than
    reciprocal ranks, which forget how clear a match was, and hardly sensitive to its weight. They subtract from each
    side the least value that it can have. That of BM25 is 0; that of the cosine, -1, says nothing, because models give
    unrelated texts anything between 0 and 0.8. Candidates by cosine are the nearest of a book whether or not they are
    near, so their median is taken for what is unrelated (`cosine_floor`).

    What one side does not know has 0 there. Where a side has nothing to say, the other one has all the weight, so that
    recall without an embedder keeps its order. Values that are not finite, and negative ones, count as 0.
    """
    if not 0 <= cosine_weight <= 1:
        raise ValueError(f"a weight is between 0 and 1, not {cosine_weight}")
    words = _over(bm25, max(map(_finite, bm25.values()), default=0.0))
    above, greatest = over_floor(cosine)
    meanings = _over(above, greatest)
    share = cosine_weight if words and meanings else float(not words)
    scores = {key: (1 - share) * words.get(key, 0.0) + share * meanings.get(key, 0.0) for key in {**bm25, **cosine}}
    later_first = sorted(scores, reverse=True)
    return {key: scores[key] for key in sorted(later_first, key=lambda key: -scores[key])}


def over_floor(cosine: Mapping[K, float]) -> tuple[dict[K, float], float]:
    """How far each cosine is above their floor, and how far counts in full; nothing of what is not above it."""
    floor = cosine_floor(cosine)
    above = {key: _finite(value) - floor for key, value in cosine.items() if _finite(value) > floor}
    return above, max(SPREAD_MIN, max(above.values(), default=0.0))


def cosine_floor(cosine: Mapping[K, float]) -> float:
    """The cosine that counts as none: the median of the candidates, or 0 where they are too few to tell."""
    if len(cosine) < FLOOR_CANDIDATES_MIN:
        return 0.0
    return max(0.0, median(_finite(value) for value in cosine.values()))


def _over(values: Mapping[K, float], greatest: float) -> dict[K, float]:
    """Those above zero as shares of the greatest; nothing where none is."""
    return {key: value / greatest for key, value in values.items() if _finite(value) > 0} if greatest > 0 else {}


def _finite(value: float) -> float:
    return value if -1e300 < value < 1e300 else 0.0
