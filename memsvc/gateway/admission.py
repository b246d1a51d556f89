"""Concurrency limits of calls: slots shared by tenants, a short wait, and a quick refusal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from time import perf_counter
from typing import Final, get_args

from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Meter
from memsvc.core.rates import Rate
from memsvc.core.scope import Caller
from memsvc.core.tools import Composed, Tool
from memsvc.gateway.rates import Kind, Rates, RefusedError
from memsvc.gateway.slots import RETRY_AFTER_S, Lane, Slots

SLOTS_A_CONNECTION: Final = 2
REFUSALS_AT_ONCE: Final = Rate(per_s=100, burst_s=1)
"""Rate of refusals that a process answers without delay."""
REFUSED_WITHIN_S: Final = 0.7
LANES: Final[tuple[str, ...]] = get_args(Lane)
ENDING_BY_THEMSELVES: Final[frozenset[Lane]] = frozenset({"composed", "administration", "upload"})
"""Lanes whose calls have a time limit of their own, or none."""
REFUSALS: Final = (
    *(f"{whose}_{what}" for whose in ("key", "tenant") for what in ("calls", "requests", "at_once")),
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

    calls_max: int = Field(0, ge=0, description="calls that run at once; 0: twice database.pool_max")
    model_calls_max: int = Field(
        100, ge=1, description="calls that may wait for a model and run at once, which take no slot of the others"
    )
    composed_calls_max: int = Field(50, ge=1, description="calls of mcp_pipe and find_tool; their steps are calls too")
    administration_max: int = Field(
        20, ge=1, description="calls of administration, which may take long, such as archives on their way"
    )
    uploads_max: int = Field(16, ge=1, description="uploads at once; each holds its file in memory")
    bodies_max: int = Field(200, ge=1, description="requests whose bodies are still on their way")
    waiting_max: int = Field(300, ge=0, description="calls that wait for a slot, of each kind")
    wait_ms: int = Field(
        800,
        ge=1,
        description="how long a call waits for a slot; what would wait longer, by what calls take, is refused",
    )
    call_s: float = Field(
        120.0, gt=0, description="how long a call may run, but for administration and pipelines; then it is taken back"
    )


class Admission:
    """Limits between a parsed call and its tool: rates, concurrent calls, slots and time."""

    def __init__(self, options: SlotOptions, rates: Rates, meter: Meter, *, connections_max: int) -> None:
        self._options = options
        self._rates = rates
        self._meter = meter
        self._refusals_until = 0.0

        def slots(lane: Lane, most: int) -> Slots:
            return Slots(lane, most, meter, waiting_max=options.waiting_max, wait_ms=options.wait_ms)

        self._slots: dict[Lane, Slots] = {
            "short": slots("short", options.calls_max or SLOTS_A_CONNECTION * connections_max),
            "model": slots("model", options.model_calls_max),
            "composed": slots("composed", options.composed_calls_max),
            "administration": slots("administration", options.administration_max),
            "upload": slots("upload", options.uploads_max),
            "body": Slots("body", options.bodies_max, meter),
        }

    def count(self, caller: Caller, kind: Kind) -> None:
        """Count a call or request as `Rates.count` does."""
        self._rates.count(caller, kind)

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        """Count a call in progress as `Rates.under_way` does."""
        return self._rates.under_way(caller)

    async def delay_refusal(self, begun: float) -> None:
        """Wait before a refusal is answered, where many are.

        Clients that retry at once would otherwise be refused so often that hardly any CPU time were
        left for running calls. `begun`: when the call came, by `perf_counter`.
        """
        now = perf_counter()
        wait_s = REFUSALS_AT_ONCE.wait_s(self._refusals_until, now)
        self._refusals_until = min(REFUSALS_AT_ONCE.used(self._refusals_until, now), now + 2 * REFUSALS_AT_ONCE.depth_s)
        if wait_s > 0:
            await asyncio.sleep(max(0.0, min(wait_s, begun + REFUSED_WITHIN_S - now)))

    async def refusal(self, caller: Caller, tool: Tool) -> RefusedError | None:
        """Return the error that would refuse this call at once, while refusals are frequent.

        Then further calls are not parsed: parsing a call costs several times as much as refusing
        it.
        """
        begun = perf_counter()
        if REFUSALS_AT_ONCE.wait_s(self._refusals_until, begun) <= 0:
            return None
        refused = self._rates.crowded(caller) or self._slots[lane_of(tool, uploads=False)].refusal(caller.tenant)
        if refused is not None:
            await self.delay_refusal(begun)
        return refused

    @asynccontextmanager
    async def running(self, caller: Caller, tool: Tool, *, uploads: bool = False) -> AsyncIterator[None]:
        """Hold a slot while a call of the tool runs.

        RESOURCE_BUSY when there is none, or when the call runs too long, in which case it is
        cancelled. `uploads`: it reads the body of its request.
        """
        lane = lane_of(tool, uploads=uploads)
        slots = self._slots[lane]
        await slots.take(caller.tenant)
        limit = asyncio.timeout(self._options.call_s)
        try:
            if lane in ENDING_BY_THEMSELVES:
                yield
                return
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            self._meter.add("memsvc_refused_total", reason="late")
            message = f"the call took longer than {self._options.call_s:g} s and was taken back"
            raise MemsvcError(Code.RESOURCE_BUSY, message, retry_after_s=RETRY_AFTER_S) from None
        finally:
            slots.give_back(caller.tenant)

    def running_calls(self) -> int:
        """Return the number of running calls."""
        return sum(slots.taken() for lane, slots in self._slots.items() if lane != "body")

    def waiting_calls(self) -> int:
        """Return the number of calls that wait for a slot."""
        return sum(slots.waiting() for slots in self._slots.values())

    def body(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Hold one of the slots for request bodies in transfer."""
        return self._slots["body"].one(caller.tenant)


def lane_of(tool: Tool, *, uploads: bool) -> Lane:
    """Return the lane whose slots a call of the tool takes."""
    if uploads:
        return "upload"
    if isinstance(tool.run, Composed):
        return "composed"
    if tool.administrative:
        return "administration"
    return "model" if tool.waits_for_model else "short"
