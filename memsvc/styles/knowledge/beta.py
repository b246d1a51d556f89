"""Effect of outcomes on blocks: confidence as the mean of a Beta distribution, and decay."""

from dataclasses import dataclass
from typing import Final

from memsvc.core.decay import DECAY_PER_H, DecayTier
from memsvc.core.errors import MemsvcError, invalid

PRIOR_CONFIDENCE: Final = 0.50
"""Confidence of a block about which nothing is known."""
REINFORCED_FROM: Final = 0.5
"""A signal above this reinforces the used blocks, and the edges between them."""
BAD_SIGNAL_MAX: Final = 0.20
DECAY_FACTOR: Final = 2.0
DECAY_MAX_PER_H: Final = DECAY_PER_H[DecayTier.EPHEMERAL]
"""A penalty never increases the decay beyond this."""
PROTECTED_DECAY_PER_H: Final = DECAY_PER_H[DecayTier.DURABLE]
"""A decay this slow or slower gets no penalty."""
EDGE_SHARE: Final = 0.8
"""Weight of an edge that a good outcome makes, as a share of the signal."""
EDGE_STEP: Final = 0.10
"""Increase of an edge's weight by a good outcome, as a share of the signal."""


@dataclass(frozen=True, slots=True)
class BetaConfidence:
    """Beta distribution of a block's confidence: `alpha` for, `beta` against."""

    alpha: float
    beta: float

    @property
    def confidence(self) -> float:
        """Mean of the distribution."""
        return self.alpha / (self.alpha + self.beta)

    def after(self, signal: float, weight: float) -> "BetaConfidence":
        """Return the distribution after an outcome between 0 (failed) and 1 (succeeded)."""
        return BetaConfidence(self.alpha + weight * signal, self.beta + weight * (1 - signal))


def prior(confidence: float, weight: float) -> BetaConfidence:
    """Return the distribution of this mean before any outcome, worth `weight` outcomes."""
    return BetaConfidence(confidence * weight, (1 - confidence) * weight)


def check(signal: float, weight: float) -> None:
    """Raise INVALID_ARGUMENT for a signal or a weight that no outcome can have."""
    if not 0.0 <= signal <= 1.0:
        raise _wrong(f"signal must be in [0.0, 1.0], got {signal}")
    if not weight > 0.0:
        raise _wrong(f"weight must be > 0.0, got {weight}")


def _wrong(message: str) -> MemsvcError:
    return invalid(message)


def decay_after(decay_per_h: float, signal: float) -> float:
    """Return a block's decay after an outcome: doubled after a bad one, unless it is durable."""
    if signal >= BAD_SIGNAL_MAX or decay_per_h <= PROTECTED_DECAY_PER_H:
        return decay_per_h
    return min(decay_per_h * DECAY_FACTOR, max(DECAY_MAX_PER_H, decay_per_h))
