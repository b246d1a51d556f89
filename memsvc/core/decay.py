"""Exponential decay of unused memory, in hours of activity, at the rate of its tier."""

from enum import StrEnum
from math import exp, log
from typing import Final


class DecayTier(StrEnum):
    """Speed of decay of a memory."""

    PERMANENT = "permanent"
    DURABLE = "durable"
    STANDARD = "standard"
    EPHEMERAL = "ephemeral"


DECAY_PER_H: Final[dict[DecayTier, float]] = {
    DecayTier.PERMANENT: 0.00001,
    DecayTier.DURABLE: 0.001,
    DecayTier.STANDARD: 0.010,
    DecayTier.EPHEMERAL: 0.050,
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


def edge_decay_per_h(first: DecayTier, second: DecayTier, *, reinforcements: int = 0) -> float:
    """Return the decay rate of an edge between two tiers."""
    rate = min(DECAY_PER_H[first], DECAY_PER_H[second]) * EDGE_SHARE
    return rate * EDGE_SHARE if reinforcements >= ESTABLISHED_REINFORCEMENTS else rate
