"""Curation: faded blocks are archived, the strongest are reinforced."""

from dataclasses import replace
from typing import Final

from memsvc.core.decay import DECAY_PER_H, edge_decay_per_h, hours_to, remaining
from memsvc.core.scope import Permission, Scope
from memsvc.store import edges, knowledge_blocks
from memsvc.store.edges import EdgeTiers
from memsvc.store.usage_clock import UsageClock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_edges import PRUNE_THRESHOLD, bridge_degree
from memsvc.styles.knowledge.block_index import CONSTITUTIONAL, INDEX_ID, BlockIndex, BlockWrite
from memsvc.styles.knowledge.knowledge_models import CurateReport, knowledge_tool
from memsvc.styles.knowledge.scoring import FRAMES, score_blocks

ARCHIVE_THRESHOLD: Final = 0.05
"""Remaining share at which a block is archived: after 60 active hours unused for an ephemeral one,
300 for a standard one, 3,000 for a durable one (elfmem)."""
REINFORCED_TOP: Final = 5
EDGES_A_PAGE: Final = 1000
ARCHIVED_A_RUN: Final = 1000
CONSTITUTIONAL_MAX: Final = 1000
TOP_CANDIDATES_MAX: Final = 100


class CurateService:
    """Curates, on request and after a consolidation when that is due."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    def is_pending(self, use: UsageClock) -> bool:
        """Return whether the configured active hours have passed since the last curation.

        True where there was none.
        """
        return (
            use.curated_h is None
            or use.active_h - use.curated_h >= self._index.options.curate_every_hours
        )

    async def curate_if_pending(self, scope: Scope) -> bool:
        """Curate as `curate`, where it is due; return whether it was."""
        async with self._index.written(scope) as writing:
            pending = self.is_pending(writing.use)
            if pending:
                await self._curate(writing)
        return pending

    @knowledge_tool("elfmem_curate", title="Curate", needs=Permission.WRITE, over_quota=True)
    async def curate(self, scope: Scope) -> CurateReport:
        """Archive blocks that have faded, prune weak edges, reinforce the strongest.

        Runs by itself behind consolidation; call it only if recall gets worse."""
        async with self._index.written(scope) as writing:
            return await self._curate(writing)

    async def _curate(self, writing: BlockWrite) -> CurateReport:
        pruned, decayed, remaining_edges = await self._prune(writing)
        archived = (
            await self._archive(writing, remaining_edges)
            if self._index.options.archive_decayed
            else 0
        )
        constitutional = list(
            await knowledge_blocks.tagged(
                writing.tx, INDEX_ID, [CONSTITUTIONAL], limit=CONSTITUTIONAL_MAX
            )
        )
        await knowledge_blocks.add_use(writing.tx, INDEX_ID, constitutional, writing.use.active_h)
        top = await self._top_blocks(writing)
        await knowledge_blocks.add_use(writing.tx, INDEX_ID, top, writing.use.active_h)
        writing.change(curated_h=writing.use.active_h)
        edges_after = len(await self._edges(writing)) if archived else len(remaining_edges)
        report = CurateReport(
            "", archived, pruned, decayed, len(top), len(constitutional), edges_after
        )
        return replace(report, summary=texts.curated(report))

    async def _edges(self, writing: BlockWrite) -> list[EdgeTiers]:
        found: list[EdgeTiers] = []
        after = ("", "")
        while True:
            page = await edges.page(writing.tx, INDEX_ID, after=after, limit=EDGES_A_PAGE)
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
        await edges.remove(writing.tx, INDEX_ID, [*weak, *expired])
        return len(weak), len(expired), remaining_edges

    async def _archive(self, writing: BlockWrite, remaining_edges: list[EdgeTiers]) -> int:
        """Archive blocks that have faded, except bridges, which much depends on."""
        before_h = {
            tier: writing.use.active_h - hours_to(ARCHIVE_THRESHOLD, decay_per_h)
            for tier, decay_per_h in DECAY_PER_H.items()
        }
        ids = await knowledge_blocks.unused_since(
            writing.tx, INDEX_ID, before_h, limit=ARCHIVED_A_RUN
        )
        if not ids:
            return 0
        weight_by_block: dict[str, float] = {}
        for edge_tiers in remaining_edges:
            for end in (edge_tiers.edge.low, edge_tiers.edge.high):
                weight_by_block[end] = weight_by_block.get(end, 0.0) + edge_tiers.edge.weight
        bridge = bridge_degree(weight_by_block.values())
        expired = [block_id for block_id in ids if weight_by_block.get(block_id, 0.0) < bridge]
        blocks = list((await knowledge_blocks.read(writing.tx, INDEX_ID, expired)).values())
        await self._index.archive(writing, blocks, "decayed")
        use = writing.use
        writing.change(active=use.active - len(blocks), archived=use.archived + len(blocks))
        return len(blocks)

    async def _top_blocks(self, writing: BlockWrite) -> list[str]:
        ids = await knowledge_blocks.list_top(writing.tx, INDEX_ID, limit=TOP_CANDIDATES_MAX)
        blocks = [
            block
            for block in (await knowledge_blocks.read(writing.tx, INDEX_ID, ids)).values()
            if block.status == "active"
        ]
        weights = FRAMES["self"].weights.without_question()
        ranked = score_blocks(blocks, {}, weights, writing.use.active_h)
        return [block.block.block_id for block in ranked[:REINFORCED_TOP]]
