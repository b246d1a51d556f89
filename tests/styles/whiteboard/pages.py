"""What tests say to whiteboards, and what they look up of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from migrations.schema import metadata
from tests.door import Door

WHO = {"user_id": "alice", "conversation_id": "123"}


def entry(content: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


async def note(door: Door, *said: str, **where: Any) -> None:
    """Send what a user said, each as an entry, in one call."""
    answer = await door("context_update", **WHO | where, entries=[entry(text) for text in said])
    assert answer == {"result": True}


async def read(door: Door, **where: Any) -> str:
    """What the board says."""
    text: str = (await door("whiteboard_get", **WHO | where))["text"]
    return text


async def everything(admin: asyncpg.Connection) -> str:
    """Every row of every table as text, with what blocks hold."""
    tables = [
        *metadata.tables,
        *(
            row[0]
            for row in await admin.fetch(
                "SELECT tablename FROM pg_tables WHERE tablename LIKE '%queuer%'"
            )
        ),
    ]
    rows = [
        row[0] for name in tables for row in await admin.fetch(f"SELECT t::text FROM {name} AS t")
    ]
    blocks = [
        bytes(row[0]).decode("utf-8", "replace")
        for row in await admin.fetch("SELECT content FROM blocks")
    ]
    return "\n".join([*rows, *blocks])


class Gate:
    """Lets a model wait: `begun` once it was asked, and it goes on when `opened`."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        await self.opened.wait()


def through(*gates: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[None]]:
    """Lets the first calls of a model wait at these gates, one after the other, and all others
    pass."""
    left = iter(gates)

    async def wait() -> None:
        gate = next(left, None)
        if gate is not None:
            await gate()

    return wait
