"""Details of a block: its confidence, its decay and its relations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.decay import hours_to, remaining
from memsvc.core.scope import Scope
from memsvc.store import block_outcomes, edges, knowledge_blocks
from memsvc.store.block_outcomes import BlockOutcome
from memsvc.store.edges import Conflict, Edge
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge.active_hours import usage_at
from memsvc.styles.knowledge.block_index import INDEX_ID, BlockIndex, not_found
from memsvc.styles.knowledge.curate import ARCHIVE_THRESHOLD

EDGES_MAX: Final = 50
CONFLICTS_MAX: Final = 50
OUTCOMES_MAX: Final = 50
SUPERSEDED_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class BlockDetails:
    """Block with its relations; `now_h` is the index's clock.

    It has the strongest edges, the conflicts and when each was found, the outcomes, the blocks that
    it replaced (`superseded`), and those of all these that still exist (`others`).
    """

    block: KnowledgeBlock
    edges: Sequence[Edge]
    conflicts: Sequence[tuple[Conflict, datetime]]
    outcomes: Sequence[BlockOutcome]
    superseded: Sequence[str]
    others: dict[str, KnowledgeBlock]
    now_h: float

    @property
    def left(self) -> float:
        """Share of the block that has not decayed, 0 to 1."""
        return remaining(self.block.decay_per_h, self.now_h - self.block.reinforced_h)

    @property
    def archive_h(self) -> float:
        """Time on the index's clock from which the block may be archived."""
        return self.block.reinforced_h + hours_to(ARCHIVE_THRESHOLD, self.block.decay_per_h)


class BlockDetailsReader:
    """Reads blocks in detail; this is no use of them, so nothing is reinforced."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    async def show(self, scope: Scope, block_id: str) -> BlockDetails:
        """Return the details of a block, archived or not; NOT_FOUND where there is none."""
        async with self._index.read(scope) as (tx, usage):
            block = (await knowledge_blocks.read(tx, INDEX_ID, [block_id])).get(block_id)
            if block is None:
                raise not_found(block_id)
            top_edges = (await edges.of(tx, INDEX_ID, block_id))[::-1][:EDGES_MAX]
            conflicts = await edges.conflicts_of(tx, INDEX_ID, block_id, limit=CONFLICTS_MAX)
            outcomes = await block_outcomes.outcomes_of(tx, INDEX_ID, block_id, limit=OUTCOMES_MAX)
            superseded = (await knowledge_blocks.superseded_by(tx, INDEX_ID, block_id))[
                :SUPERSEDED_MAX
            ]
            neighbours = [_other_end(edge, block_id) for edge in top_edges]
            replacement = [block.superseded_by] if block.superseded_by else []
            conflicting = [conflict.second for conflict, _ in conflicts]
            others = await knowledge_blocks.read(
                tx, INDEX_ID, [*neighbours, *conflicting, *superseded, *replacement]
            )
        now_h = usage_at(usage, self._index.now(), self._index.idle).active_h
        return BlockDetails(block, top_edges, conflicts, outcomes, superseded, others, now_h)


def _other_end(edge: Edge, block_id: str) -> str:
    return edge.high if edge.low == block_id else edge.low
