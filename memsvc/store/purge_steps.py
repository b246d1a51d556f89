"""Removal from indexes that stay: facts and insights that rest on a session or a user.

Each function is one short step; the transaction holds the lock of the index.
"""

from collections.abc import Sequence

from memsvc.core.facts import Fact
from memsvc.store import index, insights, vectors
from memsvc.store.database import Tx
from memsvc.store.facts import COLUMNS, fact_of, indexed
from memsvc.store.insights import Insight

_OF_SESSION = "tenant = $1 AND project = $2 AND evidence ->> 'session' = $3"


async def indexes_with_facts(tx: Tx, session: str, prefix: str) -> list[str]:
    """Return the indexes, by name, with facts that were learned in a session, past ones included.

    Their names begin with `prefix`. One statement over the facts of the project.
    """
    rows = await tx.fetch(
        f"""
        SELECT b.name FROM (SELECT DISTINCT book FROM facts WHERE {_OF_SESSION}) AS f
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = f.book
        WHERE starts_with(b.name, $4) ORDER BY b.name
        """,
        session,
        prefix,
    )
    return [row["name"] for row in rows]


async def facts_from_session(tx: Tx, index_id: int, session: str, *, limit: int) -> list[Fact]:
    """Return some facts of an index, past ones included, that were learned in a session."""
    rows = await tx.fetch(
        f"SELECT book, {COLUMNS} FROM facts WHERE {_OF_SESSION} AND book = $4 ORDER BY entry"
        " LIMIT $5",
        session,
        index_id,
        limit,
    )
    return [fact_of(row) for row in rows]


async def count_facts(tx: Tx, index_id: int, session: str) -> int:
    """Return the number of facts of an index that were learned in a session."""
    found: int = await tx.fetchval(
        f"SELECT count(*) FROM facts WHERE {_OF_SESSION} AND book = $4", session, index_id
    )
    return found


async def drop_facts(tx: Tx, index_id: int, removed: Sequence[Fact]) -> None:
    """Delete facts from their index, with their entries and vectors."""
    entries = [fact.entry for fact in removed]
    await index.hold(tx, index_id)
    await index.remove(tx, index_id, indexed(removed))
    await tx.execute(
        "DELETE FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND entry ="
        " ANY($4::int4[])",
        index_id,
        entries,
    )
    await _drop_vectors(tx, index_id, entries)


async def insights_of_session(tx: Tx, prefix: str, session: str) -> list[tuple[str, Insight]]:
    """Return the insights that cite a turn of a session, with the names of their indexes.

    Only indexes whose names begin with `prefix`. One statement over the insights of the project.
    """
    rows = await tx.fetch(
        """
        SELECT b.name, i.book AS index_id, i.entry, i.insight, i.kind, i.summary, e.cues,
            i.confidence, i.evidence, i.made_at
        FROM insights AS i
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = i.book
        JOIN entries AS e ON e.tenant = $1 AND e.project = $2 AND e.book = i.book
            AND e.entry = i.entry
        WHERE i.tenant = $1 AND i.project = $2 AND starts_with(b.name, $3)
            AND i.evidence -> 'turns' @> jsonb_build_array(jsonb_build_object('session', $4::text))
        ORDER BY i.book, i.entry
        """,
        prefix,
        session,
    )
    return [
        (row["name"], Insight(**{name: row[name] for name in dict(row) if name != "name"}))
        for row in rows
    ]


async def drop_insights(tx: Tx, removed: Sequence[Insight]) -> None:
    """Delete insights, with their entries and vectors."""
    for index_id in sorted({insight.index_id for insight in removed}):
        await index.hold(tx, index_id)
    await insights.remove(tx, removed)
    for index_id in {insight.index_id for insight in removed}:
        await _drop_vectors(
            tx, index_id, [insight.entry for insight in removed if insight.index_id == index_id]
        )


async def _drop_vectors(tx: Tx, index_id: int, entries: Sequence[int]) -> None:
    if entries and await vectors.available(tx):
        await vectors.forget(tx, index_id, entries)


async def sessions_of(tx: Tx, user: str, *, shared: bool, after: str, limit: int) -> list[str]:
    """Return the next sessions after `after`, by name, in which this user alone spoke.

    If `shared`, all in which several users did.
    """
    condition = "shared" if shared else "user_id = $3 AND NOT shared"
    rows = await tx.fetch(
        f"""
        SELECT session FROM sessions WHERE tenant = $1 AND project = $2 AND ($3 <> '')
            AND {condition}
            AND session > $4 ORDER BY session LIMIT $5
        """,
        user,
        after,
        limit,
    )
    return [row["session"] for row in rows]


async def latest_sessions(tx: Tx, user: str, *, excluded: str, limit: int) -> list[str]:
    """Return the other sessions in which this user alone spoke, the latest active first."""
    rows = await tx.fetch(
        """
        SELECT session FROM sessions WHERE tenant = $1 AND project = $2 AND user_id = $3
            AND user_id <> ''
            AND NOT shared AND session <> $4 ORDER BY updated_at DESC LIMIT $5
        """,
        user,
        excluded,
        limit,
    )
    return [row["session"] for row in rows]
