"""Sessions of the 2025-11-25 wire, for clients that want to hear of changes outside of answers.

The id of a session is signed, so a session that nobody subscribes in costs nothing. A row stands
for each that somebody did, from which any replica resumes.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import anyio
import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Caller, Scope
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.notifications import ChangeNotifications, is_valid, watch_resource
from memsvc.gateway.mcp.sender import RequestSender
from memsvc.gateway.mcp.subscriptions import (
    HEARTBEAT,
    Subscriptions,
    Watch,
    event_stream,
    last_event,
    sent_in_time,
)
from memsvc.store import mcp_sessions, server_secrets
from memsvc.store.changes import ChangePoll, Changes, change_key
from memsvc.store.database import Database, Tx
from memsvc.store.mcp_sessions import SubscribedSession, session_uri

log = structlog.get_logger("memsvc.mcp")

SECRET: Final = "mcp sessions"  # noqa: S105 - the name of the secret that signs the ids
OPEN_MAX: Final = 10_000
"""Sessions of a process that are known to be open without a look-up."""
EMPTY_EVENT_SINCE: Final = "2025-11-25"
"""First version of the protocol whose clients take an event without a message, for its id."""
WRITE_S_MAX: Final = 20.0
_OWN: Final = "session"
"""Name under which a stream watches its session, among the URIs of resources."""


class McpSessions:
    """Sessions of this process's clients, and of those that other replicas began."""

    def __init__(
        self, database: Database, clock: Clock, changes: Changes | None, limits: LimitsOptions
    ) -> None:
        self._database = database
        self._clock = clock
        self._changes = changes
        self._limits = limits
        self._secret: bytes | None = None
        self._open: OrderedDict[bytes, Callable[[], None]] = OrderedDict()

    async def new_id(self, caller: Caller) -> str | None:
        """Return the id of a new session of this key; None while the database is out of reach."""
        nonce = secrets.token_hex(16)
        try:
            session_id = f"{nonce}.{await self._signature(caller, nonce)}"
        except MemsvcError as error:
            log.warning("a client has no session", code=error.code.value)
            return None
        self._add_open(caller, _hash(session_id))
        return session_id

    async def find(self, caller: Caller, session_id: str) -> bytes | None:
        """Return the hash of a session's id; None for a name that is no id of ours.

        NOT_FOUND when it is another key's, or was ended.
        """
        nonce, separator, signature = session_id.partition(".")
        if not separator:
            return None
        session = _hash(session_id)
        if not hmac.compare_digest(
            signature.encode(), (await self._signature(caller, nonce)).encode()
        ):
            raise no_session()
        if session in self._open:
            self._open.move_to_end(session)
        elif await self.has_ended(session):
            raise no_session()
        else:
            self._add_open(caller, session)
        return session

    async def has_ended(self, session: bytes) -> bool:
        """Return whether a session was ended."""
        return await server_secrets.is_session_closed(self._database, session)

    async def end(self, caller: Caller, session: bytes) -> None:
        """End a session, on every replica."""
        now, until = self._times()
        await server_secrets.close_session(self._database, session, until, now)
        async with self._begin(caller) as tx:
            await mcp_sessions.end(tx, session)
        self._drop_open(session)

    async def subscribe(self, caller: Caller, session: bytes, uri: str, poll: ChangePoll) -> None:
        """Store a subscription that has seen the poll's stamp; errors as `mcp_sessions`."""
        now, until = self._times()
        async with self._begin(caller) as tx:
            await mcp_sessions.subscribe(
                tx,
                session,
                uri,
                _stamp_text(poll.last),
                now=now,
                expires_at=until,
                sessions_max=self._limits.tenant_listeners_max,
                uris_max=self._limits.listener_uris_max,
            )

    async def unsubscribe(self, caller: Caller, session: bytes, uri: str) -> None:
        """Remove a subscription; a URI without one is no error."""
        async with self._begin(caller) as tx:
            await mcp_sessions.unsubscribe(tx, session, uri)

    async def resume(
        self, caller: Caller, session: bytes, stream: int, *, is_new: bool
    ) -> SubscribedSession | None:
        """Return what a stream has to go on with; None when nothing is subscribed to."""
        now, until = self._times()
        async with self._begin(caller) as tx:
            return await mcp_sessions.resume(
                tx, session, stream, is_new=is_new, now=now, expires_at=until
            )

    async def add_event(
        self, caller: Caller, session: bytes, stream: int, uri: str, poll: ChangePoll
    ) -> int | None:
        """Return the number of the event of a resource's present state; None for no event."""
        [stamp] = await poll.stamps(poll.scope, [poll.resource])
        async with self._begin(caller) as tx:
            return await mcp_sessions.add_event(tx, session, stream, uri, _stamp_text(stamp))

    def new_stream(self) -> int:
        """Return a number that is higher than those of streams opened before."""
        return int(self._clock.now().timestamp() * 1_000_000)

    def _begin(self, caller: Caller) -> AbstractAsyncContextManager[Tx]:
        return self._database.begin_tenant(Scope(caller.tenant, ALL_PROJECTS))

    def _times(self) -> tuple[datetime, datetime]:
        """Return now, and until when a session is kept: twice as long as a stream may last."""
        now = self._clock.now()
        return now, now + timedelta(seconds=2 * self._limits.listen_s_max)

    async def _signature(self, caller: Caller, nonce: str) -> str:
        if self._secret is None:
            self._secret = await server_secrets.get_or_create(
                self._database, SECRET, self._clock.now()
            )
        owner = caller.tenant + caller.key_label.encode() + nonce.encode()
        return hmac.digest(self._secret, owner, "sha256").hex()[:32]

    def _add_open(self, caller: Caller, session: bytes) -> None:
        """Remember that a session is open, until any replica announces a change of it."""
        key = change_key(Scope(caller.tenant, ALL_PROJECTS), session_uri(session))
        forget = partial(self._drop_open, session)
        self._open[session] = (
            (lambda: None) if self._changes is None else self._changes.watch(key, forget)
        )
        if len(self._open) > OPEN_MAX:
            self._drop_open(next(iter(self._open)))

    def _drop_open(self, session: bytes) -> None:
        stop_watch = self._open.pop(session, None)
        if stop_watch is not None:
            stop_watch()


