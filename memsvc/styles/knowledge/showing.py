"""Details of a block: its confidence, its decay and its relations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.decay import hours_to, remaining
from memsvc.core.scope import Scope
from memsvc.store import edges, judged, notions
from memsvc.store.edges import Conflict, Edge
from memsvc.store.judged import Told
from memsvc.store.notions import Notion
from memsvc.styles.knowledge.book import NUMBER, Book, not_found
from memsvc.styles.knowledge.curating import DECAYED_BELOW
from memsvc.styles.knowledge.hours import now_of

EDGES_MAX: Final = 50
CONFLICTS_MAX: Final = 50
OUTCOMES_MAX: Final = 50
OLDER_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Shown:
    """Block with its relations; `now_h` is the index's clock.

    It has the strongest edges, the conflicts and when each was found, the outcomes, the blocks that
    it replaced (`older`), and those of all these that still exist (`others`).
    """

    block: Notion
    edges: Sequence[Edge]
    conflicts: Sequence[tuple[Conflict, datetime]]
    outcomes: Sequence[Told]
    older: Sequence[str]
    others: dict[str, Notion]
    now_h: float

    @property
    def left(self) -> float:
        """Share of the block that has not decayed, 0 to 1."""
        return remaining(self.block.decay_per_h, self.now_h - self.block.reinforced_h)

    @property
    def faded_h(self) -> float:
        """Time on the index's clock from which the block may be archived."""
        return self.block.reinforced_h + hours_to(DECAYED_BELOW, self.block.decay_per_h)


class Showing:
    """Reads blocks in detail; this is no use of them, so nothing is reinforced."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def show(self, scope: Scope, block_id: str) -> Shown:
        """Return the details of a block, archived or not; NOT_FOUND where there is none."""
        async with self._book.read(scope) as (tx, was):
            block = (await notions.read(tx, NUMBER, [block_id])).get(block_id)
            if block is None:
                raise not_found(block_id)
            strongest = (await edges.of(tx, NUMBER, block_id))[::-1][:EDGES_MAX]
            conflicts = await edges.conflicts_of(tx, NUMBER, block_id, most=CONFLICTS_MAX)
            outcomes = await judged.told_of(tx, NUMBER, block_id, most=OUTCOMES_MAX)
            older = (await notions.superseded_by(tx, NUMBER, block_id))[:OLDER_MAX]
            beside = [_other_end(edge, block_id) for edge in strongest]
            newer = [block.superseded_by] if block.superseded_by else []
            against = [conflict.other for conflict, _ in conflicts]
            others = await notions.read(tx, NUMBER, [*beside, *against, *older, *newer])
        now_h = now_of(was, self._book.now(), self._book.idle).active_h
        return Shown(block, strongest, conflicts, outcomes, older, others, now_h)


def _other_end(edge: Edge, block_id: str) -> str:
    return edge.high if edge.low == block_id else edge.low
