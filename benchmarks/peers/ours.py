"""This service, asked as its clients ask it: turns over HTTP by the SDK's client, on embedded
PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from time import perf_counter

import asyncpg
from mcp import Client

from benchmarks.faults.serving import kill_postgres
from benchmarks.footprint import stored_bytes
from benchmarks.locomo import item
from benchmarks.peers.child import family
from benchmarks.peers.store import Found, Ground, Peer, Store, Turn
from benchmarks.recall import in_prompt
from benchmarks.service import Service, call
from memsvc.adapters.postgres import EmbeddedPostgres
from tests.e2e.process import CHECKOUT, Served

SETTINGS = {
    "MEMSVC_AUTH__MODE": "open",
    "MEMSVC_LOG_LEVEL": "warning",
    "MEMSVC_LIMITS__RATES__ENABLED": "false",
}
PROVIDER = "MEMSVC_EMBEDDINGS__PROVIDER"
SETTLE_S = 120.0
POLL_S = 0.2
WAITING = """
    SELECT count(*) FROM memsvc_queue
    WHERE status IN ('queued', 'picked') AND execute_after < now() + interval '1 minute'
"""


class Ours:
    """The `Store` behind a server. A user is a tenant with a key of its own, and has one
    session."""

    def __init__(self, served: Served, ground: Ground) -> None:
        self._served = served
        self._ground = ground
        self._clients: dict[str, Client] = {}
        self._leaving = asyncio.Event()
        self._connections: list[asyncio.Task[None]] = []

    async def add(self, user: str, turn: Turn) -> float:
        client = await self._client(user)
        for kind, said in (("in", turn.asked), ("out", turn.answered)):
            for at, one in enumerate(said):
                self._ground.said[f"{turn.name}-{kind}-{at}"].add(one.dia_id)
        asked = [item(one, "user") for one in turn.asked]
        answered = [item(one, "assistant") for one in turn.answered]
        given = {
            "session_id": user,
            "turn_id": turn.name,
            "input_items": asked,
            "output_items": answered,
        }
        started = perf_counter()
        await call(client, "memory_after_turn", **given)
        return (perf_counter() - started) * 1000

    async def fill(self, user: str, turns: Sequence[Turn]) -> None:
        for turn in turns:
            await self.add(user, turn)

    async def settle(self) -> None:
        """What is stored is found at once, by words and by meaning; jobs make the vectors of what
        was stored while the encoder was loading."""
        async with asyncio.timeout(SETTLE_S), self._database() as dsn:
            connection = await asyncpg.connect(dsn)
            try:
                while await connection.fetchval(WAITING):  # noqa: ASYNC110 - another process does them
                    await asyncio.sleep(POLL_S)
            finally:
                await connection.close()

    async def search(self, user: str, text: str, way: str) -> Found:
        client = await self._client(user)
        started = perf_counter()
        told = await call(
            client, "memory_before_turn", session_id=user, current_input=text, explain=True
        )
        ms = (perf_counter() - started) * 1000
        return Found([self._ground.behind(one["ref"]) for one in in_prompt(told)], ms)

    async def data_bytes(self) -> int:
        """Tables and their indexes: the files hold logs of the database's besides, which are made
        ahead."""
        async with self._database() as dsn:
            return await stored_bytes(dsn)

    def pids(self) -> list[int]:
        """The server, and PostgreSQL with its children."""
        place = self._ground.data / "data" / "postgres" / "postmaster.pid"
        postmaster = int(place.read_text().splitlines()[0])
        return list({*family(self._served.process.pid), *family(postmaster)})

    async def kill(self) -> None:
        self._served.process.kill()
        await asyncio.to_thread(self._served.process.wait)
        await asyncio.to_thread(kill_postgres, self._ground.data / "data")
        await self._leave()

    async def close(self) -> None:
        await self._leave()
        await asyncio.to_thread(self._served.stop)

    async def _leave(self) -> None:
        self._leaving.set()
        await asyncio.gather(*self._connections)

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[str]:
        postgres = EmbeddedPostgres(self._ground.data / "data")  # joins the server's
        urls = await asyncio.to_thread(postgres.start)
        try:
            yield urls.admin_url
        finally:
            await asyncio.to_thread(postgres.stop)

    async def _client(self, user: str) -> Client:
        if user not in self._clients:
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            connection = asyncio.create_task(self._connected(user, ready))
            self._connections.append(connection)
            await asyncio.wait({connection, ready}, return_when=asyncio.FIRST_COMPLETED)
            if connection.done():
                connection.result()  # it has failed, and says why
            self._clients[user] = ready.result()
        return self._clients[user]

    async def _connected(self, user: str, ready: "asyncio.Future[Client]") -> None:
        """A client's connection, in a task of its own: it must be left in the task that entered it,
        and in one task those of two servers could only be left in the order in which they were
        entered."""
        async with Service(f"{self._served.url}/mcp", user).client() as client:
            ready.set_result(client)
            await self._leaving.wait()


async def _open(settings: dict[str, str], ground: Ground) -> Store:
    started = partial(Served, ground.data / "data", **SETTINGS, **settings)
    return Ours(await asyncio.to_thread(started), ground)


OURS = Peer(
    name="memsvc",
    version=version("memsvc"),
    packages=(str(CHECKOUT),),
    installer="pip",
    used="MCP over HTTP by the SDK's client",
    separation="by the key, which the server checks",
    open=partial(_open, {PROVIDER: "bundled"}),
    ways=("before_turn",),
)
WORDS_ALONE = replace(
    OURS,
    name="memsvc, words alone",
    used="the same, without search by meaning",
    open=partial(_open, {PROVIDER: ""}),
    behaves_as=OURS.name,
)
