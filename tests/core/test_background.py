"""Work whose answer is waited for while something is computed, and computations that the loop does
not wait for."""

import asyncio
import threading
import time

import pytest

from memsvc.core.background import (
    LOOP_CHARS_MAX,
    run_concurrently,
    run_in_count_thread,
    run_in_thread,
)
from memsvc.core.call_context import NO_TRACER, call_scope, current_call
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Asked:
    """A question that is answered when it is told so; notes what became of it."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.told: list[str] = []
        self.answer = asyncio.Event()
        self._fault = fault

    async def run(self) -> str:
        self.told.append("sent")
        try:
            await self.answer.wait()
            if self._fault is not None:
                raise self._fault
            self.told.append("answered")
            return "answer"
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.told.append("taken back")
            raise


async def test_the_work_is_sent_before_the_block_computes_and_done_when_it_is_left() -> None:
    asked = Asked()
    async with run_concurrently(asked.run()) as asking:
        assert asked.told == ["sent"]
        asked.answer.set()
    assert (asking.result(), asked.told) == ("answer", ["sent", "answered"])


async def test_an_error_of_the_work_is_raised_behind_the_block() -> None:
    asked = Asked(OSError("lost"))
    asked.answer.set()

    async def computes() -> None:
        async with run_concurrently(asked.run()):
            await asyncio.sleep(0)
            asked.told.append("computed")

    with pytest.raises(OSError, match="lost"):
        await computes()
    assert asked.told == ["sent", "computed"]


async def test_where_the_block_fails_the_work_is_taken_back_first() -> None:
    asked = Asked()
    with pytest.raises(ValueError, match="mine"):
        async with run_concurrently(asked.run()):
            raise ValueError("mine")
    assert asked.told == ["sent", "taken back"]


@pytest.mark.parametrize("block_s", [0, 60], ids=["waiting for the work", "inside the block"])
async def test_who_is_cancelled_takes_the_work_back_first(block_s: float) -> None:
    asked = Asked()

    async def waits() -> None:
        async with run_concurrently(asked.run()):
            await asyncio.sleep(block_s)

    task = asyncio.create_task(waits())
    await until(lambda: bool(asked.told))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asked.told == ["sent", "taken back"]


async def test_what_is_computed_meanwhile_is_no_wait() -> None:
    async def asks(wait_s: float) -> None:
        with current_call().timer("database"):
            await asyncio.sleep(wait_s)

    with call_scope("r", NO_TRACER) as here:
        async with run_concurrently(asks(0.01)):
            time.sleep(0.1)  # noqa: ASYNC251 - as ranking does
    assert here.wait_ms["database"] < 60  # and not 100
    with call_scope("r", NO_TRACER) as here:
        async with run_concurrently(asks(0.1)):
            time.sleep(0.02)  # noqa: ASYNC251
    assert here.wait_ms["database"] > 60


async def test_long_texts_are_computed_beside_the_loop_one_after_another() -> None:
    under_way: list[int] = []
    entered, go_on = threading.Event(), threading.Event()

    def compute() -> int:
        under_way.append(1)
        entered.set()
        assert go_on.wait(10)
        under_way.pop()
        return len(under_way)

    first, second = (
        asyncio.create_task(run_in_thread(LOOP_CHARS_MAX + 1, compute)) for _ in range(2)
    )
    await until(entered.is_set)
    assert await run_in_thread(LOOP_CHARS_MAX, threading.get_ident) == threading.get_ident()
    go_on.set()
    assert [await first, await second] == [0, 0]


async def test_tenants_have_the_thread_in_turn_however_much_one_of_them_computes() -> None:
    go_on, order = threading.Event(), []

    def compute(whose: bytes) -> None:
        order.append(whose)
        assert go_on.wait(10)

    def computing(whose: bytes) -> asyncio.Task[None]:
        with call_scope("r", NO_TRACER, whose):
            return asyncio.create_task(run_in_thread(LOOP_CHARS_MAX + 1, compute, whose))

    tasks = [computing(b"long") for _ in range(5)]
    await until(lambda: bool(order))
    tasks.append(computing(b"short"))
    await asyncio.sleep(0)  # in which it asks for the thread
    go_on.set()
    await asyncio.gather(*tasks)
    assert order.index(b"short") <= 2


async def test_one_tenant_never_has_all_threads_that_count() -> None:
    go_on, entered = threading.Event(), []

    def count(whose: bytes) -> None:
        entered.append(whose)
        assert whose == b"short" or go_on.wait(10)

    def counting(whose: bytes) -> asyncio.Task[None]:
        with call_scope("r", NO_TRACER, whose):
            return asyncio.create_task(run_in_count_thread(LOOP_CHARS_MAX + 1, count, whose))

    tasks = [counting(b"long") for _ in range(3)]
    await until(lambda: b"long" in entered)
    await counting(b"short")
    assert entered.count(b"long") == 1
    go_on.set()
    await asyncio.gather(*tasks)


async def test_who_is_cancelled_while_it_waits_for_the_thread_leaves_it_to_others() -> None:
    go_on, order = threading.Event(), []

    def compute(name: str) -> None:
        order.append(name)
        assert go_on.wait(10)

    first, second, third = (
        asyncio.create_task(run_in_thread(LOOP_CHARS_MAX + 1, compute, name)) for name in "abc"
    )
    await until(lambda: bool(order))
    second.cancel()
    go_on.set()
    await asyncio.gather(first, third)
    assert order == ["a", "c"]
