"""MCP over streamable HTTP, stateless, on both wires."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import structlog
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from memsvc.gateway.auth import Authenticator, caller_of
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.asking import Asking, Context, Who
from memsvc.gateway.mcp.listening import WRITE_S_MAX
from memsvc.gateway.mcp.server import McpServer, Offer
from memsvc.gateway.rest import REQUEST_ID

log = structlog.get_logger("memsvc.mcp")

SURFACE = "mcp"
LISTEN = (b"mcp-method", b"subscriptions/listen")
"""The header of a request whose response goes on: the SDK refuses one whose body says otherwise."""


class McpEndpoint:
    """The ASGI app at /mcp. It serves while `running` is entered; callers come with the request's ASGI scope."""

    def __init__(self, offer: Offer, authenticator: Authenticator, limits: LimitsOptions) -> None:
        server = McpServer(offer, asking_by(authenticator, SURFACE))
        self._manager = StreamableHTTPSessionManager(
            server.sdk, stateless=True, json_response=True, max_request_body_size=limits.request_bytes_max
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if LISTEN in scope["headers"]:
            await self._stream(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose response goes on, as long as the client reads it."""
        with anyio.CancelScope() as reading:

            async def send_in_time(message: Message) -> None:
                with anyio.move_on_after(2 * WRITE_S_MAX):
                    await send(message)
                    return
                log.warning("a stream that nobody reads is cut off")
                reading.cancel()

            await self._manager.handle_request(scope, receive, send_in_time)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve; once in the life of the endpoint."""
        async with self._manager.run():
            yield


def asking_by(authenticator: Authenticator, surface: str) -> Who:
    """Tells who sent the HTTP request that a message came with."""

    def asking(context: Context) -> Asking:
        if not isinstance(context.request, Request):
            raise RuntimeError("a call came without its HTTP request")
        scope = context.request.scope
        return Asking(caller_of(scope), surface, scope[REQUEST_ID], partial(authenticator.caller, scope))

    return asking
