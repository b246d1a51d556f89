"""Daily limit of a tenant's model calls, for all styles, counted in one place."""

from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import allowances
from memsvc.store.database import Database

COUNTED_AS: Final = "model"
"""Name under which every model call counts, beside a style's own one."""


class SpentError(Exception):
    """The tenant has used up its model calls of the day."""


class ModelBudget:
    """Counts model calls for each tenant and day; 0 is no limit, and outages are not counted.

    Repetitions by the model's client count once: a rejected request, which no provider bills, and a
    request for another answer where the first could not be read, at most one.
    """

    def __init__(self, database: Database, clock: Clock, calls_a_day: int) -> None:
        self._database = database
        self._clock = clock
        self._calls_a_day = calls_a_day

    async def take(self, scope: Scope, *, calls: int = 1, purpose: str = "", most: int = 0) -> None:
        """Count model calls, and one for a purpose that has its own limit.

        Raises `SpentError`, and counts nothing, when either limit is reached.
        """
        if not (most or self._calls_a_day):
            return
        today = self._clock.now().date()
        async with self._database.begin_tenant(scope) as tx:
            if most and not await allowances.take(tx, purpose, today, most=most):
                raise SpentError
            if self._calls_a_day and not await allowances.take(
                tx, COUNTED_AS, today, most=self._calls_a_day, times=calls
            ):
                raise SpentError

    async def give_back(self, scope: Scope, *, calls: int = 1, purpose: str = "", most: int = 0) -> None:
        """Uncount calls, as the model could not be reached."""
        if not (most or self._calls_a_day):
            return
        today = self._clock.now().date()
        async with self._database.begin_tenant(scope) as tx:
            if most:
                await allowances.give_back(tx, purpose, today)
            if self._calls_a_day:
                await allowances.give_back(tx, COUNTED_AS, today, times=calls)
