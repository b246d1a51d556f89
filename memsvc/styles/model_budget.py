"""Model calls of all styles: the daily limit of a tenant, and their count and time."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, time, timedelta
from time import perf_counter
from typing import Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.store import usage
from memsvc.store.database import Database

START_JITTER_S: Final = 3600
COUNTED_AS: Final = "model"
"""Name under which every model call counts, beside a style's own one."""


@contextmanager
def timed_call(meter: Meter, kind: str) -> Iterator[None]:
    """Count a model call with how it ended and, of one whose answer is usable, its time."""
    started = perf_counter()
    try:
        yield
    except (MemsvcError, TimeoutError, ValueError):
        meter.add("memsvc_model_calls_total", purpose=kind, status="error")
        raise
    meter.add("memsvc_model_calls_total", purpose=kind, status="success")
    meter.add("memsvc_model_duration_ms", (perf_counter() - started) * 1000, purpose=kind)


class BudgetExhaustedError(Exception):
    """The tenant has used up its model calls of the day."""


@frozen
class ModelBudget:
    """Counts model calls for each tenant and day; 0 is no limit, and outages are not counted.

    Repetitions by the model's client count once: a rejected request, which no provider bills, and a
    request for another answer where the first could not be read, at most one.
    """

    database: Database
    clock: Clock
    calls_a_day: int

    def next_day_delay_s(self, seed: int) -> float:
        """Return the seconds until a time in the first hour of the next day, spread by `seed`."""
        now = self.clock.now()
        next_day = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
        return (next_day - now).total_seconds() + seed % START_JITTER_S

    @asynccontextmanager
    async def counted(
        self, scope: Scope, *, calls: int = 1, kind: str = "", limit: int = 0
    ) -> AsyncIterator[None]:
        """Count model calls as `consume` does, unless the model cannot be reached."""
        await self.consume(scope, calls=calls, kind=kind, limit=limit)
        try:
            yield
        except MemsvcError as error:
            if error.code is Code.UNAVAILABLE:
                await self.release(scope, calls=calls, kind=kind, limit=limit)
            raise

    async def consume(
        self, scope: Scope, *, calls: int = 1, kind: str = "", limit: int = 0
    ) -> None:
        """Count model calls, and one for a purpose that has its own limit.

        Raises `BudgetExhaustedError`, and counts nothing, when either limit is reached.
        """
        if not (limit or self.calls_a_day):
            return
        day = self.clock.now().date()
        async with self.database.begin_tenant(scope) as tx:
            if limit and not await usage.consume_allowance(tx, kind, day, limit=limit):
                raise BudgetExhaustedError
            if self.calls_a_day and not await usage.consume_allowance(
                tx, COUNTED_AS, day, limit=self.calls_a_day, times=calls
            ):
                raise BudgetExhaustedError

    async def release(
        self, scope: Scope, *, calls: int = 1, kind: str = "", limit: int = 0
    ) -> None:
        """Uncount calls, as the model could not be reached."""
        if not (limit or self.calls_a_day):
            return
        day = self.clock.now().date()
        async with self.database.begin_tenant(scope) as tx:
            if limit:
                await usage.release_allowance(tx, kind, day)
            if self.calls_a_day:
                await usage.release_allowance(tx, COUNTED_AS, day, times=calls)
