"""Changes of what there is to read, told across processes, and what becomes of those who wait when
a server stops."""

import asyncio
import sys
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.subscriptions import ResourceUpdated

from tests.e2e.process import CHECKOUT, Served, environment, on
from tests.e2e.sdk import connected, used
from tests.servers import DatabaseUrls

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BOARD = "memory://alice/trip"
ENTRY = {"role": "user", "content": "We leave for Kobe on Friday."}


@pytest.fixture
def key() -> str:
    """A tenant of this test alone."""
    return uuid4().hex


async def _write(shared: Served, key: str) -> None:
    async with connected(shared.url, key) as client:
        await used(
            client, "context_update", user_id="alice", conversation_id="trip", entries=[ENTRY]
        )


async def _shows(client: Client) -> bool:
    [content] = (await client.read_resource(BOARD)).contents
    return "Kobe" in getattr(content, "text", "")


async def test_a_board_written_by_one_server_is_told_by_another_which_stops_at_once(
    shared: Served, shared_urls: DatabaseUrls, key: str, tmp_path: Path
) -> None:
    with Served(tmp_path / "data", **on(shared_urls)) as other:
        async with (
            connected(other.url, key, timeout_s=60) as client,
            client.listen(resource_subscriptions=[BOARD]) as subscription,
        ):
            assert subscription.honored.resource_subscriptions == [BOARD]
            await _write(shared, key)
            async with asyncio.timeout(30):
                async for (
                    event
                ) in subscription:  # the first may say that the server only begins to hear
                    assert event == ResourceUpdated(uri=BOARD)
                    if await _shows(client):
                        break
            began_s = monotonic()
            stopped = asyncio.create_task(asyncio.to_thread(other.stop))
            async with asyncio.timeout(20):
                async for _ in subscription:  # it ends as the server means it to, or this raises
                    pass
                assert await stopped == 0
            assert monotonic() - began_s < 10


async def test_files_and_sessions_are_told_to_their_tenant_when_they_change_and_when_they_go(
    shared: Served, key: str
) -> None:
    file, session, kept = (
        f"memsvc://default/{place}"
        for place in ("files/a.md", "sessions/s", "files/memory/s/meta.json")
    )
    turn = {"session_id": "s", "turn_id": "t", "input_items": [ENTRY]}
    async with (
        connected(shared.url, key, timeout_s=60) as client,
        connected(shared.url, uuid4().hex) as stranger,
        client.listen(resource_subscriptions=[file, session, kept]) as subscription,
    ):
        assert subscription.honored.resource_subscriptions == [file, session]
        await used(stranger, "file_write", project="default", path="/a.md", content="theirs")
        await used(stranger, "memory_after_turn", **turn)
        for tool, arguments, uri in (
            ("memory_after_turn", turn, session),
            ("file_write", {"project": "default", "path": "/a.md", "content": "ours"}, file),
            ("file_delete", {"project": "default", "path": "/a.md"}, file),
        ):
            await used(client, tool, **arguments)
            async with asyncio.timeout(30):
                assert await anext(subscription) == ResourceUpdated(uri=uri)


@pytest.mark.filterwarnings("ignore:resources/.*removed as of 2026-07-28")
@pytest.mark.parametrize("wire", ["legacy", "2026-07-28"])
async def test_a_board_written_by_a_server_is_told_over_standard_streams(
    shared: Served, shared_urls: DatabaseUrls, key: str, tmp_path: Path, wire: str
) -> None:
    arguments = ["-m", "memsvc", "stdio", "--data-dir", str(tmp_path)]
    variables = environment(**on(shared_urls), MEMSVC_API_KEY=key)
    process = StdioServerParameters(
        command=sys.executable, args=arguments, env=variables, cwd=CHECKOUT
    )
    updates: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if getattr(message, "method", None) == "notifications/resources/updated":
            updates.put_nowait(message.params.uri)

    async def until_it_shows() -> None:
        async with asyncio.timeout(30):
            while True:
                assert await updates.get() == BOARD
                if await _shows(client):
                    return

    async with Client(stdio_client(process), mode=wire, message_handler=hear) as client:
        if wire == "legacy":
            assert client.server_capabilities.resources is not None
            assert client.server_capabilities.resources.subscribe is True
            await client.subscribe_resource(BOARD)
            await _write(shared, key)
            await until_it_shows()
        else:
            async with client.listen(resource_subscriptions=[BOARD]) as subscription:
                await _write(shared, key)
                async with asyncio.timeout(30):
                    async for event in subscription:
                        assert event == ResourceUpdated(uri=BOARD)
                        if await _shows(client):
                            break
