"""The server is killed again and again under writers that try again: every turn is there once, and
none in part."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from tests.e2e.process import Served, free_port
from tests.e2e.sdk import connected, used

pytestmark = pytest.mark.slow

WRITERS = 8
TURNS = 15
KILLS = 4
PATIENCE_S = 15


class Progress:
    """How many turns were acknowledged; wakes whoever waits for some number of them."""

    def __init__(self) -> None:
        self.attempts = 0
        self.wrong: list[Any] = []
        self._acknowledged: list[str] = []
        self._changed = asyncio.Condition()

    async def acknowledge(self, turn: str) -> None:
        async with self._changed:
            self._acknowledged.append(turn)
            self._changed.notify_all()

    async def reaches(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._acknowledged) >= count)


async def write(url: str, key: str, writer: int, progress: Progress) -> None:
    """Store every turn of one writer, each tried again under its turn id until it is
    acknowledged."""
    turns = iter(range(TURNS))
    turn: int | None = next(turns)
    while turn is not None:
        with suppress(Exception):
            async with connected(url, key, timeout_s=5) as client:
                while turn is not None:
                    progress.attempts += 1
                    answer = await client.call_tool("memory_after_turn", spoken(writer, turn))
                    body = orjson.loads(answer.content[0].text)
                    if body.get("retryable"):
                        continue
                    if answer.is_error or body["stored_items"] != 2:
                        progress.wrong.append(body)
                    await progress.acknowledge(f"w{writer}-t{turn}")
                    turn = next(turns, None)
        await asyncio.sleep(0.02)  # nobody listens while the server starts again


def spoken(writer: int, turn: int) -> dict[str, Any]:
    """One turn; two writers share a session, and all of them a user."""
    return {
        "session_id": f"s{writer % (WRITERS // 2)}",
        "turn_id": f"w{writer}-t{turn}",
        "user_id": "u1",
        "input_items": [
            {
                "role": "user",
                "content": f"My name is Name{writer}x{turn}. I like thing {writer}x{turn}.",
            }
        ],
        "output_items": [{"role": "assistant", "content": f"Noted {writer}x{turn}."}],
    }


async def test_no_acknowledged_turn_is_lost_doubled_or_halved_by_killing_the_server(
    data_folder: Path,
) -> None:
    data_dir, port = data_folder, str(free_port())
    server = await asyncio.to_thread(Served, data_dir, "--port", port)
    key = (data_dir / "api-key").read_text().strip()
    progress = Progress()
    writers = [
        asyncio.create_task(write(server.url, key, writer, progress)) for writer in range(WRITERS)
    ]
    try:
        async with asyncio.timeout(120):
            for kill in range(1, KILLS + 1):
                await progress.reaches(kill * WRITERS * TURNS // (KILLS + 1))
                server.process.kill()
                server.process.wait(PATIENCE_S)
                server = await asyncio.to_thread(Served, data_dir, "--port", port)
            await asyncio.gather(*writers)
        assert progress.wrong == []
        await check(server.url, key)
    finally:
        for writer in writers:
            writer.cancel()
        await asyncio.to_thread(server.stop)
    assert progress.attempts > WRITERS * TURNS  # the kills did hit calls under way


async def check(url: str, key: str) -> None:
    """Every turn stands whole and once in the files, in the recent context, and behind the facts
    that it stated."""
    async with connected(url, key) as client:
        events, facts = [], []
        for session in range(WRITERS // 2):
            listed = await used(
                client,
                "file_list",
                project="default",
                path=f"/memory/s{session}",
                depth=64,
                limit=1024,
            )
            for path in [
                entry["path"] for entry in listed["entries"] if entry["path"].endswith(".jsonl")
            ]:
                content = (await used(client, "file_read", project="default", path=path))["content"]
                records = [orjson.loads(line) for line in content.splitlines()]
                if "/events/raw/" in path:
                    events += records
                elif "/memory_tiers/" in path:
                    facts += records
        recalled = await used(
            client, "memory_before_turn", session_id="s0", user_id="u1", current_input="my name?"
        )
    expected = {f"w{writer}-t{turn}" for writer in range(WRITERS) for turn in range(TURNS)}
    assert Counter(event["id"] for event in events) == {
        f"{turn}-{way}-0": 1 for turn in expected for way in ("in", "out")
    }
    for event in events[::2]:
        writer, turn = map(int, event["turn_id"].removeprefix("w").split("-t"))
        assert (
            event["item"]["content"][0]["text"] == spoken(writer, turn)["input_items"][0]["content"]
        )
    stated = Counter(fact["id"] for fact in facts if fact["type"] == "fact_upsert")
    assert stated == {f"{turn}-fact-{rule}": 1 for turn in expected for rule in ("name", "like")}
    names = [
        fact["source_turn_id"]
        for fact in facts
        if (fact["type"], fact["key"]) == ("fact_upsert", "name")
    ]
    closed = [
        fact["source_turn_id"]
        for fact in facts
        if (fact["type"], fact["key"]) == ("fact_supersede", "name")
    ]
    [last] = set(names) - set(closed)
    [expected] = [
        fact["statement"]
        for fact in facts
        if (fact["type"], fact["key"], fact["source_turn_id"]) == ("fact_upsert", "name", last)
    ]
    body = orjson.loads(recalled["input_items"][1]["content"][0]["text"].split("\n")[1])
    shown = [fact["statement"] for fact in body["profile"] if fact["class"] == "name"]
    assert shown == [expected]


async def test_the_embedded_database_is_started_again_under_a_server_that_goes_on(
    data_folder: Path,
) -> None:
    data_dir = data_folder
    with Served(data_dir) as server:
        headers = {"X-API-Key": (data_dir / "api-key").read_text().strip()}
        async with httpx2.AsyncClient(
            base_url=f"{server.url}/api/tools", headers=headers, timeout=60
        ) as http:
            stored = await http.post("/memory_after_turn", json=spoken(0, 0))
            before = postmaster(data_dir)
            assert before
            os.kill(before, signal.SIGKILL)
            async with asyncio.timeout(120):
                while (
                    postmaster(data_dir) in {before, None}
                    or not (
                        again := await http.post("/memory_after_turn", json=spoken(0, 0))
                    ).is_success
                ):
                    pass
            assert again.json() == stored.json()
        assert server.process.poll() is None


def postmaster(data_dir: Path) -> int | None:
    """The process id of the embedded PostgreSQL; None while one starts."""
    with suppress(FileNotFoundError):
        if lines := (data_dir / "postgres" / "postmaster.pid").read_text().splitlines():
            return int(lines[0])
    return None
