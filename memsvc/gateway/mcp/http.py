"""MCP over streamable HTTP, on both wires; on the older one with sessions for those who wait."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, SUPPORTED_PROTOCOL_VERSIONS
from pydantic import AnyHttpUrl
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from memsvc.core.errors import MemsvcError, MissingPermissionError, invalid
from memsvc.core.toolsets import Toolset, parse_toolsets
from memsvc.gateway.auth import Authenticator, caller_of
from memsvc.gateway.auth_challenge import Challenge
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.cancellation import (
    SESSION_HEADER,
    cancel_on_disconnect,
    is_initialize,
    with_session,
)
from memsvc.gateway.mcp.notifications import WRITE_S_MAX
from memsvc.gateway.mcp.sender import Context, RequestSender, SenderOf
from memsvc.gateway.mcp.server import McpServer, McpServerConfig
from memsvc.gateway.mcp.sessions import McpSessions, SessionEndpoint
from memsvc.gateway.mcp.subscriptions import sent_in_time
from memsvc.gateway.mcp.tool_list import with_list
from memsvc.gateway.oauth import OAuthOptions, OAuthScopes
from memsvc.gateway.rest import MISSING_PERMISSION, REQUEST_ID, error_response, retry_after

SURFACE = "mcp"
TOOLSETS_HEADER: Final = "x-memsvc-tools"
SESSION: Final = "memsvc.mcp_session"
"""Scope key of the hash of the session id that a request came with."""
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
_HANDSHAKE_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)


class McpEndpoint:
    """The ASGI app at /mcp.

    It serves while `running` is entered; callers come with the request's ASGI scope.

    A response is one JSON body, the fastest form, unless there are notifications besides the
    result: then it is a stream of events.
    """

    methods = ("GET", "POST", "DELETE")

    def __init__(
        self,
        config: McpServerConfig,
        sessions: McpSessions,
        authenticator: Authenticator,
        limits: LimitsOptions,
    ) -> None:
        self._admission, self._catalogue = config.dispatch.admission, config.dispatch.catalogue
        self._authenticator, self._sessions = authenticator, sessions
        config = replace(config, sessions=sessions)
        server = McpServer(config, http_sender(authenticator, SURFACE))
        self._session_endpoint = (
            None
            if server.notifications is None or config.subscriptions is None
            else SessionEndpoint(sessions, server.notifications, config.subscriptions, limits)
        )
        manager = partial(
            StreamableHTTPSessionManager,
            server.sdk,
            stateless=True,
            max_request_body_size=limits.request_bytes_max,
        )
        self._json_manager, self._sse_manager = (
            manager(json_response=True),
            manager(json_response=False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        session = headers.get(SESSION_HEADER)
        if session is not None:
            scope[SESSION] = await self._sessions.find(caller_of(scope), session.decode("latin-1"))
        if scope["method"] != "POST":
            if session is None or scope["method"] == "HEAD" or self._session_endpoint is None:
                raise HTTPException(405, headers={"Allow": "POST"})
            sender = request_sender(self._authenticator, SURFACE, scope)
            await self._session_endpoint.handle(sender, scope, receive, send)
            return
        await self._answer(headers, scope, receive, send)

    async def _answer(
        self, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a message."""
        if headers.get(b"mcp-method") == LISTEN:
            await _stream(self._json_manager, scope, receive, send)
            return
        named = headers.get(b"mcp-name")
        if (
            named is not None and named != named.strip()
        ):  # white space around a value does not belong to it, by RFC 9110
            scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        first = await receive()
        body: bytes = first.get("body", b"")
        version = headers.get(b"mcp-protocol-version")
        refused = _reject_toolsets(scope, body) or reject_message(
            body, None if version is None else version.decode("latin-1")
        )
        if refused is not None:
            await refused(scope, receive, send)
            return
        rejection = await self._rejection(scope, body)
        if rejection is not None:
            await error_response(rejection, scope)(scope, receive, send)
            return
        sent = [first]

        async def replay() -> Message:
            return sent.pop() if sent else await receive()

        if PROGRESS_TOKEN in body and b"text/event-stream" in headers.get(b"accept", b""):
            await _stream(self._sse_manager, scope, replay, send)
            return
        send = _with_retry_after(scope, send)
        if TOOL_LIST in body:
            send = with_list(scope, send)
        if version is None or version in _HANDSHAKE_VERSIONS:
            if is_initialize(body):
                session_id = await self._sessions.new_id(caller_of(scope))
                send = send if session_id is None else with_session(session_id, send)
            await self._json_manager.handle_request(scope, replay, send)
        else:
            await cancel_on_disconnect(
                receive, self._json_manager.handle_request(scope, replay, send)
            )

    async def _rejection(self, scope: Scope, body: bytes) -> MemsvcError | None:
        """Return why a call is not admitted now, before it is parsed."""
        called = _TOOL_NAME.search(body) if TOOL_CALL in body else None
        tool = None if called is None else self._catalogue.get(called[1].decode())
        if tool is None or self._admission is None:
            return None
        return await self._admission.rejection(caller_of(scope), tool)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve; once in the life of the endpoint."""
        async with AsyncExitStack() as stack:
            for manager in (self._json_manager, self._sse_manager):
                await stack.enter_async_context(manager.run())
            yield


async def _stream(
    manager: StreamableHTTPSessionManager, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer a request with a lasting response, as long as the client reads it."""
    with sent_in_time(send, 2 * WRITE_S_MAX) as send_in_time:
        await manager.handle_request(scope, receive, send_in_time)


