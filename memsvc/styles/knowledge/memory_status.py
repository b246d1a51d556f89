"""Status and health of a memory, listings of its blocks, and one block in detail."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import Field

from memsvc.core.decay import hours_to, remaining
from memsvc.core.errors import invalid
from memsvc.core.scope import Permission, Scope
from memsvc.store import block_outcomes, edges, knowledge_blocks
from memsvc.store.edges import Edge
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_index import (
    INDEX_ID,
    NO_TOKENS,
    BlockIndex,
    is_open,
    not_found,
    usage_at,
)
from memsvc.styles.knowledge.curate import ARCHIVE_THRESHOLD
from memsvc.styles.knowledge.guide import guide
from memsvc.styles.knowledge.knowledge_models import (
    LISTED_MAX,
    BlockConflict,
    BlockDetails,
    BlockEdge,
    BlockId,
    BlockList,
    GuideText,
    ListedBlock,
    MemoryStatus,
    OtherBlock,
    TokenUsage,
    Words,
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
            outcomes=outcomes,
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


def _other_end(edge: Edge, block_id: str) -> str:
    return edge.high if edge.low == block_id else edge.low


WARNING_SHARE: Final = 0.8
Health = Literal["good", "attention"]


def health(inbox: int, threshold: int, stored: int) -> tuple[Health, str]:
    """Return the health, and a suggestion."""
    fill = inbox / max(threshold, 1)
    if fill >= 1.0:
        return "attention", "Inbox full. Call elfmem_dream() to process pending blocks."
    if fill >= WARNING_SHARE:
        return "good", f"Inbox nearly full ({inbox}/{threshold}). Consolidation approaching."
    if not stored:
        return "good", "Memory is empty. Call elfmem_remember() to add knowledge."
    return "good", "Memory healthy. No action required."


class StatusReader:
    """Reads the status and lists blocks; it writes nothing, and so does not move the clock."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    @knowledge_tool("elfmem_status", title="Status of the memory", needs=Permission.READ)
    async def status(self, scope: Scope) -> MemoryStatus:
        """Tell how the memory stands; its suggestion says what to do."""
        async with self._index.read(scope) as (_, usage):
            pass
        now = self._index.now()
        opened = is_open(usage, now, self._index.idle)
        use = usage_at(usage, now, self._index.idle)
        threshold = self._index.options.inbox_threshold
        health_status, suggestion = health(
            use.inbox, threshold, use.active + use.archived + use.inbox
        )
        status = MemoryStatus(
            "",
            opened,
            use.active_h - use.session_from_h if opened else None,
            use.inbox,
            threshold,
            use.active,
            use.archived,
            use.active_h,
            use.consolidated_at.isoformat() if use.consolidated_at is not None else "never",
            health_status,
            suggestion,
            TokenUsage(**NO_TOKENS | (use.session_tokens if opened else {})),
            TokenUsage(**NO_TOKENS | use.lifetime_tokens),
        )
        return replace(status, summary=texts.status(status))

    @knowledge_tool("elfmem_ls", title="List blocks", needs=Permission.READ)
    async def listing(
        self,
        scope: Scope,
        tag: Annotated[
            Words | None, "a tag; % stands for any characters, _ for one, as in self/%"
        ] = None,
        category: Annotated[Words | None, "a category"] = None,
        limit: Annotated[int, Field(ge=1, le=LISTED_MAX), "blocks at the most"] = 50,
        archived: Annotated[
            bool,
            "those that are recalled no more instead, remembered last first; they have no tags",
        ] = False,
    ) -> BlockList:
        """List blocks by tag or category, the surest first.

        Those of the inbox are among them; or archived ones."""
        if archived and tag is not None:
            raise invalid("archived blocks have no tags: ask for them without one")
        async with self._index.read(scope) as (tx, _):
            if archived:
                blocks = await knowledge_blocks.archived(
                    tx, INDEX_ID, category=category, limit=limit
                )
            else:
                blocks = await knowledge_blocks.listing(
                    tx, INDEX_ID, tag=tag, category=category, limit=limit
                )
        return _list(blocks, f"No {'archived' if archived else 'active'} blocks match.")

    @knowledge_tool("elfmem_inbox", title="List the inbox", needs=Permission.READ)
    async def inbox(
        self,
        scope: Scope,
        max_count: Annotated[
            int | None, Field(ge=1, le=LISTED_MAX), "blocks at the most; if not given 1000"
        ] = None,
    ) -> BlockList:
        """List blocks that wait to be consolidated, the longest waiting first."""
        async with self._index.read(scope) as (tx, _):
            blocks = await knowledge_blocks.pending(tx, INDEX_ID, limit=max_count or LISTED_MAX)
        return _list(blocks, "Inbox empty.")

    @knowledge_tool("elfmem_guide", title="Guide", needs=Permission.READ, text_member="text")
    async def guide(
        self,
        scope: Scope,
        method: Annotated[
            Words | None, "an operation such as remember; nothing: an overview"
        ] = None,
    ) -> GuideText:
        """Show the documentation of one operation, or an overview."""
        del scope
        return GuideText(guide(method))


def _list(blocks: Sequence[KnowledgeBlock], nothing: str) -> BlockList:
    return BlockList(
        texts.listed([block.block_id for block in blocks], nothing=nothing),
        [
            ListedBlock(
                block.block_id,
                block.text,
                block.category,
                list(block.tags),
                block.created_at.isoformat(),
                block.reinforcements,
                block.confidence,
                block.status,
                block.archive_reason,
            )
            for block in blocks
        ],
    )
