"""Streams that outlive their request, ended when their credentials lose their caller."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import structlog

from memsvc.core.background import in_background, wait_for_event
from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Caller

log = structlog.get_logger("memsvc.auth")

CallerLookup = Callable[[Sequence[str]], Awaitable[dict[str, Caller | None]]]
"""Look-up of the current callers of credentials, in one query. UNAVAILABLE when it fails."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenStream:
    """An open stream: its credentials, its caller, and the function that ends it."""

    text: str
    caller: Caller
    end: Callable[[], None]


class OpenStreams:
    """Open streams of this process, checked when a key changes, and periodically."""

    def __init__(self, find_all: CallerLookup, interval_s: float) -> None:
        self._find_all = find_all
        self._interval_s = interval_s
        self._streams: set[OpenStream] = set()
        self._check_now = asyncio.Event()

    def check(self) -> None:
        """Check them now."""
        self._check_now.set()

    @contextmanager
    def register(self, stream: OpenStream) -> Iterator[None]:
        """Register a stream until the block ends."""
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check them in the background."""
        async with in_background(self._check_loop()):
            yield

    async def _check_loop(self) -> None:
        while True:
            await wait_for_event(self._check_now, self._interval_s)
            self._check_now.clear()
            if self._streams:
                await self._end_invalid()

    async def _end_invalid(self) -> None:
        streams = list(self._streams)
        try:
            current = await self._find_all(sorted({stream.text for stream in streams}))
        except MemsvcError as error:
            log.debug("the credentials of open streams could not be checked", code=error.code.value)
            return
        for stream in streams:
            if current[stream.text] != stream.caller:
                self._streams.discard(stream)
                stream.end()
