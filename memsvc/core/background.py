"""What a process does beside its calls: begun with a part of it, and ended with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


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


async def told_or_after(told: asyncio.Event, wait_s: float) -> None:
    """Return when the event is set, and after so many seconds if it is not."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await told.wait()
