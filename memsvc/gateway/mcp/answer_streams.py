"""Answers to requests of a session as streams of events, which any replica can resume.

The process that produces an answer keeps its events; other processes request them through rows in
the database."""

import asyncio
import base64
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final

import anyio
import orjson
import structlog
from starlette.types import Message, Receive, Send

from memsvc.core.background import in_background
from memsvc.core.errors import InDoubtError, MemsvcError, invalid
from memsvc.core.frozen import frozen
from memsvc.core.scope import Caller
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.request import protocol_error
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.gateway.mcp.subscriptions import (
    COMMENT,
    EVENT_STREAM,
    HEARTBEAT_S,
    WRITE_S_MAX,
    Watch,
    opening_event,
)

log = structlog.get_logger("memsvc.mcp")

STREAM_AFTER_S: Final = 1.0
"""Seconds until an answer that has not begun becomes a stream, which its client can resume."""
KEPT_S: Final = 120.0
"""Seconds for which the events of a stream are kept after its end."""
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of the kept streams of a process; the oldest of the tenant with the most bytes go first."""
STREAM_BYTES: Final = 4096
"""Bytes that a kept stream counts for besides its events, so that their number is bounded."""
REPLY_S_MAX: Final = 5.0
"""Seconds until a client that came back gets a reply, even without new events."""
LOST_S: Final = 3 * REPLY_S_MAX
"""Seconds without a reply after which the process with the events is considered gone."""
_EVENT_ID = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})-([A-Za-z0-9_=-]{1,120})")
_PROGRESS: Final = b'"notifications/progress"'


@frozen
class EventId:
    """Id of an event in a stream that answers a request; the first event has number 0."""

    stream: str
    number: int
    request_id: str | int

    def __str__(self) -> str:
        request_id = base64.urlsafe_b64encode(orjson.dumps(self.request_id)).decode()
        return f"{self.stream}-{self.number}-{request_id}"

    @classmethod
    def parse(cls, text: str) -> "EventId | None":
        """Return the id in a text, or None for the id of an event in another kind of stream."""
        parts = _EVENT_ID.fullmatch(text)
        if parts is None:
            return None
        try:
            request_id = orjson.loads(base64.urlsafe_b64decode(parts[3]))
        except ValueError:
            request_id = None
        if not isinstance(request_id, str | int):
            raise invalid("Last-Event-ID must be the id of an event of this session")
        return cls(parts[1], int(parts[2]), request_id)


class AnswerStream:
    """ASGI `send` of the response to a request with a session.

    The response becomes a stream of events if anything precedes the result, or if the result takes
    long. From then on it does not matter whether the client is still connected: every event has an
    id, and is kept for a client that reconnects."""

    def __init__(self, send: Send, request_id: str | int | None, version: str) -> None:
        self._send = send
        self._asked_id = request_id
        self._version = version
        self._lock = asyncio.Lock()
        self._started = self._converted = self._disconnected = False
        self._request_id: str | int | None = None
        self.name = secrets.token_hex(8)
        self.events: list[tuple[int, bytes]] = []
        self.is_complete = False
        self.on_open: Callable[[], None] = lambda: None
        self.on_change: Callable[[], None] = lambda: None

    @property
    def has_ids(self) -> bool:
        """Return whether the events have ids."""
        return self._request_id is not None

    def receive_until_done(self, receive: Receive) -> Receive:
        """Return a `receive` for which the client of a resumable stream never disconnects."""

        async def receive_connected() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and self.has_ids:
                self._disconnected = True
                await anyio.sleep_forever()
            return message

        return receive_connected

    async def send_request(self, request: dict[str, Any]) -> None:
        """Send the client a request in the response, before the result."""
        async with self._lock:
            await self._convert()
            await self._send_event(b"event: message\ndata: %s\n\n" % orjson.dumps(request))

    async def answer(self, send_response: Callable[[Send], Awaitable[None]]) -> None:
        """Respond by this `send`; after a while as a stream, kept alive for proxies."""
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        timer = loop.call_later(
            STREAM_AFTER_S, lambda: tasks.append(loop.create_task(self._keep_alive()))
        )
        try:
            await send_response(self)
        finally:
            timer.cancel()
            for task in tasks:
                task.cancel()
            # nothing of the request is kept: a stream is for much longer than it is answered
            self._send = _discard
            self.on_change()

    async def __call__(self, message: Message) -> None:
        async with self._lock:
            if message["type"] == "http.response.start":
                await self._start(message)
            elif self._converted:
                await self._send_event(b"event: message\ndata: %s\n\n" % message["body"])
                await self._send_last()
            elif self.has_ids and not message.get("more_body"):
                await self._send_last()
            elif self.has_ids and message["body"].startswith(b"event:"):
                await self._send_event(message["body"])
            elif self.has_ids:
                await self._deliver(message)
            else:
                await self._send(message)

    async def _keep_alive(self) -> None:
        async with self._lock:
            await self._convert()
        while self._converted:
            await anyio.sleep(HEARTBEAT_S)
            async with self._lock:
                await self._deliver(_part(COMMENT))

    async def _start(self, message: Message) -> None:
        """Pass the start of the response on, unless it has become a stream before."""
        kinds = [value for name, value in message["headers"] if name == b"content-type"]
        is_stream = any(kind.startswith(EVENT_STREAM) for kind in kinds)
        if self._started:
            self._converted = not is_stream
            return
        self._started = True
        await self._send(message)
        if is_stream:
            await self._open(self._asked_id)

    async def _convert(self) -> None:
        """Make a stream of the response, unless it has begun."""
        request_id = None if self._started else self._asked_id
        if request_id is None:
            return
        self._started = self._converted = True
        headers = [
            (b"content-type", EVENT_STREAM),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._open(request_id)

    async def _open(self, request_id: str | int | None) -> None:
        """Send the event from which the stream resumes when it breaks before any other."""
        if request_id is None:
            return
        opening = EventId(self.name, 0, request_id)
        if _EVENT_ID.fullmatch(str(opening)) is None:  # too long to be resumed by
            return
        self._request_id = request_id
        self.on_open()
        await self._deliver(_part(opening_event(str(opening), self._version)))

    async def _send_event(self, event: bytes) -> None:
        if self._request_id is not None:
            number = self.events[-1][0] + 1 if self.events else 1
            if self.events and _is_progress(event) and _is_progress(self.events[-1][1]):
                del self.events[-1]  # the newest says all
            self.events.append((number, event))
            self.on_change()
            event = b"id: %s\n%s" % (
                str(EventId(self.name, number, self._request_id)).encode(),
                event,
            )
        await self._deliver(_part(event))

    async def _send_last(self) -> None:
        self.is_complete = True
        self.on_change()
        await self._deliver({"type": "http.response.body", "body": b"", "more_body": False})

    async def _deliver(self, message: Message) -> None:
        """Send to the client while it reads."""
        if self._disconnected:
            return
        with anyio.move_on_after(WRITE_S_MAX):
            await self._send(message)
            return
        log.warning("a client does not read its answer and is treated as disconnected")
        self._disconnected = True


async def _discard(_: Message) -> None:
    """`send` for nobody."""


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


def _is_progress(event: bytes) -> bool:
    return _PROGRESS in event[:120]


def lost_answer(request_id: str | int) -> bytes:
    """Return the event that replaces an answer that no process has any more."""
    error = InDoubtError(
        "the answer to this request is lost: the server that stored it has stopped, or the"
        " answer has expired"
    )
    body = {"jsonrpc": "2.0", "id": request_id, "error": protocol_error(error).error.model_dump()}
    return b"event: message\ndata: %s\n\n" % orjson.dumps(body)


@dataclass(slots=True)
class _Kept:
    """A stream of this process, and whose it is; `has_requests` while clients may wait for it."""

    caller: Caller
    session: bytes
    stream: AnswerStream
    ended_at: float = 0.0
    size: int = STREAM_BYTES
    has_requests: bool = False
    stop_watch: Callable[[], None] = lambda: None


class AnswerStreams:
    """Streams of this process that answer requests, kept for clients that lost the connection."""

    def __init__(self, sessions: McpSessions, limits: LimitsOptions) -> None:
        self._sessions = sessions
        self._listen_s_max = limits.listen_s_max
        self._kept: dict[str, _Kept] = {}
        self._ended: dict[bytes, dict[str, _Kept]] = {}
        self._ended_bytes: Counter[bytes] = Counter()
        self._due: set[str] = set()
        self._wake = asyncio.Event()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Provide replies to clients that came back, while the block runs."""
        return in_background(self._reply_loop())

    async def answer(
        self,
        stream: AnswerStream,
        caller: Caller,
        session: bytes,
        send_response: Callable[[Send], Awaitable[None]],
    ) -> None:
        """Respond to a request of a session, and keep what is a stream."""
        stream.on_open = partial(self._keep, _Kept(caller, session, stream))
        try:
            await stream.answer(send_response)
        finally:
            kept = self._kept.get(stream.name)
            if kept is not None:
                self._end(kept)

    async def events_after(
        self, last: EventId, caller: Caller, session: bytes, watch: Watch
    ) -> AsyncIterator[bytes]:
        """Yield what follows an event, until the result or the error that says that it is lost."""
        number = last.number
        deadline = anyio.current_time() + self._listen_s_max
        while anyio.current_time() < deadline:
            lost_at = anyio.current_time() + LOST_S
            question = f"{last.stream}-{number}-{secrets.token_hex(8)}"
            reply = await self._sessions.ask(
                caller, session, question, watch, LOST_S, stream=last.stream
            )
            if reply is None:
                if anyio.current_time() >= lost_at:
                    yield lost_answer(last.request_id)
                return
            for number, event in reply["events"]:
                yield f"id: {EventId(last.stream, number, last.request_id)}\n{event}".encode()
            if reply["is_complete"]:
                return
            if not reply["events"]:
                yield COMMENT

    def _keep(self, kept: _Kept) -> None:
        self._kept[kept.stream.name] = kept
        asked = partial(self._on_request, kept)
        kept.stop_watch = self._sessions.watch_stream(kept.caller, kept.stream.name, asked)
        kept.stream.on_change = partial(self._on_change, kept)

    def _on_request(self, kept: _Kept) -> None:
        kept.has_requests = True
        self._on_change(kept)

    def _on_change(self, kept: _Kept) -> None:
        if kept.has_requests:
            self._due.add(kept.stream.name)
            self._wake.set()

    def _end(self, kept: _Kept) -> None:
        """Keep a complete stream for a while, and no stream too long or of too many bytes."""
        kept.ended_at = monotonic()
        kept.size += sum(len(event) for _, event in kept.stream.events)
        tenant = kept.caller.tenant
        self._ended.setdefault(tenant, {})[kept.stream.name] = kept
        self._ended_bytes[tenant] += kept.size
        if not kept.stream.is_complete:
            self._drop(kept)
        self._drop_old()

    def _drop_old(self) -> None:
        until = monotonic() - KEPT_S
        for ended in list(self._ended.values()):
            for kept in list(ended.values()):
                if kept.ended_at > until:
                    break
                self._drop(kept)
        while self._ended_bytes.total() > KEPT_BYTES_MAX:
            [(tenant, _)] = self._ended_bytes.most_common(1)
            self._drop(next(iter(self._ended[tenant].values())))

    def _drop(self, kept: _Kept) -> None:
        tenant, name = kept.caller.tenant, kept.stream.name
        del self._kept[name], self._ended[tenant][name]
        self._ended_bytes[tenant] -= kept.size
        if not self._ended[tenant]:
            del self._ended[tenant], self._ended_bytes[tenant]
        kept.stop_watch()

    async def _reply_loop(self) -> None:
        late_at = monotonic() + REPLY_S_MAX
        while True:
            with anyio.move_on_after(REPLY_S_MAX):
                await self._wake.wait()
            self._wake.clear()
            self._drop_old()
            is_late = monotonic() >= late_at
            if is_late:
                late_at = monotonic() + REPLY_S_MAX
                self._due |= {name for name, kept in self._kept.items() if kept.has_requests}
            due, self._due = self._due, set()
            for kept in [self._kept[name] for name in due if name in self._kept]:
                await self._try_reply(kept, is_late=is_late)

    async def _try_reply(self, kept: _Kept, *, is_late: bool) -> None:
        """Reply; after an error of whatever kind it is tried again when it is late."""
        reply = self._reply(kept, is_late=is_late)
        [error] = await asyncio.gather(reply, return_exceptions=True)
        if isinstance(error, MemsvcError):
            log.warning(
                "an answer could not be delivered to a waiting client", code=error.code.value
            )
        elif error is not None:
            log.error("an answer could not be delivered to a waiting client", exc_info=error)

    async def _reply(self, kept: _Kept, *, is_late: bool) -> None:
        """Reply to those who ask for a stream, if there are new events or it is late."""
        stream, has_requests = kept.stream, False
        for question in await self._sessions.stream_questions(
            kept.caller, kept.session, stream.name
        ):
            seen = int(question.split("-")[1])
            events = [(number, event.decode()) for number, event in stream.events if number > seen]
            reply = {"events": events, "is_complete": stream.is_complete}
            if events or stream.is_complete or is_late:
                await self._sessions.answer(kept.caller, kept.session, question, reply)
            else:
                has_requests = True
        kept.has_requests = has_requests
