"""Connections that come slowly, too large or too many are ended, and everybody else is served."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest

from memsvc.gateway.admission import SlotOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.rate_limits import RateOptions
from tests.gateway.served import Service, served
from tests.gateway.wired import wired
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

HOST = b"Host: 127.0.0.1\r\n"
KEYED = HOST + b"Authorization: Bearer key-one\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"


class Line:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, sent: bytes) -> None:
        self._writer.write(sent)
        await self._writer.drain()

    async def answered(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        async with asyncio.timeout(10):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head[1:-2])
            }
            body = await self._reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, body

    async def ended(self) -> bool:
        """Whether the server has ended it, with nothing more to say."""
        async with asyncio.timeout(10):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self._writer.close()


Lines = Callable[[], AbstractAsyncContextManager[Line]]
Serving = Callable[..., AbstractAsyncContextManager[tuple[Service, Lines]]]


@pytest.fixture
def serving(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> Serving:
    """Serves on a port: `async with serving(head_s=0.1) as (service, line)`."""

    @asynccontextmanager
    async def run(**limits: object) -> AsyncIterator[tuple[Service, Lines]]:
        options = LimitsOptions.model_validate(limits)
        async with (
            served(database_urls, admin, limits=options) as service,
            wired(service.app, options) as url,
        ):

            @asynccontextmanager
            async def line() -> AsyncIterator[Line]:
                one = Line(*await asyncio.open_connection("127.0.0.1", urlsplit(url).port))
                try:
                    yield one
                finally:
                    one.close()

            yield service, line

    return run


async def test_a_head_that_does_not_come_is_ended_and_others_are_served(serving: Serving) -> None:
    async with serving(head_s=0.2) as (_, line), line() as silent, line() as slow, line() as other:
        await slow.send(b"GET /healthz HTTP/1.1\r\nX-Slow: a")
        await other.send(HEALTH)
        assert (await other.answered())[0] == 200
        status, headers, body = await slow.answered()
        assert (status, orjson.loads(body)["code"], headers["connection"]) == (
            408,
            "INVALID_CONTENT",
            "close",
        )
        assert await slow.ended()
        assert await silent.ended()


async def test_a_second_head_on_a_connection_has_its_own_time_and_size(serving: Serving) -> None:
    async with serving(head_s=0.2, head_bytes_max=1024) as (_, line), line() as one:
        for _ in range(30):
            await one.send(HEALTH)
            assert (await one.answered())[0] == 200
        await one.send(b"GET /healthz")
        assert (await one.answered())[0] == 408
        assert await one.ended()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz?" + b"a" * 3000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nX-Long: " + b"a" * 3000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n"
        + b"".join(b"X-%d: a\r\n" % number for number in range(30))
        + b"\r\n",
        b"GET /healthz?" + b"a" * 3000,
        b"GET /healthz HTTP/1.1\r\nX-Endless: " + b"a" * 3000,
        b"GET /healthz HTTP/1.1\r\n" + b"a" * 3000,
    ],
    ids=[
        "a long URL",
        "a long header",
        "many headers",
        "a URL without an end",
        "a header without one",
        "a name",
    ],
)
async def test_a_head_that_is_too_large_is_told_so_and_ended(serving: Serving, head: bytes) -> None:
    async with serving(head_bytes_max=2048, headers_max=20) as (_, line), line() as one:
        await one.send(head)
        status, headers, body = await one.answered()
        assert (status, orjson.loads(body)["code"]) == (431, "PAYLOAD_TOO_LARGE")
        assert headers["connection"] == "close"
        assert await one.ended()


async def test_what_is_no_http_is_400_in_the_one_shape(serving: Serving) -> None:
    async with serving() as (_, line), line() as one:
        await one.send(b"\x16\x03\x01 hello\r\n\r\n")
        status, _, body = await one.answered()
        assert (status, orjson.loads(body)["code"]) == (400, "INVALID_ARGUMENT")
        assert await one.ended()


@pytest.mark.parametrize(
    "head",
    [
        b"POST /mcp HTTP/1.1\r\n"
        + KEYED
        + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + KEYED + b"Content-Length: 100\r\n\r\n{",
        b"POST /api/tools/file_stat HTTP/1.1\r\n"
        + KEYED
        + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"PUT /api/files/p/content/a HTTP/1.1\r\n" + KEYED + b"Content-Length: 100\r\n\r\nab",
    ],
    ids=["no body", "a part of a body", "a chunk", "an upload"],
)
async def test_a_body_that_does_not_come_is_refused_and_leaves_nothing(
    serving: Serving, head: bytes
) -> None:
    async with (
        serving(body_s=0.1, upload_s=0.1) as (service, line),
        line() as slow,
        line() as other,
    ):
        await slow.send(head)
        await other.send(HEALTH)
        assert (await other.answered())[0] == 200
        status, _, body = await slow.answered()
        assert (status, orjson.loads(body)["code"]) == (408, "INVALID_CONTENT")
        assert await slow.ended()
        async with service.http() as http:
            assert (await http.get("/api/files/p/content/a")).status_code == 404


async def test_slow_bodies_of_one_tenant_leave_room_for_another(serving: Serving) -> None:
    slots = SlotOptions(bodies_max=4)
    part = b"POST /mcp HTTP/1.1\r\n" + KEYED + b"Content-Length: 100\r\n\r\n{"
    typed = KEYED + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    whole = b"POST /api/tools/file_projects HTTP/1.1\r\n" + typed + b"{}"
    async with serving(slots=slots) as (service, line), AsyncExitStack() as lines:
        slow = [await lines.enter_async_context(line()) for _ in range(4)]
        for one in slow:
            await one.send(part)
        waiting = [asyncio.create_task(one.answered()) for one in slow]
        done, rest = await asyncio.wait(waiting, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        [(status, headers, body)] = [one.result() for one in done]
        assert (status, orjson.loads(body)["code"]) == (503, "RESOURCE_BUSY")
        assert headers["retry-after"] == "1"
        async with service.http("key-two") as http:
            assert (await http.post("/api/tools/file_projects", json={})).status_code == 200
        async with line() as quick:  # a body that comes with its request takes no place
            await quick.send(whole)
            assert (await quick.answered())[0] == 200
        for one in rest:
            one.cancel()
        await asyncio.wait(rest)


async def test_connections_have_a_number(serving: Serving) -> None:
    async with serving(connections_max=2) as (_, line), line() as one, line() as two:
        for each in (one, two):
            await each.send(HEALTH)
            assert (await each.answered())[0] == 200
        async with line() as three:
            assert await three.ended()
        await one.send(HEALTH)
        assert (await one.answered())[0] == 200


async def test_a_batch_of_json_rpc_runs_nothing(serving: Serving) -> None:
    rates = RateOptions(key_calls_s=0.005, burst_s=1000)
    one = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "file_projects", "arguments": {}},
    }
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with serving(rates=rates) as (service, _), service.http() as http:
        for version in ("2025-03-26", "2025-11-25", "2026-07-28"):
            answer = await http.post(
                "/mcp",
                json=[one | {"id": number} for number in range(50)],
                headers=headers | {"MCP-Protocol-Version": version},
            )
            assert answer.status_code == 400, answer.text
            assert "file_projects" not in answer.text
