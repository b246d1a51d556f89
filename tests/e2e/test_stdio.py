"""`memsvc stdio` as hosts start it: used, shared, misused, ended, killed."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from memsvc.adapters.postgres import EmbeddedPostgres
from tests.e2e.conftest import copied
from tests.e2e.host import hosting
from tests.e2e.process import CHECKOUT, Served, call, environment, run, typed
from tests.e2e.sdk import WIRES, used

pytestmark = pytest.mark.slow

CANARY = "canary-51cc-do-not-log"
TURN = {
    "session_id": "s",
    "turn_id": "t1",
    "input_items": [{"role": "user", "content": "I live in Kobe."}],
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def data_dir(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder in which a server has been before, and has made its key. Its PostgreSQL runs
    all the time."""
    folder = copied(migrated, tmp_path_factory.mktemp("stdio") / "data")
    embedded = EmbeddedPostgres(folder)
    embedded.start()
    assert run("stdio", "--data-dir", str(folder)).returncode == 0
    yield folder
    embedded.stop()


def _server(data_dir: Path, **variables: str) -> StdioServerParameters:
    arguments = ["-m", "memsvc", "stdio", "--data-dir", str(data_dir)]
    return StdioServerParameters(
        command=sys.executable, args=arguments, env=environment(**variables), cwd=CHECKOUT
    )


@pytest.mark.parametrize("wire", WIRES)
async def test_a_host_with_the_sdk_lists_and_calls_tools_on_both_wires(
    data_dir: Path, wire: str
) -> None:
    async with Client(stdio_client(_server(data_dir)), mode=wire) as client:
        assert "memory_after_turn" in {tool.name for tool in (await client.list_tools()).tools}
        await used(
            client, "file_write", project="p", path=f"/{wire}.txt", content="kept", mode="overwrite"
        )
        assert (await used(client, "file_read", project="p", path=f"/{wire}.txt"))[
            "content"
        ] == "kept"
        refused = await client.call_tool("file_read", {"project": "p", "path": "/none.txt"})
        assert refused.is_error


async def test_resources_and_prompts_are_there(data_dir: Path) -> None:
    async with Client(stdio_client(_server(data_dir)), mode="2026-07-28") as client:
        templates = (await client.list_resource_templates()).resource_templates
        assert "memory://{user_id}/{conversation_id}" in {
            template.uri_template for template in templates
        }
        assert "memory:whiteboard" in {
            prompt.name for prompt in (await client.list_prompts()).prompts
        }
        read = await client.read_resource("memory://ada/one")
        assert [content.text for content in read.contents] == [""]


async def test_a_host_hears_of_what_another_one_changes(data_dir: Path) -> None:
    board = {"user_id": "ada", "conversation_id": "two"}
    entries = [{"role": "user", "content": "We meet at noon."}]
    command = ("stdio", "--data-dir", str(data_dir))
    async with hosting(*command) as host, hosting(*command) as other:
        await host.shake_hands()
        await other.shake_hands()
        assert "result" in await host.ask("resources/subscribe", uri="memory://ada/two")
        assert not (await other.call("context_update", **board, entries=entries))["result"][
            "isError"
        ]
        told = await host.read()
        assert (told["method"], told["params"]["uri"]) == (
            "notifications/resources/updated",
            "memory://ada/two",
        )


async def test_what_one_host_stores_another_one_and_a_server_find(data_dir: Path) -> None:
    async with hosting("stdio", "--data-dir", str(data_dir)) as one:
        await one.shake_hands()
        stored = await one.call("memory_after_turn", **TURN)
        assert not stored["result"]["isError"]
        async with hosting("stdio", "--data-dir", str(data_dir)) as other:
            await other.shake_hands()
            answer = await other.call(
                "memory_before_turn", session_id="s", current_input="Where do I live?"
            )
            assert "Kobe" in answer["result"]["content"][0]["text"]
        served = await asyncio.to_thread(Served, data_dir)
        with served:
            key = (data_dir / "api-key").read_text().strip()
            found = await call(
                served.url,
                key,
                "memory_before_turn",
                session_id="s",
                current_input="Where do I live?",
            )
            assert "Kobe" in found["content"][0]["text"]


