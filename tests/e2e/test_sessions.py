"""Sessions of the 2025-11-25 wire across processes: what a client subscribed to outlives a server
that was killed."""

import asyncio
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.process import Served, on
from tests.e2e.sdk import connected, used
from tests.gateway.test_http_sessions import Client, client
from tests.servers import DatabaseUrls

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BOARD = "memory://alice/trip"
FILE, SESSION = "memsvc://default/files/a.md", "memsvc://default/sessions/s"
ENTRY = {"role": "user", "content": "We leave for Kobe on Friday."}


async def _write_all(server: Served, key: str, text: str) -> None:
    turn = {"session_id": "s", "turn_id": text, "input_items": [ENTRY]}
    async with connected(server.url, key, timeout_s=60) as one:
        board = {"user_id": "alice", "conversation_id": "trip", "entries": [ENTRY]}
        await used(one, "context_update", **board)
        await used(one, "file_write", project="default", path="/a.md", content=text)
        await used(one, "memory_after_turn", **turn)


async def _told(one: Client, server: Served, last: str, count: int) -> dict[str, str]:
    """The URIs of so many events, by their ids."""
    async with one.stream(server.url, last=last) as stream:
        return dict([await stream.event() for _ in range(count)])


async def test_a_killed_server_loses_no_event(
    shared: Served, shared_urls: DatabaseUrls, tmp_path: Path
) -> None:
    key, stranger = uuid4().hex, uuid4().hex
    async with asyncio.timeout(180):
        with Served(tmp_path / "data", **on(shared_urls)) as other:
            async with (
                client(other.url, key) as one,
                client(other.url, stranger) as two,
                one.stream(other.url) as stream,
            ):
                for each in (one, two):
                    await each.subscribe(other.url, BOARD, FILE, SESSION)
                await _write_all(shared, key, "one")
                seen = dict([await stream.event() for _ in range(3)])
                assert {*seen.values()} == {BOARD, FILE, SESSION}
                other.process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(other.process.wait)
                await _write_all(shared, key, "two")
                missed = await _told(one, shared, max(seen), 2)
                assert {*missed.values()} == {FILE, SESSION}
                assert min(map(int, missed)) > max(map(int, seen))
                again = await _told(one, shared, max(seen), 2)
                assert again == missed
                async with two.stream(shared.url) as silent:
                    await _write_all(shared, stranger, "theirs")
                    assert {(await silent.event())[1] for _ in range(3)} == {BOARD, FILE, SESSION}
                assert await one.delete(shared.url) == 204
                assert await one.status(shared.url) == 404
