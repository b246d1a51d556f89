"""Streams that outlive their request, ended when their credentials lose their caller."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import structlog

from memsvc.core.background import in_background, told_or_after
from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Caller

log = structlog.get_logger("memsvc.auth")

Again = Callable[[Sequence[str]], Awaitable[dict[str, Caller | None]]]
"""Look-up of the current callers of credentials, in one query. UNAVAILABLE when it fails."""


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """An open stream: its credentials, its caller, and the function that ends it."""

    text: str
    caller: Caller
    end: Callable[[], None]


class OpenStreams:
    """Open streams of this process, checked when a key changes, and periodically."""

    def __init__(self, again: Again, every_s: float) -> None:
        self._again = again
        self._every_s = every_s
        self._streams: set[Stream] = set()
        self._look = asyncio.Event()

    def look(self) -> None:
        """Check them now."""
        self._look.set()

    @contextmanager
    def held(self, stream: Stream) -> Iterator[None]:
        """Register a stream until the block ends."""
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check them in the background."""
        async with in_background(self._keep_looking()):
            yield

    async def _keep_looking(self) -> None:
        while True:
            await told_or_after(self._look, self._every_s)
            self._look.clear()
            if self._streams:
                await self._end_those_that_do_not_stand()

    async def _end_those_that_do_not_stand(self) -> None:
        streams = list(self._streams)
        try:
            callers = await self._again(sorted({stream.text for stream in streams}))
        except MemsvcError as error:
            log.debug("the credentials of open streams could not be checked", code=error.code.value)
            return
        for stream in streams:
            if callers[stream.text] != stream.caller:
                self._streams.discard(stream)
                stream.end()