def no_session() -> MemsvcError:
    """Return the error for an id of no session of this caller."""
    return MemsvcError(Code.NOT_FOUND, "there is no such session", recovery="send initialize again")


def _hash(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()


def _stamp_text(stamp: object) -> str:
    return hashlib.blake2b(repr(stamp).encode(), digest_size=16).hexdigest()


class SessionStream:
    """One stream of a session, which sends each change of what its client subscribed to once."""

    def __init__(
        self,
        sessions: McpSessions,
        notifications: ChangeNotifications,
        sender: RequestSender,
        watch: Watch,
        session: bytes,
    ) -> None:
        self._sessions = sessions
        self._notifications = notifications
        self._sender = sender
        self._watch = watch
        self._session = session
        self._stream = sessions.new_stream()
        self._poll_by_uri: dict[str, ChangePoll] = {}
        self._stored: SubscribedSession | None = None
        self._changed: list[str] = []

    async def open(self, last: int | None) -> list[tuple[int, str]]:
        """Take the session over; return the events after the last that the client saw, in order.

        NOT_FOUND when the client saw events of a session that has expired.
        """
        caller, session = self._sender.caller, self._session
        scope = Scope(caller.tenant, ALL_PROJECTS)
        self._watch.add(_OWN, change_key(scope, session_uri(session)))
        stored = await self._sessions.resume(caller, session, self._stream, is_new=True)
        if stored is None:
            if last:
                raise no_session()
            return []
        self._stream = stored.stream
        await self._follow(stored)
        if last is None:
            return []
        events = [(event, uri) for uri, (_, event) in stored.subscriptions.items()]
        return sorted(event for event in events if event[0] > last)

    @property
    def event(self) -> int:
        """Number of the session's last event."""
        return 0 if self._stored is None else self._stored.event

    async def events(self, deadline: float) -> AsyncIterator[tuple[int, str] | None]:
        """Yield each event as it happens, and None as a heartbeat, until the stream is to end."""
        caller, session = self._sender.caller, self._session
        while True:
            for uri in self._changed:
                poll = self._poll_by_uri[uri]
                number = await self._sessions.add_event(caller, session, self._stream, uri, poll)
                if number is not None:
                    yield number, uri
            self._changed = []
            name = await self._watch.next_change(deadline)
            if name is None or not await is_valid(self._sender):
                return
            if name == HEARTBEAT:
                yield None
            elif name != _OWN:
                self._changed = [name]
            elif not await self._refresh():
                return

    async def _refresh(self) -> bool:
        """Follow changed subscriptions; return False when the session went to another stream."""
        caller, session = self._sender.caller, self._session
        stored = await self._sessions.resume(caller, session, self._stream, is_new=False)
        if stored is None:
            return self._stored is None and not await self._sessions.has_ended(session)
        if stored.stream != self._stream:
            return False
        await self._follow(stored)
        return True

    async def _follow(self, stored: SubscribedSession) -> None:
        """Watch what is subscribed to and no more, and note what has changed since it was sent."""
        self._stored = stored
        for uri in self._poll_by_uri.keys() - stored.subscriptions.keys():
            self._watch.remove(uri)
            del self._poll_by_uri[uri]
        for uri in stored.subscriptions.keys() - self._poll_by_uri.keys():
            try:
                resource = await self._notifications.resource(self._sender, uri)
            except MemsvcError as error:
                log.debug("a resource is not heard of", code=error.code.value)
                continue
            watch_resource(self._watch, uri, resource)
            self._poll_by_uri[uri] = resource.poll
            # an announced change may have come before it was watched for
            seen = stored.subscriptions[uri][0] == _stamp_text(resource.poll.last)
            if not (seen and resource.needs_poll):
                self._changed.append(uri)


class SessionEndpoint:
    """Answers GET by a stream of a session's events, and DELETE by ending the session."""

    def __init__(
        self,
        sessions: McpSessions,
        notifications: ChangeNotifications,
        subscriptions: Subscriptions,
        limits: LimitsOptions,
    ) -> None:
        self._sessions = sessions
        self._notifications = notifications
        self._subscriptions = subscriptions
        self._limits = limits

    async def handle(
        self, sender: RequestSender, scope: AsgiScope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of this sender; RATE_LIMITED, UNAVAILABLE, NOT_FOUND.

        A stream goes on until its time is over. `Last-Event-ID` is what the client saw last.
        """
        session = sender.session
        if session is None:
            raise no_session()
        if scope["method"] == "DELETE":
            await self._sessions.end(sender.caller, session)
            await Response(status_code=204)(scope, receive, send)
            return
        request = Request(scope, receive)
        last = last_event(request)
        with (
            self._subscriptions.opened(sender.caller.tenant, own=1) as watch,
            sender.watch_validity(watch.close),
            sent_in_time(send, WRITE_S_MAX) as send_in_time,
        ):
            stream = SessionStream(self._sessions, self._notifications, sender, watch, session)
            pending = await stream.open(last)
            starts_with_event = request.headers.get("mcp-protocol-version", "") >= EMPTY_EVENT_SINCE
            first = stream.event if last is None else last
            opening = b"id: %d\ndata:\n\n" % first if starts_with_event else b":\n\n"
            parts = self._parts(stream, opening, pending)
            await event_stream(parts)(scope, receive, send_in_time)

    async def _parts(
        self, stream: SessionStream, opening: bytes, pending: list[tuple[int, str]]
    ) -> AsyncIterator[bytes]:
        deadline = anyio.current_time() + self._limits.listen_s_max
        yield opening
        for entry in pending:
            yield _message(*entry)
        try:
            async for event in stream.events(deadline):
                yield b":\n\n" if event is None else _message(*event)
        except MemsvcError as error:  # the client comes back with its last event
            log.warning("a stream was ended by an error", code=error.code.value)


def _message(number: int, uri: str) -> bytes:
    message = {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": uri},
    }
    return b"id: %d\nevent: message\ndata: %s\n\n" % (number, orjson.dumps(message))
