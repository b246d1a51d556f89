"""The bridge opens streams of events only where it has to, and as late as the server asks."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import httpx2
import orjson
import pytest

from memsvc.bridge import Bridge
from tests.waiting import until

pytestmark = pytest.mark.anyio

Respond = Callable[[httpx2.Request], httpx2.Response]
EVENTS = {"Content-Type": "text/event-stream"}


class Host:
    """What a host writes, and what it reads."""

    def __init__(self) -> None:
        self.read: list[dict[str, Any]] = []
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def lines(self, _: int) -> AsyncIterator[bytes]:
        while True:
            yield await self._lines.get()

    async def write(self, line: bytes) -> None:
        self.read.append(orjson.loads(line))

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        request_id = len(self.read) + 1
        self.tell(method, id=request_id, params=params)
        await until(lambda: any(message.get("id") == request_id for message in self.read))
        return next(message for message in self.read if message.get("id") == request_id)

    def tell(self, method: str, **more: Any) -> None:
        self._lines.put_nowait(orjson.dumps({"jsonrpc": "2.0", "method": method} | more))


@asynccontextmanager
async def bridged(respond: Respond) -> AsyncIterator[tuple[Host, list[httpx2.Request]]]:
    """A host of the older wire behind the bridge, and what the server was sent by GET or DELETE."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            sent.append(request)
            return respond(request)
        message = orjson.loads(request.content)
        if message["method"] == "tools/call":
            return respond(request)
        if "id" not in message:
            return httpx2.Response(202)
        result = {"protocolVersion": "2025-11-25"}
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return httpx2.Response(200, json=body, headers={"Mcp-Session-Id": "one"})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        host = Host()
        made = Bridge("http://server/mcp", http, host)  # type: ignore[arg-type]
        reading = asyncio.create_task(made.read())
        await host.ask("initialize")
        host.tell("notifications/initialized")
        yield host, sent
        reading.cancel()
        await made.finish(0.1)


async def test_an_idle_host_has_no_stream_until_it_subscribes() -> None:
    async with bridged(lambda _: httpx2.Response(405)) as (host, sent):
        await host.ask("tools/list")
        await asyncio.sleep(0.05)
        assert sent == []
        for count in (1, 2):  # also after a session that the server no longer knew
            await host.ask("resources/subscribe", uri="memory://a/b")
            await until(lambda count=count: [each.method for each in sent] == ["GET"] * count)
            await asyncio.sleep(0.05)
    assert [each.method for each in sent] == ["GET", "GET", "DELETE"]


async def test_a_host_that_never_subscribed_ends_no_session() -> None:
    async with bridged(lambda _: httpx2.Response(405)) as (host, sent):
        await host.ask("tools/list")
    assert sent == []


async def test_a_server_is_asked_again_when_it_says_so() -> None:
    came: list[float] = []

    def respond(_: httpx2.Request) -> httpx2.Response:
        came.append(monotonic())
        retry_after = "2" if len(came) == 1 else "soon"
        status = 429 if len(came) < 3 else 404
        return httpx2.Response(status, headers={"Retry-After": retry_after})

    async with bridged(respond) as (host, _):
        await host.ask("resources/subscribe", uri="memory://a/b")
        await until(lambda: len(came) == 3)
    assert came[1] - came[0] >= 2.0
    assert came[2] - came[1] < 2.0


async def test_an_answer_is_resumed_from_its_last_event_though_others_have_no_id() -> None:
    answer = {"jsonrpc": "2.0", "id": 2, "result": {"done": True}}
    streams = [
        b"retry: 10\nid: first\ndata:\n\n",
        b"retry: 10\n\n:\n\n",
        b":\n\ndata: " + orjson.dumps(answer) + b"\n\n",
    ]

    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=EVENTS, content=streams.pop(0))

    async with bridged(respond) as (host, sent):
        assert await host.ask("tools/call", name="any") == answer
    assert [each.headers["last-event-id"] for each in sent] == ["first", "first"]
