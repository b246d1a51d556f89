"""A key that goes takes its streams with it, whichever replica they are on, and is refused there at
once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import SseOptions
from memsvc.store import keys
from memsvc.store.database import Database
from tests.fakes import FakeClock
from tests.gateway.wired import Opened
from tests.waiting import until

pytestmark = pytest.mark.anyio
LONG = AuthOptions(mode="listed", cache_s=300)
"""A key is believed for five minutes: what happens sooner was told."""


@asynccontextmanager
async def sse(url: str, key: str) -> AsyncIterator[Callable[[], Any]]:
    """A stream that is open; what is called waits until the server ends it."""
    async with (
        httpx2.AsyncClient(timeout=30) as http,
        http.stream("GET", f"{url}/sse", headers={"Authorization": f"Bearer {key}"}) as response,
    ):
        assert response.status_code == 200
        lines = response.aiter_lines()
        assert (await anext(lines)).startswith("event: endpoint")

        async def ended() -> None:
            async with asyncio.timeout(10):
                async for _ in lines:
                    pass

        yield ended


async def status(url: str, key: str) -> int:
    async with httpx2.AsyncClient(timeout=30) as http:
        return (await http.post(f"{url}/nowhere", headers={"X-API-Key": key})).status_code


async def refused(url: str, key: str) -> None:
    """Wait until this key opens nothing."""
    async with asyncio.timeout(10):
        while await status(url, key) != 401:
            pass


async def test_a_revoked_key_is_refused_on_every_replica_at_once(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    made = await keys.create_key(database, "k", clock.now())
    async with replica(auth=LONG) as first, replica(auth=LONG) as second:
        servers = (first, second)
        assert [await status(server.url, made.text) for server in servers] == [404, 404]
        await keys.revoke_key(database, made.key.key_id, clock.now())
        for server in servers:
            await refused(server.url, made.text)


async def test_a_stream_over_server_sent_events_ends_with_its_key(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    made = await keys.create_key(database, "k", clock.now())
    other = await keys.create_key(database, "other", clock.now(), tenant=made.key.tenant)
    async with (
        replica(auth=LONG, sse=SseOptions()) as server,
        sse(server.url, made.text) as ended,
        sse(server.url, other.text) as other_ended,
    ):
        await keys.revoke_key(database, made.key.key_id, clock.now())
        await ended()
        assert await status(server.url, other.text) == 404
        await keys.revoke_key(database, other.key.key_id, clock.now())
        await other_ended()


async def test_listening_ends_with_the_key(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    made = await keys.create_key(database, "k", clock.now())
    async with (
        replica(auth=LONG) as server,
        server.client(made.text) as client,
        client.listen(resource_subscriptions=["memory://alice/1"]),
    ):
        await until(lambda: server.streams() == 1)
        await keys.revoke_key(database, made.key.key_id, clock.now())
        await until(lambda: server.streams() == 0)


async def test_a_key_whose_rights_change_loses_its_streams_and_one_that_is_relabelled_too(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    made = await keys.create_key(database, "k", clock.now())
    async with replica(auth=LONG, sse=SseOptions()) as server, sse(server.url, made.text) as ended:
        await keys.remember_tenant(database, b"\x07" * 32, clock.now())
        await keys.set_tenant(database, made.key.key_id, b"\x07" * 32)
        await ended()


async def test_where_nothing_is_told_a_stream_ends_when_its_key_is_looked_up_again(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    expires_at = clock.now() + timedelta(minutes=1)
    made = await keys.create_key(database, "k", clock.now(), expires_at=expires_at)
    brief = AuthOptions(mode="listed", cache_s=0)
    async with replica(auth=brief, sse=SseOptions()) as server, sse(server.url, made.text) as ended:
        clock.advance(minutes=2)
        await ended()
