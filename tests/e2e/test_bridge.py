"""`memsvc stdio` in front of a server that runs elsewhere."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import asyncpg
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.e2e.host import hosting
from tests.e2e.process import CHECKOUT, Served, environment, free_port, on, typed
from tests.e2e.sdk import WIRES, connected, used
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

LONG_S = 60


@pytest.fixture
def key() -> str:
    return "key-of-the-bridge"


def _bridge(url: str, key: str) -> StdioServerParameters:
    variables = environment(MEMSVC_URL=url, MEMSVC_API_KEY=key)
    return StdioServerParameters(
        command=sys.executable, args=["-m", "memsvc", "stdio"], env=variables, cwd=CHECKOUT
    )


@pytest.mark.parametrize("path", ["", "/", "/mcp"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_host_uses_the_server_as_if_it_were_its_own(
    shared: Served, key: str, wire: str, path: str
) -> None:
    async with Client(stdio_client(_bridge(shared.url + path, key)), mode=wire) as client:
        assert "memory_after_turn" in {tool.name for tool in (await client.list_tools()).tools}
        text = "line\u2028separator, メモ, \r\n" + "x" * 300_000
        await used(
            client, "file_write", project="p", path="/bridged.txt", content=text, mode="overwrite"
        )
        assert (await used(client, "file_read", project="p", path="/bridged.txt", length=400_000))[
            "content"
        ] == text
        refused = await client.call_tool("file_read", {"project": "p", "path": "/none.txt"})
        assert refused.is_error
        read = await client.read_resource("memory://メモ/a b")
        assert [content.text for content in read.contents] == [""]
        assert "memory:whiteboard" in {
            prompt.name for prompt in (await client.list_prompts()).prompts
        }


async def test_changes_are_heard_of_through_it(shared: Served, key: str) -> None:
    uri = "memory://ada/bridged"
    entries = [{"role": "user", "content": "We meet at noon."}]
    async with (
        Client(stdio_client(_bridge(shared.url, key)), mode="2026-07-28") as client,
        connected(shared.url, key) as other,
        client.listen(resource_subscriptions=[uri]) as changes,
    ):
        await used(
            other, "context_update", user_id="ada", conversation_id="bridged", entries=entries
        )
        async with asyncio.timeout(LONG_S):
            change = await anext(aiter(changes))
        assert change.uri == uri
        assert "noon" in (await client.read_resource(uri)).contents[0].text


async def test_a_host_of_the_older_wire_hears_of_changes_also_after_the_server_was_killed(
    database_urls: DatabaseUrls, tmp_path: Path, key: str
) -> None:
    folder, port = tmp_path / "data", str(free_port())
    url, uri = f"http://127.0.0.1:{port}", "memory://ada/heard"

    async def write(text: str) -> None:
        where = {"user_id": "ada", "conversation_id": "heard"}
        async with connected(url, key) as other:
            entries = [{"role": "user", "content": text}]
            await used(other, "context_update", **where, entries=entries)

    def serve() -> Served:
        return Served(folder, "--port", port, MEMSVC_AUTH__MODE="open", **on(database_urls))

    served = await asyncio.to_thread(serve)
    async with hosting("stdio", MEMSVC_URL=url, MEMSVC_API_KEY=key) as host:
        with served:
            await host.shake_hands("2025-11-25")
            assert (await host.ask("resources/subscribe", uri=uri))["result"] == {}
            await write("We meet at noon.")
            assert (await host.read())["params"] == {"uri": uri}
            served.process.kill()
            await asyncio.to_thread(served.process.wait)
        with await asyncio.to_thread(serve):
            await write("We meet at the station.")
            assert (await host.read())["params"] == {"uri": uri}
            host.close()
            assert await host.ended() == 0
            assert await host.errors() == ""
            admin = await asyncpg.connect(database_urls.admin)
            assert await admin.fetchval("SELECT count(*) FROM mcp_sessions") == 0
            await admin.close()


async def test_a_key_that_the_server_does_not_know_is_an_error_of_each_request(
    shared: Served, shared_urls: DatabaseUrls
) -> None:
    made = typed("key", "create", **on(shared_urls)).stdout.split()
    assert typed("key", "revoke", made[4], **on(shared_urls)).returncode == 0
    async with hosting("stdio", MEMSVC_URL=shared.url, MEMSVC_API_KEY=made[1]) as host:
        for _ in range(2):
            answer = await host.ask("tools/list")
            assert answer["error"]["data"]["code"] == "PERMISSION_DENIED"
            assert "API key" in answer["error"]["message"]
            assert made[1] not in json.dumps(answer)


async def test_a_server_that_is_away_is_an_error_and_no_end(
    database_urls: DatabaseUrls, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with hosting("stdio", MEMSVC_URL=url, MEMSVC_API_KEY="some-key") as host:
        for _ in range(2):
            answer = await host.ask("tools/list")
            assert answer["error"]["message"] == f"cannot reach {url}/mcp"
            assert answer["error"]["code"] == -32603
            assert answer["error"]["data"]["code"] == "UNAVAILABLE"
            assert answer["error"]["data"]["retryable"]
        folder, port = tmp_path / "data", url.rpartition(":")[2]
        served = await asyncio.to_thread(
            lambda: Served(folder, "--port", port, **on(database_urls))
        )
        with served:
            assert (await host.shake_hands())["serverInfo"]["name"] == "memsvc"
            assert "result" in await host.ask("tools/list")
            await asyncio.to_thread(served.stop)
        assert (await host.ask("tools/list"))["error"]["data"]["code"] == "UNAVAILABLE"
        host.close()
        assert await host.ended() == 0
        assert await host.errors() == ""


async def test_what_a_server_may_have_done_is_not_to_be_sent_again_unseen() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(break_off, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with hosting("stdio", MEMSVC_URL=url, MEMSVC_API_KEY="some-key") as host:
            error = (await host.ask("tools/call", name="memories_add"))["error"]["data"]
            assert error["message"] == f"{url}/mcp closed the connection"
            assert (error["code"], error["retryable"]) == ("UNAVAILABLE", False)
            assert error["recovery"].startswith("the call may have succeeded: first check")


async def test_lines_that_are_no_messages_are_answered_and_end_nothing(
    shared: Served, key: str
) -> None:
    async with hosting("stdio", MEMSVC_URL=shared.url, MEMSVC_API_KEY=key) as host:
        for line, code in (
            ("no json", -32700),
            ("7", -32600),
            ("[]", -32600),
            ('{"jsonrpc":"2.0"}', -32600),
        ):
            await host.write(line)
            answer = await host.read()
            assert (answer["error"]["code"], answer["id"]) == (code, None)
        await host.write('{"jsonrpc":"2.0","id":"mine","method":5}')
        assert (await host.read())["error"]["code"] == -32600
        await host.write('{"jsonrpc":"2.0","id":1.5,"method":"ping"}')
        assert (await host.read())["error"]["code"] == -32600
        await host.write(r'{"jsonrpc":"2.0","id":"cut \ud83d","method":"nothing"}')
        assert (await host.read())["id"] == "cut \ufffd"
        await host.shake_hands()
        assert "result" in await host.ask("tools/list")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it(shared: Served, key: str, ending: int) -> None:
    async with hosting("stdio", MEMSVC_URL=shared.url, MEMSVC_API_KEY=key) as host:
        await host.shake_hands()
        host.process.send_signal(ending)
        assert await host.ended() == 0
        assert await host.errors() == ""


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"MEMSVC_URL": "here"}, "MEMSVC_URL is not the URL"),
        ({"MEMSVC_URL": "ftp://here"}, "MEMSVC_URL is not the URL"),
        ({"MEMSVC_URL": "http://127.0.0.1:1"}, "MEMSVC_API_KEY is not set"),
    ],
)
async def test_it_says_what_it_needs(variables: dict[str, str], problem: str) -> None:
    async with hosting("stdio", **variables) as host:
        assert await host.ended() == 2
        said = await host.errors()
        assert said.startswith(f"Error: {problem}")
        assert "Recovery: " in said