async def test_a_key_of_the_environment_opens_its_own_memory(data_dir: Path) -> None:
    made = typed(
        "key", "create", "--data-dir", str(data_dir), "--hide-tool", "memory_after_turn"
    ).stdout.split()[1]
    async with hosting("stdio", "--data-dir", str(data_dir), MEMSVC_API_KEY=made) as host:
        await host.shake_hands()
        tools = (await host.ask("tools/list"))["result"]["tools"]
        assert "memory_after_turn" not in {tool["name"] for tool in tools}
        assert "memory_before_turn" in {tool["name"] for tool in tools}


async def test_a_revoked_key_is_refused_at_the_start_and_in_between(data_dir: Path) -> None:
    made = typed("key", "create", "--data-dir", str(data_dir)).stdout.split()
    key, key_id = made[1], made[4]
    async with hosting(
        "stdio", "--data-dir", str(data_dir), MEMSVC_API_KEY=key, MEMSVC_AUTH__CACHE_S="0"
    ) as host:
        await host.shake_hands()
        assert "result" in await host.ask("tools/list")
        assert typed("key", "revoke", key_id, "--data-dir", str(data_dir)).returncode == 0
        refused = (await host.ask("tools/list"))["error"]
        assert refused["data"]["code"] == "PERMISSION_DENIED"
        assert key not in json.dumps(refused)
    async with hosting("stdio", "--data-dir", str(data_dir), MEMSVC_API_KEY=key) as host:
        assert await host.ended() == 2
        said = await host.errors()
        assert said.startswith("Error: this API key is unknown, revoked or expired")
        assert key not in said
        assert await host.process.stdout.read() == b""


async def test_an_unknown_key_is_refused_where_keys_are_listed(data_dir: Path) -> None:
    command = ("stdio", "--data-dir", str(data_dir))
    async with hosting(*command, MEMSVC_API_KEY="nobody", MEMSVC_AUTH__MODE="listed") as host:
        assert await host.ended() == 2
        assert (await host.errors()).startswith("Error: this API key is unknown")


async def test_lines_that_are_no_messages_are_answered_and_end_nothing(data_dir: Path) -> None:
    async with hosting(
        "stdio", "--data-dir", str(data_dir), MEMSVC_LIMITS__REQUEST_BYTES_MAX="10000"
    ) as host:
        for line, code in (
            (f"{CANARY} {{", -32700),
            ("\xff\xfe".encode("latin-1"), -32600),
            ('{"jsonrpc":"2.0","method":5}', -32600),
            ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
            ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
            ("[]", -32600),
            ("7", -32600),
            ("[" * 5_000, -32600),
            ('{"jsonrpc":"2.0","id":1,"method":"' + "x" * 20_000 + '"}', -32600),
        ):
            await host.write(line)
            answer = await host.read()
            assert (answer["error"]["code"], answer["id"]) == (code, None), line[:50]
            assert answer["error"]["data"]["code"] == "INVALID_ARGUMENT"
            assert CANARY not in json.dumps(answer)
        await host.write('{"jsonrpc":"2.0","id":"mine"}')
        answer = await host.read()
        assert (answer["error"]["code"], answer["id"]) == (-32600, "mine")
        await host.write("\r\n   ")
        await host.shake_hands()
        assert "result" in await host.ask("tools/list")
        host.close()
        assert await host.ended() == 0
        assert CANARY not in await host.errors()


async def test_nothing_that_was_said_is_logged_and_nothing_else_is_printed(data_dir: Path) -> None:
    command = ("stdio", "--data-dir", str(data_dir), "--log-level", "debug")
    async with hosting(*command) as host:
        await host.shake_hands()
        text = f"{CANARY} was here"
        await host.call(
            "memory_after_turn",
            session_id="log",
            turn_id=None,
            input_items=[{"role": "user", "content": text}],
        )
        await host.call(CANARY, **{CANARY: CANARY})
        assert host.other == []
        host.close()
        assert await host.ended() == 0
        log = await host.errors()
    assert '"surface":"stdio"' in log
    assert all(json.loads(line) for line in log.splitlines())
    assert CANARY not in log


