"""Subscriptions to changes: the watches of one process, their limits, and streams of events."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import anyio
import structlog
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from memsvc.core.errors import Code, MemsvcError, invalid, unavailable
from memsvc.core.frozen import frozen
from memsvc.gateway.limits import LimitsOptions
from memsvc.store.changes import ChangePoll, Changes

log = structlog.get_logger("memsvc.subscriptions")

HEARTBEAT: Final = ""
"""In place of a URI: nothing has changed for a while."""
HEARTBEAT_S: Final = 15.0
"""Seconds between comments that keep an idle stream alive for proxies."""
EVENT_STREAM: Final = b"text/event-stream"
COMMENT: Final = b":\n\n"
"""Part of a stream of events that says nothing."""
RETRY_MS: Final = 1000
"""Milliseconds after which a client whose stream broke is to come back."""
EMPTY_EVENT_SINCE: Final = "2025-11-25"
"""First version of the protocol whose clients take an event without a message."""
_EVENT_ID_MAX: Final = 2**62
WRITE_S_MAX: Final = 20.0
"""Seconds that a client may take to read an event before it is considered gone."""


@frozen
class SubscribedResource:
    """The change key of a resource for one caller, and its state.

    It is polled for if its changes are not announced.
    """

    key: str
    poll: ChangePoll
    needs_poll: bool


class Watch:
    """Resources that one client watches, by the URIs that it wrote, and pending changes.

    Each URI is pending once, however often it changes: a slow reader costs no more than its
    subscriptions.
    """

    def __init__(self, changes: Changes, uris_max: int) -> None:
        self._changes = changes
        self._uris_max = uris_max
        self._stop_watch: dict[str, Callable[[], None]] = {}
        self._pending: dict[str, None] = {}
        self._wake = anyio.Event()
        self._closed = False

    def add(self, uri: str, key: str, look: ChangePoll | None = None) -> None:
        """Watch for changes of this key under this URI; INVALID_ARGUMENT beyond the limit."""
        if uri in self._stop_watch or self._closed:
            return
        if len(self._stop_watch) >= self._uris_max:
            raise invalid(f"a client can subscribe to at most {self._uris_max} resources")
        self._stop_watch[uri] = self._changes.watch(key, partial(self._notify, uri), look)

    def add_resource(self, uri: str, resource: SubscribedResource) -> None:
        """Watch for changes of a resource under this URI."""
        self.add(uri, resource.key, resource.poll if resource.needs_poll else None)

    def remove(self, uri: str) -> None:
        """Stop watching this URI."""
        self._pending.pop(uri, None)
        end = self._stop_watch.pop(uri, None)
        if end is not None:
            end()

    async def changed(self) -> str | None:
        """Wait for the next changed resource and return its URI; None once the watch is closed."""
        while not self._pending and not self._closed:
            await self._wake.wait()
            self._wake = anyio.Event()
        if self._closed:
            return None
        uri = next(iter(self._pending))
        del self._pending[uri]
        return uri

    async def next_change(self, deadline: float) -> str | None:
        """Return the next changed resource, or HEARTBEAT; None once the stream is to end."""
        remaining_s = deadline - anyio.current_time()
        if remaining_s <= 0:
            return None
        with anyio.move_on_after(min(HEARTBEAT_S, remaining_s)):
            return await self.changed()
        return HEARTBEAT

    def close(self) -> None:
        """Stop watching everything."""
        self._closed = True
        for uri in list(self._stop_watch):
            self.remove(uri)
        self._wake.set()

    def _notify(self, uri: str) -> None:
        self._pending[uri] = None
        self._wake.set()


class Subscriptions:
    """All watches of this process, whichever transport their clients use."""

    def __init__(self, changes: Changes, limits: LimitsOptions) -> None:
        self._changes = changes
        self._limits = limits
        self._open: dict[Watch, bytes] = {}
        self._closed = False

    def count(self) -> int:
        """Return the number of watches."""
        return len(self._open)

    @contextmanager
    def opened(self, tenant: bytes, *, own: int = 0) -> Iterator[Watch]:
        """Open a watch for a client of this tenant, which may add so many `own` names to its URIs.

        RATE_LIMITED when the tenant or the process has no capacity for another, UNAVAILABLE when
        the process is about to stop.
        """
        if self._closed:
            raise unavailable("this server is stopping", retry_after_s=1.0)
        if (
            len(self._open) >= self._limits.listeners_max
            or list(self._open.values()).count(tenant) >= self._limits.tenant_listeners_max
        ):
            raise MemsvcError(
                Code.RATE_LIMITED,
                "the maximum number of subscribed clients, of this server or of this"
                " tenant, is reached",
                retry_after_s=10.0,
                recovery="close a subscription that is no longer needed",
            )
        watch = Watch(self._changes, self._limits.listener_uris_max + own)
        self._open[watch] = tenant
        try:
            yield watch
        finally:
            watch.close()
            del self._open[watch]

    def close(self) -> None:
        """Close every watch, and open no more."""
        self._closed = True
        for watch in list(self._open):
            watch.close()


def opening_event(event_id: str, version: str) -> bytes:
    """Return what a stream begins with: how soon to come back, and from which event.

    Only newer clients take an event without a message, for its id."""
    number = f"id: {event_id}\ndata:\n" if version >= EMPTY_EVENT_SINCE else ""
    return f"retry: {RETRY_MS}\n{number}\n".encode()


def event_stream(parts: AsyncIterator[bytes]) -> StreamingResponse:
    """Return a response of server-sent events."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts, media_type="text/event-stream", headers=headers)


def last_event(request: Request) -> int | None:
    """Return the event that a client saw last, from its header; INVALID_ARGUMENT for no number."""
    text = request.headers.get("last-event-id", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _EVENT_ID_MAX):
        raise invalid("Last-Event-ID must be the id of an event of this stream")
    return int(text)


@contextmanager
def sent_in_time(send: Send, within_s: float) -> Iterator[Send]:
    """Yield a `send` that ends the block when the client does not read for so long."""
    with anyio.CancelScope() as reading:

        async def send_in_time(message: Message) -> None:
            with anyio.move_on_after(within_s):
                await send(message)
                return
            log.warning("a stream was closed because its client does not read it")
            reading.cancel()

        yield send_in_time
