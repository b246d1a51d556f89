"""POST with one JSON message as answer, and GET and DELETE of a session.

The SDK's kernel answers a POST in the request's task. The SDK's own transport would start a server
with two streams for each request of the older wire, and parse the body again.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import anyio
import orjson
import structlog
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION, HEADER_MISMATCH, INVALID_REQUEST, ErrorData
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memsvc.core.errors import MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.gateway.mcp.answer_streams import AnswerStreams, EventId
from memsvc.gateway.mcp.notifications import ChangeNotifications
from memsvc.gateway.mcp.request import PostedMessage, RequestSender
from memsvc.gateway.mcp.server import LIST, TOOL_LIST, McpServer
from memsvc.gateway.mcp.sessions import SessionStream, no_session
from memsvc.gateway.mcp.subscriptions import (
    COMMENT,
    WRITE_S_MAX,
    event_stream,
    last_event,
    opening_event,
    sent_in_time,
)
from memsvc.gateway.rest import state_of

_LIFESPAN: Final[JsonObject] = {}
"""State of the server's life: this one has none."""


@dataclass(slots=True)
class _Exchange:
    """The SDK's `DispatchContext` of one request, over which nothing else can be sent."""

    transport: TransportContext
    request_id: str | int | None
    message_metadata: ServerMessageMetadata
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> JsonObject:
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Drop a notification: the answer is one message."""

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Drop progress, as `notify`."""


@frozen
class SingleExchange:
    """Answers messages of both wires, each by one response of JSON."""

    server: McpServer

    async def answer(self, posted: PostedMessage, scope: Scope) -> Response:
        """Return the response to a message."""
        message, version = posted.message, posted.version
        if posted.is_newer:
            return await self._answer_newer(posted, scope)
        connection = Connection.from_envelope(version or DEFAULT_NEGOTIATED_VERSION, None, None)
        if "method" in message and "id" in message:
            return await self._serve(message, connection, scope, {})
        if "method" in message:
            runner = ServerRunner(self.server.sdk, connection, _LIFESPAN)
            await runner.on_notify(
                _context(message, scope), message["method"], message.get("params")
            )
        return _accepted()

    async def _answer_newer(self, posted: PostedMessage, scope: Scope) -> Response:
        """Return the response to a message of the wire without a handshake."""
        message = posted.message
        if "id" not in message:
            refused = unsupported_protocol_version_rejection(posted.version or "")
            return _accepted() if refused is None else _rejected(refused, None)
        if "method" not in message:
            error = ErrorData(
                code=INVALID_REQUEST,
                message="the JSON-RPC message must have a method",
            )
            return _error(error, None)
        headers = [
            (name.decode("latin-1"), value.decode("latin-1").strip())
            for name, value in scope["headers"]
        ]
        duplicated = find_duplicated_routing_header(headers)
        verdict = (
            classify_inbound_request(message, headers=dict(headers))
            if duplicated is None
            else InboundLadderRejection(
                code=HEADER_MISMATCH, message=f"the header {duplicated} must occur only once"
            )
        )
        if isinstance(verdict, InboundLadderRejection):
            return _rejected(verdict, message["id"])
        mismatch = self._argument_mismatch(message, scope)
        if mismatch is not None:
            return _rejected(mismatch, message["id"])
        connection = Connection.from_envelope(
            verdict.protocol_version, verdict.client_info, verdict.client_capabilities
        )
        return await self._serve(message, connection, scope, ERROR_CODE_HTTP_STATUS)

    def _argument_mismatch(
        self, message: JsonObject, scope: Scope
    ) -> InboundLadderRejection | None:
        """Return the rejection of a call whose headers mirror its arguments wrongly, if they do."""
        params, schema_of = message.get("params") or {}, self.server.sdk.get_tool_input_schema
        name, arguments = params.get("name"), params.get("arguments") or {}
        if message["method"] != "tools/call" or schema_of is None or not isinstance(name, str):
            return None
        schema = schema_of(name)
        if schema is None or not isinstance(arguments, Mapping):
            return None
        return validate_mcp_param_headers(schema, arguments, Request(scope).headers)

    async def _serve(
        self,
        message: JsonObject,
        connection: Connection,
        scope: Scope,
        statuses: Mapping[int, int],
    ) -> Response:
        method: str = message["method"]
        if method == TOOL_LIST:
            scope[LIST] = None
        try:
            result = await serve_one(
                self.server.sdk,
                _context(message, scope),
                method,
                message.get("params"),
                connection=connection,
                lifespan_state=_LIFESPAN,
            )
        except (MCPError, ValidationError) as error:
            data = handler_exception_to_error_data(error)
            assert data is not None  # it maps both
            response = _error(data, message["id"], statuses)
            response.raw_headers += state_of(scope).retry_after
            return response
        body = orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        if method == TOOL_LIST and scope[LIST] is not None:
            listed: Response = scope[LIST].response(body, as_gzip=state_of(scope).takes_gzip())
            return listed
        response = Response(body, media_type="application/json")
        response.raw_headers += state_of(scope).retry_after
        return response


