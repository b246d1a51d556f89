"""Outcomes of the use of blocks, and how blocks learn from them.

Confidence is the mean of a Beta distribution.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Final

from pydantic import Field

from memsvc.core.decay import DECAY_PER_H, DecayTier
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.scope import Permission, Scope
from memsvc.store import edges, knowledge_blocks
from memsvc.store.edges import Edge
from memsvc.store.knowledge_blocks import BlockConfidence, KnowledgeBlock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_edges import OUTCOME
from memsvc.styles.knowledge.block_index import CONSTITUTIONAL, BlockIndex, BlockWrite
from memsvc.styles.knowledge.knowledge_models import (
    IDS_MAX,
    BlockId,
    IgnoredBlock,
    OutcomeReport,
    Skip,
    Words,
    knowledge_tool,
)


@frozen
class OutcomeService:
    """Applies outcomes, which need no session and count once for each call."""

    index: BlockIndex

    @knowledge_tool(
        "elfmem_outcome",
        "Record the outcome of using knowledge",
        Permission.WRITE,
        over_quota=True,
    )
    async def apply(
        self,
        scope: Scope,
        block_ids: Annotated[
            list[BlockId], Field(max_length=IDS_MAX), "ids of the recalled blocks that you used"
        ],
        signal: Annotated[
            float,
            "outcome, from 0 (failed) to 1 (succeeded)",
        ],
        weight: Annotated[
            float, Field(le=1e6), "how much this outcome counts, above 0; normally 1"
        ] = 1.0,
        source: Annotated[Words, "what reported this outcome, such as test_pass"] = "",
    ) -> OutcomeReport:
        """Record how well recalled blocks worked.

        A signal above 0.5 reinforces them; one below 0.2 makes them fade faster."""
        check(signal, weight)
        requested = list(dict.fromkeys(block_ids))
        if not requested:
            return _report()
        async with self.index.written(scope) as writing:
            existing = await knowledge_blocks.read(writing.tx, requested)
            reasons = [(block_id, _reason(existing.get(block_id))) for block_id in requested]
            skipped = [
                IgnoredBlock(block_id, reason) for block_id, reason in reasons if reason is not None
            ]
            blocks = [existing[block_id] for block_id, reason in reasons if reason is None]
            if not blocks:
                return _report(skipped=skipped)
            updates = [_confidence_update(block, signal, weight) for block in blocks]
            await knowledge_blocks.add_outcome(
                writing.tx,
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
        penalized = [
            new.decay_per_h > old.decay_per_h for new, old in zip(updates, blocks, strict=True)
        ]
        return _report(
            len(blocks),
            sum(changes) / len(changes),
            reinforced,
            sum(penalized) if signal < BAD_SIGNAL_MAX else 0,
            created,
            skipped,
        )

    async def _add_uses(
        self, writing: BlockWrite, ids: Sequence[str], signal: float
    ) -> tuple[int, int]:
        """Reinforce blocks and the edges between them, adding missing ones; return both counts."""
        tx, now_h = writing.tx, writing.use.active_h
        await knowledge_blocks.add_use(tx, ids, now_h)
        pairs = list(combinations(sorted(ids), 2))
        reinforced = await edges.add_weight(tx, pairs, signal * EDGE_STEP, now_h)
        missing = [
            Edge(low, high, signal * EDGE_SHARE, OUTCOME, "outcome", 0, now_h)
            for low, high in pairs
        ]
        return await edges.put(tx, missing), reinforced


def _report(
    updated: int = 0,
    confidence_delta: float = 0.0,
    edges_reinforced: int = 0,
    penalized: int = 0,
    edges_created: int = 0,
    skipped: Sequence[IgnoredBlock] = (),
) -> OutcomeReport:
    report = OutcomeReport(
        "", updated, confidence_delta, edges_reinforced, penalized, edges_created, skipped
    )
    return replace(report, summary=texts.outcome(report))


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


PRIOR_CONFIDENCE: Final = 0.50
"""Confidence of a block about which nothing is known."""
REINFORCED_FROM: Final = 0.5
"""A signal above this reinforces the used blocks, and the edges between them."""
BAD_SIGNAL_MAX: Final = 0.20
DECAY_FACTOR: Final = 2.0
DECAY_MAX_PER_H: Final = DECAY_PER_H[DecayTier.EPHEMERAL]
"""A penalty never increases the decay beyond this."""
PROTECTED_DECAY_PER_H: Final = DECAY_PER_H[DecayTier.DURABLE]
"""A decay this slow or slower gets no penalty."""
EDGE_SHARE: Final = 0.8
"""Weight of an edge that a good outcome makes, as a share of the signal."""
EDGE_STEP: Final = 0.10
"""Increase of an edge's weight by a good outcome, as a share of the signal."""


@frozen
class BetaConfidence:
    """Beta distribution of a block's confidence: `alpha` for, `beta` against."""

    alpha: float
    beta: float

    @property
    def confidence(self) -> float:
        """Mean of the distribution."""
        return self.alpha / (self.alpha + self.beta)

    def after(self, signal: float, weight: float) -> "BetaConfidence":
        """Return the distribution after an outcome between 0 (failed) and 1 (succeeded)."""
        return BetaConfidence(self.alpha + weight * signal, self.beta + weight * (1 - signal))


def prior(confidence: float, weight: float) -> BetaConfidence:
    """Return the distribution of this mean before any outcome, worth `weight` outcomes."""
    return BetaConfidence(confidence * weight, (1 - confidence) * weight)


def check(signal: float, weight: float) -> None:
    """Raise INVALID_ARGUMENT for a signal or a weight that no outcome can have."""
    if not 0.0 <= signal <= 1.0:
        raise invalid(f"signal must be in [0.0, 1.0], got {signal}")
    if not weight > 0.0:
        raise invalid(f"weight must be > 0.0, got {weight}")


def decay_after(decay_per_h: float, signal: float) -> float:
    """Return a block's decay after an outcome: doubled after a bad one, unless it is durable."""
    if signal >= BAD_SIGNAL_MAX or decay_per_h <= PROTECTED_DECAY_PER_H:
        return decay_per_h
    return min(decay_per_h * DECAY_FACTOR, max(DECAY_MAX_PER_H, decay_per_h))
