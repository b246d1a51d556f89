"""MCP over streamable HTTP, stateless, on both wires."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import anyio
import structlog
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, SUPPORTED_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from memsvc.core.errors import LacksPermissionError, MemsvcError
from memsvc.gateway.auth import Authenticator, caller_of
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.asking import Asking, Context, Who
from memsvc.gateway.mcp.cancelling import ended_when_gone, names_session
from memsvc.gateway.mcp.envelopes import refusal
from memsvc.gateway.mcp.listening import WRITE_S_MAX
from memsvc.gateway.mcp.server import McpServer, Offer
from memsvc.gateway.mcp.tool_list import filled_in
from memsvc.gateway.rest import LACKING, REQUEST_ID, error_response, retry_after

log = structlog.get_logger("memsvc.mcp")

SURFACE = "mcp"
RETRY_AFTER: Final = "memsvc.retry_after"
"""Scope key of the Retry-After header for a call that was refused for now."""
LISTEN: Final = b"subscriptions/listen"
"""Method with a lasting response, as a header names it: the SDK refuses a request whose body
differs."""
PROGRESS_TOKEN: Final = b'"progressToken"'
"""Text in the body of every request that wants progress notifications in its response."""
_TOOL_NAME: Final = re.compile(rb'"name"\s*:\s*"([a-z_]{1,64})"')
TOOL_LIST, TOOL_CALL = b'"tools/list"', b'"tools/call"'
PROTOCOL_VERSIONS = tuple(SUPPORTED_PROTOCOL_VERSIONS)
"""Every supported version of the protocol."""
_OLDER = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)


class McpEndpoint:
    """The ASGI app at /mcp.

    It serves while `running` is entered; callers come with the request's ASGI scope.

    A response is one JSON body, the fastest form, unless there are notifications besides the
    result: then it is a stream of events.
    """

    methods = ("POST",)

    def __init__(self, offer: Offer, authenticator: Authenticator, limits: LimitsOptions) -> None:
        self._admission, self._catalogue = offer.dispatch.admission, offer.dispatch.catalogue
        # an extension of the server may list tools as it likes
        self._lists_are_kept = offer.beside is None
        server = McpServer(offer, asking_by(authenticator, SURFACE))
        made = partial(
            StreamableHTTPSessionManager, server.sdk, stateless=True, max_request_body_size=limits.request_bytes_max
        )
        self._answering, self._streaming = made(json_response=True), made(json_response=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if headers.get(b"mcp-method") == LISTEN:
            await _streamed(self._answering, scope, receive, send)
            return
        named = headers.get(b"mcp-name")
        if (
            named is not None and named != named.strip()
        ):  # white space around a value does not belong to it, by RFC 9110
            scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        first = await receive()
        body: bytes = first.get("body", b"")
        version = headers.get(b"mcp-protocol-version")
        refused = refusal(body, None if version is None else version.decode("latin-1"))
        if refused is not None:
            await refused(scope, receive, send)
            return
        called = _TOOL_NAME.search(body) if TOOL_CALL in body and self._admission is not None else None
        tool = self._catalogue.get(called[1].decode()) if called is not None else None
        if tool is not None and self._admission is not None:
            busy = await self._admission.refusal(caller_of(scope), tool)
            if busy is not None:
                await error_response(busy, scope)(scope, receive, send)
                return
        sent = [first]

        async def again() -> Message:
            return sent.pop() if sent else await receive()

        if PROGRESS_TOKEN in body and b"text/event-stream" in headers.get(b"accept", b""):
            await _streamed(self._streaming, scope, again, send)
            return
        send = _telling_when(scope, send)
        if TOOL_LIST in body and self._lists_are_kept:
            send = filled_in(scope, send)
        if version is None or version in _OLDER:
            await self._answering.handle_request(scope, again, names_session(body, send))
        else:
            await ended_when_gone(receive, self._answering.handle_request(scope, again, send))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve; once in the life of the endpoint."""
        async with AsyncExitStack() as stack:
            for manager in (self._answering, self._streaming):
                await stack.enter_async_context(manager.run())
            yield


async def _streamed(manager: StreamableHTTPSessionManager, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a lasting response, as long as the client reads it."""
    with anyio.CancelScope() as reading:

        async def send_in_time(message: Message) -> None:
            with anyio.move_on_after(2 * WRITE_S_MAX):
                await send(message)
                return
            log.warning("a stream that its client does not read was closed")
            reading.cancel()

        await manager.handle_request(scope, receive, send_in_time)


def asking_by(authenticator: Authenticator, surface: str) -> Who:
    """Return a function that returns the sender of a message's HTTP request."""

    def asking(context: Context) -> Asking:
        if not isinstance(context.request, Request):
            raise RuntimeError("a call came without its HTTP request")
        scope = context.request.scope
        return Asking(
            caller_of(scope),
            surface,
            scope[REQUEST_ID],
            partial(authenticator.caller, scope),
            partial(authenticator.standing, scope),
            partial(_note, scope),
        )

    return asking


def _note(scope: Scope, error: MemsvcError) -> None:
    """Store in the request's scope the headers for an error, beside the result."""
    if isinstance(error, LacksPermissionError):
        scope[LACKING] = error.permission
    scope[RETRY_AFTER] = retry_after(error)


def _telling_when(scope: Scope, send: Send) -> Send:
    """Return a `send` that adds Retry-After where the call was refused for now."""

    async def send_telling(message: Message) -> None:
        after: dict[str, str] = scope.get(RETRY_AFTER, {})
        if message["type"] == "http.response.start" and after:
            told = [(name.lower().encode(), value.encode()) for name, value in after.items()]
            message = {**message, "headers": [*message.get("headers", ()), *told]}
        await send(message)

    return send_telling
