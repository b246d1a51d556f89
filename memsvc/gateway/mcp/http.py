"""MCP over HTTP: requests without a connection, and the deprecated server-sent events transport."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final

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
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    InitializeRequestParams,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, SUPPORTED_PROTOCOL_VERSIONS
from pydantic import AnyHttpUrl, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from memsvc.core.errors import Code, MemsvcError, MissingPermissionError, invalid, unavailable
from memsvc.core.scope import Caller
from memsvc.core.tools import Toolset, parse_toolsets
from memsvc.gateway.auth import TOOLSETS_HEADER, Authenticator, Challenge
from memsvc.gateway.limits import SseOptions
from memsvc.gateway.mcp.answer_streams import AnswerStream, AnswerStreams
from memsvc.gateway.mcp.connection import Connection
from memsvc.gateway.mcp.exchange import SessionEndpoint, SingleExchange
from memsvc.gateway.mcp.notifications import WRITE_S_MAX, has_forms
from memsvc.gateway.mcp.request import (
    INITIALIZE,
    SESSION_HEADER,
    Context,
    InvalidMessageError,
    PostedMessage,
    RequestSender,
    SenderOf,
    cancel_on_disconnect,
    parse_message,
)
from memsvc.gateway.mcp.server import TOOL_LIST, McpServer, McpServerConfig
from memsvc.gateway.mcp.sessions import can_elicit
from memsvc.gateway.mcp.subscriptions import EVENT_STREAM, sent_in_time
from memsvc.gateway.oauth import OAuthOptions, OAuthScopes
from memsvc.gateway.rest import (
    REQUEST_ID,
    RequestState,
    caller_of,
    error_response,
    retry_after,
    state_of,
)

SURFACE = "mcp"
ANSWER_BYTES_MAX: Final = 64 * 1024
LISTEN: Final = b"subscriptions/listen"
"""Method with a lasting response, which a header names too: the SDK refuses a request whose body
differs."""
TOOL_CALL: Final = "tools/call"
_JSON: Final = b"application/json"
PROTOCOL_VERSIONS = tuple(SUPPORTED_PROTOCOL_VERSIONS)
"""Every supported version of the protocol."""

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

    def __init__(self, config: McpServerConfig, authenticator: Authenticator) -> None:
        self._dispatch = config.dispatch
        self._hidden_tools = config.hidden_tools
        self._authenticator, self._sessions = authenticator, config.sessions
        server = McpServer(config, http_sender(authenticator, SURFACE))
        self._session_endpoint: SessionEndpoint | None = None
        self._answer_streams = AnswerStreams(config.sessions, config.limits)
        if server.notifications is not None:
            self._session_endpoint = SessionEndpoint(server.notifications, self._answer_streams)
        self._exchange = SingleExchange(server)
        self._streaming = StreamableHTTPSessionManager(
            server.sdk, stateless=True, max_request_body_size=config.limits.request_bytes_max
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = state_of(scope)
        state.caller = caller = replace(caller_of(scope), surface_hidden_tools=self._hidden_tools)
        session = state.headers.get(SESSION_HEADER)
        if session is not None:
            session_id = session.decode("latin-1")
            state.session = await self._sessions.find(caller, session_id)
            state.has_forms = can_elicit(session_id)
        if scope["method"] == "POST":
            await self._answer(state, caller, scope, receive, send)
            return
        if session is None or scope["method"] == "HEAD" or self._session_endpoint is None:
            raise HTTPException(405, headers={"Allow": "POST"})
        state.toolsets = requested_toolsets(state, scope)
        sender = request_sender(self._authenticator, SURFACE, scope)
        await self._session_endpoint.handle(sender, scope, receive, send)

    async def _answer(
        self, state: RequestState, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a message; a call that is not admitted now is refused before the SDK sees it."""
        try:
            posted = read_message(state, scope)
        except InvalidMessageError as refused:
            await _refusal(refused, state.body)(scope, receive, send)
            return
        rejection: MemsvcError | None = None
        if posted.method == TOOL_CALL:
            name = (posted.message.get("params") or {}).get("name")
            rejection = await self._dispatch.rejection(caller, name)
        takes_stream = EVENT_STREAM in state.headers.get(b"accept", b"*/*")
        if rejection is not None:
            await error_response(rejection, scope)(scope, receive, send)
        elif state.headers.get(b"mcp-method") == LISTEN:
            await self._stream(posted, scope, receive, send)
        elif state.has_forms and await self._is_answer(state, scope, posted):
            await Response(status_code=HTTPStatus.ACCEPTED)(scope, receive, send)
        elif state.session is not None and takes_stream and posted.method != TOOL_LIST:
            await self._answer_in_session(state, posted, scope, receive, send)
        elif takes_stream and posted.wants_progress and posted.method != INITIALIZE:
            await self._stream(posted, scope, receive, send)
        elif posted.is_newer:
            await cancel_on_disconnect(receive, self._respond(posted, scope, receive, send))
        else:
            await self._respond(posted, scope, receive, send)

    async def _respond(
        self, posted: PostedMessage, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer by one body of JSON; a client that asks to begin gets a session."""
        response = await self._exchange.answer(posted, scope)
        if posted.method == INITIALIZE and not posted.is_newer and response.status_code == 200:
            with suppress(KeyError, ValidationError):  # then it was refused in the body
                params = InitializeRequestParams.model_validate(posted.message["params"])
                session_id = await self._sessions.new_id(
                    caller_of(scope), can_elicit=has_forms(params.capabilities)
                )
                if session_id is not None:
                    response.raw_headers.append((SESSION_HEADER, session_id.encode()))
        await response(scope, receive, send)

    async def _answer_in_session(
        self,
        state: RequestState,
        posted: PostedMessage,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a request whose client can lose the connection, and resume."""
        stream = AnswerStream(send, posted.message.get("id"), posted.version or "")
        if state.has_forms:
            state.send_request = stream.send_request
        receive = stream.receive_until_done(receive)

        async def send_response(send: Send) -> None:
            if posted.wants_progress:
                await self._streaming.handle_request(scope, receive, send)
            else:
                await self._respond(posted, scope, receive, send)

        session = state.session
        assert session is not None  # only with one it comes here
        await self._answer_streams.answer(stream, caller_of(scope), session, send_response)

    async def _stream(
        self, posted: PostedMessage, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request with a lasting response, as long as the client reads it.

        The SDK reads the headers by itself: white space around a value does not belong to it, and
        without Accept a client takes any form, by RFC 9110.
        """
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        if b"accept" not in state_of(scope).headers:
            scope["headers"].append((b"accept", b"*/*"))
        with sent_in_time(send, 2 * WRITE_S_MAX) as send_in_time:
            await self._streaming.handle_request(scope, receive, send_in_time)

    async def _is_answer(self, state: RequestState, scope: Scope, posted: PostedMessage) -> bool:
        """Store the answer to a question of this session; return whether the message is one."""
        question, session = posted.message.get("id"), state.session
        if (
            session is None
            or posted.method is not None
            or not isinstance(question, str)
            or len(posted.body) > ANSWER_BYTES_MAX
        ):
            return False
        result = posted.message.get("result", {} if "error" in posted.message else None)
        return isinstance(result, dict) and await self._sessions.answer(
            caller_of(scope), session, question, result
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until the block ends; only once for each endpoint."""
        async with self._answer_streams.running(), self._streaming.run():
            yield


def http_sender(authenticator: Authenticator, surface: str) -> SenderOf:
    """Return a function that returns the sender of a message's HTTP request."""

    def sender(context: Context) -> RequestSender:
        if not isinstance(context.request, Request):
            raise RuntimeError(
                "the HTTP request of a tool call is not available, so its sender is unknown"
            )
        return request_sender(authenticator, surface, context.request.scope)

    return sender


def requested_toolsets(state: RequestState, scope: Scope) -> frozenset[Toolset]:
    """Return the toolsets named by a request's header or, without one, its query.

    Raises INVALID_ARGUMENT for an unknown name."""
    header = state.headers.get(TOOLSETS_HEADER)
    if not (header or scope["query_string"]):  # nearly always: parsing both takes long
        return frozenset()
    text = (header or b"").decode("latin-1") or Request(scope).query_params.get("tools", "")
    return parse_toolsets(text.split(","))


def request_sender(authenticator: Authenticator, surface: str, scope: Scope) -> RequestSender:
    """Return the sender of an HTTP request."""
    state = state_of(scope)
    return RequestSender(
        caller_of(scope),
        surface,
        scope[REQUEST_ID],
        partial(authenticator.caller, scope),
        partial(authenticator.watch_validity, scope),
        partial(_note, state),
        state.toolsets,
        state.session,
        state.send_request,
    )


def _note(state: RequestState, error: MemsvcError) -> None:
    """Note the headers for an error, beside the result."""
    if isinstance(error, MissingPermissionError):
        state.missing_permission = error.permission
    after = retry_after(error)
    state.retry_after = tuple(
        (name.lower().encode(), text.encode()) for name, text in after.items()
    )


_ENVELOPE: Final = PROTOCOL_VERSION_META_KEY.encode()
"""Part of request bodies of the newer wire, where the SDK refuses versions by the body."""


def read_message(state: RequestState, scope: Scope) -> PostedMessage:
    """Read the message that a request posts, and note the toolsets that the request asks for.

    Raises InvalidMessageError for an invalid message or header, an Accept header that excludes the
    answer, and an unsupported version."""
    try:
        state.toolsets = requested_toolsets(state, scope)
    except MemsvcError as error:
        raise InvalidMessageError(error, INVALID_PARAMS) from None
    headers, body = state.headers, state.body
    if headers.get(b"content-type", b"").partition(b";")[0].strip() != _JSON:
        recovery = "send the header Content-Type: application/json"
        raise InvalidMessageError(invalid("the request body must be JSON", recovery=recovery))
    listens = headers.get(b"mcp-method") == LISTEN
    if b"accept" in headers and (listens or _JSON not in headers[b"accept"]):
        _check_accept(scope, listens=listens)
    message = parse_message(body)
    header = headers.get(b"mcp-protocol-version")
    version = None if header is None else header.decode("latin-1")
    if version is None or version in PROTOCOL_VERSIONS or _ENVELOPE in body:
        is_newer = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        return PostedMessage(body, message, version, message.get("method"), is_newer)
    names = ", ".join(PROTOCOL_VERSIONS)
    raise InvalidMessageError(
        invalid(f"this protocol version is not supported; supported versions: {names}"),
        UNSUPPORTED_PROTOCOL_VERSION,
        message.get("id"),
        data={"supported": PROTOCOL_VERSIONS, "requested": version},
    )


def _check_accept(scope: Scope, *, listens: bool) -> None:
    """Raise InvalidMessageError where the client does not accept the form of the answer."""
    takes_json, takes_stream = check_accept_headers(Request(scope))
    if takes_json and (takes_stream or not listens):
        return
    error = invalid(
        "the Accept header does not allow any format in which the answer can be sent",
        recovery="send the header Accept: application/json, text/event-stream, or omit the"
        " Accept header",
    )
    raise InvalidMessageError(error, status=HTTPStatus.NOT_ACCEPTABLE)


def _refusal(refused: InvalidMessageError, body: bytes) -> Response:
    """Return the response to an invalid message, with the id that it may have."""
    error, request_id = refused.error, refused.request_id
    if request_id is None and refused.code != PARSE_ERROR:
        try:
            request_id = parse_message(body).get("id")
        except InvalidMessageError as invalid_message:
            request_id = invalid_message.request_id
    error_object = {
        "code": refused.code,
        "message": error.message,
        "data": {**error.body(), **refused.data},
    }
    answer = error.body() | {"jsonrpc": "2.0", "id": request_id, "error": error_object}
    return Response(
        orjson.dumps(answer), refused.status or error.http_status, media_type="application/json"
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
    """Return the routes of the metadata, at the path of the resource and at the root.

    Some clients only look at the root. There are none without an issuer."""
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
    """The ASGI app of both paths of the deprecated transport.

    A client opens a stream with GET, learns from it where to POST its messages, and gets the
    answers on the stream. Both requests must have the same caller."""

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
        state = state_of(scope)
        state.caller = caller = replace(
            caller_of(scope), surface_hidden_tools=self._config.hidden_tools
        )
        scope["user"] = sdk_user(caller)
        try:
            toolsets = requested_toolsets(state, scope)
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
            else invalid("this path only supports GET")
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
            error = _too_many(
                f"the maximum number of waiting requests for this key ({waiting}) is reached"
            )
            await error_response(error, scope)(scope, receive, send)
            return
        state = state_of(scope)
        try:
            read_message(state, scope)
        except InvalidMessageError as refused:
            await _refusal(refused, state.body)(scope, receive, send)
            return
        try:
            await self._transport.handle_post_message(
                scope, receive, _with_error_form(scope, receive, send)
            )
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # the stream was closed while the message came in: it was accepted, and no client is
            # left to answer
            return

    def _full(self, caller: Caller) -> MemsvcError | None:
        if self._is_closed:
            return unavailable("this server is stopping", retry_after_s=RETRY_S)
        if self.count() >= self._options.sessions_max:
            return _too_many("the maximum number of clients on /sse is reached")
        if len(self._open.get(caller, ())) >= self._options.sessions_per_caller_max:
            return _too_many("the maximum number of open streams for this key is reached")
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
    """Return the user that identifies a caller to the SDK, by tenant, key and permissions.

    It never contains the key itself."""
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
