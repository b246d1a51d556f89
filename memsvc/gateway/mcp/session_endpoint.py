"""GET and DELETE of a session: the stream of its events, the rest of an answer, and its end."""

from collections.abc import AsyncIterator

import anyio
import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memsvc.core.errors import MemsvcError
from memsvc.core.frozen import frozen
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.answer_streams import AnswerStreams, EventId
from memsvc.gateway.mcp.notifications import ChangeNotifications
from memsvc.gateway.mcp.request import RequestSender
from memsvc.gateway.mcp.sessions import McpSessions, SessionStream, no_session
from memsvc.gateway.mcp.subscriptions import (
    COMMENT,
    WRITE_S_MAX,
    Subscriptions,
    event_stream,
    last_event,
    opening_event,
    sent_in_time,
)

log = structlog.get_logger("memsvc.mcp")


@frozen
class SessionEndpoint:
    """Answers GET by a stream of a session's events, and DELETE by ending the session."""

    sessions: McpSessions
    notifications: ChangeNotifications
    subscriptions: Subscriptions
    answers: AnswerStreams
    limits: LimitsOptions

    async def handle(
        self, sender: RequestSender, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of this sender; RATE_LIMITED, UNAVAILABLE, NOT_FOUND.

        A stream goes on until its time is over. `Last-Event-ID` is what the client saw last, in a
        stream like this one or in one that answers a request.
        """
        session = sender.session
        if session is None:
            raise no_session()
        if scope["method"] == "DELETE":
            await self.sessions.end(sender.caller, session)
            await Response(status_code=204)(scope, receive, send)
            return
        request = Request(scope, receive)
        version = request.headers.get("mcp-protocol-version", "")
        answer_event = EventId.parse(request.headers.get("last-event-id", "").strip())
        last = last_event(request) if answer_event is None else None
        with (
            self.subscriptions.opened(sender.caller.tenant, own=1) as watch,
            sender.watch_validity(watch.close),
            sent_in_time(send, WRITE_S_MAX) as send_in_time,
        ):
            if answer_event is not None:
                opening = str(answer_event)
                events = self.answers.events_after(answer_event, sender.caller, session, watch)
            else:
                stream = SessionStream(
                    self.sessions, self.notifications.resource, sender, watch, session
                )
                pending = await stream.open(last)
                opening = str(stream.event if last is None else last)
                events = self._events(stream, pending)
            parts = _until_error(opening_event(opening, version), events)
            await event_stream(parts)(scope, receive, send_in_time)

    async def _events(
        self, stream: SessionStream, pending: list[tuple[int, str]]
    ) -> AsyncIterator[bytes]:
        deadline = anyio.current_time() + self.limits.listen_s_max
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
