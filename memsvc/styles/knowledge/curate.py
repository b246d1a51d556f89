"""Curation of a memory, whose faded blocks are archived, and reports of its status."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import Field

from memsvc.core.decay import DECAY_PER_H, edge_decay_per_h, hours_to, remaining
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.scope import Permission, Scope
from memsvc.store import edges, knowledge_blocks
from memsvc.store.edges import Edge, EdgeTiers
from memsvc.store.knowledge_blocks import KnowledgeBlock, UsageClock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_edges import PRUNE_THRESHOLD, bridge_degree
from memsvc.styles.knowledge.block_index import (
    CONSTITUTIONAL,
    NO_TOKENS,
    BlockIndex,
    BlockWrite,
    is_open,
    not_found,
    usage_at,
)
from memsvc.styles.knowledge.guide import guide
from memsvc.styles.knowledge.knowledge_models import (
    LISTED_MAX,
    BlockConflict,
    BlockDetails,
    BlockEdge,
    BlockId,
    BlockList,
    CurateReport,
    GuideText,
    ListedBlock,
    MemoryStatus,
    OtherBlock,
    TokenUsage,
    Words,
    knowledge_tool,
)
from memsvc.styles.knowledge.scoring import FRAMES, score_blocks

ARCHIVE_THRESHOLD: Final = 0.05
"""Remaining share at which a block is archived: after 60 active hours unused for an ephemeral one,
300 for a standard one, 3,000 for a durable one (elfmem)."""
REINFORCED_TOP: Final = 5
EDGES_A_PAGE: Final = 1000
ARCHIVED_A_RUN: Final = 1000
CONSTITUTIONAL_MAX: Final = 1000
TOP_CANDIDATES_MAX: Final = 100

PREVIEW_CHARS: Final = 200
EDGES_MAX: Final = 50
CONFLICTS_MAX: Final = 50
OUTCOMES_MAX: Final = 50
SUPERSEDED_MAX: Final = 50


@frozen
class CurateService:
    """Curates, on request and after a consolidation when that is due."""

    index: BlockIndex

    def is_pending(self, use: UsageClock) -> bool:
        """Return whether the configured active hours have passed since the last curation.

        True where there was none.
        """
        return (
            use.curated_h is None
            or use.active_h - use.curated_h >= self.index.options.curate_every_hours
        )

    async def curate_if_pending(self, scope: Scope) -> bool:
        """Curate as `curate`, where it is due; return whether it was."""
        async with self.index.written(scope) as writing:
            pending = self.is_pending(writing.use)
            if pending:
                await self._curate(writing)
        return pending

    @knowledge_tool("elfmem_curate", "Curate", Permission.WRITE, over_quota=True)
    async def curate(self, scope: Scope) -> CurateReport:
        """Archive blocks that have faded, prune weak edges, reinforce the strongest blocks.

        Runs automatically after consolidation; call it only if recall gets worse."""
        async with self.index.written(scope) as writing:
            return await self._curate(writing)

    async def _curate(self, writing: BlockWrite) -> CurateReport:
        pruned, decayed, remaining_edges = await self._prune(writing)
        archived = (
            await self._archive(writing, remaining_edges)
            if self.index.options.archive_decayed
            else 0
        )
        constitutional = list(
            await knowledge_blocks.tagged(writing.tx, [CONSTITUTIONAL], limit=CONSTITUTIONAL_MAX)
        )
        await knowledge_blocks.add_use(writing.tx, constitutional, writing.use.active_h)
        top = await self._top_blocks(writing)
        await knowledge_blocks.add_use(writing.tx, top, writing.use.active_h)
        writing.change(curated_h=writing.use.active_h)
        edges_after = len(await self._edges(writing)) if archived else len(remaining_edges)
        report = CurateReport(
            "", archived, pruned, decayed, len(top), len(constitutional), edges_after
        )
        return replace(report, summary=texts.curated(report))

    async def _edges(self, writing: BlockWrite) -> list[EdgeTiers]:
        found = []
        after = ("", "")
        while True:
            page = await edges.page(writing.tx, after=after, limit=EDGES_A_PAGE)
            found += page
            if len(page) < EDGES_A_PAGE:
                return found
            after = (page[-1].edge.low, page[-1].edge.high)

    async def _prune(self, writing: BlockWrite) -> tuple[int, int, list[EdgeTiers]]:
        """Remove edges that are too weak, now or by time; an agent's own edge does not fade."""
        weak, expired, remaining_edges = [], [], []
        for edge_tiers in await self._edges(writing):
            edge = edge_tiers.edge
            decay_per_h = edge_decay_per_h(*edge_tiers.tiers, reinforcements=edge.reinforcements)
            remaining_weight = edge.weight * remaining(
                decay_per_h, writing.use.active_h - edge.touched_h
            )
            if edge.weight < PRUNE_THRESHOLD:
                weak.append((edge.low, edge.high))
            elif edge.origin != "agent" and remaining_weight < PRUNE_THRESHOLD:
                expired.append((edge.low, edge.high))
            else:
                remaining_edges.append(edge_tiers)
        await edges.remove(writing.tx, [*weak, *expired])
        return len(weak), len(expired), remaining_edges

    async def _archive(self, writing: BlockWrite, remaining_edges: list[EdgeTiers]) -> int:
        """Archive blocks that have faded, except bridges, which much depends on."""
        before_h = {
            tier: writing.use.active_h - hours_to(ARCHIVE_THRESHOLD, decay_per_h)
            for tier, decay_per_h in DECAY_PER_H.items()
        }
        ids = await knowledge_blocks.unused_since(writing.tx, before_h, limit=ARCHIVED_A_RUN)
        if not ids:
            return 0
        weight_by_block: dict[str, float] = {}
        for edge_tiers in remaining_edges:
            for end in (edge_tiers.edge.low, edge_tiers.edge.high):
                weight_by_block[end] = weight_by_block.get(end, 0.0) + edge_tiers.edge.weight
        bridge = bridge_degree(weight_by_block.values())
        expired = [block_id for block_id in ids if weight_by_block.get(block_id, 0.0) < bridge]
        blocks = list((await knowledge_blocks.read(writing.tx, expired)).values())
        await self.index.archive(writing, blocks, "decayed")
        use = writing.use
        writing.change(active=use.active - len(blocks), archived=use.archived + len(blocks))
        return len(blocks)

    async def _top_blocks(self, writing: BlockWrite) -> list[str]:
        ids = await knowledge_blocks.list_top(writing.tx, limit=TOP_CANDIDATES_MAX)
        blocks = [
            block
            for block in (await knowledge_blocks.read(writing.tx, ids)).values()
            if block.status == "active"
        ]
        weights = FRAMES["self"].weights.without_question()
        ranked = score_blocks(blocks, {}, weights, writing.use.active_h)
        return [block.block.block_id for block in ranked[:REINFORCED_TOP]]


