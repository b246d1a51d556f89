"""Edges between the blocks of an index, and contradictions between them.

Writers hold the index's lock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from memsvc.core.decay import DecayTier
from memsvc.core.frozen import frozen
from memsvc.store.database import Row, Tx, columns_of
from memsvc.store.knowledge_blocks import INDEX_ID

Origin = Literal["similarity", "outcome", "agent"]


@frozen
class Edge:
    """Edge between two blocks: `low` < `high`."""

    low: str
    high: str
    weight: float
    relation: str
    origin: Origin
    reinforcements: int
    touched_h: float
    note: str = ""


@frozen
class EdgeTiers:
    """Edge with the tiers of its ends."""

    edge: Edge
    tiers: tuple[DecayTier, DecayTier]


@frozen
class Conflict:
    """Two blocks that contradict or repeat each other: which of these it is, and how surely."""

    first: str
    second: str
    kind: Literal["contradiction", "near_duplicate"]
    score: float


_COLUMNS = "low, high, weight, relation, origin, reinforcements, touched_h, note"
_WITHIN = "tenant = $1 AND project = $2 AND book = $3"


def pair(one: str, other: str) -> tuple[str, str]:
    """Return the two ends in the order in which an edge has them."""
    return (one, other) if one < other else (other, one)


def _edge(row: Row) -> Edge:
    return Edge(*(row[name] for name in _COLUMNS.split(", ")))


async def find(tx: Tx, one: str, other: str) -> Edge | None:
    """Return the edge between two blocks, or None."""
    row = await tx.fetchrow(
        f"SELECT {_COLUMNS} FROM edges WHERE {_WITHIN} AND low = $4 AND high = $5",
        INDEX_ID,
        *pair(one, other),
    )
    return _edge(row) if row else None


async def of(tx: Tx, block_id: str) -> list[Edge]:
    """Return all edges of a block, the weakest first."""
    return await tx.fetch_with(
        _edge,
        f"""
        SELECT {_COLUMNS} FROM edges WHERE {_WITHIN} AND low = $4
        UNION ALL SELECT {_COLUMNS} FROM edges WHERE {_WITHIN} AND high = $4 ORDER BY weight, low,
            high
        """,
        INDEX_ID,
        block_id,
    )


async def neighbours(tx: Tx, block_ids: Sequence[str], *, limit: int) -> list[str]:
    """Return the blocks with an edge to one of these, `limit` for each by weight."""
    return await tx.fetch_column(
        f"""
        SELECT DISTINCT near.notion FROM unnest($4::text[]) AS asked (notion) CROSS JOIN LATERAL (
            SELECT notion FROM (
                SELECT high AS notion, weight FROM edges WHERE {_WITHIN}
                    AND low = asked.notion COLLATE "C"
                UNION ALL SELECT low, weight FROM edges WHERE {_WITHIN}
                    AND high = asked.notion COLLATE "C"
            ) AS own ORDER BY weight DESC, notion LIMIT $5) AS near
        ORDER BY near.notion
        """,
        INDEX_ID,
        block_ids,
        limit,
    )


async def put(tx: Tx, edges: Sequence[Edge]) -> int:
    """Add edges; existing ones stay as they are; return how many were new."""
    if not edges:
        return 0
    columns = [[getattr(edge, name) for edge in edges] for name in _COLUMNS.split(", ")]
    return await tx.execute(
        f"""
        INSERT INTO edges (tenant, project, book, {_COLUMNS})
        SELECT b.tenant, b.project, b.book, e.* FROM books AS b,
            unnest($4::text[], $5::text[], $6::float8[],
            $7::text[], $8::text[], $9::int4[], $10::float8[], $11::text[]) AS e
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3 ON CONFLICT DO NOTHING RETURNING 1
        """,
        INDEX_ID,
        *columns,
    )


async def add_weight(tx: Tx, pairs: Sequence[tuple[str, str]], by: float, now_h: float) -> int:
    """Reinforce the existing ones of these edges once each, weight by `by` and up to 1.

    Return how many.
    """
    if not pairs:
        return 0
    return await tx.execute(
        f"""
        UPDATE edges SET weight = least(weight + $6, 1), reinforcements = reinforcements + 1,
            touched_h = $7
        FROM unnest($4::text[], $5::text[]) AS p (one, other)
        WHERE {_WITHIN} AND low = p.one COLLATE "C" AND high = p.other COLLATE "C"
        """,
        INDEX_ID,
        *columns_of(pairs, 2),
        by,
        now_h,
    )


async def update(tx: Tx, edge: Edge) -> None:
    """Update relation, weight and note of an edge."""
    await tx.execute(
        f"""
        UPDATE edges SET weight = $6, relation = $7, note = $8, origin = $9, touched_h = $10
        WHERE {_WITHIN} AND low = $4 AND high = $5
        """,
        INDEX_ID,
        edge.low,
        edge.high,
        edge.weight,
        edge.relation,
        edge.note,
        edge.origin,
        edge.touched_h,
    )


async def remove(tx: Tx, pairs: Sequence[tuple[str, str]]) -> int:
    """Delete edges; return how many there were."""
    if not pairs:
        return 0
    return await tx.execute(
        f"""
        DELETE FROM edges USING unnest($4::text[], $5::text[]) AS p (one, other)
        WHERE {_WITHIN} AND low = p.one COLLATE "C" AND high = p.other COLLATE "C"
        """,
        INDEX_ID,
        *columns_of(pairs, 2),
    )


async def page(tx: Tx, *, after: tuple[str, str], limit: int) -> list[EdgeTiers]:
    """Return the next edges of an index in order of their ends, with the tiers of these."""
    rows = await tx.fetch(
        f"""
        SELECT {_COLUMNS}, (SELECT tier FROM notions WHERE {_WITHIN}
            AND notion = e.low) AS low_tier,
               (SELECT tier FROM notions WHERE {_WITHIN} AND notion = e.high) AS high_tier
        FROM (SELECT * FROM edges WHERE {_WITHIN} AND (low, high) > ($4, $5) ORDER BY low, high
            LIMIT $6) AS e
        ORDER BY low, high
        """,
        INDEX_ID,
        *after,
        limit,
    )
    return [
        EdgeTiers(_edge(row), (DecayTier(row["low_tier"]), DecayTier(row["high_tier"])))
        for row in rows
    ]


async def add_conflicts(tx: Tx, conflicts: Sequence[Conflict], now: datetime) -> None:
    """Store which blocks conflict; what is known already stays."""
    if not conflicts:
        return
    pairs = [pair(conflict.first, conflict.second) for conflict in conflicts]
    await tx.execute(
        """
        INSERT INTO contradictions (tenant, project, book, low, high, kind, score, found_at)
        SELECT b.tenant, b.project, b.book, c.low, c.high, c.kind, c.score, $8
        FROM books AS b, unnest($4::text[], $5::text[], $6::text[], $7::float8[]) AS c (low, high,
            kind, score)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3
        ON CONFLICT DO NOTHING
        """,
        INDEX_ID,
        *columns_of(pairs, 2),
        [conflict.kind for conflict in conflicts],
        [conflict.score for conflict in conflicts],
        now,
    )


async def contradictions(tx: Tx, block_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs among these blocks that conflict."""
    rows = await tx.fetch(
        f"""
        SELECT c.low, c.high FROM unnest($4::text[]) AS asked (notion) CROSS JOIN LATERAL (
            SELECT low, high FROM contradictions WHERE {_WITHIN} AND low = asked.notion COLLATE "C"
        ) AS c WHERE c.high = ANY($4::text[]) ORDER BY c.low, c.high
        """,
        INDEX_ID,
        block_ids,
    )
    return [(row["low"], row["high"]) for row in rows]


async def conflicts_of(tx: Tx, block_id: str, *, limit: int) -> list[tuple[Conflict, datetime]]:
    """Return the conflicts of a block, and when each was found, the surest first."""
    rows = await tx.fetch(
        f"""
        SELECT * FROM (
            SELECT high AS other, kind, score, found_at FROM contradictions WHERE {_WITHIN}
                AND low = $4
            UNION ALL SELECT low, kind, score, found_at FROM contradictions WHERE {_WITHIN}
                AND high = $4
        ) AS own ORDER BY score DESC, other LIMIT $5
        """,
        INDEX_ID,
        block_id,
        limit,
    )
    return [
        (Conflict(block_id, row["other"], row["kind"], row["score"]), row["found_at"])
        for row in rows
    ]


async def forget_contradictions(tx: Tx, block_id: str) -> None:
    """Delete the conflicts of a block, whose text has changed."""
    for end in ("low", "high"):
        await tx.execute(
            f"DELETE FROM contradictions WHERE {_WITHIN} AND {end} = $4", INDEX_ID, block_id
        )
