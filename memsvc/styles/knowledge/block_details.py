"""Details of a block: its confidence, its decay and its relations."""

from typing import Annotated, Final

from memsvc.core.decay import hours_to, remaining
from memsvc.core.scope import Permission, Scope
from memsvc.store import block_outcomes, edges, knowledge_blocks
from memsvc.store.block_outcomes import BlockOutcome
from memsvc.store.edges import Edge
from memsvc.styles.knowledge.active_hours import usage_at
from memsvc.styles.knowledge.block_index import INDEX_ID, BlockIndex, not_found
from memsvc.styles.knowledge.curate import ARCHIVE_THRESHOLD
from memsvc.styles.knowledge.knowledge_models import (
    BlockConflict,
    BlockDetails,
    BlockEdge,
    BlockId,
    OtherBlock,
    OutcomeDetails,
    knowledge_tool,
)

PREVIEW_CHARS: Final = 200
EDGES_MAX: Final = 50
CONFLICTS_MAX: Final = 50
OUTCOMES_MAX: Final = 50
SUPERSEDED_MAX: Final = 50


class BlockDetailsReader:
    """Reads blocks in detail; this is no use of them, so nothing is reinforced."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    @knowledge_tool("elfmem_show", title="Show a block", needs=Permission.READ, is_admin=True)
    async def show(
        self, scope: Scope, block_id: Annotated[BlockId, "the block, archived or not"]
    ) -> BlockDetails:
        """Show one block with all that is thought of it.

        That is its evidence, how it fades, its edges, what it contradicts, and what it stands for.
        Showing it is no use of it: nothing is reinforced."""
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

        def other(key: str) -> OtherBlock:
            found = others.get(key)
            if found is None:
                return OtherBlock(key, "", "archived")
            return OtherBlock(key, found.text[:PREVIEW_CHARS], found.status)

        return BlockDetails(
            id=block.block_id,
            content=block.text,
            cue=block.keywords,
            category=block.category,
            tags=list(block.tags),
            tier=block.tier,
            status=block.status,
            archive_reason=block.archive_reason,
            superseded_by=other(block.superseded_by) if block.superseded_by else None,
            supersedes=[other(item) for item in superseded],
            created_at=block.created_at.isoformat(),
            scored_by=block.scored_by,
            alignment=block.alignment,
            confidence=block.confidence,
            alpha=block.alpha,
            beta=block.beta,
            evidence=block.evidence,
            outcomes=[_outcome(item) for item in outcomes],
            reinforcement_count=block.reinforcements,
            decay_per_h=block.decay_per_h,
            reinforced_h=block.reinforced_h,
            now_h=now_h,
            left=remaining(block.decay_per_h, now_h - block.reinforced_h),
            faded_h=block.reinforced_h + hours_to(ARCHIVE_THRESHOLD, block.decay_per_h),
            degree=block.degree,
            edges=[_edge(edge, other(_other_end(edge, block_id))) for edge in top_edges],
            conflicts=[
                BlockConflict(other(item.second), item.kind, item.score, found_at.isoformat())
                for item, found_at in conflicts
            ],
        )


def _edge(edge: Edge, end: OtherBlock) -> BlockEdge:
    return BlockEdge(end, edge.relation, edge.weight, edge.origin, edge.reinforcements, edge.note)


def _outcome(item: BlockOutcome) -> OutcomeDetails:
    return OutcomeDetails(
        item.signal, item.weight, item.source, item.before, item.after, item.told_at.isoformat()
    )


def _other_end(edge: Edge, block_id: str) -> str:
    return edge.high if edge.low == block_id else edge.low
