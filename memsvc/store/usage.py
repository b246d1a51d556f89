"""Usage of a tenant's projects, counted without counters.

Each statement reads one table once, by key.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import vectors
from memsvc.store.database import Row, Tx
from memsvc.store.queue import QUEUE

# Bytes on disk of what is derived, indexes included, per row: measured with English turns of 12 to
# 1,200 words in sessions of 6 to 1,200 turns, where they gave 0.8 to 1.6 of the true size. Reading
# the rows would take as long as reading all that is stored.
ENTRY_BYTES: Final = 700
TERM_BYTES: Final = 25
FACT_BYTES: Final = 1300
TRACE_BYTES: Final = 2000
VECTOR_BYTES: Final = 200
"""Of a vector beside its numbers (two bytes each) and signs (a bit each, in row and index)."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of a tenant (0 is no limit), and for how long tenants older than it may exceed it."""

    bytes_max: int = 0
    grace_days: int = 0

    async def unbounded_until(self, tx: Tx, now: datetime) -> datetime | None:
        """Return until when the tenant may store more; None for one who is held to the quota."""
        rows = await tx.unbound(
            "SELECT bounded_since FROM tenants WHERE tenant = $1", tx.scope.tenant
        )
        if not self.bytes_max or not rows or (since := rows[0]["bounded_since"]) is None:
            return None
        until: datetime = since + timedelta(days=self.grace_days)
        return until if until > now else None

    def exceeded(self, stored_bytes: int) -> MemsvcError:
        """Return the error that tells who holds so much how to come below the quota."""
        return MemsvcError(
            Code.QUOTA_EXCEEDED,
            f"the tenant may store {self.bytes_max} bytes, and holds {stored_bytes}",
            recovery="purge (tenant_purge) or delete something, or have"
            " limits.stored.tenant_bytes_max raised",
        )


