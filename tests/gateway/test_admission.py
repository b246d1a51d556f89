"""Calls that find no room wait a little or are refused at once, and no tenant takes the room of
another."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

import pytest

from memsvc.core.background import SHARED_S
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller, Scope
from memsvc.gateway import admission
from memsvc.gateway.admission import Admission, SlotOptions, Slots
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.rate_limits import Rate, RateLimits, RateOptions
from tests.fakes import FakeClock, RecordingMeter
from tests.gateway.catalogue import EchoArguments, EchoResult, tool
from tests.gateway.conftest import OutOfReach, Recorded
from tests.waiting import until

pytestmark = pytest.mark.anyio

LOUD, QUIET, THIRD = b"\x01" * 32, b"\x02" * 32, b"\x03" * 32
SHARED = SlotOptions(calls_max=4, waiting_max=40, wait_ms=60_000)
DONE = EchoResult(project="p", text="", items=[], parts=[])


class Held:
    """Tools whose calls go on until the test lets them end."""

    def __init__(self) -> None:
        self.running: list[bytes] = []
        self.goes_on = asyncio.Event()

    async def run(self, scope: Scope, _: EchoArguments) -> EchoResult:
        self.running.append(scope.tenant)
        try:
            await self.goes_on.wait()
        finally:
            self.running.remove(scope.tenant)
        return DONE


Calling = Callable[..., "asyncio.Task[Any]"]


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def calling(
    held: Held, meter: RecordingMeter, clock: FakeClock
) -> AsyncIterator[Callable[..., Calling]]:
    """Makes a function that begins a call of a tool on behalf of a tenant: `call =
    calling(SlotOptions(...))`."""
    begun: list[asyncio.Task[Any]] = []

    async def at_once(_: Scope, __: EchoArguments) -> EchoResult:
        return DONE

    async def further(calls: Any, _: EchoArguments) -> EchoResult:
        outcome = await calls.call("at_once", {})
        return EchoResult(project="p", text=outcome.text, items=[], parts=[])

    tools = Catalogue(
        [
            tool("held", held.run),
            tool("at_once", at_once),
            tool("thinks", held.run, uses_model=True),
            tool("purges", held.run, is_admin=True),
            tool("composed", further, takes=("calls",), composed=True),
        ]
    )

    def made(options: SlotOptions, rates: RateOptions | None = None) -> Calling:
        counted = RateLimits(OutOfReach(), rates or RateOptions(enabled=False), meter)
        admitted = Admission(options, counted, meter, connections_max=2)
        dispatch = Dispatch(tools, Recorded(meter, clock), meter, clock, admitted)

        def call(tenant: bytes, name: str = "held") -> "asyncio.Task[Any]":
            begun.append(
                asyncio.create_task(
                    dispatch.call(
                        Caller(tenant, "test"), name, {}, surface="test", request_id="test"
                    )
                )
            )
            return begun[-1]

        return call

    yield made
    held.goes_on.set()
    await asyncio.wait_for(asyncio.gather(*begun, return_exceptions=True), 30)


async def code(call: "asyncio.Task[Any]") -> str:
    outcome = await asyncio.wait_for(call, 10)
    return "" if outcome.error is None else str(outcome.body["code"])


async def test_one_tenant_that_floods_leaves_a_slot_for_another(
    calling: Callable[..., Calling], held: Held
) -> None:
    call = calling(SHARED)
    flood = [call(LOUD) for _ in range(30)]
    await until(lambda: len(held.running) == 3)
    assert await code(call(QUIET, "at_once")) == ""
    assert held.running == [LOUD] * 3
    held.goes_on.set()
    assert {await code(one) for one in flood} == {""}


async def test_beside_another_tenants_calls_a_flood_has_a_fifth_of_the_slots(
    meter: RecordingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("memsvc.core.background.perf_counter", lambda: now[0])
    slots = Slots("short", 16, meter, waiting_max=100, wait_ms=60_000)
    async with slots.hold(QUIET):
        pass
    flood = [asyncio.create_task(slots.acquire(LOUD)) for _ in range(14)]
    await until(lambda: slots.used() + slots.waiting() == 14)
    assert slots.used() == 4
    async with slots.hold(QUIET), slots.hold(THIRD):  # neither waits
        assert slots.used() == 6
    slots.release(LOUD)
    await until(lambda: slots.waiting() == 9)
    assert slots.used() == 4
    now[0] += SHARED_S + 0.1  # alone again, it has three quarters
    slots.release(LOUD)
    assert (slots.used(), slots.waiting()) == (12, 0)
    for _ in range(12):
        slots.release(LOUD)
    await asyncio.gather(*flood)


async def test_free_slots_go_to_the_tenants_that_wait_in_turn(meter: RecordingMeter) -> None:
    slots = Slots("short", 1, meter, waiting_max=100, wait_ms=60_000)
    order: list[bytes] = []
    first = AsyncExitStack()
    await first.enter_async_context(slots.hold(LOUD))

    async def one(tenant: bytes) -> None:
        async with slots.hold(tenant):
            order.append(tenant)
            await asyncio.sleep(0)

    waiting = [asyncio.create_task(one(tenant)) for tenant in [LOUD] * 5 + [QUIET] * 2 + [THIRD]]
    await until(lambda: slots.waiting() == 8)
    await first.aclose()
    await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert order == [LOUD, QUIET, THIRD, LOUD, QUIET, LOUD, LOUD, LOUD]
    assert (slots.used(), slots.waiting()) == (0, 0)


async def test_what_would_wait_behind_too_many_is_refused_at_once(
    calling: Callable[..., Calling], held: Held, meter: RecordingMeter
) -> None:
    call = calling(SHARED)
    flood = [call(LOUD) for _ in range(33)]  # three run, and three quarters of forty wait
    await until(lambda: len(held.running) == 3)
    refused = await asyncio.wait_for(call(LOUD), 10)
    assert (refused.body["code"], refused.body["retry_after_s"]) == ("RESOURCE_BUSY", 1.0)
    assert meter.total("memsvc_refused_total", reason="short_waiting") == 1
    assert await code(call(QUIET, "at_once")) == ""
    held.goes_on.set()
    assert {await code(one) for one in flood} == {""}


async def test_a_call_waits_only_so_long_for_a_slot(
    calling: Callable[..., Calling], held: Held, meter: RecordingMeter
) -> None:
    call = calling(SlotOptions(calls_max=1, wait_ms=20))
    going_on = call(LOUD)
    await until(lambda: len(held.running) == 1)
    refused = await asyncio.wait_for(call(QUIET), 10)
    assert (refused.body["code"], refused.body["retryable"]) == ("RESOURCE_BUSY", True)
    assert meter.total("memsvc_refused_total", reason="short_wait") == 1
    assert meter.total("memsvc_slot_wait_ms", lane="short") >= 20
    held.goes_on.set()
    assert await code(going_on) == ""
    assert await code(call(QUIET)) == ""


async def test_what_would_wait_too_long_at_the_pace_of_the_slots_is_refused_at_once(
    meter: RecordingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("memsvc.gateway.admission.perf_counter", lambda: now[0])
    slots = Slots("short", 1, meter, waiting_max=100, wait_ms=4_000)
    await slots.acquire(LOUD)
    waiting = [asyncio.create_task(slots.acquire(LOUD)) for _ in range(2)]
    await until(lambda: slots.waiting() == 2)
    slots.release(LOUD)
    now[0] = 50.0
    slots.release(LOUD)  # so a slot comes back every five seconds, by what is known
    await asyncio.gather(*waiting)
    first = asyncio.create_task(slots.acquire(LOUD))
    await until(lambda: slots.waiting() == 1)
    with pytest.raises(MemsvcError) as refused:
        await slots.acquire(LOUD)
    assert (refused.value.code, refused.value.http_status) == (Code.RESOURCE_BUSY, 503)
    assert refused.value.retry_after_s == 5.0
    assert meter.total("memsvc_refused_total", reason="short_pace") == 1
    slots.release(LOUD)
    await first


async def test_a_burst_of_one_key_is_served_whatever_a_crowd_did_before(
    meter: RecordingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("memsvc.gateway.admission.perf_counter", lambda: now[0])
    slots = Slots("short", 20, meter, waiting_max=300, wait_ms=4_000)

    async def crowd(count: int, each_s: float) -> None:
        calls = [asyncio.create_task(slots.acquire(LOUD)) for _ in range(count)]
        await until(lambda: slots.used() + slots.waiting() == count)
        for _ in calls:
            now[0] += each_s
            slots.release(LOUD)
        await asyncio.gather(*calls)

    await crowd(20, 5.0)
    now[0] += 10.0
    await crowd(40, 0.015)
    assert meter.total("memsvc_refused_total") == 0


async def test_a_quiet_hour_after_somebody_gave_up_waiting_is_no_pace(
    meter: RecordingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("memsvc.gateway.admission.perf_counter", lambda: now[0])
    slots = Slots("short", 1, meter, waiting_max=10, wait_ms=4_000)
    await slots.acquire(LOUD)
    gave_up = asyncio.create_task(slots.acquire(LOUD))
    await until(lambda: slots.waiting() == 1)
    gave_up.cancel()  # it still stands among those that wait
    slots.release(LOUD)
    await asyncio.wait([gave_up])
    now[0] = 3600.0
    await slots.acquire(LOUD)
    waiting = [asyncio.create_task(slots.acquire(LOUD)) for _ in range(2)]
    await until(lambda: slots.waiting() == 2)
    for _ in range(3):
        now[0] += 0.005
        slots.release(LOUD)
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert meter.total("memsvc_refused_total") == 0


async def test_a_call_that_is_not_read_is_refused_by_its_own_slots_alone(
    meter: RecordingMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "REJECTION_RATE", Rate(per_s=0.01, burst_s=1))
    monkeypatch.setattr(admission, "REJECT_S_MAX", 0.01)
    once = RateOptions(key_calls_s=0.1, burst_s=10)
    rates, caller = RateLimits(OutOfReach(), once, meter), Caller(LOUD, "test")
    admitted = Admission(SlotOptions(calls_max=1, waiting_max=0), rates, meter, connections_max=2)
    short, managing = tool("echo", None), tool("manage", None, is_admin=True)
    async with admitted.running(caller, short):
        for _ in range(
            2
        ):  # from the first on, so many are refused that further ones are not looked into
            await admitted.delay_rejection(perf_counter())
        refused = await admitted.rejection(caller, short)
        assert refused is not None
        assert refused.code is Code.RESOURCE_BUSY
        assert await admitted.rejection(caller, managing) is None
        counted = await admitted.rejection(caller, short)
        assert counted is not None
        assert counted.code is Code.RATE_LIMITED


async def test_when_many_calls_are_refused_further_ones_are_answered_a_little_later(
    calling: Callable[..., Calling], held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "REJECTION_RATE", Rate(per_s=0.01, burst_s=1))
    monkeypatch.setattr(admission, "REJECT_S_MAX", 60.0)
    call = calling(SlotOptions(calls_max=2), RateOptions(key_calls_at_once=1))
    call(LOUD)
    await until(lambda: len(held.running) == 1)
    assert await code(call(LOUD, "at_once")) == "RATE_LIMITED"
    started = perf_counter()
    monkeypatch.setattr(admission, "REJECT_S_MAX", 0.02)
    assert await code(call(LOUD, "at_once")) == "RATE_LIMITED"
    assert perf_counter() - started >= 0.02
    assert await code(call(QUIET, "at_once")) == ""


async def test_whoever_stops_waiting_takes_no_slot_along(meter: RecordingMeter) -> None:
    slots = Slots("short", 1, meter, waiting_max=10, wait_ms=60_000)
    first = AsyncExitStack()
    await first.enter_async_context(slots.hold(LOUD))
    leaves = asyncio.create_task(_hold(slots, QUIET))
    granted = asyncio.create_task(_hold(slots, THIRD))
    await until(lambda: slots.waiting() == 2)
    leaves.cancel()
    await until(lambda: slots.waiting() == 1)
    await first.aclose()  # it is the third's now, which has not run since
    granted.cancel()
    await asyncio.wait([leaves, granted])
    assert (slots.used(), slots.waiting()) == (0, 0)
    await asyncio.wait_for(_hold(slots, LOUD), 10)


async def _hold(slots: Slots, tenant: bytes) -> None:
    async with slots.hold(tenant):
        await asyncio.sleep(0)


@pytest.mark.parametrize("long", ["thinks", "purges"])
async def test_calls_that_may_take_long_take_no_slot_of_short_ones(
    calling: Callable[..., Calling], held: Held, long: str
) -> None:
    call = calling(SlotOptions(calls_max=1))
    slow = [call(LOUD, long) for _ in range(12)]
    await until(lambda: len(held.running) == 12)
    assert await code(call(LOUD, "at_once")) == ""
    held.goes_on.set()
    assert {await code(one) for one in slow} == {""}


async def test_a_call_that_makes_calls_does_not_wait_for_itself(
    calling: Callable[..., Calling],
) -> None:
    call = calling(SlotOptions(calls_max=1, composed_calls_max=4))
    assert {await code(one) for one in [call(LOUD, "composed") for _ in range(3)]} == {""}


async def test_a_call_that_takes_too_long_is_taken_back(
    calling: Callable[..., Calling], held: Held, meter: RecordingMeter
) -> None:
    call = calling(SlotOptions(calls_max=1, call_s=0.02))
    refused = await asyncio.wait_for(call(LOUD), 10)
    assert (refused.body["code"], refused.body["retry_after_s"]) == ("RESOURCE_BUSY", 1.0)
    assert held.running == []
    assert meter.total("memsvc_refused_total", reason="late") == 1
    assert await code(call(LOUD, "at_once")) == ""


async def test_a_tool_that_ran_into_a_time_limit_of_its_own_is_a_fault_of_ours(
    meter: RecordingMeter,
) -> None:
    rates = RateLimits(OutOfReach(), RateOptions(), meter)
    admitted = Admission(SlotOptions(), rates, meter, connections_max=2)
    with pytest.raises(TimeoutError):
        async with admitted.running(Caller(LOUD, "test"), tool("echo", None)):
            raise TimeoutError
    assert meter.total("memsvc_refused_total") == 0


async def test_calls_under_way_of_a_key_are_bounded(
    calling: Callable[..., Calling], held: Held
) -> None:
    call = calling(SlotOptions(calls_max=8), RateOptions(key_calls_at_once=2))
    going_on = [call(LOUD), call(LOUD)]
    await until(lambda: len(held.running) == 2)
    assert await code(call(LOUD, "at_once")) == "RATE_LIMITED"
    assert await code(call(QUIET, "at_once")) == ""
    held.goes_on.set()
    assert {await code(one) for one in going_on} == {""}
    assert await code(call(LOUD, "at_once")) == ""


async def test_places_for_bodies_are_not_waited_for(meter: RecordingMeter) -> None:
    rates = RateLimits(OutOfReach(), RateOptions(), meter)
    admitted = Admission(SlotOptions(bodies_max=2), rates, meter, connections_max=2)
    async with admitted.bodies.hold(LOUD), admitted.bodies.hold(QUIET):
        with pytest.raises(MemsvcError) as refused:
            await admitted.bodies.acquire(THIRD)
    assert refused.value.code is Code.RESOURCE_BUSY
