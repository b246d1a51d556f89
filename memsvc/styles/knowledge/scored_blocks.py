"""Stored blocks with their scores by the formulas of `scoring`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from memsvc.core.decay import remaining
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge.frames import RecallFrame
from memsvc.styles.knowledge.scoring import (
    ScoreComponents,
    ScoreWeights,
    centrality,
    reinforcement,
    score,
)


@dataclass(frozen=True, slots=True)
class ScoredBlock:
    """Block with its components and score; `expanded` when an edge led to it."""

    block: KnowledgeBlock
    parts: ScoreComponents
    score: float
    expanded: bool = False

    @property
    def text(self) -> str:
        return self.block.text

    @property
    def tags(self) -> tuple[str, ...]:
        return self.block.tags


def score_blocks(
    blocks: Collection[KnowledgeBlock],
    similarity: Mapping[str, float],
    weights: ScoreWeights,
    now_h: float,
    *,
    frame: RecallFrame | None = None,
    expanded: Iterable[str] = (),
) -> list[ScoredBlock]:
    """Return blocks best first; use and edges count relative to these blocks."""
    max_uses = max((block.reinforcements for block in blocks), default=0)
    max_degree = max((block.degree for block in blocks), default=0.0)
    from_edges = set(expanded)
    found = []
    for block in blocks:
        recency = remaining(block.decay_per_h, now_h - block.reinforced_h)
        parts = ScoreComponents(
            similarity=similarity.get(block.block_id, 0.0),
            confidence=block.confidence,
            recency=recency,
            centrality=centrality(block.degree, max_degree, recency),
            reinforcement=reinforcement(block.reinforcements, max_uses),
        )
        value = score(parts, weights, alpha=block.alpha, beta=block.beta)
        value *= frame.factor(block.category, block.tags) if frame is not None else 1.0
        found.append(ScoredBlock(block, parts, value, block.block_id in from_edges))
    return sorted(found, key=lambda item: (-item.score, item.block.block_id))