@frozen
class BlockDetailsReader:
    """Reads blocks in detail; this is no use of them, so nothing is reinforced."""

    index: BlockIndex

    @knowledge_tool("elfmem_show", "Show a knowledge block", Permission.READ, is_admin=True)
    async def show(
        self, scope: Scope, block_id: Annotated[BlockId, "id of the block; it may be archived"]
    ) -> BlockDetails:
        """Show one block in full: its evidence, decay, edges, conflicts and replaced blocks.

        Showing a block does not count as use and does not reinforce it."""
        async with self.index.read(scope) as (tx, usage):
            block = (await knowledge_blocks.read(tx, [block_id])).get(block_id)
            if block is None:
                raise not_found(block_id)
            top_edges = (await edges.of(tx, block_id))[::-1][:EDGES_MAX]
            conflicts = await edges.conflicts_of(tx, block_id, limit=CONFLICTS_MAX)
            outcomes = await knowledge_blocks.outcomes_of(tx, block_id, limit=OUTCOMES_MAX)
            superseded = (await knowledge_blocks.superseded_by(tx, block_id))[:SUPERSEDED_MAX]
            neighbours = [_other_end(edge, block_id) for edge in top_edges]
            replacement = [block.superseded_by] if block.superseded_by else []
            conflicting = [conflict.second for conflict, _ in conflicts]
            others = await knowledge_blocks.read(
                tx, [*neighbours, *conflicting, *superseded, *replacement]
            )
        now_h = usage_at(usage, self.index.now(), self.index.idle).active_h

        def other(key: str) -> OtherBlock:
            if key not in others:
                return OtherBlock(key, "", "archived")
            return OtherBlock(key, others[key].text[:PREVIEW_CHARS], others[key].status)

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
            edges=[
                BlockEdge(
                    other(_other_end(edge, block_id)),
                    edge.relation,
                    edge.weight,
                    edge.origin,
                    edge.reinforcements,
                    edge.note,
                )
                for edge in top_edges
            ],
            conflicts=[
                BlockConflict(other(item.second), item.kind, item.score, found_at.isoformat())
                for item, found_at in conflicts
            ],
        )


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


