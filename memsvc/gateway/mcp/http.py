"""MCP over HTTP: requests of their own, and the deprecated transport by server-sent events."""

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import anyio
import orjson
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http import check_accept_headers
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
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from memsvc.core.errors import Code, MemsvcError, MissingPermissionError, invalid, unavailable
from memsvc.core.scope import Caller
from memsvc.core.tools import Toolset, parse_toolsets
from memsvc.gateway.auth import TOOLSETS_HEADER, Authenticator, Challenge, caller_of
from memsvc.gateway.limits import LimitsOptions, SseOptions, replayed
from memsvc.gateway.mcp.answer_streams import AnswerStream, AnswerStreams
from memsvc.gateway.mcp.connection import Connection
from memsvc.gateway.mcp.elicitation import has_forms
from memsvc.gateway.mcp.notifications import WRITE_S_MAX
from memsvc.gateway.mcp.request import (
    INITIALIZE,
    SESSION_HEADER,
    Context,
    RequestSender,
    SenderOf,
    cancel_on_disconnect,
    capabilities_in,
    is_method,
    message_error,
    message_in,
    request_id_in,
    with_session,
)
from memsvc.gateway.mcp.server import TOOL_LIST, McpServer, McpServerConfig, with_list
from memsvc.gateway.mcp.session_endpoint import SessionEndpoint
from memsvc.gateway.mcp.sessions import McpSessions, can_elicit
from memsvc.gateway.mcp.subscriptions import EVENT_STREAM, sent_in_time
from memsvc.gateway.oauth import OAuthOptions, OAuthScopes
from memsvc.gateway.rest import (
    MISSING_PERMISSION,
    REQUEST_ID,
    error_response,
    retry_after,
    with_headers,
)

SURFACE = "mcp"
SESSION: Final = "memsvc.mcp_session"
"""Scope key of the hash of the session id that a request came with."""
CAN_ELICIT: Final = "memsvc.mcp_can_elicit"
"""Scope key of whether the client of the session shows its user forms."""
QUESTIONS: Final = "memsvc.mcp_questions"
"""Scope key of the answer to a client that shows its user forms, in which it is asked."""
ANSWER_BYTES_MAX: Final = 64 * 1024
RETRY_AFTER: Final = "memsvc.retry_after"
"""Scope key of the Retry-After header for a call that was refused for now."""
LISTEN: Final = b"subscriptions/listen"
"""Method with a lasting response, as a header names it: the SDK refuses a request whose body
differs."""
PROGRESS_TOKEN: Final = b'"progressToken"'
"""Text in the body of every request that wants progress notifications in its response.

It decides nothing but the form of the response: an argument may have it too."""
_TOOL_NAME: Final = re.compile(rb'"name"\s*:\s*"([a-z_]{1,64})"')
TOOL_CALL: Final = b'"tools/call"'
PROTOCOL_VERSIONS = tuple(SUPPORTED_PROTOCOL_VERSIONS)
"""Every supported version of the protocol."""
_HANDSHAKE_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)

