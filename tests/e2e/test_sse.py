"""Old clients at /sse: the SDK's own, beside each other, refused, sent away."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from mcp import Client
from mcp.client.sse import sse_client

from tests.e2e.conftest import copied
from tests.e2e.process import Served, free_port, on, typed
from tests.e2e.sdk import used
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

CANARY = "canary-7f3a-do-not-log"
SECOND_TENANT = "5" * 64
LONG_S = 60


@pytest.fixture(scope="module")
def data_dir(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(migrated, tmp_path_factory.mktemp("sse") / "data")


@pytest.fixture(scope="module")
def served(data_dir: Path) -> Iterator[Served]:
    with Served(
        data_dir, MEMSVC_LOG_LEVEL="debug", MEMSVC_SSE__SESSIONS_PER_CALLER_MAX="3"
    ) as served:
        yield served


@pytest.fixture(scope="module")
def key(served: Served, data_dir: Path) -> str:
    return (data_dir / "api-key").read_text().strip()


@pytest.fixture(scope="module")
def other_key(served: Served, data_dir: Path) -> str:
    return _made_key(data_dir, "--tenant", SECOND_TENANT)


def _made_key(data_dir: Path, *options: str) -> str:
    made = typed("key", "create", "--data-dir", str(data_dir), *options)
    assert made.returncode == 0, made.stderr
    return made.stdout.split()[1]


@asynccontextmanager
async def connected(
    url: str, key: str, path: str = "/sse", **options: Any
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with Client(
        sse_client(f"{url}{path}", headers=headers), mode="legacy", **options
    ) as client:
        yield client


class Stream:
    """A stream that a test reads by hand: where to send messages, and what comes back."""

    def __init__(self, http: httpx2.AsyncClient, response: httpx2.Response) -> None:
        self.http = http
        self.response = response
        self.lines = response.aiter_lines()

    async def data(self) -> str:
        async with asyncio.timeout(LONG_S):
            async for line in self.lines:
                if line.startswith("data: "):
                    return line.removeprefix("data: ")
        raise AssertionError("the stream has ended")

    async def ends(self) -> None:
        async with asyncio.timeout(LONG_S):
            async for _ in self.lines:
                pass


@asynccontextmanager
async def streaming(served: Served, key: str, path: str = "/sse") -> AsyncIterator[Stream]:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(base_url=served.url, timeout=LONG_S) as http,
        http.stream("GET", path, headers=headers) as response,
    ):
        yield Stream(http, response)


def _request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.parametrize("path", ["/sse", "/sse/"])
async def test_a_client_lists_and_calls_tools(served: Served, key: str, path: str) -> None:
    async with connected(served.url, key, path) as client:
        assert "whiteboard_get" in {tool.name for tool in (await client.list_tools()).tools}
        written = await used(
            client,
            "file_write",
            project="p",
            path="/sse.txt",
            content="by an old client",
            mode="overwrite",
        )
        assert written["bytes_written"] == 16
        read = await used(client, "file_read", project="p", path="/sse.txt")
        assert read["content"] == "by an old client"
        refused = await client.call_tool("file_read", {"project": "p", "path": "/none.txt"})
        assert refused.is_error
        assert "NOT_FOUND" in refused.content[0].text


async def test_a_whiteboard_is_updated_read_and_heard_of(
    served: Served, key: str, other_key: str
) -> None:
    uri = "memory://alice/123"
    board = {"user_id": "alice", "conversation_id": "123"}
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        if (
            getattr(message, "method", "") == "notifications/resources/updated"
            and str(message.params.uri) == uri
        ):
            heard.set()

    async with (
        connected(served.url, key, message_handler=hear) as client,
        connected(served.url, other_key) as other,
    ):
        assert [content.text for content in (await client.read_resource(uri)).contents] == [""]
        await client.subscribe_resource(uri)
        entries = [{"role": "user", "content": "We decided to build the bridge in Kobe."}]
        answer = await client.call_tool("context_update", {**board, "entries": entries})
        assert not answer.is_error
        assert answer.content[0].text == "true"
        async with asyncio.timeout(LONG_S):
            await heard.wait()
        assert "Kobe" in (await client.read_resource(uri)).contents[0].text
        assert (await other.read_resource(uri)).contents[0].text == ""


async def test_calls_at_once_each_get_their_answer(served: Served, key: str) -> None:
    async with connected(served.url, key) as client:
        names = [f"/at-once-{number}.txt" for number in range(20)]
        await asyncio.gather(
            *(
                used(client, "file_write", project="p", path=name, content=name, mode="overwrite")
                for name in names
            )
        )
        read = await asyncio.gather(
            *(used(client, "file_read", project="p", path=name) for name in names)
        )
        assert [answer["content"] for answer in read] == names


async def test_two_tenants_see_nothing_of_each_other(
    served: Served, key: str, other_key: str
) -> None:
    async with connected(served.url, key) as one, connected(served.url, other_key) as other:
        await used(
            one, "file_write", project="p", path="/mine.txt", content="one", mode="overwrite"
        )
        refused = await other.call_tool("file_read", {"project": "p", "path": "/mine.txt"})
        assert refused.is_error
        await used(
            other, "file_write", project="p", path="/mine.txt", content="other", mode="overwrite"
        )
        assert (await used(one, "file_read", project="p", path="/mine.txt"))["content"] == "one"


@pytest.mark.parametrize("path", ["/sse", "/messages/?session_id=" + "0" * 32])
async def test_nobody_is_let_in_without_a_key(served: Served, path: str) -> None:
    async with httpx2.AsyncClient(base_url=served.url) as http:
        method = "GET" if path == "/sse" else "POST"
        assert (await http.request(method, path)).status_code == 401


async def test_a_foreign_host_and_a_foreign_page_are_refused(served: Served, key: str) -> None:
    async with httpx2.AsyncClient(
        base_url=served.url, headers={"Authorization": f"Bearer {key}"}
    ) as http:
        assert (await http.get("/sse", headers={"Host": "evil.example"})).status_code == 421
        assert (
            await http.get("/sse", headers={"Origin": "http://evil.example"})
        ).status_code == 403


async def test_a_session_of_somebody_else_is_as_if_it_were_not_there(
    served: Served, key: str, other_key: str, data_dir: Path
) -> None:
    reader = _made_key(
        data_dir, "--tenant", SECOND_TENANT, "--permission", "read", "--label", "reader"
    )
    async with streaming(served, other_key) as stream:
        where = await stream.data()
        none = where[:-32] + "0" * 32
        ping = _request(1, "ping")
        for thief in (key, reader):
            headers = {"Authorization": f"Bearer {thief}"}
            hijack = await stream.http.post(where, json=ping, headers=headers)
            absent = await stream.http.post(none, json=ping, headers=headers)
            assert (hijack.status_code, hijack.content) == (absent.status_code, absent.content)
            assert hijack.status_code == 404
        own = await stream.http.post(
            where, json=ping, headers={"Authorization": f"Bearer {other_key}"}
        )
        assert own.status_code == 202
        assert '"id":1' in await stream.data()


async def test_a_key_has_so_many_streams_and_no_more(
    served: Served, key: str, other_key: str
) -> None:
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(streaming(served, key)) for _ in range(3)]
        for stream in streams:  # all of them are kept: a stream that nobody refers to is closed
            assert (await stream.data()).startswith("/messages/")
        async with streaming(served, key) as refused:
            assert refused.response.status_code == 429
            assert refused.response.headers["retry-after"]
            assert (await refused.response.aread()).startswith(b'{"code":"RATE_LIMITED"')
        async with streaming(served, other_key) as stream:
            assert stream.response.status_code == 200
    async with streaming(served, key) as stream:
        assert stream.response.status_code == 200


async def test_what_is_too_large_or_too_deep_or_not_json_is_refused(
    served: Served, key: str
) -> None:
    async with streaming(served, key) as stream:
        where = await stream.data()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        for body, status in (
            (b'{"a":"' + b"x" * (4 * 1024 * 1024) + b'"}', 413),
            (b"[" * 100_000, 400),
            (b"{" + CANARY.encode(), 400),
            (b'{"jsonrpc":"2.0","method":5}', 400),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400),
        ):
            answer = await stream.http.post(where, content=body, headers=headers)
            assert answer.status_code == status
            assert {"code", "message", "retryable"} <= answer.json().keys()
            assert CANARY not in answer.text
        for other, status in (("/messages/", 400), ("/messages/?session_id=" + "0" * 32, 404)):
            answer = await stream.http.post(other, json=_request(2, "ping"), headers=headers)
            assert (answer.status_code, answer.json()["retryable"]) == (status, False)
        assert (
            await stream.http.post(where, json=_request(2, "ping"), headers=headers)
        ).status_code == 202
        assert '"id":2' in await stream.data()


async def test_nothing_that_was_sent_reaches_the_log(served: Served, key: str) -> None:
    async with connected(served.url, key) as client:
        await used(
            client, "file_write", project="p", path="/canary.txt", content=CANARY, mode="overwrite"
        )
        assert (await used(client, "file_read", project="p", path="/canary.txt"))[
            "content"
        ] == CANARY
        await client.call_tool(CANARY, {CANARY: CANARY})
    log = served.log()
    assert '"surface":"sse"' in log
    assert CANARY not in log
    assert key not in log


@pytest.mark.slow
async def test_after_a_restart_calls_go_on_without_a_new_beginning(
    database_urls: DatabaseUrls, tmp_path: Path
) -> None:
    """What an EventSource that connects again by itself does: its client knows nothing of it, and
    just calls."""
    data_dir, place = tmp_path / "data", ("--port", str(free_port()))
    written = {"project": "p", "path": "/again.txt", "content": "kept", "mode": "overwrite"}
    served = await asyncio.to_thread(lambda: Served(data_dir, *place, **on(database_urls)))
    with served:
        key = (data_dir / "api-key").read_text().strip()
        async with connected(served.url, key) as before:
            await used(before, "file_write", **written)
        await asyncio.to_thread(served.stop)
    again = await asyncio.to_thread(lambda: Served(data_dir, *place, **on(database_urls)))
    with again:
        assert again.url == served.url
        async with streaming(again, key) as stream:
            where = await stream.data()
            headers = {"Authorization": f"Bearer {key}"}
            arguments = {"project": "p", "path": "/again.txt"}
            call = _request(2, "tools/call", name="file_read", arguments=arguments)
            assert (await stream.http.post(where, json=call, headers=headers)).status_code == 202
            result = orjson.loads(await stream.data())["result"]
        assert not result["isError"]
        assert result["structuredContent"]["content"] == "kept"
        await asyncio.to_thread(again.stop)


@pytest.mark.slow
async def test_sigterm_answers_what_was_asked_and_closes_the_streams(
    database_urls: DatabaseUrls, tmp_path: Path
) -> None:
    served = await asyncio.to_thread(lambda: Served(tmp_path / "data", **on(database_urls)))
    with served:
        key = (tmp_path / "data" / "api-key").read_text().strip()
        async with streaming(served, key) as one, streaming(served, key) as other:
            await one.data()
            await other.data()
            began = asyncio.get_running_loop().time()
            served.process.send_signal(signal.SIGTERM)
            await asyncio.gather(one.ends(), other.ends())
            assert await asyncio.to_thread(served.process.wait, LONG_S) == 0
            took_s = asyncio.get_running_loop().time() - began
    assert took_s < 20, "the grace is 25 s, and nothing was left to wait for"


@pytest.mark.slow
async def test_a_silent_client_is_sent_away(database_urls: DatabaseUrls, tmp_path: Path) -> None:
    served = await asyncio.to_thread(
        lambda: Served(tmp_path / "data", **on(database_urls), MEMSVC_SSE__IDLE_S="0.2")
    )
    with served:
        key = (tmp_path / "data" / "api-key").read_text().strip()
        async with streaming(served, key) as stream:
            await stream.data()
            await stream.ends()
        assert "memsvc_sse_open 0.0" in (await asyncio.to_thread(served.get, "/metrics")).text
        await asyncio.to_thread(served.stop)


@pytest.mark.slow
async def test_it_can_be_switched_off(database_urls: DatabaseUrls, tmp_path: Path) -> None:
    served = await asyncio.to_thread(
        lambda: Served(tmp_path / "data", **on(database_urls), MEMSVC_SSE__ENABLED="false")
    )
    with served:
        key = (tmp_path / "data" / "api-key").read_text().strip()
        async with streaming(served, key) as stream:
            assert stream.response.status_code == 404
        await asyncio.to_thread(served.stop)
