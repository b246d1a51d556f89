"""Limits on calls that run at once: slots shared by tenants, a short wait, a quick refusal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil
from time import perf_counter
from typing import Final, Literal, get_args

from pydantic import Field

from memsvc.core.background import FairSemaphore
from memsvc.core.call_context import current_call
from memsvc.core.errors import Code, resource_busy
from memsvc.core.options import Amount, Count, Options, Positive
from memsvc.core.ports import Meter
from memsvc.core.scope import Caller
from memsvc.core.tools import Tool
from memsvc.gateway.rate_limits import LimitError, Rate, RateLimits

TENANT_SHARE: Final = 3 / 4
"""Share of the slots of a kind, and of its waiting places, that one tenant may have: there is
always capacity for another."""
SHARED_PART: Final = 1 / 5
"""Share of the slots of short calls that tenants who call beside each other fill; then only a
tenant without a slot gets one. More calls at once would make all of them slower."""
RETRY_AFTER_S: Final = 1.0
UNAVAILABLE_STATUS: Final = 503
INTERVAL_WEIGHT: Final = 0.1
"""Weight of the latest returned slot in the pace of returned slots."""
INTERVAL_VALID_S: Final = 2.0
"""Seconds for which that pace predicts anything: after a rush, calls are fast again."""

Lane = Literal["short", "model", "composed", "administration", "upload", "body"]


class CapacityError(LimitError):
    """The process has no capacity left for this call."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            Code.RESOURCE_BUSY,
            "the server is at capacity at the moment",
            retry_after_s=retry_after_s,
        )

    @property
    def http_status(self) -> int:
        return UNAVAILABLE_STATUS


class Slots:
    """Slots for one kind of call. A slot that becomes free goes to the waiting tenants in turn."""

    def __init__(
        self, lane: Lane, capacity: int, meter: Meter, *, waiting_max: int = 0, wait_ms: int = 1
    ) -> None:
        self._lane = lane
        self._meter = meter
        shared_max = ceil(capacity * SHARED_PART) if lane == "short" else capacity
        self._semaphore = FairSemaphore(capacity, ceil(capacity * TENANT_SHARE), shared_max)
        self._waiting_max = waiting_max
        self._tenant_waiting_max = ceil(waiting_max * TENANT_SHARE)
        self._wait_s = wait_ms / 1000
        self._interval_s = 0.0
        self._returned_at: float | None = None
        self._updated_at = 0.0

    def used(self) -> int:
        """Return the number of slots in use."""
        return self._semaphore.taken

    def waiting(self) -> int:
        """Return the number of calls that wait for a slot."""
        return self._semaphore.waiting

    @asynccontextmanager
    async def hold(self, tenant: bytes) -> AsyncIterator[None]:
        """Hold a slot for the block.

        Raises RESOURCE_BUSY if none becomes free in time, and at once if too many calls already
        wait."""
        await self.acquire(tenant)
        try:
            yield
        finally:
            self.release(tenant)

    async def acquire(self, tenant: bytes) -> None:
        """Take a slot, which the caller must release in any case.

        Raises RESOURCE_BUSY as `hold` does."""
        if self._semaphore.try_acquire(tenant):
            # nobody waited since then, so the time says nothing about the pace
            self._returned_at = None
            return
        refused = self.rejection(tenant)
        if refused is not None:
            raise refused
        await self._wait(tenant)

    def rejection(self, tenant: bytes) -> LimitError | None:
        """Return the error with which a call would be refused at once, or None."""
        if self._semaphore.available(tenant):
            return None
        if (
            self.waiting() >= self._waiting_max
            or self._semaphore.queued(tenant) >= self._tenant_waiting_max
        ):
            return self._capacity_error("waiting")
        # calls before this one, times the pace at which slots come back (Little's law)
        if perf_counter() - self._updated_at > INTERVAL_VALID_S:
            self._interval_s = 0.0
        expected_s = self._semaphore.queue_position(tenant) * self._interval_s
        return self._capacity_error("pace", expected_s) if expected_s > self._wait_s else None

    def release(self, tenant: bytes) -> None:
        """Release a slot, which goes to the next tenant in turn.

        While calls wait, the time until the next release is recorded."""
        now = perf_counter()
        if self._returned_at is not None:
            self._interval_s += INTERVAL_WEIGHT * (now - self._returned_at - self._interval_s)
            self._updated_at = now
        self._returned_at = now if self._semaphore.has_waiting else None
        self._semaphore.release(tenant)

    async def _wait(self, tenant: bytes) -> None:
        """Wait for a slot, which is then taken."""
        started = perf_counter()
        try:
            with current_call().timer("admission"):
                async with asyncio.timeout(self._wait_s):
                    await self._semaphore.acquire(tenant)
        except TimeoutError:
            raise self._capacity_error("wait") from None
        finally:
            self._meter.add(
                "memsvc_slot_wait_ms", (perf_counter() - started) * 1000, lane=self._lane
            )

    def _capacity_error(
        self, why: Literal["waiting", "pace", "wait"], expected_s: float = 0.0
    ) -> CapacityError:
        self._meter.add("memsvc_refused_total", reason=f"{self._lane}_{why}")
        return CapacityError(max(RETRY_AFTER_S, round(expected_s, 1)))


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


