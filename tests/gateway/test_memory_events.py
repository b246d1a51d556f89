"""What is found in conversations is told as it happens, on any replica, to those whose it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import LimitsOptions
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
PATIENCE_S = 20


class Listener:
    """A client that reads a stream."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.text = ""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.gone = asyncio.Event()

    async def start(self) -> None:
        """Wait for the status and, of a stream, for its first line."""
        first = await self._next()
        self.status = first["status"]
        self.headers = {name.decode(): value.decode() for name, value in first["headers"]}
        await self._read()

    async def event(self) -> dict[str, Any]:
        """The next event: its id, its name and its data."""
        while "event:" not in self.text or not self.text.partition("event:")[2].count("\n\n"):
            await self._read()
        before, _, rest = self.text.partition("event:")
        event, _, self.text = rest.partition("\n\n")
        name, _, data = event.partition("\ndata: ")
        return {
            "id": before.rpartition("id: ")[2].strip(),
            "name": name.strip(),
            "data": orjson.loads(data),
        }

    async def end(self) -> None:
        """Wait until the stream ends."""
        while (await self._next()).get("more_body"):
            pass

    async def _read(self) -> None:
        self.text += (await self._next()).get("body", b"").decode()

    async def _next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.parts.get()


@asynccontextmanager
async def listening(
    service: Service, query: str = "", key: str = "key-one", **headers: str
) -> AsyncIterator[Listener]:
    """A client of the stream, which goes away at the end."""
    listener = Listener()
    given = {"host": "127.0.0.1:8080", "authorization": f"Bearer {key}"} | headers
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/api/memories/events",
        "raw_path": b"/api/memories/events",
        "query_string": query.encode(),
        "root_path": "",
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in given.items()
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
    }
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await listener.gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        listener.parts.put_nowait(message)

    task = asyncio.create_task(service.app(scope, receive, send))
    try:
        await listener.start()
        yield listener
    finally:
        listener.gone.set()
        async with asyncio.timeout(PATIENCE_S):
            await task


async def say(service: Service, text: str, key: str = "key-one", **query: str) -> None:
    async with service.http(key) as http:
        body = {"messages": [{"role": "user", "content": text}], "user_id": "alex"}
        assert (await http.post("/api/memories", params=query, json=body)).status_code == 200


async def heard(service: Service) -> None:
    """Wait until a replica hears of changes."""
    async with asyncio.timeout(PATIENCE_S), service.http() as http:
        while "memsvc_changes_heard 1.0" not in (await http.get("/metrics")).text:  # noqa: ASYNC110 - of a process
            await asyncio.sleep(0.02)


async def test_another_replica_tells_what_was_found(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as one, served(database_urls, admin) as other:
        await heard(other)
        async with listening(other) as listener:
            assert listener.status == 200
            assert listener.headers["content-type"].startswith("text/event-stream")
            await say(one, "What time is it?")
            await say(one, "I'm a vegetarian and allergic to nuts.")
            event = await listener.event()
            assert event["name"] == "MemoryExtracted"
            data = event["data"]
            assert data.pop("timestamp").endswith("Z")
            assert data == {
                "event_type": "MemoryExtracted",
                "facts": ["Is vegetarian", "Allergic to nuts"],
                "count": 2,
            }
            await say(one, "I'm vegan.")
            assert (await listener.event())["data"]["facts"] == ["Is vegan"]


async def test_other_tenants_and_projects_are_not_told(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service:
        await heard(service)
        async with (
            listening(service) as mine,
            listening(service, "project=other") as elsewhere,
            listening(service, key="key-two") as theirs,
        ):
            await say(service, "I like tea.")
            assert (await mine.event())["data"]["facts"] == ["Likes tea"]
            await say(service, "I like jazz.", key="key-two")
            await say(service, "I like rain.", project="other")
            assert (await theirs.event())["data"]["facts"] == ["Likes jazz"]
            assert (await elsewhere.event())["data"]["facts"] == ["Likes rain"]


async def test_a_client_goes_on_from_where_it_was(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service:
        await say(service, "I like snow.")
        async with listening(service, last_event_id="0") as listener:
            first = await listener.event()
        await say(service, "I like tea.")
        await say(service, "I like jazz.")
        async with listening(service, last_event_id=first["id"]) as listener:
            told = [(await listener.event())["data"]["facts"] for _ in range(2)]
        assert [first["data"]["facts"], *told] == [["Likes snow"], ["Likes tea"], ["Likes jazz"]]
        async with listening(service, last_event_id="x") as listener:
            assert listener.status == 400


async def test_streams_are_bounded_and_end_with_the_process(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    limits = LimitsOptions(tenant_listeners_max=1)
    async with served(database_urls, admin, limits=limits) as service:
        async with listening(service):
            async with listening(service) as second:
                assert second.status == 429
            async with listening(service, key="key-two") as third:
                assert third.status == 200
        async with listening(service) as again:
            assert again.status == 200


async def test_a_stream_ends_when_its_time_is_over(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    limits = LimitsOptions(listen_s_max=0.05)
    async with (
        served(database_urls, admin, limits=limits) as service,
        listening(service) as listener,
    ):
        await listener.end()


async def test_a_key_that_was_revoked_hears_no_more(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin, auth=AuthOptions(mode="open", cache_s=0)) as service:
        await heard(service)
        key = await service.key()
        async with listening(service, key=key) as listener:
            await say(service, "I like tea.")
            assert (await listener.event())["data"]["facts"] == ["Likes tea"]
            await admin.execute("UPDATE api_keys SET revoked_at = now()")
            await say(service, "I like jazz.")
            await listener.end()
            assert "jazz" not in listener.text


async def test_what_was_deleted_since_is_not_told(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service:
        await say(service, "I like tea. I'm vegetarian.")
        async with service.http() as http:
            listed = (await http.get("/api/memories/alex")).json()["results"]
            tea = next(one["id"] for one in listed if "tea" in one["memory"])
            await http.delete(f"/api/memories/{tea}", params={"user_id": "alex"})
        async with listening(service, last_event_id="0") as listener:
            assert (await listener.event())["data"]["facts"] == ["Is vegetarian"]
