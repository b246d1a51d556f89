"""Ratings of blocks: promotion, confidence by outcomes, decay. Writers hold the index's lock."""

from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Annotated

from memsvc.core.decay import DecayTier
from memsvc.core.frozen import frozen
from memsvc.core.tool_methods import result
from memsvc.store.database import Tx, columns_of
from memsvc.store.knowledge_blocks import INDEX_ID


@frozen
class ActiveBlockValues:
    """New values of a block of the inbox that becomes active, used once."""

    block_id: str
    tier: DecayTier
    decay_per_h: float
    alpha: float
    beta: float
    confidence: float
    alignment: float | None
    scored_by: str


@frozen
class BlockConfidence:
    """Confidence of a block after an outcome, and `before` it."""

    block_id: str
    alpha: float
    beta: float
    confidence: float
    before: float
    decay_per_h: float


@result
class BlockOutcome:
    """Outcome of one use of a block, with the confidence before and after."""

    signal: Annotated[float, "how it went, 0 (it failed) to 1 (it succeeded)"]
    weight: Annotated[float, "how much that counts"]
    source: Annotated[str, "where the signal came from"]
    before: Annotated[float, "the confidence before it"]
    after: Annotated[float, "the confidence after it"]
    told_at: Annotated[str, "when it was told"]


async def promote(tx: Tx, values: ActiveBlockValues, now_h: float) -> None:
    """Make a block of the inbox active."""
    await tx.execute(
        """
        UPDATE notions SET status = 'active', tier = $5, decay_per_h = $6, alpha = $7, beta = $8,
            confidence = $9,
            alignment = $10, scored_by = $11, reinforcements = reinforcements + 1,
                reinforced_h = $12
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = $4 AND status = 'inbox'
        """,
        INDEX_ID,
        values.block_id,
        values.tier,
        values.decay_per_h,
        values.alpha,
        values.beta,
        values.confidence,
        values.alignment,
        values.scored_by,
        now_h,
    )


async def add_outcome(
    tx: Tx,
    updates: Sequence[BlockConfidence],
    *,
    signal: float,
    weight: float,
    source: str,
    now: datetime,
) -> None:
    """Store the new confidences after an outcome, and the outcome itself."""
    await tx.call(
        "add_outcomes",
        INDEX_ID,
        *columns_of(map(astuple, updates), 6),
        signal,
        weight,
        source,
        now,
    )


async def outcomes_of(tx: Tx, block_id: str, *, limit: int) -> list[BlockOutcome]:
    """Return the outcomes of uses of a block, the latest first."""
    rows = await tx.fetch(
        """
        SELECT signal, weight, source, before, after, told_at FROM outcomes
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = $4 ORDER BY number DESC
            LIMIT $5
        """,
        INDEX_ID,
        block_id,
        limit,
    )
    return [BlockOutcome(**{**row, "told_at": row["told_at"].isoformat()}) for row in rows]


async def set_tier(tx: Tx, block_id: str, tier: DecayTier, decay_per_h: float) -> None:
    """Change the tier and the decay of a block."""
    await tx.execute(
        """
        UPDATE notions SET tier = $5, decay_per_h = $6
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = $4 AND status <> 'archived'
        """,
        INDEX_ID,
        block_id,
        tier,
        decay_per_h,
    )
