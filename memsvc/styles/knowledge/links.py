"""Scores of edges, and blocks that bridge others. The constants are elfmem's."""

from collections.abc import Collection, Mapping
from math import exp
from typing import Final

SIMILARITY_SHARE: Final = 0.55
TAGS_SHARE: Final = 0.20
CATEGORY_SHARE: Final = 0.15
TIME_SHARE: Final = 0.10
OTHER_CATEGORY: Final = 0.30
"""Score of two different categories."""
TIME_SCALE_H: Final = 8.0

PRUNE_THRESHOLD: Final = 0.10
"""Remaining weight below which an edge is removed."""
BRIDGE_PERCENTILE: Final = 80

SIMILARITY: Final = "similar"
OUTCOME: Final = "outcome"
REINFORCED_BY: Final = 0.10
"""Increase of the weight when an edge is stated again."""
DEFAULT_WEIGHTS: Final[Mapping[str, float]] = {
    SIMILARITY: 0.65,
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
    similarity: float,
    tags: tuple[Collection[str], Collection[str]],
    *,
    same_category: bool,
    distance_h: float,
) -> float:
    """Return how well two blocks go together.

    It is .55 similarity + .20 Jaccard of the tags + .15 category + .10 closeness in time.
    """
    all_tags = {*tags[0], *tags[1]}
    tag_overlap = len({*tags[0]} & {*tags[1]}) / len(all_tags) if all_tags else 0.0
    time_score = exp(-(distance_h**2) / (2 * TIME_SCALE_H**2))
    category = 1.0 if same_category else OTHER_CATEGORY
    return (
        SIMILARITY_SHARE * similarity
        + TAGS_SHARE * tag_overlap
        + CATEGORY_SHARE * category
        + TIME_SHARE * time_score
    )


def bridge_degree(weights: Collection[float]) -> float:
    """Return the weighted degree from which a block is a bridge.

    It is the 80th percentile of those above 0, so that, equals aside, a fifth of them are; infinity
    where there are none.
    """
    positive = sorted(weight for weight in weights if weight > 0)
    if not positive:
        return float("inf")
    return positive[min(len(positive) - 1, len(positive) * BRIDGE_PERCENTILE // 100)]
