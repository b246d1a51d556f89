"""Score of a block: five components between 0 and 1, weighted by the frame (elfmem's constants)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Final

WEIGHT_ERROR_MAX: Final = 1e-4
EXPLORATION: Final = 0.05
"""Share of the standard deviation of a block's confidence that is added, a chance for new
blocks."""
RANK_CONSTANT: Final = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009)."""
FLOOR_CENTRALITY: Final = 0.10
"""A block that is less central than this and fresher than FLOOR_RECENCY counts as FLOOR_STRENGTH x
its recency central, so that a new block does not lose for having no edges yet."""
FLOOR_RECENCY: Final = 0.70
FLOOR_FACTOR: Final = 0.50


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """Weights of the components; ValueError unless none is negative and they sum to 1."""

    similarity: float
    confidence: float
    recency: float
    centrality: float
    reinforcement: float

    def __post_init__(self) -> None:
        if any(weight < 0 for weight in self._all()):
            raise ValueError("a weight is not negative")
        if abs(sum(self._all()) - 1) > WEIGHT_ERROR_MAX:
            raise ValueError(f"weights sum to 1, not to {sum(self._all()):.6f}")

    def _all(self) -> tuple[float, ...]:
        return self.similarity, self.confidence, self.recency, self.centrality, self.reinforcement

    def without_question(self) -> "ScoreWeights":
        """Return the weights without similarity: the other four rescaled to sum to 1."""
        rest = sum(self._all()) - self.similarity
        if rest == 0:
            raise ValueError("similarity is all that counts")
        return ScoreWeights(
            0.0,
            self.confidence / rest,
            self.recency / rest,
            self.centrality / rest,
            self.reinforcement / rest,
        )


@dataclass(frozen=True, slots=True)
class ScoreComponents:
    """Components of a block's score."""

    similarity: float
    confidence: float
    recency: float
    centrality: float
    reinforcement: float


def score(parts: ScoreComponents, weights: ScoreWeights, *, alpha: float, beta: float) -> float:
    """Return the weighted sum of the components and a bonus for uncertainty.

    The bonus is at most 0.0177, for alpha = beta = 0.5.
    """
    total = (
        weights.similarity * parts.similarity
        + weights.confidence * parts.confidence
        + weights.recency * parts.recency
        + weights.centrality * parts.centrality
        + weights.reinforcement * parts.reinforcement
    )
    return total + exploration(alpha, beta)


def exploration(alpha: float, beta: float) -> float:
    """Return EXPLORATION x the standard deviation of Beta(alpha, beta)."""
    total = alpha + beta
    return EXPLORATION * sqrt(alpha * beta / (total * total * (total + 1)))


def reinforcement(times: int, max_uses: int) -> float:
    """Return a block's use relative to the most used candidate: ln(1 + times) / ln(1 + most)."""
    return log(1 + times) / log(1 + max_uses) if max_uses > 0 else 0.0


def centrality(degree: float, max_degree: float, recency: float) -> float:
    """Return a block's weighted degree over the greatest of all candidates, or the floor."""
    share = degree / max_degree if max_degree > 0 else 0.0
    if share < FLOOR_CENTRALITY and recency > FLOOR_RECENCY:
        return max(share, FLOOR_FACTOR * recency)
    return share


def merge_scores(
    by_words: Mapping[str, float], by_embedding: Mapping[str, float]
) -> dict[str, float]:
    """Return the match of blocks to a question, 0 to 1, from BM25 and cosines.

    Both: reciprocal rank fusion over the greatest. Cosines alone: as they are. BM25 alone: over the
    best.
    """
    words = {key: value for key, value in by_words.items() if value > 0}
    if not words:
        return {key: max(0.0, value) for key, value in by_embedding.items()}
    if not by_embedding:
        best = max(words.values())
        return {key: value / best for key, value in words.items()}
    scores: dict[str, float] = {}
    for side in (by_embedding, words):
        for rank, key in enumerate(_ranked(side), 1):
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_CONSTANT + rank)
    best = max(scores.values())
    return {key: value / best for key, value in scores.items()}


def _ranked(values: Mapping[str, float]) -> Sequence[str]:
    return sorted(values, key=lambda key: (-values[key], key))
