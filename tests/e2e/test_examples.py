"""The example of an agent that remembers runs as it stands."""

import asyncio
import json
import os
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.e2e.process import CHECKOUT, Served, free_port
from tests.e2e.sdk import connected, used
from tests.endpoints import Call, Fault, Provider, provider

pytestmark = pytest.mark.slow

KEY = "key-of-the-examples"
AGENT = CHECKOUT / "docs/examples/agent.py"


class Listener(Provider):
    """A model that says how it is known to travel, writes a note when it is asked to, and calls a
    tool wrongly."""

    def _written(self, call: Call, fault: Fault) -> dict[str, Any]:
        items = call.body["input"]
        last = items[-1]
        if last.get("type") == "function_call_output":
            return self._says(f"noted: {last['output']}")
        question = (
            last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
        )
        if question.startswith("Note: ") and call.body["tools"]:
            note = {
                "project": "default",
                "path": "/note.md",
                "content": question.removeprefix("Note: "),
            }
            asked = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "file_write"}
            return {"output": [asked | {"arguments": json.dumps(note)}]}
        if question == "Garble." and call.body["tools"]:
            return {
                "output": [
                    {
                        "type": "function_call",
                        "call_id": "c2",
                        "name": "file_write",
                        "arguments": "{",
                    }
                ]
            }
        known = "trains to planes" in json.dumps(items[:-1])
        return self._says("By train, as ever." if known else "How do you like to travel?")

    @staticmethod
    def _says(text: str) -> dict[str, Any]:
        return {
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": text}],
                }
            ]
        }


@pytest.fixture
async def model() -> AsyncIterator[Provider]:
    async with provider(Listener) as model:
        yield model


@asynccontextmanager
async def agent(memory_url: str, model: Provider, *arguments: str) -> AsyncIterator[Process]:
    """The example as somebody starts it."""
    around = {
        "MEMSVC_URL": memory_url,
        "MEMSVC_API_KEY": KEY,
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "sk-1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(AGENT),
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=os.environ | around,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: Process, question: str) -> str:
    """The agent's answer to one line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{question}\n".encode())
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


async def ended(process: Process) -> str:
    """What was on stderr of an agent that has no more questions."""
    assert process.stdin is not None
    process.stdin.close()
    _, complaints = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return complaints.decode()


@pytest.mark.anyio
async def test_the_agent_recalls_what_was_said_and_lets_the_model_write_files(
    shared: Served, model: Provider
) -> None:
    async with agent(shared.url, model, "--user", "ada", "--session", "one") as process:
        assert await said(process, "I prefer trains to planes.") == "How do you like to travel?"
        assert (await said(process, "Note: Vienna in May")).startswith("noted: ")
        assert (await said(process, "Garble.")).startswith("noted: the arguments are not JSON")
        assert await ended(process) == ""
    async with agent(shared.url, model, "--user", "ada", "--session", "two") as process:
        assert await said(process, "Do I prefer trains or planes?") == "By train, as ever."
        assert await ended(process) == ""
    async with connected(shared.url, KEY) as client:
        note = await used(client, "file_read", project="default", path="/note.md")
    assert note["content"] == "Vienna in May"
    assert turns_stored(shared, "one") == 3


@pytest.mark.anyio
async def test_the_agent_answers_while_memory_is_away_and_stores_those_turns_later(
    shared: Served, model: Provider
) -> None:
    port = free_port()
    async with agent(f"http://127.0.0.1:{port}", model, "--session", "outage") as process:
        assert await said(process, "I prefer trains to planes.") == "How do you like to travel?"
        async with relayed(port, shared.port):
            await said(process, "And what about boats?")
            complaints = await ended(process)
    assert complaints.startswith("memory could not be read")
    assert "not stored" not in complaints
    assert turns_stored(shared, "outage") == 2


@pytest.mark.anyio
async def test_a_model_that_is_away_is_told_in_a_line_that_names_the_cause(
    shared: Served, model: Provider
) -> None:
    model.url = f"http://127.0.0.1:{free_port()}"
    async with agent(shared.url, model, "--session", "mute") as process:
        assert process.stdin is not None
        process.stdin.write(b"Hello?\n")
        complaints = await ended(process)
    assert complaints.startswith("the model did not answer: ")
    assert "sub-exception" not in complaints


@pytest.mark.anyio
async def test_turn_that_is_too_large_to_be_stored_holds_up_no_other(
    shared: Served, model: Provider
) -> None:
    async with agent(shared.url, model, "--session", "large") as process:
        assert await said(process, "I prefer trains to planes.") == "How do you like to travel?"
        await said(process, "a long text " * 400_000)
        await said(process, "And what about boats?")
        complaints = await ended(process)
    assert "memory refused to store a turn: PAYLOAD_TOO_LARGE" in complaints
    assert "not stored" not in complaints
    assert turns_stored(shared, "large") == 2


def turns_stored(shared: Served, session: str) -> int:
    """How many turns a session has."""
    headers = {"Authorization": f"Bearer {KEY}"}
    address = f"{shared.url}/api/tools/memory_list_turns"
    answer = httpx2.post(address, json={"session_id": session}, headers=headers, timeout=60)
    return len({item["turn_id"] for item in answer.raise_for_status().json()["items"]})


@asynccontextmanager
async def relayed(port: int, to: int) -> AsyncIterator[None]:
    """Lets what comes to one port through to another one."""

    async def copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while block := await source.read(65536):
            sink.write(block)
        sink.close()

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(copied(reader, ahead), copied(behind, writer))

    async with await asyncio.start_server(through, "127.0.0.1", port, family=socket.AF_INET):
        yield
