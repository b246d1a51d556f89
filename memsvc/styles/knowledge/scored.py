"""Stored blocks with their scores by the formulas of `scoring`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from memsvc.core.decay import remaining
from memsvc.store.notions import Notion
from memsvc.styles.knowledge.frames import Frame
from memsvc.styles.knowledge.scoring import Parts, Weights, centrality, reinforcement, score


@dataclass(frozen=True, slots=True)
class Scored:
    """Block with its components and score; `expanded` when an edge led to it."""

    block: Notion
    parts: Parts
    score: float
    expanded: bool = False

    @property
    def text(self) -> str:
        return self.block.text

    @property
    def tags(self) -> tuple[str, ...]:
        return self.block.tags


def scored(
    blocks: Collection[Notion],
    similarity: Mapping[str, float],
    weights: Weights,
    now_h: float,
    *,
    frame: Frame | None = None,
    expanded: Iterable[str] = (),
) -> list[Scored]:
    """Return blocks best first; use and edges count relative to these blocks."""
    most = max((block.reinforcements for block in blocks), default=0)
    greatest = max((block.degree for block in blocks), default=0.0)
    from_edges = set(expanded)
    found = []
    for block in blocks:
        recency = remaining(block.decay_per_h, now_h - block.reinforced_h)
        parts = Parts(
            similarity=similarity.get(block.notion, 0.0),
            confidence=block.confidence,
            recency=recency,
            centrality=centrality(block.degree, greatest, recency),
            reinforcement=reinforcement(block.reinforcements, most),
        )
        value = score(parts, weights, alpha=block.alpha, beta=block.beta)
        value *= frame.boost(block.category, block.tags) if frame is not None else 1.0
        found.append(Scored(block, parts, value, block.notion in from_edges))
    return sorted(found, key=lambda one: (-one.score, one.block.notion))
