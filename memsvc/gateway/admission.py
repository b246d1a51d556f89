"""How many calls run at once: slots that tenants share, a short wait for one, and a quick refusal beyond that."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from math import ceil
from time import perf_counter
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Meter
from memsvc.core.scope import Caller
from memsvc.core.tools import Composed, Tool
from memsvc.core.underway import underway
from memsvc.gateway.rates import Kind, Rates

TENANT_SHARE: Final = 3 / 4
"""What one tenant may have of the slots of a kind, and of the places in which calls wait for them: there is always room
for another."""
SLOTS_A_CONNECTION: Final = 2
RETRY_AFTER_S: Final = 1.0
OVERLOADED_STATUS: Final = 503
PACE_SHARE: Final = 0.1
"""What the latest slot that came back counts for in the pace at which they do."""

Lane = Literal["short", "model", "composed", "administration", "upload", "body"]
LANES: Final[tuple[str, ...]] = get_args(Lane)
ENDING_BY_THEMSELVES: Final[frozenset[Lane]] = frozenset({"composed", "administration", "upload"})
"""Calls that have a time of their own, or none."""
REFUSALS: Final = (
    *(f"{whose}_{what}" for whose in ("key", "tenant") for what in ("calls", "requests", "at_once")),
    *(f"{lane}_{why}" for lane in LANES for why in ("waiting", "pace", "wait")),
    "late",
)
"""Why a call or a request is refused: its key or its tenant has had enough, too many wait for a slot, it would wait or
has waited too long for one, or it ran too long."""


class OverloadedError(MemsvcError):
    """More calls than there is room for. Nothing is wrong with this one, nor with what it is about."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            Code.RESOURCE_BUSY, "the server has as much to do as it can just now", retry_after_s=retry_after_s
        )

    @property
    def http_status(self) -> int:
        return OVERLOADED_STATUS


class SlotOptions(BaseModel):
    """How many calls run at once in one process. What is over waits, a call of each tenant in turn, and is then refused
    with RESOURCE_BUSY; one tenant has three quarters of each number at the most."""

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


class Slots:
    """The slots of one kind of call. A free one goes to the tenants that wait in turn, whoever of them asked first."""

    def __init__(self, lane: Lane, most: int, meter: Meter, *, waiting_max: int = 0, wait_ms: int = 1) -> None:
        self._lane = lane
        self._meter = meter
        self._free = most
        self._tenant_most = ceil(most * TENANT_SHARE)
        self._waiting_most = waiting_max
        self._tenant_waiting_most = ceil(waiting_max * TENANT_SHARE)
        self._wait_s = wait_ms / 1000
        self._held: dict[bytes, int] = {}
        self._waiting: OrderedDict[bytes, deque[asyncio.Future[None]]] = OrderedDict()
        self._most = most
        self._between_s = 0.0
        self._given_back_at: float | None = None

    def taken(self) -> int:
        """How many are taken."""
        return self._most - self._free

    def waiting(self) -> int:
        """How many calls wait for one."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def one(self, tenant: bytes) -> AsyncIterator[None]:
        """Hold a slot; RESOURCE_BUSY when none is to be had in time, at once when too many wait already."""
        await self.take(tenant)
        try:
            yield
        finally:
            self.give_back(tenant)

    async def take(self, tenant: bytes) -> None:
        """Take a slot, to be given back in any case; RESOURCE_BUSY as above."""
        if self._may_take(tenant):
            self._take(tenant)
        else:
            await self._wait(tenant)

    def _may_take(self, tenant: bytes) -> bool:
        return self._free > 0 and self._held.get(tenant, 0) < self._tenant_most

    def _take(self, tenant: bytes) -> None:
        self._free -= 1
        self._held[tenant] = self._held.get(tenant, 0) + 1

    def give_back(self, tenant: bytes) -> None:
        """Give a slot back, to whose turn it is."""
        self._note_pace()
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._hand_out()

    def _note_pace(self) -> None:
        """Note how long it took until another slot came back, while calls waited for one."""
        now = perf_counter()
        if self._given_back_at is not None:
            self._between_s += PACE_SHARE * (now - self._given_back_at - self._between_s)
        self._given_back_at = now if self._waiting else None

    def _expected_s(self, queue: Sequence[object]) -> float:
        """How long a call of a tenant that has this queue would wait: those whose turn is before, at the pace at which
        slots come back (Little's law)."""
        ahead = sum(min(len(other), len(queue) + 1) for other in self._waiting.values())
        return ahead * self._between_s

    def _hand_out(self) -> None:
        """Give free slots to whose turn it is among those that may have one more."""
        while self._free > 0:
            tenant = next((one for one in self._waiting if self._held.get(one, 0) < self._tenant_most), None)
            if tenant is None:
                return
            queue = self._waiting.pop(tenant)
            turn = queue.popleft()
            if queue:
                self._waiting[tenant] = queue  # behind the others
            if not turn.done():
                self._take(tenant)
                turn.set_result(None)

    async def _wait(self, tenant: bytes) -> None:
        """Wait for a slot, which is taken then."""
        queue = self._waiting.get(tenant)
        if self.waiting() >= self._waiting_most or len(queue or ()) >= self._tenant_waiting_most:
            raise self._busy("waiting")
        expected_s = self._expected_s(queue or ())
        if expected_s > self._wait_s:
            raise self._busy("pace", expected_s)
        if queue is None:
            queue = self._waiting[tenant] = deque()
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        started = perf_counter()
        try:
            with underway().waiting("admission"):
                async with asyncio.timeout(self._wait_s):
                    await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it came while this was being cancelled
                self.give_back(tenant)
            else:
                self._leave(tenant, turn)
            if isinstance(error, TimeoutError):
                raise self._busy("wait") from None
            raise
        finally:
            self._meter.add("memsvc_slot_wait_ms", (perf_counter() - started) * 1000, lane=self._lane)

    def _leave(self, tenant: bytes, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]

    def _busy(self, why: Literal["waiting", "pace", "wait"], expected_s: float = 0.0) -> MemsvcError:
        self._meter.add("memsvc_refused_total", reason=f"{self._lane}_{why}")
        return OverloadedError(max(RETRY_AFTER_S, round(expected_s, 1)))


class Admission:
    """What stands between a call that was understood and its tool: rates, calls under way, slots and time."""

    def __init__(self, options: SlotOptions, rates: Rates, meter: Meter, *, connections_max: int) -> None:
        self._options = options
        self._rates = rates
        self._meter = meter

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
        """As `Rates.count`."""
        self._rates.count(caller, kind)

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        """As `Rates.under_way`."""
        return self._rates.under_way(caller)

    @asynccontextmanager
    async def running(self, caller: Caller, tool: Tool, *, uploads: bool = False) -> AsyncIterator[None]:
        """Hold what a call of the tool needs while it runs; RESOURCE_BUSY when that is not to be had, or when it runs
        too long, in which case it is cancelled. `uploads`: it reads the body of its request."""
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
        """How many calls run."""
        return sum(slots.taken() for lane, slots in self._slots.items() if lane != "body")

    def waiting_calls(self) -> int:
        """How many calls wait for a slot."""
        return sum(slots.waiting() for slots in self._slots.values())

    def body(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Hold one of the places of requests whose bodies are on their way."""
        return self._slots["body"].one(caller.tenant)


def lane_of(tool: Tool, *, uploads: bool) -> Lane:
    """Which slots a call of the tool takes."""
    if uploads:
        return "upload"
    if isinstance(tool.run, Composed):
        return "composed"
    if tool.administrative:
        return "administration"
    return "model" if tool.waits_for_model else "short"