def _context(message: JsonObject, scope: Scope) -> _Exchange:
    request = Request(scope)
    return _Exchange(
        TransportContext(kind="streamable-http", can_send_request=False, headers=request.headers),
        message.get("id"),
        ServerMessageMetadata(request_context=request),
    )


def _accepted() -> Response:
    return Response(status_code=HTTPStatus.ACCEPTED)


def _rejected(refused: InboundLadderRejection, request_id: str | int | None) -> Response:
    return _error(
        ErrorData(code=refused.code, message=refused.message, data=refused.data), request_id
    )


def _error(
    error: ErrorData,
    request_id: str | int | None,
    statuses: Mapping[int, int] = ERROR_CODE_HTTP_STATUS,
) -> Response:
    data = error.model_dump(mode="json", exclude_none=True)
    body = orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": data})
    return Response(body, statuses.get(error.code, HTTPStatus.OK), media_type="application/json")


log = structlog.get_logger("memsvc.mcp")


@frozen
class SessionEndpoint:
    """Answers GET with a stream of a session's events, and DELETE by ending the session."""

    notifications: ChangeNotifications
    answers: AnswerStreams

    async def handle(
        self, sender: RequestSender, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of this sender; RATE_LIMITED, UNAVAILABLE, NOT_FOUND.

        A stream goes on until its time is over. `Last-Event-ID` is what the client saw last, in a
        stream like this one or in one that answers a request.
        """
        session, sessions = sender.session, self.notifications.sessions
        if session is None:
            raise no_session()
        if scope["method"] == "DELETE":
            await sessions.end(sender.caller, session)
            await Response(status_code=204)(scope, receive, send)
            return
        request = Request(scope, receive)
        version = request.headers.get("mcp-protocol-version", "")
        answer_event = EventId.parse(request.headers.get("last-event-id", "").strip())
        last = last_event(request) if answer_event is None else None
        with (
            self.notifications.subscriptions.opened(sender.caller.tenant, own=1) as watch,
            sender.watch_validity(watch.close),
            sent_in_time(send, WRITE_S_MAX) as send_in_time,
        ):
            if answer_event is not None:
                opening = str(answer_event)
                events = self.answers.events_after(answer_event, sender.caller, session, watch)
            else:
                resource_of = self.notifications.resource
                stream = SessionStream(sessions, resource_of, sender, watch, session)
                pending = await stream.open(last)
                opening = str(stream.event if last is None else last)
                events = self._events(stream, pending)
            parts = _until_error(opening_event(opening, version), events)
            await event_stream(parts)(scope, receive, send_in_time)

    async def _events(
        self, stream: SessionStream, pending: list[tuple[int, str]]
    ) -> AsyncIterator[bytes]:
        deadline = anyio.current_time() + self.notifications.limits.listen_s_max
        for entry in pending:
            yield _message(*entry)
        async for event in stream.events(deadline):
            yield COMMENT if event is None else _message(*event)


async def _until_error(opening: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield opening
    try:
        async for event in events:
            yield event
    except MemsvcError as error:  # the client comes back with its last event
        log.warning("a stream of notifications was ended by an error", code=error.code.value)


def _message(number: int, uri: str) -> bytes:
    message = {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": uri},
    }
    return b"id: %d\nevent: message\ndata: %s\n\n" % (number, orjson.dumps(message))
