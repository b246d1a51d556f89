"""Concurrency limits of calls: slots shared by tenants, a short wait, and a quick refusal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from time import perf_counter
from typing import Final, get_args

from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Meter
from memsvc.core.rate_limit import Rate
from memsvc.core.scope import Caller
from memsvc.core.tools import ComposedFunction, Tool
from memsvc.gateway.rate_limits import Kind, LimitError, RateLimits
from memsvc.gateway.slots import RETRY_AFTER_S, Lane, Slots

SLOTS_PER_CONNECTION: Final = 2
REJECTION_RATE: Final = Rate(per_s=100, burst_s=1)
"""Rate of refusals that a process answers without delay."""
REJECT_S_MAX: Final = 0.7
LANES: Final[tuple[str, ...]] = get_args(Lane)
SELF_LIMITED_LANES: Final[frozenset[Lane]] = frozenset({"composed", "administration", "upload"})
"""Lanes whose calls have a time limit of their own, or none."""
REJECT_REASONS: Final = (
    *(
        f"{owner}_{what}"
        for owner in ("key", "tenant")
        for what in ("calls", "requests", "at_once")
    ),
    *(f"{lane}_{why}" for lane in LANES for why in ("waiting", "pace", "wait")),
    "late",
)
"""Reasons for refusing a call or a request.

Its key or its tenant is at a limit, too many wait for a slot, it would wait or has waited too long
for one, or it ran too long.
"""


class SlotOptions(BaseModel):
    """Calls that run at once in one process.

    Further calls wait, one of each tenant in turn, and are then refused with RESOURCE_BUSY; one
    tenant gets at most three quarters of each number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls_max: int = Field(
        0, ge=0, description="calls that run at once; 0: twice database.pool_max"
    )
    model_calls_max: int = Field(
        100,
        ge=1,
        description="calls that may wait for a model and run at once, which take no slot of the"
        " others",
    )
    composed_calls_max: int = Field(
        50, ge=1, description="calls of mcp_pipe and find_tool; their steps are calls too"
    )
    administration_max: int = Field(
        20,
        ge=1,
        description="calls of administration, which may take long, such as archives on their way",
    )
    uploads_max: int = Field(16, ge=1, description="uploads at once; each holds its file in memory")
    bodies_max: int = Field(200, ge=1, description="requests whose bodies are still on their way")
    waiting_max: int = Field(300, ge=0, description="calls that wait for a slot, of each kind")
    wait_ms: int = Field(
        800,
        ge=1,
        description="how long a call waits for a slot; what would wait longer, by what calls"
        " take, is refused",
    )
    call_s: float = Field(
        120.0,
        gt=0,
        description="how long a call may run, but for administration and pipelines; then it is"
        " taken back",
    )


class Admission:
    """Limits between a parsed call and its tool: rates, concurrent calls, slots and time."""

    def __init__(
        self, options: SlotOptions, rates: RateLimits, meter: Meter, *, connections_max: int
    ) -> None:
        self._options = options
        self._rates = rates
        self._meter = meter
        self._reject_until = 0.0

        def slots(lane: Lane, limit: int) -> Slots:
            return Slots(
                lane, limit, meter, waiting_max=options.waiting_max, wait_ms=options.wait_ms
            )

        self._slots: dict[Lane, Slots] = {
            "short": slots("short", options.calls_max or SLOTS_PER_CONNECTION * connections_max),
            "model": slots("model", options.model_calls_max),
            "composed": slots("composed", options.composed_calls_max),
            "administration": slots("administration", options.administration_max),
            "upload": slots("upload", options.uploads_max),
            "body": Slots("body", options.bodies_max, meter),
        }

    def count(self, caller: Caller, kind: Kind) -> None:
        """Count a call or request as `RateLimits.count` does."""
        self._rates.count(caller, kind)

    def active(self, caller: Caller) -> AbstractContextManager[None]:
        """Count a call in progress as `RateLimits.active` does."""
        return self._rates.active(caller)

    async def delay_rejection(self, started: float) -> None:
        """Wait before a refusal is answered, where many are.

        Clients that retry at once would otherwise be refused so often that hardly any CPU time were
        left for running calls. `started`: when the call came, by `perf_counter`.
        """
        now = perf_counter()
        wait_s = REJECTION_RATE.wait_s(self._reject_until, now)
        self._reject_until = min(
            REJECTION_RATE.used(self._reject_until, now), now + 2 * REJECTION_RATE.depth_s
        )
        if wait_s > 0:
            await asyncio.sleep(max(0.0, min(wait_s, started + REJECT_S_MAX - now)))

    async def rejection(self, caller: Caller, tool: Tool) -> LimitError | None:
        """Return the error that would refuse this call at once, while refusals are frequent.

        Then further calls are not parsed: parsing a call costs several times as much as refusing
        it.
        """
        started = perf_counter()
        if REJECTION_RATE.wait_s(self._reject_until, started) <= 0:
            return None
        refused = self._rates.over_limit(caller) or self._slots[
            lane_of(tool, uploads=False)
        ].rejection(caller.tenant)
        if refused is not None:
            await self.delay_rejection(started)
        return refused

    @asynccontextmanager
    async def running(
        self, caller: Caller, tool: Tool, *, uploads: bool = False
    ) -> AsyncIterator[None]:
        """Hold a slot while a call of the tool runs.

        RESOURCE_BUSY when there is none, or when the call runs too long, in which case it is
        cancelled. `uploads`: it reads the body of its request.
        """
        lane = lane_of(tool, uploads=uploads)
        slots = self._slots[lane]
        await slots.acquire(caller.tenant)
        timeout = asyncio.timeout(self._options.call_s)
        try:
            if lane in SELF_LIMITED_LANES:
                yield
                return
            async with timeout:
                yield
        except TimeoutError:
            if not timeout.expired():
                raise
            self._meter.add("memsvc_refused_total", reason="late")
            message = f"the call took longer than {self._options.call_s:g} s and was taken back"
            raise MemsvcError(Code.RESOURCE_BUSY, message, retry_after_s=RETRY_AFTER_S) from None
        finally:
            slots.release(caller.tenant)

    def running_calls(self) -> int:
        """Return the number of running calls."""
        return sum(slots.used() for lane, slots in self._slots.items() if lane != "body")

    def waiting_calls(self) -> int:
        """Return the number of calls that wait for a slot."""
        return sum(slots.waiting() for slots in self._slots.values())

    def body(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Hold one of the slots for request bodies in transfer."""
        return self._slots["body"].hold(caller.tenant)


def lane_of(tool: Tool, *, uploads: bool) -> Lane:
    """Return the lane whose slots a call of the tool takes."""
    if uploads:
        return "upload"
    if isinstance(tool.run, ComposedFunction):
        return "composed"
    if tool.is_admin:
        return "administration"
    return "model" if tool.uses_model else "short"
