"""Daily limit of model calls of a tenant, and a pause after a model was unavailable."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeVar

from memsvc.core.errors import Code, MemsvcError, unavailable
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.styles.model_budget import ModelBudget, timed_call

BUDGET_CATEGORY: Final = "turns"
PAUSE_S: Final = 30.0
"""Pause after a model was out of reach: each call would only block a worker."""

Answer = TypeVar("Answer")


class ModelCallBudget:
    """Model calls of turn memory, counted per tenant and day. `calls_a_day` 0 is no limit."""

    def __init__(self, budget: ModelBudget, clock: Clock, meter: Meter, calls_a_day: int) -> None:
        self.budget = budget
        self._clock = clock
        self._meter = meter
        self._calls_a_day = calls_a_day
        self._paused_until = clock.now()

    async def call(
        self, scope: Scope, category: str, question: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Return the model's answer; its errors pass through.

        `BudgetExhaustedError` when the daily calls are used up, and UNAVAILABLE during the pause
        after a failure."""
        left_s = (self._paused_until - self._clock.now()).total_seconds()
        if left_s > 0:
            raise unavailable("the model cannot be reached at the moment", retry_after_s=left_s)
        async with self.budget.counted(scope, kind=BUDGET_CATEGORY, limit=self._calls_a_day):
            try:
                with timed_call(self._meter, category):
                    return await question()
            except MemsvcError as error:
                if error.code is Code.UNAVAILABLE:
                    self._paused_until = self._clock.now() + timedelta(seconds=PAUSE_S)
                raise
