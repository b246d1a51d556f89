"""The call log: one row a call, written in batches behind the answer, read a page at a time.

Its partitions, a week each, are created ahead of time and dropped past their retention. The
application may do neither: it calls a function that its owner created (`memsvc_roll_calls`, of
revision 0012). Calls without a partition of their own go into a default one, so that a call is
logged even where no week was created.
"""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

from memsvc.core.frozen import frozen, frozen_by_keyword
from memsvc.core.scope import Scope
from memsvc.core.tool_methods import result
from memsvc.store.database import Database, Tx


@frozen_by_keyword
class CallRecord:
    """Call as the log keeps it.

    `arguments` are shapes, never content; `call` makes a repeated insert harmless.
    """

    tenant: bytes
    project: str
    call: UUID
    called_at: datetime
    surface: str
    tool: str
    key_label: str
    status: str
    code: str | None
    duration_ms: float
    arguments: dict[str, Any]
    request_id: str

    @property
    def scope(self) -> Scope:
        """The tenant and the project that the call was logged under."""
        return Scope(self.tenant, self.project)

    @property
    def at(self) -> datetime:
        """Time of the call."""
        return self.called_at


_COLUMNS: Final = tuple(field.name for field in fields(CallRecord))
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
FIRST: Final = UUID(int=0)
SCAN_MAX: Final = 5000
"""How many calls one page reads, matching or not: a page may be short, and the next go on."""


@frozen_by_keyword
class CallFilter:
    """Filter of calls to list; None does not narrow. `since` is inclusive, `until` exclusive."""

    projects: frozenset[str] | None = None
    tool: str | None = None
    status: str | None = None
    code: str | None = None
    surface: str | None = None
    key_label: str | None = None
    session_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def failed(self) -> bool:
        """True if the filter excludes all successful calls."""
        return self.code is not None or self.status not in (None, "success")


@frozen
class CallPosition:
    """Position where a page ended: the last call that it read."""

    called_at: datetime
    call: UUID


@frozen
class CallPage:
    """Calls, newest first, and where to go on, if there may be more."""

    calls: list[CallRecord]
    next: CallPosition | None


async def insert_calls(tx: Tx, records: Sequence[CallRecord]) -> None:
    """Insert records, all of the transaction's scope, but those that are there."""
    if any(record.scope != tx.scope for record in records):
        raise ValueError(
            "all logged calls must belong to the tenant and project of this transaction"
        )
    await tx.execute_each(
        f"""
        INSERT INTO calls ({", ".join(_COLUMNS)})
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING
        """,
        [[getattr(record, name) for name in _COLUMNS[2:]] for record in records],
    )


async def list_calls(
    tx: Tx, filters: CallFilter, *, after: CallPosition | None, limit: int
) -> CallPage:
    """Return a page of the tenant's calls, newest first, in a transaction over all projects.

    It reads at most some thousand rows of an index, whatever the filter; so a page may be short, or
    empty, and not be the last.
    """
    rows = await tx.fetch(
        f"""
        WITH looked_at AS MATERIALIZED (
            SELECT {", ".join(_COLUMNS)} FROM calls
            WHERE tenant = $1 AND called_at >= $2 AND called_at <= $3
                AND (called_at, call) < ($3, $4)
                {"AND status <> 'success'" if filters.failed else ""}
            ORDER BY called_at DESC, call DESC LIMIT {SCAN_MAX}
        ), found AS (
            SELECT * FROM looked_at
            WHERE ($5::text[] IS NULL OR project = ANY ($5))
              AND ($6::text IS NULL OR tool = $6)
              AND ($7::text IS NULL OR status = $7)
              AND ($8::text IS NULL OR code = $8)
              AND ($9::text IS NULL OR surface = $9)
              AND ($10::text IS NULL OR key_label = $10)
              AND ($11::text IS NULL OR arguments ->> 'session_id' = $11)
            ORDER BY called_at DESC, call DESC LIMIT $12
        )
        SELECT found.*, edge.looked, edge.last_at, edge.last_call
        FROM (SELECT count(*) AS looked, min(called_at) AS last_at,
                     (array_agg(call ORDER BY called_at, call))[1] AS last_call
                         FROM looked_at) AS edge
        LEFT JOIN found ON true ORDER BY found.called_at DESC, found.call DESC
        """,
        filters.since or EARLIEST,
        *_before(filters.until, after),
        None if filters.projects is None else sorted(filters.projects),
        filters.tool,
        filters.status,
        filters.code,
        filters.surface,
        filters.key_label,
        filters.session_id,
        limit + 1,
    )
    edge = rows[0]
    calls = [
        CallRecord(**{name: row[name] for name in _COLUMNS})
        for row in rows
        if row["call"] is not None
    ]
    if len(calls) > limit:
        last = calls[limit - 1]
        return CallPage(calls[:limit], CallPosition(last.called_at, last.call))
    more = CallPosition(edge["last_at"], edge["last_call"]) if edge["looked"] == SCAN_MAX else None
    return CallPage(calls, more)


