"""Usage of a tenant's projects, counted without counters.

Each statement reads one table once, by key.
"""

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import vectors
from memsvc.store.database import Database, Row, Tx
from memsvc.store.queue import QUEUE
from memsvc.store.tables import EMBEDDINGS, TABLES, Archive, archived_as


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


# What single tables do not tell: bytes of what files were before, and of texts that stand in no
# file. {scope} binds the tenant, and the project where one was asked for.
_JOINED: Final = (
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
)
_CALLS: Final = """
    SELECT project, status, count(*) AS calls FROM calls WHERE {scope} AND called_at >= {since}
        GROUP BY project, status
"""


def _scoped(sql: str, tx: Tx) -> str:
    scope = "tenant = $1" if tx.bound == 1 else "tenant = $1 AND project = $2"
    return sql.format(scope=scope, since=f"${tx.bound + 1}")


async def statements(tx: Tx, *, quota: bool = False) -> list[str]:
    """Return the statements of `count_usage` or, with `quota`, those of `quota_bytes`.

    Each of their rows has a project.
    """
    has_vectors = await vectors.available(tx)
    counted = [
        f"SELECT project, {', '.join(f'{sql} AS {name}' for name, sql in table.usage.items())}"
        f" FROM {of} WHERE {{scope}} GROUP BY project"
        for of, table in TABLES.items()
        if ("held_bytes" in table.usage if quota else table.usage)
        and (has_vectors or of != EMBEDDINGS)
    ]
    return [_scoped(sql, tx) for sql in (*counted, *_JOINED)]


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
    found = [row for sql in await statements(tx, quota=True) for row in await tx.fetch(sql)]
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


_INDEX_TABLES: Final = (
    "entries",
    *(name for name in archived_as(Archive.DERIVED) if TABLES[name].derived_from == "entries"),
)


@dataclass(frozen=True, slots=True)
class IndexSize:
    """Bytes on disk, the database's own indexes included, and the approximate number of entries."""

    size_bytes: int = 0
    entries: int = 0


async def read_index_size(database: Database) -> IndexSize:
    """Return the size from the catalogue, where vacuum or analyse count the entries."""
    rows = await database.registry(
        """
        SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS size_bytes,
               coalesce(max(reltuples) FILTER (WHERE relname = 'entries'), 0)::bigint AS entries
        FROM pg_class WHERE relname = ANY ($1) AND relkind = 'r'
            AND relnamespace = 'public'::regnamespace
        """,
        list(_INDEX_TABLES),
    )
    return IndexSize(rows[0]["size_bytes"], max(0, rows[0]["entries"]))
