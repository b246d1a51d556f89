"""Use of an index: a clock that runs while somebody works with it, and its counters.

One row an index, read and written by whoever holds the index's lock, in the transaction of what it
counts.
"""

from dataclasses import dataclass, field, fields
from datetime import datetime

from memsvc.store.database import Tx


@dataclass(frozen=True, slots=True)
class UsageClock:
    """Use of an index.

    `active_h` is its clock at `seen_at`, `session_from_h` the clock when the session began;
    `revision` grows with every change but mere use; tokens are counted by kind.
    """

    active_h: float
    seen_at: datetime
    session_from_h: float
    inbox: int = 0
    active: int = 0
    archived: int = 0
    revision: int = 0
    consolidated_at: datetime | None = None
    curated_h: float | None = None
    session_tokens: dict[str, int] = field(default_factory=dict)
    lifetime_tokens: dict[str, int] = field(default_factory=dict)


_COLUMNS = [one.name for one in fields(UsageClock)]


async def find(tx: Tx, index_id: int) -> UsageClock | None:
    """Return the use of an index so far, or None."""
    row = await tx.fetchrow(
        f"SELECT {', '.join(_COLUMNS)} FROM activity WHERE tenant = $1 AND project = $2 AND book"
        " = $3",
        index_id,
    )
    return UsageClock(**dict(row)) if row else None


async def save(tx: Tx, index_id: int, clock: UsageClock) -> None:
    """Store the use of an index."""
    numbers = range(4, 4 + len(_COLUMNS))
    await tx.execute(
        f"""
        INSERT INTO activity (tenant, project, book, {", ".join(_COLUMNS)})
        VALUES ($1, $2, $3, {", ".join(f"${number}" for number in numbers)})
        ON CONFLICT (tenant, project, book) DO UPDATE
        SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
        """,
        index_id,
        *(getattr(clock, name) for name in _COLUMNS),
    )
