"""Insights: what several facts and turns show together.

Each is an entry of the search index too.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memsvc.core.frozen import frozen
from memsvc.store import index
from memsvc.store.database import Tx, columns_of

ROLE = "insight"


@frozen
class Insight:
    """Insight from several facts and turns; `insight` is its id, a hash of what it says.

    `evidence` names the session, the ids of the facts and the turns, and the rows that it rests on
    as pairs of index and entry: facts that have to hold (`holds`), past facts that must not be
    deleted (`past`), items that must be findable (`sources`).
    """

    index_id: int
    entry: int
    insight: str
    kind: str
    summary: str
    cues: str
    confidence: float
    evidence: dict[str, Any]
    made_at: datetime


@frozen
class NewInsight:
    """Insight to be stored. `keywords` are further words by which it is found."""

    insight: str
    kind: str
    summary: str
    keywords: str
    confidence: float
    evidence: dict[str, Any]


_COLUMNS = (
    "i.book AS index_id, i.entry, i.insight, i.kind, i.summary, e.cues, i.confidence,"
    " i.evidence, i.made_at"
)
_FROM = """insights AS i JOIN entries AS e
           ON e.tenant = $1 AND e.project = $2 AND e.book = i.book AND e.entry = i.entry
           WHERE i.tenant = $1 AND i.project = $2"""


def _places(name: str) -> str:
    return f"""jsonb_to_recordset((
        SELECT coalesce(jsonb_agg(jsonb_build_object('book', p -> 0, 'entry', p -> 1)), '[]')
        FROM jsonb_array_elements(i.evidence -> '{name}') AS p)) AS p (book int8, entry int4)"""


# Whether an insight still rests on what it was made from; $4 is now.
_VALID = f"""
    NOT EXISTS (SELECT FROM {_places("holds")} WHERE NOT EXISTS (
        SELECT FROM facts AS f WHERE f.tenant = $1 AND f.project = $2 AND f.book = p.book
            AND f.entry = p.entry
            AND f.state = 'active' AND (f.expires_at IS NULL OR f.expires_at > $4)))
    AND NOT EXISTS (SELECT FROM {_places("past")} WHERE NOT EXISTS (
        SELECT FROM facts AS f WHERE f.tenant = $1 AND f.project = $2 AND f.book = p.book
            AND f.entry = p.entry
            AND f.state <> 'deleted'))
    AND NOT EXISTS (SELECT FROM {_places("sources")} WHERE NOT EXISTS (
        SELECT FROM entries AS s WHERE s.tenant = $1 AND s.project = $2 AND s.book = p.book
            AND s.entry = p.entry
            AND s.length >= 0))
"""
# Whether a newer fact of the same identity, in any of the indexes $5, has made one that it rests on
# stale.
_STALE = f"""
    EXISTS (SELECT FROM {_places("holds")} CROSS JOIN LATERAL (
            SELECT * FROM facts WHERE tenant = $1 AND project = $2 AND book = p.book
                AND entry = p.entry OFFSET 0
        ) AS f JOIN facts AS n ON n.tenant = $1 AND n.project = $2 AND n.book = ANY($5::int8[])
            AND n.fact_id = f.fact_id AND n.key = f.key AND n.slot = f.slot AND n.state = 'active'
        WHERE (n.expires_at IS NULL OR n.expires_at > $4)
            AND (n.valid_from, array_position($5, n.book)) > (f.valid_from, array_position($5,
                f.book)))
"""
# The insights at the places $7 (indexes) and $8 (entries) that stand now ($4): every fact that they
# rest on holds, none of them was made stale by a newer one in any of the fact indexes $5, and
# nothing that they cite was forgotten.
VALID_AT = f"""
    SELECT {_COLUMNS} FROM unnest($7::int8[], $8::int4[]) AS place (book, entry)
    CROSS JOIN LATERAL (
        SELECT * FROM insights WHERE tenant = $1 AND project = $2 AND book = place.book
            AND entry = place.entry OFFSET 0
    ) AS i CROSS JOIN LATERAL (
        SELECT cues FROM entries WHERE tenant = $1 AND project = $2 AND book = i.book
            AND entry = i.entry OFFSET 0
    ) AS e WHERE {_VALID} AND NOT {_STALE}
