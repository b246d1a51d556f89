"""How often a tenant may have a model asked a day, whichever style asks: counted in one place, where it is caused."""

from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import allowances
from memsvc.store.database import Database

COUNTED_AS: Final = "model"
"""What every question to a model counts as, beside what a style may count it as by itself."""


class SpentError(Exception):
    """The tenant's day has had all the questions to a model that it may."""


class ModelBudget:
    """Counts questions for each tenant and day; 0 is no limit. One that the model was out of reach for is given back.

    What the client of the model repeats by itself counts once: a request that was refused, which no provider bills, and
    a request for another answer where the first could not be read, of which there is one at the most."""

    def __init__(self, database: Database, clock: Clock, calls_a_day: int) -> None:
        self._database = database
        self._clock = clock
        self._calls_a_day = calls_a_day

    async def take(self, scope: Scope, *, calls: int = 1, purpose: str = "", most: int = 0) -> None:
        """Count so many questions, and one for a purpose that has a limit of its own. `SpentError`, and nothing
        counted, when the day has had what it may of either."""
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
        """Count that much less: the model was not to be had."""
        if not (most or self._calls_a_day):
            return
        today = self._clock.now().date()
        async with self._database.begin_tenant(scope) as tx:
            if most:
                await allowances.give_back(tx, purpose, today)
            if self._calls_a_day:
                await allowances.give_back(tx, COUNTED_AS, today, times=calls)
