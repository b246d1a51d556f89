"""Curation: faded blocks are archived, the strongest are reinforced."""

from dataclasses import dataclass
from typing import Final

from memsvc.core.decay import DECAY_PER_H, edge_decay_per_h, hours_to, remaining
from memsvc.core.scope import Scope
from memsvc.store import edges, notion_lists, notions
from memsvc.store.activity import Activity
from memsvc.store.edges import Aging
from memsvc.styles.knowledge.book import NUMBER, Book, Writing
from memsvc.styles.knowledge.frames import FRAMES
from memsvc.styles.knowledge.links import PRUNED_BELOW, bridge_degree
from memsvc.styles.knowledge.scored import scored
from memsvc.styles.knowledge.tiers import CONSTITUTIONAL

DECAYED_BELOW: Final = 0.05
"""Remaining share at which a block is archived: after 60 active hours unused for an ephemeral one,
300 for a standard one, 3,000 for a durable one (elfmem)."""
REINFORCED_TOP: Final = 5
EDGES_A_PAGE: Final = 1000
ARCHIVED_A_RUN: Final = 1000
CONSTITUTIONAL_MAX: Final = 1000
STRONGEST_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Curated:
    """Result of a curation."""

    archived: int
    edges_pruned: int
    edges_decayed: int
    edges_after: int
    reinforced: int
    constitutional: int


class Curating:
    """Curates, on request and after a consolidation when that is due."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def is_due(self, use: Activity) -> bool:
        """Return whether the configured active hours have passed since the last curation.

        True where there was none.
        """
        return use.curated_h is None or use.active_h - use.curated_h >= self._book.options.curate_every_hours

    async def curate_if_due(self, scope: Scope) -> bool:
        """Curate as `curate`, where it is due; return whether it was."""
        async with self._book.written(scope) as writing:
            due = self.is_due(writing.use)
            if due:
                await self._curate(writing)
        return due

    async def curate(self, scope: Scope) -> Curated:
        """Prune edges, archive faded blocks, and reinforce others.

        Bridges are not archived; constitutional blocks and the five strongest are reinforced.
        """
        async with self._book.written(scope) as writing:
            return await self._curate(writing)

    async def _curate(self, writing: Writing) -> Curated:
        pruned, decayed, left = await self._prune(writing)
        archived = await self._archive(writing, left) if self._book.options.archive_decayed else 0
        own = list(await notion_lists.tagged(writing.tx, NUMBER, [CONSTITUTIONAL], most=CONSTITUTIONAL_MAX))
        await notions.reinforce(writing.tx, NUMBER, own, writing.use.active_h)
        top = await self._strongest(writing)
        await notions.reinforce(writing.tx, NUMBER, top, writing.use.active_h)
        writing.change(curated_h=writing.use.active_h)
        edges_after = len(await self._edges(writing)) if archived else len(left)
        return Curated(archived, pruned, decayed, edges_after, len(top), len(own))

    async def _edges(self, writing: Writing) -> list[Aging]:
        found: list[Aging] = []
        after = ("", "")
        while True:
            page = await edges.page(writing.tx, NUMBER, after=after, most=EDGES_A_PAGE)
            found += page
            if len(page) < EDGES_A_PAGE:
                return found
            after = (page[-1].edge.low, page[-1].edge.high)

    async def _prune(self, writing: Writing) -> tuple[int, int, list[Aging]]:
        """Remove edges that are too weak, now or by time; an agent's own edge does not fade."""
        weak, faded, left = [], [], []
        for aging in await self._edges(writing):
            edge = aging.edge
            pace = edge_decay_per_h(*aging.tiers, reinforcements=edge.reinforcements)
            rest = edge.weight * remaining(pace, writing.use.active_h - edge.touched_h)
            if edge.weight < PRUNED_BELOW:
                weak.append((edge.low, edge.high))
            elif edge.origin != "agent" and rest < PRUNED_BELOW:
                faded.append((edge.low, edge.high))
            else:
                left.append(aging)
        await edges.remove(writing.tx, NUMBER, [*weak, *faded])
        return len(weak), len(faded), left

    async def _archive(self, writing: Writing, left: list[Aging]) -> int:
        """Archive blocks that have faded, except bridges, which much depends on."""
        before_h = {tier: writing.use.active_h - hours_to(DECAYED_BELOW, pace) for tier, pace in DECAY_PER_H.items()}
        ids = await notion_lists.unused_since(writing.tx, NUMBER, before_h, most=ARCHIVED_A_RUN)
        if not ids:
            return 0
        degrees: dict[str, float] = {}
        for aging in left:
            for end in (aging.edge.low, aging.edge.high):
                degrees[end] = degrees.get(end, 0.0) + aging.edge.weight
        bridge = bridge_degree(degrees.values())
        faded = [one for one in ids if degrees.get(one, 0.0) < bridge]
        blocks = list((await notions.read(writing.tx, NUMBER, faded)).values())
        await self._book.archive(writing, blocks, "decayed")
        use = writing.use
        writing.change(active=use.active - len(blocks), archived=use.archived + len(blocks))
        return len(blocks)

    async def _strongest(self, writing: Writing) -> list[str]:
        ids = await notion_lists.strongest(writing.tx, NUMBER, most=STRONGEST_MAX)
        blocks = [one for one in (await notions.read(writing.tx, NUMBER, ids)).values() if one.status == "active"]
        weights = FRAMES["self"].weights.without_question()
        ranked = scored(blocks, {}, weights, writing.use.active_h)
        return [one.block.notion for one in ranked[:REINFORCED_TOP]]
