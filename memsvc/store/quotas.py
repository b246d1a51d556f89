"""Counted limits of a tenant: bytes of files, calls of models a day, and shared rates of calls.

Bytes of each project and of each tenant are exact, on a row each. Allowances have a row for each
purpose and day. Rates, which the replicas share, have a row for each busy bucket, by the database's
clock.
"""

from collections.abc import Mapping
from datetime import date, datetime

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.database import Tx


async def consume_allowance(
    tx: Tx, allowance: str, day: date, *, limit: int, times: int = 1
) -> bool:
    """Count `times` more for a day; count nothing and return False beyond `limit`.

    Counts of earlier days are deleted. Takes a transaction of the whole tenant
    (`Database.begin_tenant`).
    """
    if times > limit:
        return False
    reserved = await tx.fetchval(
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
    return bool(reserved)


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
    rows = await tx.fetch(
        """
        WITH quiet AS (
            DELETE FROM rates
            WHERE tenant = $1 AND bucket <> ALL ($2::text[])
              AND empty_at < extract(epoch FROM now())::float8 - $4::float8
        ), noted AS (
            INSERT INTO rates AS r (tenant, bucket, empty_at, used_s)
            SELECT $1, told.bucket, extract(epoch FROM now())::float8 + told.used_s, told.used_s
            FROM unnest($2::text[], $3::float8[]) WITH ORDINALITY AS told (bucket, used_s, number)
            ORDER BY told.number
            ON CONFLICT (tenant, bucket) DO UPDATE
            SET empty_at = greatest(r.empty_at + excluded.used_s, excluded.empty_at),
                used_s = excluded.used_s
            RETURNING bucket, empty_at
        )
        SELECT bucket, empty_at - extract(epoch FROM now())::float8 AS ahead_s FROM noted
        """,
        names,
        [used_s[name] for name in names],
        float(QUIET_S),
    )
    return {row["bucket"]: row["ahead_s"] for row in rows}


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
    row = await tx.fetchrow(
        """
        WITH here AS (
            INSERT INTO projects AS p (tenant, project, size_bytes, created_at)
            VALUES ($1, $2, greatest($3::int8, 0), $4)
            ON CONFLICT (tenant, project) DO UPDATE
                SET size_bytes = greatest(p.size_bytes + $3::int8, 0)
            RETURNING size_bytes
        ), whole AS (
            INSERT INTO usage AS u (tenant, size_bytes) SELECT $1, greatest($3::int8, 0) FROM here
            ON CONFLICT (tenant) DO UPDATE SET size_bytes = greatest(u.size_bytes + $3::int8, 0)
            RETURNING size_bytes
        )
        SELECT here.size_bytes AS project_bytes, whole.size_bytes AS tenant_bytes FROM here CROSS
            JOIN whole
        """,
        delta_bytes,
        now,
    )
    assert row is not None
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
        raise MemsvcError(
            Code.QUOTA_EXCEEDED,
            f"the {level}'s files may hold {bytes_max} bytes, and this write would make it"
            f" {stored_bytes}",
            recovery="delete or shorten some files",
        )
