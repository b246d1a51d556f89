"""Daily limit of model calls of a tenant, and a pause after a model was unavailable."""

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
"""Pause after a model was out of reach: each call would only block a worker."""
SPREAD_S: Final = 3600

Answer = TypeVar("Answer")


class Allowance:
    """Model calls of turn memory, counted per tenant and day. `calls_a_day` 0 is no limit."""

    def __init__(self, budget: ModelBudget, clock: Clock, meter: Meter, calls_a_day: int) -> None:
        self._budget = budget
        self._clock = clock
        self._meter = meter
        self._calls_a_day = calls_a_day
        self._rests_until = clock.now()

    async def ask(self, scope: Scope, purpose: str, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the model's answer; its errors pass through.

        `SpentError` when the daily calls are used up, and UNAVAILABLE during the pause after a
        failure."""
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
        """Return the seconds until a time in the first hour of the next day, spread by `spread`."""
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
