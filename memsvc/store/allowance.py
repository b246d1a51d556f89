"""Daily limits of a tenant, counted where they are used: one row for each purpose and day."""

from datetime import date

from memsvc.store.database import Tx


async def consume(tx: Tx, allowance: str, day: date, *, limit: int, times: int = 1) -> bool:
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


async def release(tx: Tx, allowance: str, day: date, *, times: int = 1) -> None:
    """Count `times` less for a day, when what `consume` counted could not be had."""
    await tx.execute(
        "UPDATE allowances SET times = times - $4 WHERE tenant = $1 AND purpose = $2 AND day = $3"
        " AND times >= $4",
        allowance,
        day,
        times,
    )
