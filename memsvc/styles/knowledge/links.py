"""Scores of edges, and blocks that bridge others. The constants are elfmem's."""

from collections.abc import Collection, Mapping
from math import exp
from typing import Final

LIKENESS_SHARE: Final = 0.55
TAGS_SHARE: Final = 0.20
CATEGORY_SHARE: Final = 0.15
TIME_SHARE: Final = 0.10
OTHER_CATEGORY: Final = 0.30
"""Score of two different categories."""
TIME_SIGMA_H: Final = 8.0

PRUNED_BELOW: Final = 0.10
"""Remaining weight below which an edge is removed."""
BRIDGE_PERCENTILE: Final = 80

SIMILAR: Final = "similar"
OUTCOME: Final = "outcome"
REINFORCED_BY: Final = 0.10
"""Increase of the weight when an edge is stated again."""
DEFAULT_WEIGHTS: Final[Mapping[str, float]] = {
    SIMILAR: 0.65,
    "co_occurs": 0.55,
    "elaborates": 0.70,
    "supports": 0.75,
    "contradicts": 0.60,
    OUTCOME: 0.80,
    "predicts": 0.70,
    "validates": 0.75,
}
OTHER_WEIGHT: Final = 0.65
"""Weight of any other relation."""


def edge_score(
    likeness: float, tags: tuple[Collection[str], Collection[str]], *, same_category: bool, apart_h: float
) -> float:
    """Return how well two blocks go together.

    It is .55 similarity + .20 Jaccard of the tags + .15 category + .10 closeness in time.
    """
    either = {*tags[0], *tags[1]}
    jaccard = len({*tags[0]} & {*tags[1]}) / len(either) if either else 0.0
    near = exp(-(apart_h**2) / (2 * TIME_SIGMA_H**2))
    category = 1.0 if same_category else OTHER_CATEGORY
    return LIKENESS_SHARE * likeness + TAGS_SHARE * jaccard + CATEGORY_SHARE * category + TIME_SHARE * near


def bridge_degree(degrees: Collection[float]) -> float:
    """Return the weighted degree from which a block is a bridge.

    It is the 80th percentile of those above 0, so that, equals aside, a fifth of them are; infinity
    where there are none.
    """
    positive = sorted(degree for degree in degrees if degree > 0)
    if not positive:
        return float("inf")
    return positive[min(len(positive) - 1, len(positive) * BRIDGE_PERCENTILE // 100)]
