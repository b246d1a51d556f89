"""What a process does beside its calls: begun with a part of it, and ended with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

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
    is left, and its errors are raised there. If the block fails, it is cancelled and has ended."""
    task = asyncio.create_task(work)
    try:
        for _ in range(2):  # it begins in the first, and what it wrote leaves the process before the second
            await asyncio.sleep(0)
        yield task
        await task
    except BaseException:
        task.cancel()
        with suppress(BaseException):  # what ended the block is told, not what became of the work
            await task
        raise


async def told_or_after(told: asyncio.Event, wait_s: float) -> None:
    """Return when the event is set, and after so many seconds if it is not."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await told.wait()