# What counts against a tenant's quota, in bytes: files by whose they are, what they were before,
# texts that stand in no file, and what is derived from these.
QUOTA_STATEMENTS: Final[Sequence[str]] = (
    """
    SELECT project, coalesce(sum(size_bytes) FILTER (WHERE owner = 'turns'), 0)::int8 AS turn_bytes,
           coalesce(sum(size_bytes) FILTER (WHERE owner = 'whiteboard'), 0)::int8 AS board_bytes,
           coalesce(sum(size_bytes) FILTER (WHERE owner = 'notebook'), 0)::int8 AS document_bytes,
           sum(size_bytes)::int8 AS held_bytes
    FROM files WHERE {scope} GROUP BY project
    """,
    """
    SELECT f.project, sum(octet_length(b.content))::int8 AS past_bytes,
        sum(octet_length(b.content))::int8 AS held_bytes
    FROM (SELECT project, incarnation, stream FROM files WHERE {scope}) AS f
    CROSS JOIN LATERAL (
        SELECT stream FROM streams
        WHERE tenant = $1 AND project = f.project AND incarnation = f.incarnation
            AND stream <> f.stream OFFSET 0) AS s
    CROSS JOIN LATERAL (
        SELECT content FROM blocks WHERE tenant = $1 AND project = f.project
            AND stream = s.stream OFFSET 0) AS b
    GROUP BY f.project
    """,
    """
    SELECT b.project, coalesce(sum(e.size_bytes) FILTER (WHERE b.name = 'knowledge'),
        0)::int8 AS knowledge_bytes,
           coalesce(sum(e.size_bytes) FILTER (WHERE b.name <> 'knowledge'),
               0)::int8 AS memories_bytes,
           coalesce(sum(e.size_bytes), 0)::int8 AS held_bytes
    FROM (SELECT project, book, name FROM books
          WHERE {scope} AND (name = 'knowledge' OR starts_with(name, 'memories/'))) AS b
    CROSS JOIN LATERAL (
        SELECT octet_length(text) + octet_length(cues) AS size_bytes FROM entries
        WHERE tenant = $1 AND project = b.project AND book = b.book OFFSET 0) AS e
    GROUP BY b.project
    """,
    f"""
    SELECT *, derived_bytes AS held_bytes FROM (
        SELECT project, sum(entries)::int8 AS index_entries,
               (sum(entries::int8) * {ENTRY_BYTES} + sum(length) * {TERM_BYTES})::int8
                   AS derived_bytes
        FROM books WHERE {{scope}} GROUP BY project) AS counted
    """,
    f"""
    SELECT project, count(*) FILTER (WHERE state = 'active') AS facts,
        count(*) * {FACT_BYTES} AS derived_bytes,
           count(*) * {FACT_BYTES} AS held_bytes
    FROM facts WHERE {{scope}} GROUP BY project
    """,
    f"""
    SELECT project, count(*) * {TRACE_BYTES} AS derived_bytes,
        count(*) * {TRACE_BYTES} AS held_bytes
    FROM recalls WHERE {{scope}} GROUP BY project
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
    *QUOTA_STATEMENTS,
    """
    SELECT project, count(*) AS contents FROM streams WHERE {scope} AND first_revision > 0
        GROUP BY project
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
    SELECT project, count(*) AS memories FROM memories WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, sum(inbox + active + archived)::int8 AS blocks FROM activity WHERE {scope}
        GROUP BY project
    """,
)
_VECTORS: Final = f"""
    SELECT *, derived_bytes AS held_bytes FROM (
        SELECT project, count(*) AS vectors, count(*) * ({VECTOR_BYTES} + (
            SELECT length(signs) * 9 / 4 FROM embeddings WHERE {{scope}} LIMIT 1
        )) AS derived_bytes FROM embeddings WHERE {{scope}} GROUP BY project) AS counted
"""
_CALLS: Final = """
    SELECT project, status, count(*) AS calls FROM calls WHERE {scope} AND called_at >= {since}
        GROUP BY project, status
"""


def _scoped(sql: str, tx: Tx) -> str:
    scope = "tenant = $1" if tx.bound == 1 else "tenant = $1 AND project = $2"
    return sql.format(scope=scope, since=f"${tx.bound + 1}")


async def statements(tx: Tx, kinds: Sequence[str] = _COUNTED) -> list[str]:
    """Return the statements of `count_usage` or, of `QUOTA_STATEMENTS`, those of `held_bytes`."""
    return [
        _scoped(sql, tx) for sql in (*kinds, *([_VECTORS] if await vectors.available(tx) else []))
    ]


async def count_usage(tx: Tx) -> dict[str, Counter[str]]:
    """Return the usage of each project: of a transaction's project, or of all of them."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for sql in await statements(tx):
        for row in await tx.fetch(sql):
            fields: dict[str, Any] = dict(row)
            found[fields.pop("project")].update(fields)
    return dict(found)


async def quota_bytes(tx: Tx, *, without: Collection[str] = ()) -> int:
    """Return the bytes that count against the tenant's quota, in a transaction over the tenant.

    What the projects `without` hold is left out.
    """
    found = [row for sql in await statements(tx, QUOTA_STATEMENTS) for row in await tx.fetch(sql)]
    return sum(row["held_bytes"] for row in found if row["project"] not in without)


async def calls_since(tx: Tx, since: datetime) -> list[Row]:
    """Return the number of calls since a time (`calls`), by `project` and `status`."""
    return await tx.fetch(_scoped(_CALLS, tx), since)


async def jobs_queued(tx: Tx) -> list[Row]:
    """Return the number of queued jobs (`jobs`), by `project`."""
    return await tx.unbound(
        f"""
        SELECT headers ->> 'project' AS project, count(*) AS jobs FROM {QUEUE}
        WHERE headers ->> 'tenant' = $1 AND ($2::text IS NULL OR headers ->> 'project' = $2)
            GROUP BY 1
        """,
        tx.scope.tenant.hex(),
        None if tx.bound == 1 else tx.scope.project,
    )


async def allowance_usage(tx: Tx, day: date) -> dict[str, int]:
    """Return how much of the tenant's daily limits was used on a day, by purpose.

    For a transaction over the tenant.
    """
    rows = await tx.fetch(
        "SELECT purpose, times FROM allowances WHERE tenant = $1 AND day = $2", day
    )
    return {row["purpose"]: row["times"] for row in rows}
