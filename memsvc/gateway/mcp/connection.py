"""A client connection over a pair of streams, drained before it is closed."""

from time import monotonic
from typing import Any, Self, cast

import anyio
import structlog
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

log = structlog.get_logger("memsvc.mcp")

STREAM_METHODS = frozenset({"subscriptions/listen"})
"""Requests that are answered only when the client ends them: draining does not wait for these."""
CANCELLED = "notifications/cancelled"
INITIALIZED = "notifications/initialized"

Incoming = SessionMessage | Exception


class Connection:
    """Layer between a transport's streams and the SDK, which sees it as both of its streams.

    `end` stops reading; serving ends when every earlier request is answered, or `grace_s` later. It
    also ends when the client goes, and after `idle_s` without any message. A client that does not
    read a message for `write_s` is `write_failed`, and is sent nothing more. None means no limit.

    A client whose transport reconnected, as an EventSource does by itself, continues without
    `initialize`: it is served all the same, since its former connection had no state that it needs.
    """

    def __init__(
        self,
        *,
        grace_s: float | None = None,
        idle_s: float | None = None,
        write_s: float | None = None,
    ) -> None:
        self._grace_s = grace_s
        self._idle_s = idle_s
        self._write_s = write_s
        self.write_failed = False
        self._pending: set[str] = set()
        self._ending = False
        self._all_complete = anyio.Event()
        self._opened = False
        self._opening: SessionMessage | None = None
        self._waiting: anyio.CancelScope | None = None
        self._active_at = monotonic()

    @property
    def pending(self) -> int:
        """Number of requests without an answer."""
        return len(self._pending)

    def end(self) -> None:
        """Stop reading from the client."""
        self._ending = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def serve(self, server: Server[Any], inbound: Any, outbound: Any) -> None:
        """Serve the client of these streams until the end, in the protocol with which it begins."""
        options = server.create_initialization_options()
        await server.run(_Inbound(self, inbound), _Outbound(self, outbound), options)

    async def receive(self, inbound: Any) -> Incoming:
        """Return the client's next message; raise anyio.EndOfStream at the end."""
        if self._opening is not None:
            opening, self._opening = self._opening, None
            return opening
        while not self._ending:
            with self._idle_scope() as self._waiting:
                try:
                    item = cast(Incoming, await inbound.receive())
                except (anyio.EndOfStream, anyio.ClosedResourceError):
                    break
                self._active_at = monotonic()
                self._note(item)
                return self._with_opening(item)
            if self._is_idle():
                break
        self._ending = True
        if self._pending:
            with anyio.move_on_after(self._grace_s):
                await self._all_complete.wait()
        raise anyio.EndOfStream

    async def send(self, outbound: Any, message: SessionMessage) -> None:
        """Send a message to the client. Raises anyio.BrokenResourceError if it does not read."""
        try:
            if self.write_failed:
                raise anyio.BrokenResourceError
            with anyio.move_on_after(self._write_s):
                await outbound.send(message)
                return
            log.warning("a client that does not read its messages was disconnected")
            self.write_failed = True
            self.end()
            raise anyio.BrokenResourceError
        finally:
            self._active_at = monotonic()
            if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                self._complete(message.message.id)

    def _with_opening(self, item: Incoming) -> Incoming:
        """Return the item, or first an opening for the SDK if the client sent no `initialize`.

        Then the item comes next.
        """
        if (
            self._opened
            or not isinstance(item, SessionMessage)
            or not isinstance(item.message, JSONRPCRequest)
        ):
            return item
        self._opened = True
        if item.message.method == "initialize":
            return item
        self._opening = item
        return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=INITIALIZED), item.metadata)

    def _idle_scope(self) -> anyio.CancelScope:
        if self._idle_s is None:
            return anyio.CancelScope()
        return anyio.CancelScope(
            deadline=anyio.current_time() + max(0.0, self._active_at + self._idle_s - monotonic())
        )

    def _is_idle(self) -> bool:
        if self._pending:
            self._active_at = monotonic()
        return self._idle_s is not None and monotonic() >= self._active_at + self._idle_s

    def _note(self, item: Incoming) -> None:
        if not isinstance(item, SessionMessage):
            return
        match item.message:
            case JSONRPCRequest(id=request_id, method=method) if method not in STREAM_METHODS:
                self._pending.add(str(request_id))
            case JSONRPCNotification(method=method, params=params) if method == CANCELLED:
                self._complete((params or {}).get("requestId"))

    def _complete(self, request_id: Any) -> None:
        self._pending.discard(str(request_id))
        if self._ending and not self._pending:
            self._all_complete.set()


class _Stream:
    """One direction of a connection, closed when its block ends."""

    def __init__(self, connection: Connection, stream: Any) -> None:
        self._connection = connection
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Inbound(_Stream):
    """Stream of the client's messages for the SDK."""

    @property
    def last_context(self) -> Any:
        """Context variables of the sender of the last message, where the transport knows them."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Incoming:
        return await self._connection.receive(self._stream)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Outbound(_Stream):
    """Stream of messages to the client for the SDK."""

    async def send(self, message: SessionMessage, /) -> None:
        await self._connection.send(self._stream, message)
