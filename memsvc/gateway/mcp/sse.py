"""MCP over server-sent events, deprecated by the protocol in 2025: kept for older clients."""

import hashlib
from dataclasses import replace
from typing import Final

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller
from memsvc.core.toolsets import Toolset
from memsvc.gateway.auth import Authenticator, caller_of
from memsvc.gateway.mcp.connection import Connection
from memsvc.gateway.mcp.http import http_sender, requested_toolsets
from memsvc.gateway.mcp.sender import Context, RequestSender
from memsvc.gateway.mcp.server import McpServer, McpServerConfig
from memsvc.gateway.rest import error_response
from memsvc.gateway.sse_options import SseOptions

SURFACE = "sse"
STREAM_PATHS = ("/sse", "/sse/")
MESSAGE_PATHS = ("/messages/", "/messages")
DEFAULT_TOOLSETS: Final[frozenset[Toolset]] = frozenset({"whiteboard"})
RETRY_S = 5.0
WRITE_S_MAX = 30.0
"""Seconds that a client may take to read one message before its stream is closed."""


class SseEndpoint:
    """The ASGI app at both paths.

    A client opens a stream by GET, learns there where to POST its messages, and gets the answers on
    the stream. Both requests come with their callers, which must be the same.
    """

    def __init__(
        self, config: McpServerConfig, authenticator: Authenticator, options: SseOptions
    ) -> None:
        self._authenticator = authenticator
        self._config = replace(config, toolsets=DEFAULT_TOOLSETS)
        self._sender_of = http_sender(authenticator, SURFACE)
        self._server = McpServer(self._config, self._sender_of, sessions=True)
        self._options = options
        self._transport = SseServerTransport(
            MESSAGE_PATHS[0], max_request_body_size=config.limits.request_bytes_max
        )
        self._open: dict[Caller, list[Connection]] = {}
        self._is_closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope)
        scope["user"] = sdk_user(caller)
        try:
            toolsets = requested_toolsets(scope)
        except MemsvcError as error:
            await error_response(error, scope)(scope, receive, send)
            return
        if scope["path"] in STREAM_PATHS:
            server = self._server if not toolsets else self._server_of(toolsets)
            await self._stream(caller, server, scope, receive, send)
        else:
            await self._receive(caller, scope, receive, send)

    def routes(self) -> list[BaseRoute]:
        """Return its routes."""
        return [
            *(Route(path, self, methods=["GET"]) for path in STREAM_PATHS),
            *(Route(path, self, methods=["POST"]) for path in MESSAGE_PATHS),
        ]

    def end(self) -> None:
        """Disconnect every client once it has its answers, and accept no more."""
        self._is_closed = True
        for connections in self._open.values():
            for connection in connections:
                connection.end()

    def count(self) -> int:
        """Return the number of open streams."""
        return sum(map(len, self._open.values()))

    def _server_of(self, toolsets: frozenset[Toolset]) -> McpServer:
        """Return a server for a stream that requests these: its messages name none."""

        def sender_of(context: Context) -> RequestSender:
            return replace(self._sender_of(context), toolsets=toolsets)

        return McpServer(self._config, sender_of, sessions=True)

    async def _stream(
        self, caller: Caller, server: McpServer, scope: Scope, receive: Receive, send: Send
    ) -> None:
        error = self._full(caller) if scope["method"] == "GET" else _not_a_stream()
        if error is not None:
            await error_response(error, scope)(scope, receive, send)
            return
        connection = Connection(idle_s=self._options.idle_s, write_s=WRITE_S_MAX)
        connections = self._open.setdefault(caller, [])
        connections.append(connection)
        try:
            with (
                anyio.CancelScope() as stream,
                self._authenticator.watch_validity(scope, connection.end),
            ):
                async with self._transport.connect_sse(scope, receive, send) as (inbound, outbound):
                    await connection.serve(server.sdk, inbound, outbound)
                    if connection.write_failed:
                        stream.cancel()
        finally:
            connections.remove(connection)
            if not connections and self._open.get(caller) is connections:
                del self._open[caller]

    async def _receive(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        waiting = sum(connection.pending for connection in self._open.get(caller, ()))
        if waiting >= self._options.calls_per_caller_max:
            error = _too_many(f"{waiting} requests of this key wait for their answers")
            await error_response(error, scope)(scope, receive, send)
            return
        try:
            await self._transport.handle_post_message(scope, receive, send)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # the stream was closed while the message came in: it was accepted, and no client is
            # left to answer
            return

    def _full(self, caller: Caller) -> MemsvcError | None:
        if self._is_closed:
            return MemsvcError(Code.UNAVAILABLE, "this server is stopping", retry_after_s=RETRY_S)
        if self.count() >= self._options.sessions_max:
            return _too_many("this server serves as many clients over server-sent events as it may")
        if len(self._open.get(caller, ())) >= self._options.sessions_per_caller_max:
            return _too_many("this key has as many streams open as it may")
        return None


def sdk_user(caller: Caller) -> AuthenticatedUser:
    """Return the user that identifies a caller to the SDK: by tenant, key and rights.

    Never the key itself.
    """
    access = (
        sorted(caller.permissions),
        sorted(caller.projects or ()),
        sorted(caller.hidden_tools),
    )
    identity = repr((caller.tenant, caller.key_label, caller.projects is None, *access))
    name = hashlib.sha256(identity.encode()).hexdigest()
    return AuthenticatedUser(AccessToken(token=name, client_id=name, scopes=[]))


def _too_many(message: str) -> MemsvcError:
    return MemsvcError(Code.RATE_LIMITED, message, retry_after_s=RETRY_S)


def _not_a_stream() -> MemsvcError:
    return MemsvcError(Code.INVALID_ARGUMENT, "this path answers GET alone")