@frozen
class StatusReader:
    """Reads the status and lists blocks; it writes nothing, and so does not move the clock."""

    index: BlockIndex

    @knowledge_tool("elfmem_status", "Show the status of agent knowledge", Permission.READ)
    async def status(self, scope: Scope) -> MemoryStatus:
        """Report the state of memory, with a suggestion of what to do next."""
        async with self.index.read(scope) as (_, usage):
            pass
        now = self.index.now()
        opened = is_open(usage, now, self.index.idle)
        use = usage_at(usage, now, self.index.idle)
        threshold = self.index.options.inbox_threshold
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

    @knowledge_tool("elfmem_ls", "List blocks", Permission.READ)
    async def listing(
        self,
        scope: Scope,
        tag: Annotated[
            Words | None,
            "a tag; % stands for any characters and _ for any one character, as in self/%",
        ] = None,
        category: Annotated[Words | None, "a category"] = None,
        limit: Annotated[int, Field(ge=1, le=LISTED_MAX), "maximum number of blocks"] = 50,
        archived: Annotated[
            bool,
            "list only archived blocks, most recently remembered first; they have no tags",
        ] = False,
    ) -> BlockList:
        """List blocks by tag or category, most confident first.

        Includes blocks in the inbox, but not archived ones."""
        if archived and tag is not None:
            raise invalid("archived blocks have no tags: omit the tag")
        async with self.index.read(scope) as (tx, _):
            if archived:
                blocks = await knowledge_blocks.archived(tx, category=category, limit=limit)
            else:
                blocks = await knowledge_blocks.listing(tx, tag=tag, category=category, limit=limit)
        return _list(blocks, f"No {'archived' if archived else 'active'} blocks match.")

    @knowledge_tool("elfmem_inbox", "List the knowledge blocks in the inbox", Permission.READ)
    async def inbox(
        self,
        scope: Scope,
        max_count: Annotated[
            int | None, Field(ge=1, le=LISTED_MAX), "maximum number of blocks; default 1000"
        ] = None,
    ) -> BlockList:
        """List blocks waiting to be consolidated, oldest first."""
        async with self.index.read(scope) as (tx, _):
            blocks = await knowledge_blocks.pending(tx, limit=max_count or LISTED_MAX)
        return _list(blocks, "Inbox empty.")

    @knowledge_tool("elfmem_guide", "Guide", Permission.READ, text_member="text")
    async def guide(
        self,
        scope: Scope,
        method: Annotated[
            Words | None, "name of an operation, such as remember; default: an overview"
        ] = None,
    ) -> GuideText:
        """Show the documentation of one operation, or an overview."""
        del scope
        return GuideText(guide(method))


def _list(blocks: Sequence[KnowledgeBlock], nothing: str) -> BlockList:
    return BlockList(
        texts.listed(len(blocks), nothing=nothing),
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
