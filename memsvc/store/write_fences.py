"""Write fences: what is being purged is closed to writers until it is open again.

Every transaction that writes passes `admit_writer` as it begins (`Database.begin`), in the round
trip that it needs anyway: it shares the locks of its project and tenant, takes its own locks, and
is refused when one of them is closed. Closing waits for those who hold it, so that nobody is in the
middle of a write from then on. It outlives a process that is killed; whoever purges the same once
more takes it over, and the previous purge is stopped at its next step.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.database import Tx
from memsvc.store.locks import Lock

WHOLE = 0
"""Unit that stands for all of a project."""


def units_of(tx: Tx, locks: Sequence[Lock]) -> list[int]:
    """Return the units that stand for what is written under these locks; WHOLE without any."""
    return [lock.key(tx.scope) for lock in locks] or [WHOLE]


async def close(tx: Tx, units: Sequence[int], purge: UUID, *, now: datetime) -> bool:
    """Close units of the project for writers, or take them over.

    Return whether one was closed already. The transaction holds what their writers hold or share.
    """
    found = await tx.fetch(
        """
        WITH before AS MATERIALIZED (
            SELECT unit FROM purges WHERE tenant = $1 AND project = $2 AND unit = ANY($3::int8[])
        ), mine AS (
            INSERT INTO purges AS p (tenant, project, unit, purge, begun_at)
            SELECT $1, $2, one.unit, $4, $5 FROM unnest($3::int8[]) AS one (unit)
            ON CONFLICT (tenant, project, unit) DO UPDATE SET purge = EXCLUDED.purge
        )
        SELECT unit FROM before
        """,
        list(units),
        purge,
        now,
    )
    return bool(found)


async def lock_purge(tx: Tx, purge: UUID) -> None:
    """Raise RESOURCE_BUSY if the purge was taken over.

    Otherwise prevent that until the transaction ends.
    """
    of_project = "AND project = $2" if tx.bound > 1 else "AND project = '*'"
    rows = await tx.fetch(
        f"SELECT unit FROM purges WHERE tenant = $1 {of_project} AND purge = ${tx.bound + 1} FOR"
        " SHARE",
        purge,
    )
    if not rows:
        raise MemsvcError(
            Code.RESOURCE_BUSY, "another call has taken this purge over", retry_after_s=2.0
        )


async def release(tx: Tx, purge: UUID) -> None:
    """Admit writers again to what this purge closed in the project."""
    await tx.execute("DELETE FROM purges WHERE tenant = $1 AND project = $2 AND purge = $3", purge)


async def release_all(tx: Tx) -> None:
    """Admit writers again everywhere in the project, or in the tenant."""
    await tx.execute(
        "DELETE FROM purges WHERE tenant = $1" + (" AND project = $2" if tx.bound > 1 else "")
    )