def _before(until: datetime | None, after: CallPosition | None) -> tuple[datetime, UUID]:
    """Return the position before which all calls to be listed are."""
    if after is not None and (until is None or after.called_at < until):
        return after.called_at, after.call
    return until or LATEST, FIRST


COUNTED_MAX: Final = 50_000
"""How many calls are counted, the newest first: a busy tenant has more in a day than a chart
needs."""


@result
class CallsCounted:
    success: Annotated[int, "number of successful calls"]
    error: Annotated[int, "number of failed calls"]
    cancelled: Annotated[int, "number of calls that their callers cancelled"]
    p50_ms: Annotated[float, "median duration; 0 if there were no calls"]
    p95_ms: Annotated[float, "95th percentile of the duration; 0 if there were no calls"]


@result
class HourCounted(CallsCounted):
    hour: Annotated[datetime, "start of the hour that the counts cover"]


@frozen
class CallHours:
    """Hours in which there were calls, the earliest first, and all of them together.

    `counted_from` is the time from which all calls were counted, None if the whole range was.
    """

    hours: list[HourCounted]
    total: CallsCounted
    counted_from: datetime | None


async def count_by_hour(
    tx: Tx, since: datetime, until: datetime, projects: Collection[str] | None
) -> CallHours:
    """Count the tenant's calls between two times, in a transaction over all projects.

    With `projects`, of these alone.
    """
    # with unknown bounds PostgreSQL expects few calls, and might read all of the hours to sort them
    await tx.fetch(
        "SELECT set_config('enable_bitmapscan', 'off', true) WHERE $1::bytea IS NOT NULL"
    )
    rows = await tx.fetch(
        f"""
        WITH looked_at AS MATERIALIZED (
            SELECT called_at, project, status, duration_ms FROM calls
            WHERE tenant = $1 AND called_at >= $2 AND called_at <= $4
            ORDER BY called_at DESC, call DESC LIMIT {COUNTED_MAX}
        )
        SELECT count(*) FILTER (WHERE status = 'success') AS success,
               count(*) FILTER (WHERE status = 'error') AS error,
               count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
               round(coalesce(percentile_cont(0.5) WITHIN
                   GROUP (ORDER BY duration_ms), 0)::numeric, 2)::float8 AS p50_ms,
               round(coalesce(percentile_cont(0.95) WITHIN
                   GROUP (ORDER BY duration_ms), 0)::numeric, 2)::float8 AS p95_ms,
               date_trunc('hour', called_at, 'UTC') AS hour,
               (SELECT count(*) FROM looked_at) AS looked, (SELECT min(called_at)
                   FROM looked_at) AS looked_from
        FROM looked_at WHERE $3::text[] IS NULL OR project = ANY ($3)
        GROUP BY GROUPING SETS ((date_trunc('hour', called_at, 'UTC')), ()) ORDER BY hour NULLS LAST
        """,
        since,
        None if projects is None else sorted(projects),
        until,
    )
    *hours, (*total, _, read_count, read_from) = (row.values() for row in rows)
    return CallHours(
        [HourCounted(*counts) for *counts, _, _ in hours],
        CallsCounted(*total),
        read_from if read_count == COUNTED_MAX else None,
    )


ROLL: Final = "memsvc_roll_calls(integer)"


@frozen
class RolledPartitions:
    """Number of partitions created and dropped.

    `kept_days` is for how many days calls are kept at least; 0: for ever.
    """

    made: int
    dropped: int
    kept_days: int


async def roll(database: Database, keep_days: int) -> RolledPartitions:
    """Create the partitions of this week and the next two, and drop those past their retention.

    A partition is dropped when its last call is more than `keep_days` ago; 0 drops none, and the
    owner may have set more. RESOURCE_BUSY when somebody reads for too long in a transaction;
    nothing is done then.
    """
    [row] = await database.registry(
        "SELECT made, dropped, kept_days FROM memsvc_roll_calls($1)", keep_days
    )
    return RolledPartitions(**row)
