"""Changes of resources, announced to every process or polled for while somebody waits.

A change says that a resource at a URI is different now, and nothing of its content.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import asyncpg
import structlog

from memsvc.core.background import in_background, wait_for_event
from memsvc.core.errors import MemsvcError
from memsvc.core.scope import Scope
from memsvc.store.connections import connected_once, is_direct
from memsvc.store.database import Tx

log = structlog.get_logger("memsvc.changes")

CHANNEL: Final = "memsvc_changes"
CONNECT_S_MAX: Final = 10.0
ECHO_S_MAX: Final = 10.0
ECHO_INTERVAL_S: Final = 15.0
RECONNECT_S_MIN: Final = 0.5
RECONNECT_S_MAX: Final = 30.0
RECONNECT_RESET_S: Final = 60.0
"""A connection that lasted this long is reopened at once; one that did not, with growing pauses."""
CLOSE_S_MAX: Final = 2.0
POLL_INTERVAL_S: Final = 1.0
POLL_BATCH: Final = 100
"""How many resources of one kind and project one query is about."""

_LOST = (
    TimeoutError,
    OSError,
    ValueError,
    asyncpg.InterfaceError,
    asyncpg.PostgresError,
    asyncpg.InternalClientError,
)


def change_key(scope: Scope, uri: str) -> str:
    """Return the hash that identifies a change by its scope and URI, revealing neither."""
    return scope.digest(uri, size=32).hex()


async def notify(tx: Tx, uri: str) -> None:
    """Notify every process, on commit, that the resource at this URI has changed."""
    await tx.unbound("SELECT pg_notify($1, $2)", CHANNEL, change_key(tx.scope, uri))


Stamps = Callable[[Scope, Sequence[Any]], Awaitable[Sequence[object]]]
"""Returns the stamps of some resources of one project, in the order of the request."""


@dataclass(slots=True)
class ChangePoll:
    """Poll for changes of a resource that nobody announces.

    Its stamp is read at intervals while somebody waits, together with others of its kind and
    project, and compared with the `last`.
    """

    stamps: Stamps
    scope: Scope
    resource: Any
    last: object

    @classmethod
    async def start(cls, stamps: Stamps, scope: Scope, resource: Any) -> "ChangePoll":
        """Return a look that starts from the present stamp."""
        [last] = await stamps(scope, [resource])
        return cls(stamps, scope, resource, last)


_Group = tuple[Stamps, bytes, str]
"""Resources of one kind, tenant and project, which one query can be about."""


class Changes:
    """Changes that this process receives, whoever made them, and those who wait for them here.

    A connection of its own listens, which must not go through a pooler: it is tested by an echo, at
    its start and from time to time, and reopened for ever when it is lost. Behind a pooler, another
    connection sends the first echo: in transaction mode a sender may receive its own message while
    nobody else does. Each time that listening resumes, everybody who waits is notified, as anything
    may have changed meanwhile. `listening` says whether it receives. Polling needs no such
    connection: an outage delays it, and loses nothing.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiting: dict[str, dict[object, Callable[[], None]]] = {}
        self._poll_states: dict[str, ChangePoll] = {}
        self._failed_groups: set[_Group] = set()
        self._echo, self._echo_received = "", asyncio.Event()
        self._outage = False
        self.listening = False

    def watch(
        self, key: str, callback: Callable[[], None], poll: ChangePoll | None = None
    ) -> Callable[[], None]:
        """Call `told`, which must not block or raise, for each change of this key.

        Return a function that ends it. With a `poll`, changes are polled for too, once for all who
        wait.
        """
        token = object()
        self._waiting.setdefault(key, {})[token] = callback
        if poll is not None and self._poll_states.setdefault(key, poll).last != poll.last:
            callback()  # the resource changed since this look began

        def end() -> None:
            waiting = self._waiting.get(key, {})
            waiting.pop(token, None)
            if not waiting:
                self._waiting.pop(key, None)
                self._poll_states.pop(key, None)

        return end

    def watch_count(self) -> int:
        """Return the number of keys that somebody waits for."""
        return len(self._waiting)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen in the background; the connection is closed at the end."""
        async with in_background(self._listen_loop()), in_background(self._poll_loop()):
            yield

    async def _poll_loop(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            groups: dict[_Group, list[str]] = {}
            for key, poll in self._poll_states.items():
                groups.setdefault((poll.stamps, poll.scope.tenant, poll.scope.project), []).append(
                    key
                )
            self._failed_groups &= groups.keys()
            for group, keys in groups.items():
                for at in range(0, len(keys), POLL_BATCH):
                    await self._poll(group, keys[at : at + POLL_BATCH])

    async def _poll(self, group: _Group, keys: Sequence[str]) -> None:
        """Poll resources of one group, unless nobody waits for them any longer.

        A failure is logged when it begins and when it ends: changes made meanwhile are seen then.
        """
        states = {key: self._poll_states[key] for key in keys if key in self._poll_states}
        if not states:
            return
        first = next(iter(states.values()))
        try:
            seen = await first.stamps(first.scope, [poll.resource for poll in states.values()])
            pairs = list(zip(states.items(), seen, strict=True))
        except (MemsvcError, *_LOST) as error:
            if group not in self._failed_groups:
                self._failed_groups.add(group)
                code = error.code if isinstance(error, MemsvcError) else None
                log.warning(
                    "the database cannot be polled for changes at the moment",
                    error=type(error).__name__,
                    code=code,
                )
            return
        if group in self._failed_groups:
            self._failed_groups.discard(group)
            log.info("the database can be polled for changes again")
        for (key, poll), stamp in pairs:
            if stamp != poll.last:
                poll.last = stamp
                self._notify(key)

    async def _listen_loop(self) -> None:
        pause_s = RECONNECT_S_MIN
        while True:
            started_s = monotonic()
            try:
                await self._listen()
            except _LOST as error:
                if not self._outage:
                    details = {
                        "error": type(error).__name__,
                        "recovery": "if the database is behind a pooler, set database.direct_url",
                    }
                    log.warning("change notifications are not received at the moment", **details)
                self._outage = True
            await asyncio.sleep(pause_s)
            pause_s = (
                RECONNECT_S_MIN
                if monotonic() - started_s > RECONNECT_RESET_S
                else min(pause_s * 2, RECONNECT_S_MAX)
            )

    async def _listen(self) -> None:
        """Listen until the connection is lost, which raises."""
        connection = await asyncpg.connect(
            self._url,
            timeout=CONNECT_S_MAX,
            command_timeout=ECHO_S_MAX,
            statement_cache_size=0,
            server_settings={"application_name": "memsvc changes"},
        )
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(CHANNEL, self._on_notify)
            if await is_direct(connection):
                await self._verify_echo(connection)
            else:
                async with connected_once(self._url) as sender:
                    await self._verify_echo(sender)
            if self._outage:
                log.info("change notifications are received again")
            self._outage, self.listening = False, True
            for key in list(self._waiting):
                self._notify(key)
            while True:
                await wait_for_event(lost, ECHO_INTERVAL_S)
                await self._verify_echo(connection)
        finally:
            self.listening = False
            with suppress(*_LOST):
                await connection.close(timeout=CLOSE_S_MAX)

    async def _verify_echo(self, connection: asyncpg.Connection) -> None:
        """Send a message over this connection and receive it; TimeoutError when it does not arrive.

        A pooler or a dead connection is the cause.
        """
        self._echo, self._echo_received = f"echo {secrets.token_hex(8)}", asyncio.Event()
        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, self._echo)
        async with asyncio.timeout(ECHO_S_MAX):
            await self._echo_received.wait()

    def _on_notify(
        self, _connection: object, _process: int, _channel: str, payload: object
    ) -> None:
        if payload == self._echo:
            self._echo_received.set()
        elif isinstance(payload, str):
            self._notify(payload)

    def _notify(self, key: str) -> None:
        for callback in list(self._waiting.get(key, {}).values()):
            callback()
