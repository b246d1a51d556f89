"""The parts of the call log, a week each: those to come are made, those past their time are dropped.

The application may not do either. It asks a function that is its owner's (`memsvc_roll_calls`, of revision 0012),
which does this and nothing else. What no part is for goes into a part for the rest, so that a call is logged even where
nobody has asked for weeks.
"""

from dataclasses import dataclass
from typing import Final

from memsvc.store.database import Database

ROLL: Final = "memsvc_roll_calls(integer)"


@dataclass(frozen=True, slots=True)
class Rolled:
    """How many parts were made and dropped, and for how many days calls are kept at the least; 0: for ever."""

    made: int
    dropped: int
    kept_days: int


async def roll(database: Database, keep_days: int) -> Rolled:
    """Make the parts of this week and the next two, and drop those whose last call is more than `keep_days` ago; 0
    drops none, and the owner may have set more than was asked for. RESOURCE_BUSY where somebody reads for too long in a
    transaction; nothing is done then."""
    [row] = await database.registry("SELECT made, dropped, kept_days FROM memsvc_roll_calls($1)", keep_days)
    return Rolled(row["made"], row["dropped"], row["kept_days"])
