"""What an outcome teaches of a block: confidence as the mean of a Beta distribution, and decay as its penalty."""

from dataclasses import dataclass
from typing import Final

from memsvc.core.decay import DECAY_PER_H, Tier
from memsvc.core.errors import MemsvcError, invalid

PRIOR_CONFIDENCE: Final = 0.50
"""Of a block of which nothing is known."""
REINFORCED_FROM: Final = 0.5
"""A signal above this reinforces what was used, and the edges between."""
PENALISED_BELOW: Final = 0.20
PENALTY_FACTOR: Final = 2.0
DECAY_MAX_PER_H: Final = DECAY_PER_H[Tier.EPHEMERAL]
"""A penalty makes nothing fade faster than this."""
PROTECTED_DECAY_PER_H: Final = DECAY_PER_H[Tier.DURABLE]
"""What fades this slowly or slower is not penalised."""
EDGE_SHARE: Final = 0.8
"""Weight of an edge that a good outcome makes, as a share of the signal."""
EDGE_STEP: Final = 0.10
"""What a good outcome adds to the weight of an edge, as a share of the signal."""


@dataclass(frozen=True, slots=True)
class Beta:
    """What is believed of a block: `alpha` for, `beta` against."""

    alpha: float
    beta: float

    @property
    def confidence(self) -> float:
        """The mean."""
        return self.alpha / (self.alpha + self.beta)

    def after(self, signal: float, weight: float) -> "Beta":
        """What is believed after an outcome between 0 (failed) and 1 (succeeded)."""
        return Beta(self.alpha + weight * signal, self.beta + weight * (1 - signal))


def prior(confidence: float, strength: float) -> Beta:
    """What is believed of a block of this confidence before any outcome, as if `strength` outcomes had been seen."""
    return Beta(confidence * strength, (1 - confidence) * strength)


def check(signal: float, weight: float) -> None:
    """INVALID_ARGUMENT for a signal or a weight that no outcome has."""
    if not 0.0 <= signal <= 1.0:
        raise _wrong(f"signal must be in [0.0, 1.0], got {signal}")
    if not weight > 0.0:
        raise _wrong(f"weight must be > 0.0, got {weight}")


def _wrong(message: str) -> MemsvcError:
    return invalid(message)


def penalised(decay_per_h: float, signal: float) -> float:
    """How fast a block fades after an outcome: twice as fast after a bad one, but for what is durable."""
    if signal >= PENALISED_BELOW or decay_per_h <= PROTECTED_DECAY_PER_H:
        return decay_per_h
    return min(decay_per_h * PENALTY_FACTOR, max(DECAY_MAX_PER_H, decay_per_h))