"""


async def list_valid(tx: Tx, index_ids: Sequence[int], now: datetime) -> list[Insight]:
    """Return the valid insights of these indexes, oldest first."""
    return await tx.fetch_as(
        Insight,
        f"""
        SELECT {_COLUMNS} FROM {_FROM} AND i.book = ANY($3::int8[]) AND {_VALID}
        ORDER BY i.made_at, i.book, i.entry
        """,
        index_ids,
        now,
    )


async def list_invalid(
    tx: Tx, index_ids: Sequence[int], now: datetime, *, limit: int
) -> list[Insight]:
    """Return some insights of these indexes whose evidence no longer holds."""
    return await tx.fetch_as(
        Insight,
        f"""
        SELECT {_COLUMNS} FROM {_FROM} AND i.book = ANY($3::int8[]) AND NOT ({_VALID})
        ORDER BY i.book, i.entry LIMIT $5
        """,
        index_ids,
        now,
        limit,
    )


async def list_all(tx: Tx, index_ids: Sequence[int], *, limit: int) -> list[Insight]:
    """Return the latest insights of these indexes."""
    return await tx.fetch_as(
        Insight,
        f"""
        SELECT {_COLUMNS} FROM {_FROM} AND i.book = ANY($3::int8[])
        ORDER BY i.book, i.entry DESC LIMIT $4
        """,
        index_ids,
        limit,
    )


async def existing_ids(tx: Tx, index_id: int, ids: Sequence[str]) -> set[str]:
    """Return which of these insights an index has."""
    return set(
        await tx.fetch_column(
            "SELECT insight FROM insights WHERE tenant = $1 AND project = $2 AND book = $3 AND"
            " insight = ANY($4::text[])",
            index_id,
            ids,
        )
    )


async def put(tx: Tx, index_name: str, new_insights: Sequence[NewInsight], now: datetime) -> None:
    """Store insights that an index does not have, findable from now on.

    The caller holds the index's lock.
    """
    entries = [
        index.NewEntry(
            ref=insight.insight,
            text=insight.summary,
            keywords=insight.keywords,
            message_at=now,
            role=ROLE,
        )
        for insight in new_insights
    ]
    first = (await index.add(tx, {index_name: entries}))[index_name]
    await tx.execute(
        """
        INSERT INTO insights (tenant, project, book, entry, insight, kind, summary, confidence,
            evidence, made_at)
        SELECT b.tenant, b.project, b.book, $4 + m.number - 1, m.insight, m.kind, m.summary,
            m.confidence, m.evidence,
               $5
        FROM books AS b, unnest($6::text[], $7::text[], $8::text[], $9::float4[],
            $10::jsonb[]) WITH ORDINALITY
            AS m (insight, kind, summary, confidence, evidence, number)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3
        """,
        index.index_id_of(index_name),
        first,
        now,
        *columns_of(
            [
                (new.insight, new.kind, new.summary, new.confidence, new.evidence)
                for new in new_insights
            ],
            5,
        ),
    )


async def remove(tx: Tx, removed: Sequence[Insight]) -> None:
    """Delete insights, from the index too; they may be made again if they become true again."""
    for index_id in sorted({insight.index_id for insight in removed}):
        index_insights = [insight for insight in removed if insight.index_id == index_id]
        await index.remove(
            tx,
            index_id,
            {insight.entry: f"{insight.summary}\n{insight.cues}" for insight in index_insights},
        )
        await tx.execute(
            "DELETE FROM insights WHERE tenant = $1 AND project = $2 AND book = $3 AND entry ="
            " ANY($4::int4[])",
            index_id,
            [insight.entry for insight in index_insights],
        )
