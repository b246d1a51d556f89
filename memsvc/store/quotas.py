"""Quotas of callers' files: bytes of each project and of each tenant, on a row each, exact."""

from datetime import datetime

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.database import Tx


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
