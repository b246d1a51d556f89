"""MCP over server-sent events, deprecated by the protocol in 2025: kept for older clients."""

import hashlib

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller
from memsvc.gateway.auth import Authenticator, caller_of
from memsvc.gateway.mcp.connection import Connection
from memsvc.gateway.mcp.http import asking_by
from memsvc.gateway.mcp.server import McpServer, Offer
from memsvc.gateway.rest import error_response
from memsvc.gateway.sse_options import SseOptions

SURFACE = "sse"
STREAM_PATHS = ("/sse", "/sse/")
MESSAGE_PATHS = ("/messages/", "/messages")
RETRY_S = 5.0
WRITE_S_MAX = 30.0
"""Seconds that a client may take to read one message before its stream is closed."""


class SseEndpoint:
    """The ASGI app at both paths.

    A client opens a stream by GET, learns there where to POST its messages, and gets the answers on
    the stream. Both requests come with their callers, which must be the same.
    """

    def __init__(self, offer: Offer, authenticator: Authenticator, options: SseOptions) -> None:
        self._authenticator = authenticator
        self._server = McpServer(offer, asking_by(authenticator, SURFACE), sessions=True)
        self._options = options
        self._transport = SseServerTransport(MESSAGE_PATHS[0], max_request_body_size=offer.limits.request_bytes_max)
        self._open: dict[Caller, list[Connection]] = {}
        self._ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope)
        scope["user"] = known_as(caller)
        if scope["path"] in STREAM_PATHS:
            await self._stream(caller, scope, receive, send)
        else:
            await self._take(caller, scope, receive, send)

    def routes(self) -> list[BaseRoute]:
        """Return its routes."""
        return [
            *(Route(path, self, methods=["GET"]) for path in STREAM_PATHS),
            *(Route(path, self, methods=["POST"]) for path in MESSAGE_PATHS),
        ]

    def end(self) -> None:
        """Disconnect every client once it has its answers, and accept no more."""
        self._ended = True
        for connections in self._open.values():
            for connection in connections:
                connection.end()

    def clients(self) -> int:
        """Return the number of open streams."""
        return sum(map(len, self._open.values()))

    async def _stream(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._full(caller) if scope["method"] == "GET" else _not_a_stream()
        if refusal is not None:
            await error_response(refusal, scope)(scope, receive, send)
            return
        connection = Connection(idle_s=self._options.idle_s, write_s=WRITE_S_MAX)
        mine = self._open.setdefault(caller, [])
        mine.append(connection)
        try:
            with anyio.CancelScope() as stream, self._authenticator.standing(scope, connection.end):
                async with self._transport.connect_sse(scope, receive, send) as (reads, writes):
                    await connection.serve(self._server.sdk, reads, writes)
                    if connection.stuck:
                        stream.cancel()
        finally:
            mine.remove(connection)
            if not mine and self._open.get(caller) is mine:
                del self._open[caller]

    async def _take(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        waiting = sum(connection.asked for connection in self._open.get(caller, ()))
        if waiting >= self._options.calls_per_caller_max:
            refusal = _too_many(f"{waiting} requests of this key wait for their answers")
            await error_response(refusal, scope)(scope, receive, send)
            return
        try:
            await self._transport.handle_post_message(scope, receive, send)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # the stream was closed while the message came in: it was accepted, and no client is
            # left to answer
            return

    def _full(self, caller: Caller) -> MemsvcError | None:
        if self._ended:
            return MemsvcError(Code.UNAVAILABLE, "this server is stopping", retry_after_s=RETRY_S)
        if self.clients() >= self._options.sessions_max:
            return _too_many("this server serves as many clients over server-sent events as it may")
        if len(self._open.get(caller, ())) >= self._options.sessions_per_caller_max:
            return _too_many("this key has as many streams open as it may")
        return None


def known_as(caller: Caller) -> AuthenticatedUser:
    """Return the user that identifies a caller to the SDK: by tenant, key and rights.

    Never the key itself.
    """
    rights = (sorted(caller.permissions), sorted(caller.projects or ()), sorted(caller.hidden_tools))
    told = repr((caller.tenant, caller.key_label, caller.projects is None, *rights))
    name = hashlib.sha256(told.encode()).hexdigest()
    return AuthenticatedUser(AccessToken(token=name, client_id=name, scopes=[]))


def _too_many(message: str) -> MemsvcError:
    return MemsvcError(Code.RATE_LIMITED, message, retry_after_s=RETRY_S)


def _not_a_stream() -> MemsvcError:
    return MemsvcError(Code.INVALID_ARGUMENT, "this path answers GET alone")
