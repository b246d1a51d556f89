"""Outcomes of the use of blocks, and how blocks learn from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from memsvc.core.scope import Scope
from memsvc.store import edges, judged, notions
from memsvc.store.edges import Edge
from memsvc.store.judged import Belief
from memsvc.store.notions import Notion
from memsvc.styles.knowledge.beta import EDGE_SHARE, EDGE_STEP, PENALISED_BELOW, REINFORCED_FROM, Beta, check, penalised
from memsvc.styles.knowledge.book import NUMBER, Book, Writing
from memsvc.styles.knowledge.links import OUTCOME
from memsvc.styles.knowledge.tiers import CONSTITUTIONAL

Skip = Literal["constitutional", "pending_inbox", "archived", "unmatched"]


@dataclass(frozen=True, slots=True)
class Learnt:
    """Result of an outcome: its changes, and the skipped blocks with the reason."""

    updated: int = 0
    confidence_delta: float = 0.0
    edges_created: int = 0
    edges_reinforced: int = 0
    penalised: int = 0
    skipped: tuple[tuple[str, Skip], ...] = ()


class Outcomes:
    """Applies outcomes, which need no session and count once for each call."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def tell(
        self, scope: Scope, block_ids: Sequence[str], *, signal: float, weight: float, source: str
    ) -> Learnt:
        """Apply an outcome to active blocks; skip the others, each with a reason."""
        check(signal, weight)
        asked = list(dict.fromkeys(block_ids))
        if not asked:
            return Learnt()
        async with self._book.written(scope) as writing:
            there = await notions.read(writing.tx, NUMBER, asked)
            reasons = [(block_id, _reason(there.get(block_id))) for block_id in asked]
            skipped = tuple((block_id, reason) for block_id, reason in reasons if reason is not None)
            blocks = [there[block_id] for block_id, reason in reasons if reason is None]
            if not blocks:
                return Learnt(skipped=skipped)
            beliefs = [_belief(block, signal, weight) for block in blocks]
            await judged.believe(
                writing.tx, NUMBER, beliefs, signal=signal, weight=weight, source=source, now=writing.now
            )
            created = reinforced = 0
            if signal > REINFORCED_FROM:
                created, reinforced = await self._reinforce(writing, [block.notion for block in blocks], signal)
            writing.change()
        deltas = [belief.confidence - belief.before for belief in beliefs]
        faster = [new.decay_per_h > old.decay_per_h for new, old in zip(beliefs, blocks, strict=True)]
        return Learnt(
            len(blocks),
            sum(deltas) / len(deltas),
            created,
            reinforced,
            sum(faster) if signal < PENALISED_BELOW else 0,
            skipped,
        )

    async def _reinforce(self, writing: Writing, ids: Sequence[str], signal: float) -> tuple[int, int]:
        """Reinforce blocks and the edges between them, adding missing ones; return both counts."""
        tx, now_h = writing.tx, writing.use.active_h
        await notions.reinforce(tx, NUMBER, ids, now_h)
        pairs = list(combinations(sorted(ids), 2))
        reinforced = await edges.strengthen(tx, NUMBER, pairs, signal * EDGE_STEP, now_h)
        missing = [Edge(low, high, signal * EDGE_SHARE, OUTCOME, "outcome", 0, now_h) for low, high in pairs]
        return await edges.put(tx, NUMBER, missing), reinforced


def _reason(block: Notion | None) -> Skip | None:
    """Return why a block learns nothing, or None."""
    if block is None:
        return "unmatched"
    if block.status == "inbox":
        return "pending_inbox"
    if block.status == "archived":
        return "archived"
    return "constitutional" if CONSTITUTIONAL in block.tags else None


def _belief(block: Notion, signal: float, weight: float) -> Belief:
    after = Beta(block.alpha, block.beta).after(signal, weight)
    decay_per_h = penalised(block.decay_per_h, signal)
    return Belief(block.notion, after.alpha, after.beta, after.confidence, block.confidence, decay_per_h)
