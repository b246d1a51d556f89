"""Work beside the event loop: background tasks and computations in threads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from memsvc.core.fairness import FairSemaphore
from memsvc.core.ports import Meter
from memsvc.core.underway import underway

T = TypeVar("T")
P = ParamSpec("P")

LOOP_CHARS_MAX: Final = 4000
"""Texts up to this length are processed on the event loop, longer ones in a thread."""
SLICE_CHARS: Final = 16_000
"""Characters after which a computation over many texts yields the thread to others."""
COUNTING_THREADS: Final = 2
LAG_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Threads:
    """Threads that tenants share in turn, one for each of them at a time."""

    permits: FairSemaphore
    limiter: CapacityLimiter

    async def run(self, compute: Callable[[], T]) -> T:
        tenant = underway().tenant
        await self.permits.acquire(tenant)
        try:
            return await to_thread.run_sync(compute, limiter=self.limiter)
        finally:
            self.permits.release(tenant)


_COMPUTING: Final = RunVar[_Threads]("memsvc.computing")
_COUNTING: Final = RunVar[_Threads]("memsvc.counting")


async def computed(chars: int, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a function of texts; long texts (`chars`) are processed in a thread.

    One such thread runs at a time in a process: two that need the interpreter would keep the loop
    waiting twice as long. Tenants take turns, however much one of them has to compute."""
    if chars <= LOOP_CHARS_MAX:
        return compute(*args, **kwargs)
    return await _threads(_COMPUTING, 1).run(partial(compute, *args, **kwargs))


async def computed_each(texts: Sequence[str], compute: Callable[[str], T]) -> list[T]:
    """Return the results of a function for each of these texts, as `computed`.

    Many texts are processed a few at a time, so that other calls get the thread in between."""
    done: list[T] = []
    for part in parted(texts, len, SLICE_CHARS):
        done += await computed(sum(map(len, part)), lambda part: list(map(compute, part)), part)
    return done


async def counted(chars: int, count: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a function that releases the interpreter, as `computed`.

    It has threads of its own, one for each tenant at a time, and the loop waits only for a
    processor."""
    if chars <= LOOP_CHARS_MAX:
        return count(*args, **kwargs)
    return await _threads(_COUNTING, COUNTING_THREADS).run(partial(count, *args, **kwargs))


def parted(items: Iterable[T], size: Callable[[T], int], size_max: int) -> Iterator[list[T]]:
    """Yield batches of items of at most this total size; a larger item is a batch of its own."""
    part: list[T] = []
    room = size_max
    for item in items:
        if part and size(item) > room:
            yield part
            part, room = [], size_max
        part.append(item)
        room -= size(item)
    if part:
        yield part


def _threads(which: RunVar[_Threads], threads: int) -> _Threads:
    try:
        return which.get()
    except LookupError:
        which.set(made := _Threads(FairSemaphore(threads, each_max=1), CapacityLimiter(threads)))
        return made


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine while the block runs; it is cancelled and awaited when the block is left."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def lag_measured(meter: Meter) -> AsyncIterator[None]:
    """Measure while the block runs how late the event loop wakes a sleeping task."""

    async def measure() -> None:
        while True:
            slept = perf_counter()
            await asyncio.sleep(LAG_EVERY_S)
            meter.add("memsvc_loop_lag_ms", max(0.0, perf_counter() - slept - LAG_EVERY_S) * 1000)

    async with in_background(measure()):
        yield


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run `work` concurrently with the block.

    It is awaited when the block ends, and its errors are raised there.

    Its waiting counts only as far as the block did not compute. If the block fails, the work is
    cancelled and awaited, and the block's error is the one that is raised."""
    here, waited_ms, started = underway(), dict(underway().waited_ms), perf_counter()
    task = asyncio.create_task(work)
    try:
        await asyncio.sleep(0)  # lets it start
        yield task
        computed_ms = (perf_counter() - started) * 1000
        await task
    except BaseException:
        task.cancel()
        with suppress(BaseException):  # the error of the block is raised, not that of the work
            await task
        raise
    here.worked(computed_ms, waited_ms)


async def told_or_after(told: asyncio.Event, wait_s: float) -> None:
    """Return when the event is set, or after this many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await told.wait()
