"""Waiting for what nobody tells of when it happens."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

PATIENCE_S = 30


async def until(
    holds: Callable[[], bool | Awaitable[bool]], patience_s: float = PATIENCE_S
) -> None:
    """Wait until something holds, which is asked again and again."""
    async with asyncio.timeout(patience_s):
        while True:
            held = holds()
            if await held if isawaitable(held) else held:
                return
            await asyncio.sleep(0.01)
