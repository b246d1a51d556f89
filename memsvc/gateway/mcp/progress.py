"""Progress notifications of a call, sent in its response."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from memsvc.core.tools import SILENT, ProgressCallback
from memsvc.gateway.mcp.sender import Context

INTERVAL_S: Final = 0.1
"""Minimum seconds between notifications; those in between are left out."""
WRITE_S_MAX: Final = 5.0
"""Seconds that a client may take to read one notification before they stop."""


class _LatestProgress:
    """Latest progress of a tool until it is sent. A step back is left out."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._latest: tuple[float, float | None, str | None] | None = None
        self._done = -1.0
        self._changed = anyio.Event()

    def report(self, done: float, total: float | None = None, step: str | None = None) -> None:
        if done > self._done:
            self._done, self._latest = done, (done, total, step)
            self._changed.set()

    async def send_all(self) -> None:
        """Send progress as it comes, until this is cancelled or the client does not read it."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            if not await self.send_latest():
                return
            await anyio.sleep(INTERVAL_S)

    async def send_latest(self) -> bool:
        """Send the latest progress, if any; return whether the client read it."""
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
    """Return whether the client requested progress notifications."""
    return context.meta is not None and context.meta.get("progress_token") is not None


@asynccontextmanager
async def progress_for(context: Context) -> AsyncIterator[ProgressCallback]:
    """Provide the progress of a tool: sent to the client if it gave a progress token.

    The last is sent before this ends, so that no notification follows the response.
    """
    if not wants_progress(context):
        yield SILENT
        return
    progress = _LatestProgress(context)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(progress.send_all)
        yield progress
        tasks.cancel_scope.cancel()
    await progress.send_latest()
