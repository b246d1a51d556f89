"""Sessions of the 2025-11-25 wire at /mcp: changes told on a stream of their own, resumed on any
replica."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import httpx2
import orjson
import pytest

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp import sessions as sessions_module
from memsvc.store.database import Database
from memsvc.store.keys import create_key, hash_key, revoke_key
from tests.fakes import FakeClock
from tests.gateway.wired import Opened
from tests.waiting import until

pytestmark = pytest.mark.anyio

VERSION = "2025-11-25"
BOARD = "memory://alice/1"
UPDATED = "notifications/resources/updated"


class Client:
    """A client of the older wire, whose every request is seen."""

    def __init__(self, http: httpx2.AsyncClient, key: str) -> None:
        self.http = http
        self.session = ""
        self._headers = {"Authorization": f"Bearer {key}", "MCP-Protocol-Version": VERSION}

    async def initialize(self, url: str) -> None:
        params = {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        came = await self.post(url, "initialize", **params)
        self.session = came.headers["mcp-session-id"]

    def headers(self, **more: str) -> dict[str, str]:
        accept = "application/json, text/event-stream"
        named = {"Mcp-Session-Id": self.session} if self.session else {}
        return self._headers | {"Accept": accept} | named | more

    async def post(self, url: str, method: str, **params: Any) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post(f"{url}/mcp", json=body, headers=self.headers())

    async def subscribe(self, url: str, *uris: str) -> None:
        for uri in uris or (BOARD,):
            came = await self.post(url, "resources/subscribe", uri=uri)
            assert came.json()["result"] == {}

    async def delete(self, url: str) -> int:
        return (await self.http.delete(f"{url}/mcp", headers=self.headers())).status_code

    async def status(self, url: str, **headers: str) -> int:
        """What GET answers that opens no stream."""
        came = await self.http.get(f"{url}/mcp", headers=self.headers(**headers))
        return came.status_code

    @asynccontextmanager
    async def stream(self, url: str, last: str = "") -> AsyncIterator["Stream"]:
        headers = self.headers(**({"Last-Event-ID": last} if last else {}))
        async with self.http.stream("GET", f"{url}/mcp", headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            stream = Stream(response.aiter_lines())
            stream.opened_at = (await stream.event())[0]
            yield stream


class Stream:
    """What comes on a stream of a session."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.opened_at = ""

    async def event(self) -> tuple[str, str]:
        """The id of the next event, and the URI that it is about."""
        number, data = "", None
        async with asyncio.timeout(10):
            async for line in self._lines:
                name, _, value = line.partition(":")
                if name == "id":
                    number = value.strip()
                elif name == "data":
                    data = value.strip()
                elif not line and data is not None:
                    break
            else:
                raise StopAsyncIteration
        if not data:
            return number, ""
        message = orjson.loads(data)
        assert message["method"] == UPDATED
        return number, message["params"]["uri"]

    async def ended(self) -> None:
        with pytest.raises(StopAsyncIteration):
            await self.event()


@asynccontextmanager
async def client(url: str, key: str = "key-one") -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(timeout=30) as http:
        made = Client(http, key)
        await made.initialize(url)
        yield made


async def rows(admin: asyncpg.Connection) -> int:
    return int(await admin.fetchval("SELECT count(*) FROM mcp_sessions"))


async def test_changes_are_told_on_a_stream_of_another_server_than_subscribed_at(
    replica: Opened,
) -> None:
    async with replica() as here, replica() as there, client(here.url) as one:
        async with one.stream(there.url) as stream:
            await one.subscribe(here.url, BOARD, "memory://alice/%32")
            await here.write()
            assert await stream.event() == ("1", BOARD)
            await here.write("2")
            assert await stream.event() == ("2", "memory://alice/%32")
            await one.post(here.url, "resources/unsubscribe", uri=BOARD)
            await here.write()
            await here.write("2")
            assert await stream.event() == ("3", "memory://alice/%32")
            assert there.streams() == 1
        await until(lambda: there.streams() == 0)


async def test_a_stream_resumes_on_another_server_after_the_last_event(replica: Opened) -> None:
    async with replica() as here, replica() as there, client(here.url) as one:
        await one.subscribe(here.url, BOARD, "memory://alice/2", "memory://alice/3")
        async with one.stream(here.url) as stream:
            assert stream.opened_at == "0"
            await here.write()
            assert await stream.event() == ("1", BOARD)
            await here.write("2")
            assert await stream.event() == ("2", "memory://alice/2")
        await here.write("3")
        async with one.stream(there.url, last="1") as stream:
            assert stream.opened_at == "1"
            assert await stream.event() == ("2", "memory://alice/2")
            assert await stream.event() == ("3", "memory://alice/3")
            await here.write()
            assert await stream.event() == ("4", BOARD)
        async with one.stream(there.url, last="4") as stream:
            await here.write("2")
            assert await stream.event() == ("5", "memory://alice/2")


async def test_a_session_has_one_stream_the_latest(replica: Opened) -> None:
    async with replica() as here, replica() as there, client(here.url) as one:
        await one.subscribe(here.url)
        async with one.stream(here.url) as first, one.stream(there.url) as second:
            await first.ended()
            await here.write()
            assert await second.event() == ("1", BOARD)