class SlotOptions(Options):
    """Limits of the calls that one process runs at once.

    Each running call holds a slot. Further calls wait for a free slot, and tenants take turns;
    calls that wait too long are refused with RESOURCE_BUSY. One tenant gets at most three quarters
    of each limit. While several tenants make calls and a fifth of the `calls_max` slots are in use,
    new calls of a tenant that already has a running call must wait."""

    calls_max: Amount = Field(
        0,
        description="maximum number of calls that run at once; 0 means twice database.pool_max",
    )
    model_calls_max: Count = Field(
        100,
        description="maximum number of concurrent calls of tools that use a model; these calls do"
        " not count towards calls_max",
    )
    composed_calls_max: Count = Field(
        50,
        description="maximum number of mcp_pipe, find_tool, search and fetch calls that run at"
        " once; the tool calls that these tools make are counted separately",
    )
    administration_max: Count = Field(
        20,
        description="maximum number of administrative calls that run at once; such calls, for"
        " example archive transfers, may take long",
    )
    uploads_max: Count = Field(
        16,
        description="maximum number of uploads at once; each uploaded file is held in memory",
    )
    bodies_max: Count = Field(
        200,
        description="maximum number of requests whose bodies are being received at once; further"
        " requests are refused",
    )
    waiting_max: Amount = Field(
        300,
        description="maximum number of calls that may wait for a free slot under each limit, such"
        " as calls_max; further calls are refused",
    )
    wait_ms: Count = Field(
        800,
        description="how long a call may wait for a free slot before it is refused; a call that is"
        " expected to wait longer is refused at once",
    )
    call_s: Positive = Field(
        120.0,
        description="time limit of a call, after which it is rolled back; administrative calls,"
        " uploads, mcp_pipe, find_tool, search and fetch are exempt",
    )


class Admission:
    """Limits that a call passes before its tool runs: rates, concurrent calls, slots and time."""

    def __init__(
        self, options: SlotOptions, rates: RateLimits, meter: Meter, *, connections_max: int
    ) -> None:
        self._options = options
        self.rates = rates
        self._meter = meter
        self._reject_until = 0.0

        limits: dict[Lane, int] = {
            "short": options.calls_max or SLOTS_PER_CONNECTION * connections_max,
            "model": options.model_calls_max,
            "composed": options.composed_calls_max,
            "administration": options.administration_max,
            "upload": options.uploads_max,
        }
        waiting = {"waiting_max": options.waiting_max, "wait_ms": options.wait_ms}
        self._slots = {lane: Slots(lane, limit, meter, **waiting) for lane, limit in limits.items()}
        self._slots["body"] = Slots("body", options.bodies_max, meter)

    async def delay_rejection(self, started: float) -> None:
        """Wait before a refusal is sent, if there are many refusals.

        Clients that retry at once would otherwise be refused so often that hardly any CPU time was
        left for running calls. `started` is the time at which the call came, by `perf_counter`."""
        now = perf_counter()
        wait_s = REJECTION_RATE.wait_s(self._reject_until, now)
        self._reject_until = min(
            REJECTION_RATE.used(self._reject_until, now), now + 2 * REJECTION_RATE.depth_s
        )
        if wait_s > 0:
            await asyncio.sleep(max(0.0, min(wait_s, started + REJECT_S_MAX - now)))

    async def rejection(self, caller: Caller, tool: Tool) -> LimitError | None:
        """Return the error that would refuse this call at once while refusals are frequent.

        Further calls are then not parsed, since parsing a call costs several times as much as
        refusing it. A call that finds no slot still counts as a call."""
        started = perf_counter()
        if REJECTION_RATE.wait_s(self._reject_until, started) <= 0:
            return None
        slots = self._slots[lane_of(tool, uploads=False)]
        refused = self.rates.over_limit(caller)
        if refused is None and (refused := slots.rejection(caller.tenant)) is not None:
            try:
                self.rates.count(caller, "calls")
            except LimitError as over_rate:
                refused = over_rate
        if refused is not None:
            await self.delay_rejection(started)
        return refused

    @asynccontextmanager
    async def running(
        self, caller: Caller, tool: Tool, *, uploads: bool = False
    ) -> AsyncIterator[None]:
        """Hold a slot while a call of the tool runs, and count the call as running.

        Raises RATE_LIMITED if the key or its tenant has too many calls, and RESOURCE_BUSY if there
        is no slot or the call runs too long, in which case it is cancelled. `uploads`: the call
        reads the body of its request."""
        lane = lane_of(tool, uploads=uploads)
        slots = self._slots[lane]
        self.rates.begin(caller)
        try:
            await slots.acquire(caller.tenant)
            timeout = asyncio.timeout(None if lane in SELF_LIMITED_LANES else self._options.call_s)
            try:
                async with timeout:
                    yield
            except TimeoutError:
                if not timeout.expired():
                    raise
                self._meter.add("memsvc_refused_total", reason="late")
                message = (
                    f"the call took longer than {self._options.call_s:g} s and was rolled back"
                )
                raise resource_busy(message, retry_after_s=RETRY_AFTER_S) from None
            finally:
                slots.release(caller.tenant)
        finally:
            self.rates.end(caller)

    def running_calls(self) -> int:
        """Return the number of running calls."""
        return sum(slots.used() for lane, slots in self._slots.items() if lane != "body")

    def waiting_calls(self) -> int:
        """Return the number of calls that wait for a slot."""
        return sum(slots.waiting() for slots in self._slots.values())

    @property
    def bodies(self) -> Slots:
        """Slots for request bodies that are being received."""
        return self._slots["body"]


def lane_of(tool: Tool, *, uploads: bool) -> Lane:
    """Return the lane whose slots a call of the tool takes."""
    if uploads:
        return "upload"
    if tool.composed:
        return "composed"
    if tool.is_admin:
        return "administration"
    return "model" if tool.uses_model else "short"
