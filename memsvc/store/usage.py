"""Usage of a tenant's projects, counted without counters, and limits that are counted.

Each statement reads one table once, by key.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

from memsvc.core.errors import MemsvcError, quota_exceeded
from memsvc.core.frozen import frozen
from memsvc.store.database import Database, Row, Tx
from memsvc.store.queue import QUEUE
from memsvc.store.tables import TABLES, Archive, archived_as


async def consume_allowance(
    tx: Tx, allowance: str, day: date, *, limit: int, times: int = 1
) -> bool:
    """Count `times` more for a day; count nothing and return False beyond `limit`.

    Counts of earlier days are deleted. Takes a transaction of the whole tenant
    (`Database.begin_tenant`).
    """
    if times > limit:
        return False
    return await tx.fetch_bool(
        """
        WITH past AS (DELETE FROM allowances WHERE tenant = $1 AND purpose = $2 AND day < $3)
        INSERT INTO allowances AS a (tenant, purpose, day, times) VALUES ($1, $2, $3, $5)
        ON CONFLICT (tenant, purpose, day) DO UPDATE SET times = a.times + excluded.times
        WHERE a.times + excluded.times <= $4
        RETURNING true
        """,
        allowance,
        day,
        limit,
        times,
    )


async def release_allowance(tx: Tx, allowance: str, day: date, *, times: int = 1) -> None:
    """Count `times` less for a day, when what `consume` counted could not be had."""
    await tx.execute(
        "UPDATE allowances SET times = times - $4 WHERE tenant = $1 AND purpose = $2 AND day = $3"
        " AND times >= $4",
        allowance,
        day,
        times,
    )


QUIET_S = 60
"""How long a bucket is kept after it was empty."""


async def add_rate_usage(tx: Tx, used_s: Mapping[str, float]) -> dict[str, float]:
    """Add what was used of each bucket, in seconds of its rate.

    Return how far each is ahead of now. The result is in seconds, by everybody's use. Rows of
    buckets that are long empty go. Takes a transaction of the whole tenant
    (`Database.begin_tenant`).
    """
    names = sorted(used_s)  # rows are locked in one order by everybody
    rows = await tx.call(
        "add_rates",
        names,
        [used_s[name] for name in names],
        float(QUIET_S),
    )
    return {row["rate"]: row["ahead_s"] for row in rows}


async def forget_idle_rates(tx: Tx) -> None:
    """Delete the rows of buckets that are long empty; in a transaction of the whole tenant."""
    await tx.execute(
        "DELETE FROM rates WHERE tenant = $1 AND empty_at < extract(epoch FROM now())::float8 -"
        " $2::float8",
        float(QUIET_S),
    )


async def add_bytes(
    tx: Tx, delta_bytes: int, *, project_bytes_max: int, tenant_bytes_max: int = 0, now: datetime
) -> None:
    """Count bytes of callers' files against project and tenant, in one round trip.

    Fewer than 0 are returned. QUOTA_EXCEEDED, after which the transaction must not be committed,
    when more bytes would not fit; `tenant_bytes_max` 0 is no limit. Everybody takes the rows in
    this order and holds them until the transaction ends, so call it last.
    """
    (row,) = await tx.call("add_bytes", delta_bytes, now)
    if delta_bytes > 0:
        _check_limit("project", row["project_bytes"], project_bytes_max)
        _check_limit("tenant", row["tenant_bytes"], tenant_bytes_max or None)


async def check_tenant_quota(tx: Tx, delta_bytes: int, *, tenant_bytes_max: int) -> None:
    """Raise QUOTA_EXCEEDED where the tenant may not spend so much more now. Holds no row."""
    if delta_bytes > 0 and tenant_bytes_max:
        stored_bytes = await tx.fetchval(
            "SELECT coalesce(sum(size_bytes), 0)::int8 FROM usage WHERE tenant = $1"
        )
        _check_limit("tenant", stored_bytes + delta_bytes, tenant_bytes_max)


def _check_limit(level: str, stored_bytes: int, bytes_max: int | None) -> None:
    if bytes_max is not None and stored_bytes > bytes_max:
        raise quota_exceeded(
            f"the {level}'s files are limited to {bytes_max} bytes in total; with this write, the"
            f" total would be {stored_bytes} bytes",
            recovery="delete or shorten some files",
        )


@frozen
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
        return quota_exceeded(
            f"the tenant may store at most {self.bytes_max} bytes and already stores"
            f" {stored_bytes} bytes",
            recovery="delete data, purge data with tenant_purge, or ask the operator to raise"
            " limits.stored.tenant_bytes_max",
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
    counted = [
        f"SELECT project, {', '.join(f'{sql} AS {name}' for name, sql in table.usage.items())}"
        f" FROM {of} WHERE {{scope}} GROUP BY project"
        for of, table in TABLES.items()
        if ("held_bytes" in table.usage if quota else table.usage)
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
    return await tx.fetch_pairs(
        "SELECT purpose, times FROM allowances WHERE tenant = $1 AND day = $2", day
    )


_INDEX_TABLES: Final = (
    "entries",
    *(name for name in archived_as(Archive.DERIVED) if TABLES[name].derived_from == "entries"),
)


@frozen
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
        _INDEX_TABLES,
    )
    return IndexSize(rows[0]["size_bytes"], max(0, rows[0]["entries"]))