SSE_SURFACE = "sse"
STREAM_PATHS = ("/sse", "/sse/")
MESSAGE_PATHS = ("/messages/", "/messages")
DEFAULT_TOOLSETS: Final[frozenset[Toolset]] = frozenset({"whiteboard"})
RETRY_S = 5.0
SSE_WRITE_S_MAX = 30.0
"""Seconds that a client may take to read one message before its stream is closed."""


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
        self._dispatch = config.dispatch
        self._authenticator, self._sessions = authenticator, sessions
        server = McpServer(config, http_sender(authenticator, SURFACE))
        self._session_endpoint: SessionEndpoint | None = None
        self._answer_streams = AnswerStreams(sessions, limits)
        if server.notifications is not None and config.subscriptions is not None:
            self._session_endpoint = SessionEndpoint(
                sessions,
                server.notifications,
                config.subscriptions,
                self._answer_streams,
                limits,
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
            session_id = session.decode("latin-1")
            scope[SESSION] = await self._sessions.find(caller_of(scope), session_id)
            scope[CAN_ELICIT] = can_elicit(session_id)
        if scope["method"] == "POST":
            await self._answer(headers, scope, receive, send)
            return
        if session is None or scope["method"] == "HEAD" or self._session_endpoint is None:
            raise HTTPException(405, headers={"Allow": "POST"})
        sender = request_sender(self._authenticator, SURFACE, scope)
        await self._session_endpoint.handle(sender, scope, receive, send)

    async def _answer(
        self, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a message."""
        if b"accept" not in headers:  # any form, by RFC 9110
            headers[b"accept"] = b"*/*"
            scope["headers"] = [*scope["headers"], (b"accept", b"*/*")]
        named = headers.get(b"mcp-name")
        if (
            named is not None and named != named.strip()
        ):  # white space around a value does not belong to it, by RFC 9110
            scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        first = await receive()
        body: bytes = first.get("body", b"")
        version = headers.get(b"mcp-protocol-version")
        response = (
            _reject_toolsets(scope, body)
            or _reject_headers(headers, scope, body)
            or reject_message(body, None if version is None else version.decode("latin-1"))
            or await self._pop_answer(scope, body)
            or await self._rejection(scope, body)
        )
        if response is not None:
            await response(scope, receive, send)
            return
        replay = replayed(first, receive)
        if headers.get(b"mcp-method") == LISTEN:
            await _stream(self._json_manager, scope, replay, send)
            return
        takes_stream = EVENT_STREAM in headers[b"accept"]
        is_list = is_method(body, TOOL_LIST)
        session = scope.get(SESSION)
        if session is not None and takes_stream and not is_list:
            await self._answer_in_session(session, body, version or b"", scope, replay, send)
            return
        if PROGRESS_TOKEN in body and takes_stream and not is_method(body, INITIALIZE):
            await _stream(self._sse_manager, scope, replay, send)
            return
        send = _with_retry_after(scope, send)
        if is_list:
            send = with_list(scope, send)
        if version is None or version in _HANDSHAKE_VERSIONS:
            capabilities = capabilities_in(body)
            if capabilities is not None:
                session_id = await self._sessions.new_id(
                    caller_of(scope), can_elicit=has_forms(capabilities)
                )
                send = send if session_id is None else with_session(session_id, send)
            await self._json_manager.handle_request(scope, replay, send)
        else:
            await cancel_on_disconnect(
                receive, self._json_manager.handle_request(scope, replay, send)
            )

    async def _answer_in_session(
        self,
        session: bytes,
        body: bytes,
        version: bytes,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a request whose client can lose the connection, and resume."""
        stream = AnswerStream(send, body, version.decode("latin-1"))
        if scope[CAN_ELICIT]:
            scope[QUESTIONS] = stream
        manager = self._sse_manager if PROGRESS_TOKEN in body else self._json_manager

        async def send_response(send: Send) -> None:
            send = _with_retry_after(scope, send)
            await manager.handle_request(scope, stream.receive_until_done(receive), send)

        await self._answer_streams.answer(stream, caller_of(scope), session, send_response)

    async def _rejection(self, scope: Scope, body: bytes) -> Response | None:
        """Return the response to a call that is not admitted now, before it is parsed."""
        called = _TOOL_NAME.search(body) if TOOL_CALL in body else None
        if called is None:
            return None
        rejection = await self._dispatch.rejection(caller_of(scope), called[1].decode())
        return None if rejection is None else error_response(rejection, scope)

    async def _pop_answer(self, scope: Scope, body: bytes) -> Response | None:
        """Store the answer to a question of this session; return None for all other messages."""
        session = scope.get(SESSION)
        if session is None or not scope[CAN_ELICIT]:
            return None
        message = message_in(body) if len(body) <= ANSWER_BYTES_MAX else {}
        question = message.get("id")
        if "method" in message or not isinstance(question, str):
            return None
        result = message.get("result", {} if "error" in message else None)
        is_taken = isinstance(result, dict) and await self._sessions.answer(
            caller_of(scope), session, question, result
        )
        return Response(status_code=202) if is_taken else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve; once in the life of the endpoint."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._answer_streams.running())
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
    header = next((value for name, value in scope["headers"] if name == TOOLSETS_HEADER), b"")
    if not (header or scope["query_string"]):  # nearly always: parsing both takes long
        return frozenset()
    text = header.decode("latin-1") or Request(scope).query_params.get("tools", "")
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
        scope[QUESTIONS].send_request if QUESTIONS in scope else None,
    )


def _note(scope: Scope, error: MemsvcError) -> None:
    """Store in the request's scope the headers for an error, beside the result."""
    if isinstance(error, MissingPermissionError):
        scope[MISSING_PERMISSION] = error.permission
    after = retry_after(error)
    scope[RETRY_AFTER] = [(name.lower().encode(), value.encode()) for name, value in after.items()]


def _with_retry_after(scope: Scope, send: Send) -> Send:
    """Return a `send` that adds Retry-After where the call was refused for now."""
    return with_headers(send, lambda _: scope.get(RETRY_AFTER, ()))


_ENVELOPE: Final = PROTOCOL_VERSION_META_KEY.encode()
"""Part of request bodies of the newer wire, where the SDK refuses versions by the body."""


_JSON: Final = b"application/json"


def _reject_headers(headers: Mapping[bytes, bytes], scope: Scope, body: bytes) -> Response | None:
    """Return the response to a body not declared as JSON, or an answer that the client refuses.

    None for all others.
    """
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
    if media_type != _JSON:
        recovery = "send the header Content-Type: application/json"
        error = invalid("the body must be JSON", recovery=recovery)
        return _error_response(INVALID_REQUEST, error, {}, body)
    listens = headers.get(b"mcp-method") == LISTEN
    if _JSON in headers[b"accept"] and not listens:  # nearly always
        return None
    takes_json, takes_stream = check_accept_headers(Request(scope))
    if takes_json and (takes_stream or not listens):
        return None
    error = invalid(
        "the Accept header excludes the form of the answer",
        recovery="send the header Accept: application/json, text/event-stream, or none",
    )
    return _error_response(INVALID_REQUEST, error, {}, body, HTTPStatus.NOT_ACCEPTABLE)


def reject_message(body: bytes, version: str | None) -> Response | None:
    """Return the response to an invalid message or an unsupported version in the header.

    None for all others.
    """
    wrong = message_error(body)
    if wrong is not None:
        return _error_response(*wrong, {}, body)
    if version is None or version in PROTOCOL_VERSIONS or _ENVELOPE in body:
        return None
    names = ", ".join(PROTOCOL_VERSIONS)
    error = invalid(f"this version of the protocol is not supported; supported are {names}")
    data = {"supported": PROTOCOL_VERSIONS, "requested": version}
    return _error_response(UNSUPPORTED_PROTOCOL_VERSION, error, data, body)


def _reject_toolsets(scope: Scope, body: bytes) -> Response | None:
    """Return the response to a request for a toolset that does not exist; otherwise None."""
    try:
        requested_toolsets(scope)
    except MemsvcError as error:
        return _error_response(INVALID_PARAMS, error, {}, body)
    return None


def _error_response(
    code: int,
    error: MemsvcError,
    data: dict[str, Any],
    body: bytes = b"",
    status: int | None = None,
) -> Response:
    error_object = {"code": code, "message": error.message, "data": error.body() | data}
    body_object = error.body() | {
        "jsonrpc": "2.0",
        "id": request_id_in(body),
        "error": error_object,
    }
    return Response(
        orjson.dumps(body_object), status or error.http_status, media_type="application/json"
    )


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
        self._sender_of = http_sender(authenticator, SSE_SURFACE)
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
        error = (
            self._full(caller)
            if scope["method"] == "GET"
            else invalid("this path answers GET alone")
        )
        if error is not None:
            await error_response(error, scope)(scope, receive, send)
            return
        connection = Connection(idle_s=self._options.idle_s, write_s=SSE_WRITE_S_MAX)
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
        first = await receive()
        body: bytes = first.get("body", b"")
        headers = {b"accept": b"*/*"} | dict(scope["headers"])
        response = _reject_headers(headers, scope, body) or reject_message(body, None)
        if response is not None:
            await response(scope, receive, send)
            return
        try:
            await self._transport.handle_post_message(
                scope, replayed(first, receive), _with_error_form(scope, receive, send)
            )
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # the stream was closed while the message came in: it was accepted, and no client is
            # left to answer
            return

    def _full(self, caller: Caller) -> MemsvcError | None:
        if self._is_closed:
            return unavailable("this server is stopping", retry_after_s=RETRY_S)
        if self.count() >= self._options.sessions_max:
            return _too_many("this server serves as many clients over server-sent events as it may")
        if len(self._open.get(caller, ())) >= self._options.sessions_per_caller_max:
            return _too_many("this key has as many streams open as it may")
        return None


def _with_error_form(scope: Scope, receive: Receive, send: Send) -> Send:
    """Return a `send` that gives the SDK's plain refusals the form of all errors."""
    status = 0

    async def send_error(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            status = message["status"]
        elif status:
            code = Code.NOT_FOUND if status == HTTPStatus.NOT_FOUND else Code.INVALID_ARGUMENT
            error = MemsvcError(code, message["body"].decode())
            await error_response(error, scope, status=status)(scope, receive, send)
        else:
            await send(message)

    return send_error


def sdk_user(caller: Caller) -> AuthenticatedUser:
    """Return the user that identifies a caller to the SDK: by tenant, key and rights.

    Never the key itself.
    """
    access = (
        sorted(caller.permissions),
        sorted(caller.projects or ()),
        sorted(caller.hidden_tools),
        caller.user,
    )
    identity = repr((caller.tenant, caller.key_label, caller.projects is None, *access))
    name = hashlib.sha256(identity.encode()).hexdigest()
    return AuthenticatedUser(AccessToken(token=name, client_id=name, scopes=[]))


def _too_many(message: str) -> MemsvcError:
    return MemsvcError(Code.RATE_LIMITED, message, retry_after_s=RETRY_S)
