"""When two blocks hang together, and which of them hold the rest together. The constants are elfmem's."""

from collections.abc import Collection, Mapping
from math import exp
from typing import Final

LIKENESS_SHARE: Final = 0.55
TAGS_SHARE: Final = 0.20
CATEGORY_SHARE: Final = 0.15
TIME_SHARE: Final = 0.10
OTHER_CATEGORY: Final = 0.30
"""What two categories that differ still have in common."""
TIME_SIGMA_H: Final = 8.0

PRUNED_BELOW: Final = 0.10
"""An edge whose weight, or what is left of it, is below this goes."""
BRIDGE_PERCENTILE: Final = 80

SIMILAR: Final = "similar"
OUTCOME: Final = "outcome"
REINFORCED_BY: Final = 0.10
"""What saying again that two blocks hang together adds to the weight."""
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
"""Of a relation that is not among them."""


def edge_score(
    likeness: float, tags: tuple[Collection[str], Collection[str]], *, same_category: bool, apart_h: float
) -> float:
    """How well two blocks go together: .55 likeness + .20 Jaccard of the tags + .15 category + .10 nearness in time."""
    either = {*tags[0], *tags[1]}
    jaccard = len({*tags[0]} & {*tags[1]}) / len(either) if either else 0.0
    near = exp(-(apart_h**2) / (2 * TIME_SIGMA_H**2))
    category = 1.0 if same_category else OTHER_CATEGORY
    return LIKENESS_SHARE * likeness + TAGS_SHARE * jaccard + CATEGORY_SHARE * category + TIME_SHARE * near


def bridge_degree(degrees: Collection[float]) -> float:
    """The weighted degree from which a block is a bridge: the 80th percentile of those above 0, so that, but for
    equals, a fifth of them are; infinity where there are none."""
    positive = sorted(degree for degree in degrees if degree > 0)
    if not positive:
        return float("inf")
    return positive[min(len(positive) - 1, len(positive) * BRIDGE_PERCENTILE // 100)]
