"""How often a tenant may have the model asked a day, and that a model which fails is left alone for a while."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, time, timedelta
from time import perf_counter
from typing import Final, TypeVar

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.styles.model_budget import ModelBudget

COUNTED_AS: Final = "turns"
REST_S: Final = 30.0
"""How long nobody asks a model that was out of reach: each would only keep a worker waiting."""
SPREAD_S: Final = 3600

Answer = TypeVar("Answer")


class Allowance:
    """Asks the model on behalf of turn memory, counted for each tenant and day. `calls_a_day` 0 is no limit."""

    def __init__(self, budget: ModelBudget, clock: Clock, meter: Meter, calls_a_day: int) -> None:
        self._budget = budget
        self._clock = clock
        self._meter = meter
        self._calls_a_day = calls_a_day
        self._rests_until = clock.now()

    async def ask(self, scope: Scope, purpose: str, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """What the model answers; its errors go through. `SpentError` when the day has had its calls, and UNAVAILABLE
        while a model that was out of reach is left alone."""
        await self._take(scope)
        started = perf_counter()
        try:
            answer = await question()
        except MemsvcError as error:
            self._meter.add("memsvc_model_calls_total", purpose=purpose, status="error")
            if error.code is Code.UNAVAILABLE:
                await self._give_back(scope)
            raise
        self._meter.add("memsvc_model_calls_total", purpose=purpose, status="success")
        self._meter.add("memsvc_model_duration_ms", (perf_counter() - started) * 1000, purpose=purpose)
        return answer

    def until_tomorrow_s(self, spread: int) -> float:
        """Seconds until some time in the first hour of the next day, which depends on `spread`."""
        now = self._clock.now()
        tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
        return (tomorrow - now).total_seconds() + spread % SPREAD_S

    async def _take(self, scope: Scope) -> None:
        left_s = (self._rests_until - self._clock.now()).total_seconds()
        if left_s > 0:
            raise MemsvcError(Code.UNAVAILABLE, "the model was out of reach just now", retry_after_s=left_s)
        await self._budget.take(scope, purpose=COUNTED_AS, most=self._calls_a_day)

    async def _give_back(self, scope: Scope) -> None:
        self._rests_until = self._clock.now() + timedelta(seconds=REST_S)
        await self._budget.give_back(scope, purpose=COUNTED_AS, most=self._calls_a_day)
