"""Changes of what there is to read, told across processes, and what becomes of those who wait when a server stops."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.subscriptions import ResourceUpdated

from tests.e2e.process import CHECKOUT, Served, environment
from tests.e2e.sdk import connected, used

pytestmark = pytest.mark.anyio

BOARD = "memory://alice/trip"
ENTRY = {"role": "user", "content": "We leave for Kobe on Friday."}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data_dir: Path) -> Iterator[Served]:
    with Served(data_dir) as served:
        yield served


def _key(data_dir: Path) -> str:
    return (data_dir / "api-key").read_text().strip()


async def _write(server: Served, key: str) -> None:
    async with connected(server.url, key) as client:
        await used(client, "context_update", user_id="alice", conversation_id="trip", entries=[ENTRY])


async def _shows(client: Client) -> bool:
    [content] = (await client.read_resource(BOARD)).contents
    return "Kobe" in getattr(content, "text", "")


async def test_a_board_written_by_one_server_is_told_by_another_which_stops_at_once(
    server: Served, data_dir: Path
) -> None:
    key = _key(data_dir)
    with Served(data_dir) as other:
        async with (
            connected(other.url, key, timeout_s=60) as client,
            client.listen(resource_subscriptions=[BOARD]) as subscription,
        ):
            assert subscription.honored.resource_subscriptions == [BOARD]
            await _write(server, key)
            async with asyncio.timeout(30):
                async for event in subscription:  # the first may say that the server only begins to hear
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
    server: Served, data_dir: Path
) -> None:
    file, session, kept = (
        f"memsvc://default/{place}" for place in ("files/a.md", "sessions/s", "files/memory/s/meta.json")
    )
    turn = {"session_id": "s", "turn_id": "t", "input_items": [ENTRY]}
    async with (
        connected(server.url, _key(data_dir), timeout_s=60) as client,
        connected(server.url, "somebody-else") as stranger,
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
    server: Served, data_dir: Path, wire: str
) -> None:
    arguments = ["-m", "memsvc", "stdio", "--data-dir", str(data_dir)]
    process = StdioServerParameters(command=sys.executable, args=arguments, env=environment(), cwd=CHECKOUT)
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
            await _write(server, _key(data_dir))
            await until_it_shows()
        else:
            async with client.listen(resource_subscriptions=[BOARD]) as subscription:
                await _write(server, _key(data_dir))
                async with asyncio.timeout(30):
                    async for event in subscription:
                        assert event == ResourceUpdated(uri=BOARD)
                        if await _shows(client):
                            break
