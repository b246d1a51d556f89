"""Usage of a tenant's projects, counted without counters.

Each statement reads one table once, by key.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

from memsvc.store.database import Row, Tx
from memsvc.store.queue import QUEUE

# What counts against a tenant's quota, in bytes: files by whose they are, what they were before,
# and texts that stand in no file. What is derived from these comes on top.
HELD: Final[Sequence[str]] = (
    """
    SELECT project, coalesce(sum(size_bytes) FILTER (WHERE owner = 'turns'), 0)::int8 AS turn_bytes,
           coalesce(sum(size_bytes) FILTER (WHERE owner = 'whiteboard'), 0)::int8 AS board_bytes,
           coalesce(sum(size_bytes) FILTER (WHERE owner = 'notebook'), 0)::int8 AS document_bytes,
           sum(size_bytes)::int8 AS held_bytes
    FROM files WHERE {scope} GROUP BY project
    """,
    """
    SELECT f.project, sum(octet_length(b.content))::int8 AS past_bytes, sum(octet_length(b.content))::int8 AS held_bytes
    FROM (SELECT project, incarnation, stream FROM files WHERE {scope}) AS f
    CROSS JOIN LATERAL (
        SELECT stream FROM streams
        WHERE tenant = $1 AND project = f.project AND incarnation = f.incarnation AND stream <> f.stream OFFSET 0) AS s
    CROSS JOIN LATERAL (
        SELECT content FROM blocks WHERE tenant = $1 AND project = f.project AND stream = s.stream OFFSET 0) AS b
    GROUP BY f.project
    """,
    """
    SELECT b.project, coalesce(sum(e.size_bytes) FILTER (WHERE b.name = 'knowledge'), 0)::int8 AS knowledge_bytes,
           coalesce(sum(e.size_bytes) FILTER (WHERE b.name <> 'knowledge'), 0)::int8 AS memories_bytes,
           coalesce(sum(e.size_bytes), 0)::int8 AS held_bytes
    FROM (SELECT project, book, name FROM books
          WHERE {scope} AND (name = 'knowledge' OR starts_with(name, 'memories/'))) AS b
    CROSS JOIN LATERAL (
        SELECT octet_length(text) + octet_length(cues) AS size_bytes FROM entries
        WHERE tenant = $1 AND project = b.project AND book = b.book OFFSET 0) AS e
    GROUP BY b.project
    """,
)

# {scope} binds the tenant, and the project where one was asked for. Every statement gives a row a
# project.
_COUNTED: Final[Sequence[str]] = (
    """
    SELECT project, count(*) FILTER (WHERE owner = '') AS files,
           coalesce(sum(size_bytes) FILTER (WHERE owner = ''), 0)::int8 AS file_bytes,
           count(*) FILTER (WHERE owner = 'whiteboard') AS boards,
           count(*) FILTER (WHERE owner = 'notebook') AS documents,
           coalesce(sum(size_bytes) FILTER (WHERE owner <> ''), 0)::int8 AS memory_file_bytes
    FROM files WHERE {scope} AND deleted_at IS NULL GROUP BY project
    """,
    *HELD,
    """
    SELECT project, count(*) AS contents FROM streams WHERE {scope} AND first_revision > 0 GROUP BY project
    """,
    """
    SELECT project, coalesce(sum(octet_length(content)), 0)::int8 AS stored_bytes FROM blocks
    WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, count(*) AS sessions, coalesce(sum(turns), 0)::int8 AS turns FROM sessions
    WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, count(*) AS facts FROM facts WHERE {scope} AND state = 'active' GROUP BY project
    """,
    """
    SELECT project, count(*) AS memories FROM memories WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, sum(inbox + active + archived)::int8 AS blocks FROM activity WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, sum(entries)::int8 AS index_entries FROM books WHERE {scope} GROUP BY project
    """,
)
_VECTORS: Final = "SELECT project, count(*) AS vectors FROM embeddings WHERE {scope} GROUP BY project"
_CALLS: Final = """
    SELECT project, status, count(*) AS calls FROM calls WHERE {scope} AND called_at >= {since} GROUP BY project, status
"""


def _scoped(sql: str, tx: Tx) -> str:
    scope = "tenant = $1" if tx.bound == 1 else "tenant = $1 AND project = $2"
    return sql.format(scope=scope, since=f"${tx.bound + 1}")


def statements(tx: Tx, *, vectors: bool) -> list[str]:
    """Return the statements of `counted`."""
    return [_scoped(sql, tx) for sql in (*_COUNTED, *([_VECTORS] if vectors else []))]


async def counted(tx: Tx, *, vectors: bool) -> dict[str, Counter[str]]:
    """Return the usage of each project: of a transaction's project, or of all of them."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for sql in statements(tx, vectors=vectors):
        for row in await tx.fetch(sql):
            fields: dict[str, Any] = dict(row)
            found[fields.pop("project")].update(fields)
    return dict(found)


async def held_bytes(tx: Tx) -> int:
    """Return the bytes that count against the tenant's quota, in a transaction over the tenant."""
    return sum([row["held_bytes"] for sql in HELD for row in await tx.fetch(_scoped(sql, tx))])


async def bounded_since(tx: Tx) -> datetime | None:
    """Return when the quota began for a tenant that existed before; None for all others."""
    rows = await tx.unbound("SELECT bounded_since FROM tenants WHERE tenant = $1", tx.scope.tenant)
    return rows[0]["bounded_since"] if rows else None


async def calls_since(tx: Tx, since: datetime) -> list[Row]:
    """Return the number of calls since a time (`calls`), by `project` and `status`."""
    return await tx.fetch(_scoped(_CALLS, tx), since)


async def jobs_queued(tx: Tx) -> list[Row]:
    """Return the number of queued jobs (`jobs`), by `project`."""
    return await tx.unbound(
        f"""
        SELECT headers ->> 'project' AS project, count(*) AS jobs FROM {QUEUE}
        WHERE headers ->> 'tenant' = $1 AND ($2::text IS NULL OR headers ->> 'project' = $2) GROUP BY 1
        """,
        tx.scope.tenant.hex(),
        None if tx.bound == 1 else tx.scope.project,
    )


async def taken_on(tx: Tx, day: date) -> dict[str, int]:
    """Return how much of the tenant's daily limits was used on a day, by purpose.

    For a transaction over the tenant.
    """
    rows = await tx.fetch("SELECT purpose, times FROM allowances WHERE tenant = $1 AND day = $2", day)
    return {row["purpose"]: row["times"] for row in rows}
