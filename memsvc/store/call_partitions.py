"""Partitions of the call log, a week each: created ahead of time, dropped past their retention.

The application may do neither. It calls a function that its owner created (`memsvc_roll_calls`, of
revision 0012), which does this and nothing else. Calls without a partition of their own go into a
default one, so that a call is logged even where no week was created.
"""

from dataclasses import dataclass
from typing import Final

from memsvc.store.database import Database

ROLL: Final = "memsvc_roll_calls(integer)"


@dataclass(frozen=True, slots=True)
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
    return RolledPartitions(row["made"], row["dropped"], row["kept_days"])
