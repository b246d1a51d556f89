"""Sessions of the 2025-11-25 wire, for clients that want to hear of changes outside of answers.

The id of a session is signed, so a session that nobody subscribes in costs nothing. A row stands
for each that somebody did, from which any replica resumes.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import anyio
import structlog

from memsvc.core.errors import MemsvcError, not_found
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Caller, Scope
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.request import RequestSender, is_valid
from memsvc.gateway.mcp.subscriptions import HEARTBEAT, SubscribedResource, Watch
from memsvc.store import mcp_sessions, server_secrets
from memsvc.store.changes import ChangePoll, Changes, change_key
from memsvc.store.database import Database, Tx
from memsvc.store.mcp_sessions import SubscribedSession, question_uri, session_uri, stream_uri

log = structlog.get_logger("memsvc.mcp")

_Parameters = ParamSpec("_Parameters")
_Done = TypeVar("_Done")

SECRET: Final = "mcp sessions"  # noqa: S105 - the name of the secret that signs the ids
OPEN_MAX: Final = 10_000
"""Sessions of a process that are known to be open without a look-up."""
CAN_ELICIT: Final = "-e"
"""End of what is signed in the id of a session whose client shows its user forms."""
STATE_S_MAX: Final = 600
"""Seconds after a question in which a client may call again with the answer."""
REMOVE_S_MAX: Final = 5.0
"""Seconds in which a question is removed that nobody waits for any longer."""


@dataclass(slots=True)
class McpSessions:
    """Sessions of this process's clients, and of those that other replicas began."""

    database: Database
    clock: Clock
    changes: Changes
    limits: LimitsOptions
    _secret: bytes | None = None
    _open: OrderedDict[bytes, Callable[[], None]] = field(default_factory=OrderedDict)

    async def new_id(self, caller: Caller, *, can_elicit: bool) -> str | None:
        """Return the id of a new session of this key; None while the database is out of reach.

        It says whether the client `can_elicit`: shows its user forms."""
        nonce = secrets.token_hex(16) + (CAN_ELICIT if can_elicit else "")
        try:
            session_id = f"{nonce}.{await self._signature(caller, nonce)}"
        except MemsvcError as error:
            log.warning("no MCP session could be created for a client", code=error.code.value)
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
        return await server_secrets.is_session_closed(self.database, session)

    async def end(self, caller: Caller, session: bytes) -> None:
        """End a session, on every replica."""
        now, until = self._times()
        await server_secrets.close_session(self.database, session, until, now)
        await self._run(caller, mcp_sessions.end, session)
        self._drop_open(session)

    async def subscribe(self, caller: Caller, session: bytes, uri: str, poll: ChangePoll) -> None:
        """Store a subscription that has seen the poll's stamp; errors as `mcp_sessions`."""
        now, until = self._times()
        await self._run(
            caller,
            mcp_sessions.subscribe,
            session,
            uri,
            stamp_text(poll.last),
            now=now,
            expires_at=until,
            sessions_max=self.limits.tenant_listeners_max,
            uris_max=self.limits.listener_uris_max,
        )

    async def unsubscribe(self, caller: Caller, session: bytes, uri: str) -> None:
        """Remove a subscription; a URI without one is no error."""
        await self._run(caller, mcp_sessions.unsubscribe, session, uri)

    async def resume(
        self, caller: Caller, session: bytes, stream: int, *, is_new: bool
    ) -> SubscribedSession | None:
        """Return what a stream has to go on with; None when nothing is subscribed to."""
        now, until = self._times()
        return await self._run(
            caller, mcp_sessions.resume, session, stream, is_new=is_new, now=now, expires_at=until
        )

    async def add_event(
        self, caller: Caller, session: bytes, stream: int, uri: str, poll: ChangePoll
    ) -> int | None:
        """Return the number of the event of a resource's present state; None for no event."""
        [stamp] = await poll.stamps(poll.scope, [poll.resource])
        return await self._run(
            caller, mcp_sessions.add_event, session, stream, uri, stamp_text(stamp)
        )

    async def ask(
        self,
        caller: Caller,
        session: bytes,
        question: str,
        watch: Watch,
        within_s: float,
        *,
        stream: str = "",
        send: Callable[[], Awaitable[None]] | None = None,
    ) -> dict[str, Any] | None:
        """Return the answer to a question; None without one in time, or once the watch is closed.

        It is asked by `send`, or the process that has the events of a `stream` is told of it.
        Nothing is stored any longer once nobody waits.
        """
        deadline = anyio.current_time() + within_s
        answer = None
        watch.add(question, change_key(Scope(caller.tenant, ALL_PROJECTS), question_uri(question)))
        try:
            await self._add_question(caller, session, question, within_s, stream)
            if send is not None:
                await send()
            while answer is None and await watch.next_change(deadline) is not None:
                answer = await self._run(caller, mcp_sessions.pop_answer, question)
        finally:
            watch.remove(question)
            if answer is None:
                await self._remove_question(caller, question)
        return answer

    async def _add_question(
        self, caller: Caller, session: bytes, question: str, within_s: float, stream: str
    ) -> None:
        now = self.clock.now()
        await self._run(
            caller,
            mcp_sessions.add_question,
            session,
            question,
            stream,
            now=now,
            expires_at=now + timedelta(seconds=within_s),
        )

    async def _remove_question(self, caller: Caller, question: str) -> None:
        """Remove a question with any answer, also for an asker that is cancelled."""
        with anyio.move_on_after(REMOVE_S_MAX, shield=True):
            try:
                await self._run(caller, mcp_sessions.remove_question, question)
            except MemsvcError as error:  # the sweep removes it
                log.warning(
                    "a confirmation prompt could not be deleted after it was answered",
                    code=error.code.value,
                )

    async def stream_questions(self, caller: Caller, session: bytes, stream: str) -> list[str]:
        """Return the open questions about a stream of this session."""
        now = self.clock.now()
        return await self._run(caller, mcp_sessions.questions, session, f"{stream}-", now)

    def watch_stream(
        self, caller: Caller, stream: str, callback: Callable[[], None]
    ) -> Callable[[], None]:
        """Call back when a question about a stream is stored; return what ends that."""
        return self._watch(caller, stream_uri(stream), callback)

    async def answer(
        self, caller: Caller, session: bytes, question: str, result: dict[str, Any]
    ) -> bool:
        """Store an answer for whichever replica waits; False where nobody waits for it."""
        now = self.clock.now()
        return await self._run(caller, mcp_sessions.answer, session, question, result, now)

    async def new_state(self, caller: Caller, about: str) -> str:
        """Return a signed state for a client to send with the answer to a question about this."""
        until = int(self.clock.now().timestamp()) + STATE_S_MAX
        return f"{until}.{await self._signature(caller, f'{until} {about}')}"

    async def is_state(self, caller: Caller, about: str, state: str) -> bool:
        """Return whether this is such a state, and not too old."""
        until, _, signature = state.partition(".")
        expected = await self._signature(caller, f"{until} {about}")
        return (
            hmac.compare_digest(signature.encode(), expected.encode())
            and int(until) >= self.clock.now().timestamp()
        )

    def new_stream(self) -> int:
        """Return a number that is higher than those of streams opened before."""
        return int(self.clock.now().timestamp() * 1_000_000)

    async def _run(
        self,
        caller: Caller,
        operation: Callable[Concatenate[Tx, _Parameters], Awaitable[_Done]],
        *arguments: _Parameters.args,
        **options: _Parameters.kwargs,
    ) -> _Done:
        """Return the result of an operation of the store, in a transaction over the tenant."""
        async with self.database.begin_tenant(Scope(caller.tenant, ALL_PROJECTS)) as tx:
            return await operation(tx, *arguments, **options)

    def _times(self) -> tuple[datetime, datetime]:
        """Return now, and until when a session is kept: twice as long as a stream may last."""
        now = self.clock.now()
        return now, now + timedelta(seconds=2 * self.limits.listen_s_max)

    async def _signature(self, caller: Caller, nonce: str) -> str:
        if self._secret is None:
            self._secret = await server_secrets.get_or_create(
                self.database, SECRET, self.clock.now()
            )
        owner = caller.tenant + caller.key_label.encode() + nonce.encode()
        return hmac.digest(self._secret, owner, "sha256").hex()[:32]

    def _add_open(self, caller: Caller, session: bytes) -> None:
        """Remember that a session is open, until any replica announces a change of it."""
        forget = partial(self._drop_open, session)
        self._open[session] = self._watch(caller, session_uri(session), forget)
        if len(self._open) > OPEN_MAX:
            self._drop_open(next(iter(self._open)))

    def _watch(self, caller: Caller, uri: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self.changes.watch(change_key(Scope(caller.tenant, ALL_PROJECTS), uri), callback)

    def _drop_open(self, session: bytes) -> None:
        stop_watch = self._open.pop(session, None)
        if stop_watch is not None:
            stop_watch()


def can_elicit(session_id: str) -> bool:
    """Return whether a session's id says that its client shows its user forms."""
    return session_id.partition(".")[0].endswith(CAN_ELICIT)


def no_session() -> MemsvcError:
    """Return the error for an id of no session of this caller."""
    return not_found(
        "the MCP session does not exist", recovery="send initialize again to start a new session"
    )


def _hash(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()


def stamp_text(stamp: object) -> str:
    """Return a short text of a resource's stamp, by which two are compared."""
    return hashlib.blake2b(repr(stamp).encode(), digest_size=16).hexdigest()


_OWN: Final = "session"
"""Name under which a stream watches its session, among the URIs of resources."""
ResourceOf = Callable[[RequestSender, str], Awaitable[SubscribedResource]]
"""Returns a resource that a caller may watch; the errors are those of reading it."""


class SessionStream:
    """One stream of a session, which sends each change of what its client subscribed to once."""

    def __init__(
        self,
        sessions: McpSessions,
        resource_of: ResourceOf,
        sender: RequestSender,
        watch: Watch,
        session: bytes,
    ) -> None:
        self._sessions = sessions
        self._resource_of = resource_of
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
                resource = await self._resource_of(self._sender, uri)
            except MemsvcError as error:
                log.debug(
                    "a client cannot subscribe to a resource and gets no notifications"
                    " about this resource",
                    code=error.code.value,
                )
                continue
            self._watch.add_resource(uri, resource)
            self._poll_by_uri[uri] = resource.poll
            # an announced change may have come before it was watched for
            seen = stored.subscriptions[uri][0] == stamp_text(resource.poll.last)
            if not (seen and resource.needs_poll):
                self._changed.append(uri)