def http_sender(authenticator: Authenticator, surface: str) -> SenderOf:
    """Return a function that returns the sender of a message's HTTP request."""

    def sender(context: Context) -> RequestSender:
        if not isinstance(context.request, Request):
            raise RuntimeError("a call came without its HTTP request")
        return request_sender(authenticator, surface, context.request.scope)

    return sender


def requested_toolsets(scope: Scope) -> frozenset[Toolset]:
    """Return the toolsets in the header of a request, else in its query; empty for none.

    INVALID_ARGUMENT for a name that is none."""
    request = Request(scope)
    text = request.headers.get(TOOLSETS_HEADER) or request.query_params.get("tools", "")
    return parse_toolsets(text.split(","))


def request_sender(authenticator: Authenticator, surface: str, scope: Scope) -> RequestSender:
    """Return the sender of an HTTP request."""
    return RequestSender(
        caller_of(scope),
        surface,
        scope[REQUEST_ID],
        partial(authenticator.caller, scope),
        partial(authenticator.watch_validity, scope),
        partial(_note, scope),
        requested_toolsets(scope),
        scope.get(SESSION),
    )


def _note(scope: Scope, error: MemsvcError) -> None:
    """Store in the request's scope the headers for an error, beside the result."""
    if isinstance(error, MissingPermissionError):
        scope[MISSING_PERMISSION] = error.permission
    scope[RETRY_AFTER] = retry_after(error)


def _with_retry_after(scope: Scope, send: Send) -> Send:
    """Return a `send` that adds Retry-After where the call was refused for now."""

    async def send_retry_after(message: Message) -> None:
        after: dict[str, str] = scope.get(RETRY_AFTER, {})
        if message["type"] == "http.response.start" and after:
            header_pairs = [
                (name.lower().encode(), value.encode()) for name, value in after.items()
            ]
            message = {**message, "headers": [*message.get("headers", ()), *header_pairs]}
        await send(message)

    return send_retry_after


_ENVELOPE: Final = PROTOCOL_VERSION_META_KEY.encode()
"""Part of request bodies of the newer wire, where the SDK refuses versions by the body."""
_SUPPORTED: Final = tuple(SUPPORTED_PROTOCOL_VERSIONS)


def reject_message(body: bytes, version: str | None) -> Response | None:
    """Return the response to a batch or an unsupported version in the header; otherwise None."""
    if body.lstrip()[:1] == b"[":
        return _error_response(
            INVALID_REQUEST,
            invalid("batches of JSON-RPC are not taken: send one message in a request"),
            {},
        )
    if version is None or version in _SUPPORTED or _ENVELOPE in body:
        return None
    error = invalid(
        f"this version of the protocol is not supported; supported are {', '.join(_SUPPORTED)}"
    )
    return _error_response(
        UNSUPPORTED_PROTOCOL_VERSION, error, {"supported": _SUPPORTED, "requested": version}, body
    )


def _reject_toolsets(scope: Scope, body: bytes) -> Response | None:
    """Return the response to a request for a toolset that does not exist; otherwise None."""
    try:
        requested_toolsets(scope)
    except MemsvcError as error:
        return _error_response(INVALID_PARAMS, error, {}, body)
    return None


def _error_response(
    code: int, error: MemsvcError, data: dict[str, Any], body: bytes = b""
) -> Response:
    error_object = {"code": code, "message": error.message, "data": error.body() | data}
    body_object = error.body() | {"jsonrpc": "2.0", "id": _id_of(body), "error": error_object}
    return Response(orjson.dumps(body_object), error.http_status, media_type="application/json")


def _id_of(body: bytes) -> str | int | None:
    """Return the request id in a body, if there is one."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    request_id = message.get("id") if isinstance(message, dict) else None
    return request_id if isinstance(request_id, str | int) else None


RESOURCE_NAME = "memsvc"
ROOT_PATH = "/.well-known/oauth-protected-resource"


def challenge(options: OAuthOptions) -> Challenge:
    """Return the credentials required of callers."""
    if not options.issuer:
        return Challenge()
    return Challenge(
        str(build_resource_metadata_url(AnyHttpUrl(options.resource))), OAuthScopes(options)
    )


def protected_routes(options: OAuthOptions) -> list[Route]:
    """Return the metadata's routes, at the path of the resource and at the root.

    Some clients look only at the root. None without an issuer.
    """
    if not options.issuer:
        return []
    made = create_protected_resource_routes(
        AnyHttpUrl(options.resource),
        [AnyHttpUrl(options.issuer)],
        OAuthScopes(options).all,
        RESOURCE_NAME,
    )
    here = made[0]
    if here.path == ROOT_PATH:
        return made
    return [*made, Route(ROOT_PATH, here.endpoint, methods=["GET", "OPTIONS"])]
