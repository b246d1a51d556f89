"""What a process does beside its calls: begun with a part of it, and ended with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any, TypeVar

from memsvc.core.underway import underway

T = TypeVar("T")


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do this as long as the block; then it is cancelled wherever it is, and has ended when the block is left."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Let `work` send what it has to send, and wait for its answer while the block computes: it is done when the block
    is left, and its errors are raised there. What it waited counts only as far as the block did not compute. If the
    block fails, the work is cancelled and has ended, and the block's error is the one that is raised."""
    here, waited_ms, started = underway(), dict(underway().waited_ms), perf_counter()
    task = asyncio.create_task(work)
    try:
        await asyncio.sleep(0)  # in which it begins
        yield task
        computed_ms = (perf_counter() - started) * 1000
        await task
    except BaseException:
        task.cancel()
        with suppress(BaseException):  # what ended the block is told, not what became of the work
            await task
        raise
    here.worked(computed_ms, waited_ms)


async def told_or_after(told: asyncio.Event, wait_s: float) -> None:
    """Return when the event is set, and after so many seconds if it is not."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await told.wait()