@pytest.mark.parametrize(
    "slots", [{}, {"MEMSVC_LIMITS__SLOTS__CALLS_MAX": "1", "MEMSVC_LIMITS__SLOTS__WAIT_MS": "1"}]
)
async def test_what_was_asked_is_answered_although_nothing_more_is_said(
    data_dir: Path, slots: dict[str, str]
) -> None:
    async with hosting("stdio", "--data-dir", str(data_dir), **slots) as host:
        await host.shake_hands()
        for number in range(20):
            arguments = {
                "session_id": "end",
                "turn_id": f"t{number}",
                "input_items": [{"role": "user", "content": "x"}],
            }
            params = {"name": "memory_after_turn", "arguments": arguments}
            await host.write(
                json.dumps(
                    {"jsonrpc": "2.0", "id": 100 + number, "method": "tools/call", "params": params}
                )
            )
        host.close()
        answers = [await host.read() for _ in range(20)]
        assert {answer["id"] for answer in answers} == {100 + number for number in range(20)}
        assert not any(answer["result"]["isError"] for answer in answers)
        assert await host.ended() == 0


@pytest.mark.parametrize("ending", ["end of input", signal.SIGTERM, signal.SIGINT])
async def test_it_ends_cleanly_and_lets_the_database_go(data_folder: Path, ending: Any) -> None:
    data_dir = data_folder
    async with hosting("stdio", "--data-dir", str(data_dir)) as host:
        await host.shake_hands()
        if ending == "end of input":
            host.close()
        else:
            host.process.send_signal(ending)
        assert await host.ended() == 0
        assert await host.errors() == ""
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


async def test_a_host_that_is_killed_leaves_the_database_to_the_others(data_folder: Path) -> None:
    data_dir = data_folder
    async with hosting("stdio", "--data-dir", str(data_dir)) as killed:
        await killed.shake_hands()
        async with hosting("stdio", "--data-dir", str(data_dir)) as left:
            await left.shake_hands()
            await killed.call("memory_after_turn", **TURN)
            killed.process.kill()
            await killed.ended()
            answer = await left.call(
                "memory_before_turn", session_id="s", current_input="Where do I live?"
            )
            assert "Kobe" in answer["result"]["content"][0]["text"]
            left.process.kill()
            await left.ended()
    async with hosting("stdio", "--data-dir", str(data_dir)) as next_one:
        await next_one.shake_hands()
        answer = await next_one.call(
            "memory_before_turn", session_id="s", current_input="Where do I live?"
        )
        assert "Kobe" in answer["result"]["content"][0]["text"]


async def test_a_connection_speaks_the_protocol_that_it_was_opened_with(data_dir: Path) -> None:
    async with hosting("stdio", "--data-dir", str(data_dir)) as host:
        modern = await host.ask("tools/list", _meta=ENVELOPE)
        assert modern["result"]["resultType"] == "complete"
        refused = await host.ask(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={}
        )
        assert refused["error"]["code"] == -32022
    async with hosting("stdio", "--data-dir", str(data_dir)) as host:
        assert (await host.shake_hands("2024-11-05"))["protocolVersion"] == "2024-11-05"
        assert (await host.ask("tools/list", _meta=ENVELOPE))["error"]["code"] == -32600


async def test_it_goes_on_where_nobody_reads_its_log(data_dir: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        async with hosting(
            "stdio", "--data-dir", str(data_dir), "--log-level", "info", stderr=writer
        ) as host:
            await host.shake_hands()
            for _ in range(2):
                assert not (await host.call("memory_before_turn", current_input="hi"))["result"][
                    "isError"
                ]
    finally:
        os.close(writer)
