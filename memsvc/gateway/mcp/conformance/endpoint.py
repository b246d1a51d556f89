"""Endpoint of a server under test by the suite, with sessions on the older wire.

Its scenarios need them for requests from the server to the client, and for resumed streams. The
newer wire is served as usual.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from memsvc.gateway.auth import Authenticator, caller_of
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.http import SURFACE, McpEndpoint, http_sender
from memsvc.gateway.mcp.server import McpServer, McpServerConfig
from memsvc.gateway.mcp.sse import sdk_user

EVENTS_KEPT: Final = 1000
RETRY_MS: Final = 200
SESSIONS_MAX: Final = 100


class ConformanceEndpoint:
    """The ASGI app at /mcp in place of `McpEndpoint`, which gets the newer wire."""

    methods = ("GET", "POST", "DELETE")

    def __init__(
        self, config: McpServerConfig, authenticator: Authenticator, limits: LimitsOptions
    ) -> None:
        self._current = McpEndpoint(config, authenticator, limits)
        server = McpServer(config, http_sender(authenticator, SURFACE), sessions=True)
        self._legacy = StreamableHTTPSessionManager(
            server.sdk,
            event_store=_Events(),
            retry_interval=RETRY_MS,
            max_request_body_size=limits.request_bytes_max,
            max_sessions=SESSIONS_MAX,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = (
            dict(scope["headers"]).get(b"mcp-protocol-version", b"2025-03-26").decode("latin-1")
        )
        if version in HANDSHAKE_PROTOCOL_VERSIONS:
            scope["user"] = sdk_user(caller_of(scope))
            await self._legacy.handle_request(scope, receive, send)
        else:
            await self._current(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve; once in the life of the endpoint."""
        async with self._current.running(), self._legacy.run():
            yield


class _Events(EventStore):
    """Latest events of all streams, in memory."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._kept: deque[tuple[int, StreamId, JSONRPCMessage | None]] = deque(maxlen=EVENTS_KEPT)

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        number = next(self._ids)
        self._kept.append((number, stream_id, message))
        return str(number)

    async def replay_events_after(
        self, last_event_id: EventId, send_callback: EventCallback
    ) -> StreamId | None:
        last = int(last_event_id) if last_event_id.isdigit() else 0
        stream = next((stream for number, stream, _ in self._kept if number == last), None)
        for number, of, message in list(self._kept):
            if stream is not None and of == stream and number > last and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
