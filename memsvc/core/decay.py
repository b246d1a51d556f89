"""Exponential decay of unused memory, in hours of activity, at the rate of its tier."""

from enum import StrEnum
from math import exp, log
from typing import Final


class Tier(StrEnum):
    """Speed of decay of a memory."""

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
"""Lambda per active hour, of elfmem's block tiers."""

EDGE_SHARE: Final = 0.5
"""An edge decays half as fast as the slower of its two ends (elfmem)."""
ESTABLISHED_REINFORCEMENTS: Final = 10
"""Reinforcements after which an edge decays at half that rate again (elfmem)."""


def remaining(decay_per_h: float, hours: float) -> float:
    """Return the share left after these hours without use: exp(-decay * max(0, hours))."""
    return exp(-decay_per_h * max(0.0, hours))


def hours_to(level: float, decay_per_h: float) -> float:
    """Return the hours after which a share of `level` is left."""
    return -log(level) / decay_per_h


def edge_decay_per_h(one: Tier, other: Tier, *, reinforcements: int = 0) -> float:
    """Return the decay rate of an edge between two tiers."""
    pace = min(DECAY_PER_H[one], DECAY_PER_H[other]) * EDGE_SHARE
    return pace * EDGE_SHARE if reinforcements >= ESTABLISHED_REINFORCEMENTS else pace
