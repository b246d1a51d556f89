"""Work beside the event loop: tasks, computations in threads, and permits that go round."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from memsvc.core.call_context import current_call
from memsvc.core.frozen import frozen
from memsvc.core.ports import Meter

SHARED_S: Final = 2.0
"""Seconds for which permits are shared with a tenant after it took one."""


class FairSemaphore:
    """A number of permits, of which one tenant has at most `each_max`.

    While several tenants take permits, and `shared_max` are taken, only those that have none get
    another."""

    def __init__(self, limit: int, each_max: int, shared_max: int | None = None) -> None:
        self._limit = limit
        self._free = limit
        self._each_max = each_max
        self._shared_max = limit if shared_max is None else shared_max
        self._latest = b""
        self._latest_at = self._shared_until = -inf
        self._taken: dict[bytes, int] = {}
        self._waiting: OrderedDict[bytes, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def taken(self) -> int:
        """Return how many permits are in use."""
        return self._limit - self._free

    @property
    def waiting(self) -> int:
        """Return how many callers wait for a permit."""
        return sum(map(len, self._waiting.values()))

    @property
    def has_waiting(self) -> bool:
        """Return whether anybody waits for a permit."""
        return bool(self._waiting)

    def queued(self, tenant: bytes) -> int:
        """Return how many callers of a tenant wait for a permit."""
        return len(self._waiting.get(tenant, ()))

    def queue_position(self, tenant: bytes) -> int:
        """Return how many callers would get a permit before one more of a tenant."""
        turn = self.queued(tenant) + 1
        return sum(min(len(queue), turn) for queue in self._waiting.values())

    def available(self, tenant: bytes) -> bool:
        """Return whether a tenant would get a permit at once."""
        own = self._taken.get(tenant, 0)
        return (
            self._free > 0
            and own < self._each_max
            and (own == 0 or self.taken < self._shared_max or perf_counter() > self._shared_until)
        )

    def try_acquire(self, tenant: bytes) -> bool:
        """Take a permit if a tenant gets one at once; return whether it did."""
        if not self.available(tenant):
            return False
        self._grant(tenant)
        return True

    async def acquire(self, tenant: bytes) -> None:
        """Take a permit, waiting if necessary; it must be released in any case."""
        if self.try_acquire(tenant):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # granted during the cancellation
                self.release(tenant)
            else:
                self._remove(tenant, turn)
            raise

    def release(self, tenant: bytes) -> None:
        """Return a permit; the next waiting tenant gets it."""
        self._free += 1
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]
        while self._waiting and self._free > 0:
            following = next((one for one in self._waiting if self.available(one)), None)
            if following is None:
                return
            queue = self._waiting.pop(following)
            turn = queue.popleft()
            if queue:
                self._waiting[following] = queue  # after the others
            if not turn.done():
                self._grant(following)
                turn.set_result(None)

    def _grant(self, tenant: bytes) -> None:
        self._free -= 1
        self._taken[tenant] = self._taken.get(tenant, 0) + 1
        if tenant != self._latest:
            self._latest, self._shared_until = tenant, self._latest_at + SHARED_S
        self._latest_at = perf_counter()

    def _remove(self, tenant: bytes, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]


T = TypeVar("T")
P = ParamSpec("P")

LOOP_CHARS_MAX: Final = 4000
"""Texts up to this length are processed on the event loop, longer ones in a thread."""
SLICE_CHARS: Final = 16_000
"""Characters after which a computation over many texts yields the thread to others."""
ROUNDS: Final = 3
"""Rounds of the event loop for which a computation lets others go first."""
COUNT_THREAD_LIMIT: Final = 2
DELAY_INTERVAL_S: Final = 0.2


@frozen
class _ThreadPool:
    """Threads that tenants share in turn, one for each of them at a time."""

    semaphore: FairSemaphore
    limiter: CapacityLimiter

    async def run(self, function: Callable[[], T]) -> T:
        tenant = current_call().tenant
        await self.semaphore.acquire(tenant)
        try:
            return await to_thread.run_sync(function, limiter=self.limiter)
        finally:
            self.semaphore.release(tenant)


_THREAD_POOL: Final = RunVar[_ThreadPool]("memsvc.computing")
_COUNT_POOL: Final = RunVar[_ThreadPool]("memsvc.counting")


async def run_in_thread(
    chars: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return the result of a function of texts; long texts (`chars`) are processed in a thread.

    One such thread runs at a time in a process: two that need the interpreter would keep the loop
    waiting twice as long. Tenants take turns, however much one of them has to compute."""
    if chars <= LOOP_CHARS_MAX:
        return function(*args, **kwargs)
    return await _get_thread_pool(_THREAD_POOL, 1).run(partial(function, *args, **kwargs))


async def map_in_thread(texts: Sequence[str], function: Callable[[str], T]) -> list[T]:
    """Return the results of a function for each of these texts, as `run_in_thread`.

    Many texts are processed a few at a time, so that other calls get the thread in between."""
    done = []
    for part in in_batches(texts, len, SLICE_CHARS):
        done += await run_in_thread(
            sum(map(len, part)), lambda part: list(map(function, part)), part
        )
    return done


async def others_first(chars: int) -> None:
    """Let others have the event loop, after a computation with this many characters on it.

    A timer or a socket wakes a task in the first round of the loop; the task runs in the second.
    If the computation went on before that, the task would have to wait for its next part, too."""
    if chars > SLICE_CHARS:
        for _ in range(ROUNDS):
            await asyncio.sleep(0)


async def run_in_count_thread(
    chars: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return the result of a function that releases the interpreter, as `run_in_thread`.

    It has threads of its own, one for each tenant at a time, and the loop waits only for a
    processor."""
    if chars <= LOOP_CHARS_MAX:
        return function(*args, **kwargs)
    return await _get_thread_pool(_COUNT_POOL, COUNT_THREAD_LIMIT).run(
        partial(function, *args, **kwargs)
    )


def in_batches(items: Iterable[T], size: Callable[[T], int], size_max: int) -> Iterator[list[T]]:
    """Yield batches of items of at most this total size; a larger item is a batch of its own."""
    batch: list[T] = []
    remaining = size_max
    for item in items:
        if batch and size(item) > remaining:
            yield batch
            batch, remaining = [], size_max
        batch.append(item)
        remaining -= size(item)
    if batch:
        yield batch


def _get_thread_pool(variable: RunVar[_ThreadPool], limit: int) -> _ThreadPool:
    try:
        return variable.get()
    except LookupError:
        variable.set(pool := _ThreadPool(FairSemaphore(limit, each_max=1), CapacityLimiter(limit)))
        return pool


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
async def report_loop_delay(meter: Meter) -> AsyncIterator[None]:
    """Measure while the block runs how late the event loop wakes a sleeping task."""

    async def report() -> None:
        while True:
            started = perf_counter()
            await asyncio.sleep(DELAY_INTERVAL_S)
            meter.add(
                "memsvc_loop_lag_ms", max(0.0, perf_counter() - started - DELAY_INTERVAL_S) * 1000
            )

    async with in_background(report()):
        yield


@asynccontextmanager
async def run_concurrently(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run `work` concurrently with the block.

    It is awaited when the block ends, and its errors are raised there.

    Its waiting counts only as far as the block did not compute. If the block fails, the work is
    cancelled and awaited, and the block's error is the one that is raised."""
    context, times_before, started = current_call(), dict(current_call().wait_ms), perf_counter()
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
    context.add_work(computed_ms, times_before)


async def wait_for_event(event: asyncio.Event, wait_s: float) -> None:
    """Return when the event is set, or after this many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await event.wait()
