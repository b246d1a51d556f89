"""Daily limit of a tenant's model calls, for all styles, counted in one place."""

from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import quotas
from memsvc.store.database import Database

COUNTED_AS: Final = "model"
"""Name under which every model call counts, beside a style's own one."""


class BudgetExhaustedError(Exception):
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

    async def consume(
        self, scope: Scope, *, calls: int = 1, kind: str = "", limit: int = 0
    ) -> None:
        """Count model calls, and one for a purpose that has its own limit.

        Raises `BudgetExhaustedError`, and counts nothing, when either limit is reached.
        """
        if not (limit or self._calls_a_day):
            return
        day = self._clock.now().date()
        async with self._database.begin_tenant(scope) as tx:
            if limit and not await quotas.consume_allowance(tx, kind, day, limit=limit):
                raise BudgetExhaustedError
            if self._calls_a_day and not await quotas.consume_allowance(
                tx, COUNTED_AS, day, limit=self._calls_a_day, times=calls
            ):
                raise BudgetExhaustedError

    async def release(
        self, scope: Scope, *, calls: int = 1, kind: str = "", limit: int = 0
    ) -> None:
        """Uncount calls, as the model could not be reached."""
        if not (limit or self._calls_a_day):
            return
        day = self._clock.now().date()
        async with self._database.begin_tenant(scope) as tx:
            if limit:
                await quotas.release_allowance(tx, kind, day)
            if self._calls_a_day:
                await quotas.release_allowance(tx, COUNTED_AS, day, times=calls)
