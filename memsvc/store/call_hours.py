"""Call log counted by the hour: outcomes and durations of calls."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.store.database import Tx

COUNTED_MAX: Final = 50_000
"""How many calls are counted, the newest first: a busy tenant has more in a day than a chart
needs."""


@dataclass(frozen=True, slots=True)
class HourOfCalls:
    """Calls of one hour by outcome, with the median and the 95th percentile of their durations.

    It counts all hours together where `hour` is None.
    """

    hour: datetime | None
    success: int
    error: int
    cancelled: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class CallHours:
    """Hours in which there were calls, the earliest first, and all of them together.

    `counted_from` is the time from which all calls were counted, None if the whole range was.
    """

    hours: list[HourOfCalls]
    total: HourOfCalls
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
        SELECT date_trunc('hour', called_at, 'UTC') AS hour,
               count(*) FILTER (WHERE status = 'success') AS success,
               count(*) FILTER (WHERE status = 'error') AS error,
               count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
               coalesce(percentile_cont(0.5) WITHIN
                   GROUP (ORDER BY duration_ms), 0)::float8 AS p50_ms,
               coalesce(percentile_cont(0.95) WITHIN
                   GROUP (ORDER BY duration_ms), 0)::float8 AS p95_ms,
               (SELECT count(*) FROM looked_at) AS looked, (SELECT min(called_at)
                   FROM looked_at) AS looked_from
        FROM looked_at WHERE $3::text[] IS NULL OR project = ANY ($3)
        GROUP BY GROUPING SETS ((date_trunc('hour', called_at, 'UTC')), ()) ORDER BY hour NULLS LAST
        """,
        since,
        None if projects is None else sorted(projects),
        until,
    )
    *hours, total = [HourOfCalls(*(row[name] for name in HourOfCalls.__slots__)) for row in rows]
    truncated = rows[-1]["looked"] == COUNTED_MAX
    return CallHours(hours, total, rows[-1]["looked_from"] if truncated else None)
