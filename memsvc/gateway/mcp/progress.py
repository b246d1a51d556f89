"""Telling a client how far its call has come: into the response to that call, as often as it can be told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from memsvc.core.progress import SILENT, Progress
from memsvc.gateway.mcp.asking import Context

EVERY_S: Final = 0.1
"""A client is told as often as this at the most; what lies between is left out."""
WRITE_S_MAX: Final = 5.0
"""How long a client may take to read one notification before it is told no more."""


class _Told:
    """The latest that a tool has said, until the client was told of it. What would be a step back is left out."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._latest: tuple[float, float | None, str | None] | None = None
        self._reached = -1.0
        self._news = anyio.Event()

    def report(self, done: float, total: float | None = None, doing: str | None = None) -> None:
        if done > self._reached:
            self._reached, self._latest = done, (done, total, doing)
            self._news.set()

    async def tell(self) -> None:
        """Tell the client whatever comes, until that is cancelled or the client does not read it."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            if not await self.tell_latest():
                return
            await anyio.sleep(EVERY_S)

    async def tell_latest(self) -> bool:
        """Whether the client took what it was not told of yet, if there is anything."""
        if self._latest is None:
            return True
        latest, self._latest = self._latest, None
        with anyio.move_on_after(WRITE_S_MAX):
            try:
                await self._context.session.report_progress(*latest)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return False
            return True
        return False


def wants_progress(context: Context) -> bool:
    """Whether the client asked to be told how far its request has come."""
    return context.meta is not None and context.meta.get("progress_token") is not None


@asynccontextmanager
async def telling(context: Context) -> AsyncIterator[Progress]:
    """Whom the tool of this request tells how far it has come: the client, if it asked for that by a progress token.
    It is told before this ends, so that no notification follows the answer."""
    if not wants_progress(context):
        yield SILENT
        return
    told = _Told(context)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(told.tell)
        yield told
        tasks.cancel_scope.cancel()
    await told.tell_latest()
