"""Rate limit buckets that the replicas share.

A row for each busy bucket, by the database's clock.
"""

from collections.abc import Mapping

from memsvc.store.database import Tx

QUIET_S = 60
"""How long a bucket is kept after it was empty."""


async def add_usage(tx: Tx, used_s: Mapping[str, float]) -> dict[str, float]:
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


async def forget(tx: Tx) -> None:
    """Delete the rows of buckets that are long empty; in a transaction of the whole tenant."""
    await tx.execute(
        "DELETE FROM rates WHERE tenant = $1 AND empty_at < extract(epoch FROM now())::float8 -"
        " $2::float8",
        float(QUIET_S),
    )