async def test_a_session_that_is_ended_is_gone_on_every_server(
    replica: Opened, admin: asyncpg.Connection
) -> None:
    async with replica() as here, replica() as there, client(here.url) as one:
        await one.subscribe(there.url)
        assert await rows(admin) == 1
        async with one.stream(there.url) as stream:
            assert await one.delete(here.url) == 204
            await stream.ended()
        assert await rows(admin) == 0
        for server in (here, there):
            assert (await one.post(server.url, "ping")).status_code == 404
            assert await one.status(server.url) == 404
            assert await one.delete(server.url) == 404


async def test_a_session_of_somebody_else_is_not_there(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    made = await create_key(database, "second", clock.now(), tenant=hash_key("key-one"))
    async with replica() as server, client(server.url) as one:
        await one.subscribe(server.url)
        for key in ("key-two", made.text):
            other = Client(one.http, key)
            other.session = one.session
            for method in ("ping", "resources/subscribe", "tools/list"):
                came = await other.post(server.url, method, uri=BOARD)
                assert came.status_code == 404
                assert came.json()["code"] == "NOT_FOUND"
            assert await other.status(server.url) == 404
            assert await other.delete(server.url) == 404
        async with one.stream(server.url) as stream:
            await server.write(key="key-two")
            await server.write()
            assert await stream.event() == ("1", BOARD)


async def test_a_name_that_is_no_session_is_served_without_one(replica: Opened) -> None:
    async with replica() as server, client(server.url) as one:
        for name in ("", "one"):
            one.session = name
            assert (await one.post(server.url, "ping")).json()["result"] == {}
            refused = (await one.post(server.url, "resources/subscribe", uri=BOARD)).json()
            assert "subscribing to a resource needs an MCP session" in refused["error"]["message"]
            assert await one.status(server.url) == (404 if name else 405)
            assert await one.delete(server.url) == (404 if name else 405)


async def test_who_subscribes_to_nothing_leaves_nothing(
    replica: Opened, admin: asyncpg.Connection
) -> None:
    async with replica() as server, client(server.url) as one:
        async with one.stream(server.url):
            assert (await one.post(server.url, "tools/list")).status_code == 200
        assert await rows(admin) == 0


async def test_sessions_expire_and_are_bounded(
    replica: Opened, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    limits = LimitsOptions(tenant_listeners_max=2, listener_uris_max=2, listen_s_max=60)
    async with (
        replica(limits=limits) as server,
        client(server.url) as one,
        client(server.url) as two,
        client(server.url) as three,
    ):
        await one.subscribe(server.url, BOARD, "memory://alice/2")
        over = (await one.post(server.url, "resources/subscribe", uri="memory://alice/3")).json()
        assert over["error"]["data"]["code"] == "INVALID_ARGUMENT"
        await two.subscribe(server.url)
        full = (await three.post(server.url, "resources/subscribe", uri=BOARD)).json()
        assert full["error"]["data"]["code"] == "RATE_LIMITED"
        async with one.stream(server.url) as stream, two.stream(server.url):
            assert await three.status(server.url) == 429
            await server.write()
            assert (await stream.event())[1] == BOARD
        clock.advance(timedelta(seconds=121))
        await three.subscribe(server.url)
        assert await rows(admin) == 1
        assert await one.status(server.url, **{"Last-Event-ID": "1"}) == 404


async def test_a_stream_ends_in_time_and_with_its_key(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    made = await create_key(database, "narrow", clock.now(), tenant=hash_key("key-one"))
    auth = AuthOptions(mode="open", cache_s=0)
    async with (
        replica(limits=LimitsOptions(listen_s_max=0.05)) as server,
        client(server.url) as one,
        one.stream(server.url) as stream,
    ):
        await stream.ended()
    async with replica(auth=auth) as server, client(server.url, made.text) as one:
        await one.subscribe(server.url)
        async with one.stream(server.url) as stream:
            await revoke_key(database, made.key.key_id, clock.now())
            await server.write()
            await stream.ended()
        await until(lambda: server.streams() == 0)


async def test_an_idle_stream_is_kept_alive(
    replica: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.gateway.mcp.subscriptions.HEARTBEAT_S", 0.02)
    async with replica() as server, client(server.url) as one:
        headers = one.headers()
        async with one.http.stream("GET", f"{server.url}/mcp", headers=headers) as response:
            lines = response.aiter_lines()
            async with asyncio.timeout(10):
                while await anext(lines) != ":":
                    pass


async def test_a_session_is_known_without_a_look_up_where_it_began(
    replica: Opened, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bytes] = []
    has_ended = sessions_module.McpSessions.has_ended

    async def counted(self: Any, session: bytes) -> bool:
        looked.append(session)
        return await has_ended(self, session)

    monkeypatch.setattr(sessions_module.McpSessions, "has_ended", counted)
    async with replica() as here, replica() as there, client(here.url) as one:
        for _ in range(3):
            await one.post(here.url, "ping")
        assert looked == []
        for _ in range(3):
            await one.post(there.url, "ping")
        assert len(looked) == 1


async def test_a_wrong_last_event_is_refused(replica: Opened) -> None:
    async with replica() as server, client(server.url) as one:
        assert await one.status(server.url, **{"Last-Event-ID": "x"}) == 400
