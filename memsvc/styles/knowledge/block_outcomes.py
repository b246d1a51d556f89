"""Outcomes of the use of blocks, and how blocks learn from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from memsvc.core.scope import Scope
from memsvc.store import block_outcomes, edges, knowledge_blocks
from memsvc.store.block_outcomes import BlockConfidence
from memsvc.store.edges import Edge
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge.beta import (
    BAD_SIGNAL_MAX,
    EDGE_SHARE,
    EDGE_STEP,
    REINFORCED_FROM,
    BetaConfidence,
    check,
    decay_after,
)
from memsvc.styles.knowledge.block_index import INDEX_ID, BlockIndex, BlockWrite
from memsvc.styles.knowledge.links import OUTCOME
from memsvc.styles.knowledge.tiers import CONSTITUTIONAL

Skip = Literal["constitutional", "pending_inbox", "archived", "unmatched"]


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """Result of an outcome: its changes, and the skipped blocks with the reason."""

    updated: int = 0
    confidence_delta: float = 0.0
    edges_created: int = 0
    edges_reinforced: int = 0
    decay_change_count: int = 0
    ignored: tuple[tuple[str, Skip], ...] = ()


class OutcomeService:
    """Applies outcomes, which need no session and count once for each call."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    async def apply(
        self, scope: Scope, block_ids: Sequence[str], *, signal: float, weight: float, source: str
    ) -> OutcomeReport:
        """Apply an outcome to active blocks; skip the others, each with a reason."""
        check(signal, weight)
        requested = list(dict.fromkeys(block_ids))
        if not requested:
            return OutcomeReport()
        async with self._index.written(scope) as writing:
            existing = await knowledge_blocks.read(writing.tx, INDEX_ID, requested)
            reasons = [(block_id, _reason(existing.get(block_id))) for block_id in requested]
            ignored = tuple(
                (block_id, reason) for block_id, reason in reasons if reason is not None
            )
            blocks = [existing[block_id] for block_id, reason in reasons if reason is None]
            if not blocks:
                return OutcomeReport(ignored=ignored)
            updates = [_confidence_update(block, signal, weight) for block in blocks]
            await block_outcomes.add_outcome(
                writing.tx,
                INDEX_ID,
                updates,
                signal=signal,
                weight=weight,
                source=source,
                now=writing.now,
            )
            created = reinforced = 0
            if signal > REINFORCED_FROM:
                created, reinforced = await self._add_uses(
                    writing, [block.block_id for block in blocks], signal
                )
            writing.change()
        changes = [update.confidence - update.before for update in updates]
        faster = [
            new.decay_per_h > old.decay_per_h for new, old in zip(updates, blocks, strict=True)
        ]
        return OutcomeReport(
            len(blocks),
            sum(changes) / len(changes),
            created,
            reinforced,
            sum(faster) if signal < BAD_SIGNAL_MAX else 0,
            ignored,
        )

    async def _add_uses(
        self, writing: BlockWrite, ids: Sequence[str], signal: float
    ) -> tuple[int, int]:
        """Reinforce blocks and the edges between them, adding missing ones; return both counts."""
        tx, now_h = writing.tx, writing.use.active_h
        await knowledge_blocks.add_use(tx, INDEX_ID, ids, now_h)
        pairs = list(combinations(sorted(ids), 2))
        reinforced = await edges.add_weight(tx, INDEX_ID, pairs, signal * EDGE_STEP, now_h)
        missing = [
            Edge(low, high, signal * EDGE_SHARE, OUTCOME, "outcome", 0, now_h)
            for low, high in pairs
        ]
        return await edges.put(tx, INDEX_ID, missing), reinforced


def _reason(block: KnowledgeBlock | None) -> Skip | None:
    """Return why a block learns nothing, or None."""
    if block is None:
        return "unmatched"
    if block.status == "inbox":
        return "pending_inbox"
    if block.status == "archived":
        return "archived"
    return "constitutional" if CONSTITUTIONAL in block.tags else None


def _confidence_update(block: KnowledgeBlock, signal: float, weight: float) -> BlockConfidence:
    after = BetaConfidence(block.alpha, block.beta).after(signal, weight)
    decay_per_h = decay_after(block.decay_per_h, signal)
    return BlockConfidence(
        block.block_id, after.alpha, after.beta, after.confidence, block.confidence, decay_per_h
    )
