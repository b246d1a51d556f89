"""How what is kept fades while it is not used: exponentially, in hours of activity, at the pace of its tier."""

from enum import StrEnum
from math import exp, log
from typing import Final


class Tier(StrEnum):
    """How lasting something is."""

    PERMANENT = "permanent"
    DURABLE = "durable"
    STANDARD = "standard"
    EPHEMERAL = "ephemeral"


DECAY_PER_H: Final[dict[Tier, float]] = {
    Tier.PERMANENT: 0.00001,
    Tier.DURABLE: 0.001,
    Tier.STANDARD: 0.010,
    Tier.EPHEMERAL: 0.050,
}
"""Lambda for each active hour, of elfmem's block tiers."""

EDGE_SHARE: Final = 0.5
"""An edge fades half as fast as the more lasting of its ends: what goes together outlasts what is said (elfmem)."""
ESTABLISHED_REINFORCEMENTS: Final = 10
"""Times an edge was reinforced from which it fades at half that pace again (elfmem)."""


def remaining(decay_per_h: float, hours: float) -> float:
    """What is left after so many hours without use: exp(-decay * hours), 1 for a time that is not over."""
    return exp(-decay_per_h * max(0.0, hours))


def hours_to(level: float, decay_per_h: float) -> float:
    """After how many hours a share of `level` is left."""
    return -log(level) / decay_per_h


def edge_decay_per_h(one: Tier, other: Tier, *, reinforcements: int = 0) -> float:
    """The pace at which an edge between two tiers fades."""
    pace = min(DECAY_PER_H[one], DECAY_PER_H[other]) * EDGE_SHARE
    return pace * EDGE_SHARE if reinforcements >= ESTABLISHED_REINFORCEMENTS else pace
