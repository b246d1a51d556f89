"""Changes of resources, told within a session, as clients of the older protocol have it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import ClientSession, MCPError
from mcp.client.sse import sse_client

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.limits import SseOptions
from memsvc.store.database import Database
from memsvc.store.keys import create_key, hash_key, revoke_key
from tests.fakes import FakeClock
from tests.gateway.wired import Opened, Replica
from tests.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:resources/.*removed as of 2026-07-28"),
]


@asynccontextmanager
async def session(
    server: Replica, key: str = "key-one"
) -> AsyncIterator[tuple[ClientSession, Any]]:
    """A session over /sse, and the URIs that it is told of."""
    send, receive = anyio.create_memory_object_stream[str](100)

    async def hear(message: Any) -> None:
        if getattr(message, "method", None) == "notifications/resources/updated":
            await send.send(message.params.uri)

    headers = {"Authorization": f"Bearer {key}"}
    async with (
        sse_client(f"{server.url}/sse", headers) as streams,
        ClientSession(*streams, message_handler=hear) as client,
    ):
        await client.initialize()
        with send, receive:
            yield client, receive


async def test_a_session_is_told_until_it_unsubscribes(replica: Opened) -> None:
    async with replica(sse=SseOptions()) as server, session(server) as (client, updates):
        assert client.server_capabilities is not None
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe is True
        await client.subscribe_resource("memory://alice/1")
        await client.subscribe_resource("memory://alice/%32")
        await server.write()
        async with asyncio.timeout(10):
            assert await updates.receive() == "memory://alice/1"
            await client.unsubscribe_resource("memory://alice/1")
            await server.write()
            await server.write("2")
            assert await updates.receive() == "memory://alice/%32"
        assert server.streams() == 1
        with pytest.raises(MCPError, match="Unknown resource: memory://alice"):
            await client.subscribe_resource("memory://alice")
    assert server.streams() == 0
    assert server.changes.watch_count() == 0


async def test_a_session_of_a_revoked_key_is_told_no_more(
    replica: Opened, database: Database, clock: FakeClock
) -> None:
    made = await create_key(database, "narrow", clock.now(), tenant=hash_key("key-one"))
    async with (
        replica(sse=SseOptions(), auth=AuthOptions(mode="open", cache_s=0)) as server,
        session(server, made.text) as (client, updates),
    ):
        await client.subscribe_resource("memory://alice/1")
        await revoke_key(database, made.key.key_id, clock.now())
        await server.write()
        await until(lambda: server.streams() == 0)
        with pytest.raises(anyio.WouldBlock):
            updates.receive_nowait()
