"""An answer that its client lost the connection to is had from any replica: once made, not made
twice."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg
import httpx2
import orjson
import pytest

from memsvc.core.errors import unavailable
from memsvc.core.scope import Caller, Permission, Scope
from memsvc.core.tools import ProgressCallback, Tool
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp import answer_streams
from memsvc.gateway.mcp.answer_streams import AnswerStream, AnswerStreams
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.store.keys import create_key, hash_key
from tests.e2e.host import hosting
from tests.fakes import FakeClock
from tests.gateway.catalogue import EchoArguments, EchoResult, tool
from tests.gateway.test_elicitation import Asked, asking
from tests.gateway.wired import Opened, breakable
from tests.waiting import until

pytestmark = pytest.mark.anyio

OLDER = "2025-06-18"


class Long:
    """A tool that ends when it may, and tells how far it is."""

    def __init__(self) -> None:
        self.begun = 0
        self.done = 0
        self.may_end = asyncio.Event()
        self.report: ProgressCallback = lambda *_: None

    async def run(self, scope: Scope, progress: Any, _: EchoArguments) -> EchoResult:
        self.begun += 1
        self.report = progress.report
        await self.may_end.wait()
        self.done += 1
        return EchoResult(project=scope.project, text="it is \\u0000 done", items=[], parts=[])

    def tools(self) -> list[Tool]:
        changes = {"permission": Permission.WRITE, "read_only": False}
        return [
            tool("take_long", self.run, takes=("scope", "progress"), **changes),
            tool("wipe", self.run, takes=("scope", "progress"), destructive=True, **changes),
        ]


@pytest.fixture
def long() -> Long:
    return Long()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer is a stream, and one that nobody has is lost soon."""
    monkeypatch.setattr(answer_streams, "STREAM_AFTER_S", 0.0)
    monkeypatch.setattr(answer_streams, "LOST_S", 1.0)


@dataclass
class Event:
    id: str
    message: dict[str, Any]


class Events:
    """The events of a stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.retry_ms = 0

    async def next(self) -> Event:
        number, data = "", None
        async with asyncio.timeout(10):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "id":
                    number = value
                elif name == "retry":
                    self.retry_ms = int(value)
                elif line.startswith("data:"):
                    data = value
                elif not line and data is not None:
                    return Event(number, orjson.loads(data or "{}"))
        raise StopAsyncIteration

    async def opening(self) -> str:
        event = await self.next()
        assert event.id
        assert event.message == {}
        assert self.retry_ms > 0
        return event.id

    async def ended(self) -> None:
        with pytest.raises(StopAsyncIteration):
            await self.next()


def body(name: str, request_id: Any = 7, **meta: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": {"session_id": "one"}}
    if meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


@asynccontextmanager
async def called(
    client: Asked, url: str, name: str = "take_long", request_id: Any = 7, **meta: Any
) -> AsyncIterator[Events]:
    request = body(name, request_id, **meta)
    async with client.http.stream(
        "POST", f"{url}/mcp", json=request, headers=client.headers()
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response.aiter_lines())


@asynccontextmanager
async def resumed(client: Asked, url: str, last: str) -> AsyncIterator[Events]:
    headers = client.headers(**{"Last-Event-ID": last})
    async with client.http.stream("GET", f"{url}/mcp", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        yield Events(response.aiter_lines())


async def rows(admin: asyncpg.Connection) -> int:
    return int(await admin.fetchval("SELECT count(*) FROM mcp_questions"))


def text_of(event: Event) -> str:
    text: str = orjson.loads(event.message["result"]["content"][0]["text"])["text"]
    return text


@pytest.mark.parametrize("request_id", [7, "call-ü"])
async def test_an_answer_is_had_from_another_replica_when_the_connection_broke(
    replica: Opened, long: Long, at_once: None, admin: asyncpg.Connection, request_id: Any
) -> None:
    async with (
        replica(long.tools()) as here,
        replica(long.tools()) as there,
        asking(here.url) as client,
    ):
        async with called(client, here.url, request_id=request_id) as events:
            last = await events.opening()
        async with resumed(client, there.url, last) as events:
            assert await events.opening() == last
            long.may_end.set()
            answer = await events.next()
            assert answer.message["id"] == request_id
            assert text_of(answer) == "it is \\u0000 done"
            await events.ended()
        async with resumed(client, there.url, last) as events:  # as often as it is asked for
            await events.opening()
            assert await events.next() == answer
        async with resumed(client, here.url, answer.id) as events:
            await events.opening()
            await events.ended()
        assert (long.begun, long.done, await rows(admin)) == (1, 1, 0)
        await until(lambda: there.streams() == 0)


async def test_progress_goes_on_from_where_the_client_was(
    replica: Opened, long: Long, at_once: None
) -> None:
    async with (
        replica(long.tools()) as here,
        replica(long.tools()) as there,
        asking(here.url) as client,
    ):
        async with called(client, here.url, progressToken="t") as events:
            last = await events.opening()
            await until(lambda: long.begun == 1)
            long.report(1)
            seen = await events.next()
            assert seen.message["params"]["progress"] == 1
        async with resumed(client, there.url, seen.id) as events:
            await events.opening()
            long.report(2)
            assert (await events.next()).message["params"]["progress"] == 2
            long.report(3)
            assert (await events.next()).message["params"]["progress"] == 3
        long.may_end.set()
        async with resumed(client, there.url, last) as events:
            await events.opening()
            assert (await events.next()).message["params"]["progress"] == 3  # the latest says all
            assert "result" in (await events.next()).message
            await events.ended()
        assert (long.begun, long.done) == (1, 1)


async def test_a_question_that_the_user_did_not_see_is_asked_again(
    replica: Opened, long: Long, admin: asyncpg.Connection
) -> None:
    long.may_end.set()
    async with (
        replica(long.tools()) as here,
        replica(long.tools()) as there,
        asking(here.url) as client,
    ):
        async with called(client, here.url, "wipe") as events:
            last = await events.opening()
        async with resumed(client, there.url, last) as events:
            await events.opening()
            question = await events.next()
            assert question.message["method"] == "elicitation/create"
        assert await client.answer(there.url, question.message["id"]) == 202
        async with resumed(client, there.url, question.id) as events:
            await events.opening()
            assert (await events.next()).message["result"]["isError"] is False
        assert (long.done, await rows(admin)) == (1, 0)


async def test_only_an_answer_that_takes_long_is_a_stream(
    replica: Opened, long: Long, monkeypatch: pytest.MonkeyPatch
) -> None:
    long.may_end.set()
    async with replica(long.tools()) as server, asking(server.url) as client:
        request = body("take_long")
        quick = await client.http.post(f"{server.url}/mcp", json=request, headers=client.headers())
        assert quick.headers["content-type"] == "application/json"
        long.may_end.clear()
        monkeypatch.setattr(answer_streams, "STREAM_AFTER_S", 0.05)
        monkeypatch.setattr(answer_streams, "HEARTBEAT_S", 0.02)
        async with called(client, server.url) as events:
            await events.opening()
            async with asyncio.timeout(10):
                while await anext(events._lines) != ":":
                    pass
            long.may_end.set()
            assert "result" in (await events.next()).message
            await events.ended()


async def test_clients_of_older_versions_get_no_event_without_a_message(
    replica: Opened, long: Long, at_once: None
) -> None:
    long.may_end.set()
    async with replica(long.tools()) as server, asking(server.url) as client:
        client._headers["MCP-Protocol-Version"] = OLDER
        async with called(client, server.url, progressToken="t") as events:
            answer = await events.next()
            assert answer.id
            assert "result" in answer.message
        async with resumed(client, server.url, answer.id) as events:
            await events.ended()


async def test_a_lost_answer_is_an_error_that_says_to_look_first(
    replica: Opened, long: Long, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    long.may_end.set()
    monkeypatch.setattr(answer_streams, "KEPT_S", -1.0)
    async with replica(long.tools()) as server, asking(server.url) as client:
        async with called(client, server.url, progressToken="t", request_id="mine") as events:
            last = await events.opening()
            await events.next()
        async with resumed(client, server.url, last) as events:
            await events.opening()
            lost = (await events.next()).message
            await events.ended()
        assert lost["id"] == "mine"
        error = lost["error"]["data"]
        assert (error["code"], error["retryable"]) == ("UNAVAILABLE", False)
        assert "may have succeeded: first check" in error["recovery"]


async def test_nobody_else_gets_an_answer(
    replica: Opened, long: Long, at_once: None, database: Database, clock: FakeClock
) -> None:
    second = await create_key(database, "second", clock.now(), tenant=hash_key("key-one"))
    async with (
        replica(long.tools()) as server,
        asking(server.url) as client,
        asking(server.url) as other_session,
        asking(server.url, "key-two") as other_tenant,
    ):
        async with called(client, server.url) as events:
            last = await events.opening()
        long.may_end.set()
        for other in (other_session, other_tenant):
            async with resumed(other, server.url, last) as events:
                await events.opening()
                assert "error" in (await events.next()).message
        for key in ("key-two", second.text):
            headers = client.headers(Authorization=f"Bearer {key}", **{"Last-Event-ID": last})
            refused = await client.http.get(f"{server.url}/mcp", headers=headers)
            assert refused.status_code == 404
        async with resumed(client, server.url, last) as events:
            await events.opening()
            assert "result" in (await events.next()).message


async def test_what_is_kept_is_bounded_and_its_oldest_goes_of_who_has_most(
    replica: Opened, long: Long, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    long.may_end.set()
    monkeypatch.setattr(answer_streams, "KEPT_BYTES_MAX", 4 * answer_streams.STREAM_BYTES)
    async with (
        replica(long.tools()) as server,
        asking(server.url) as client,
        asking(server.url, "key-two") as other_tenant,
    ):
        ids = []
        for each in [other_tenant, *[client] * 6]:
            async with called(each, server.url, progressToken="t") as events:
                ids.append(await events.opening())
                await events.next()
                await events.ended()
        for each, last, member in (
            (other_tenant, ids[0], "result"),
            (client, ids[1], "error"),
            (client, ids[-1], "result"),
        ):
            async with resumed(each, server.url, last) as events:
                await events.opening()
                assert member in (await events.next()).message


async def test_a_kept_stream_holds_nothing_of_its_request(clock: FakeClock) -> None:
    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def respond(send: Any) -> None:
        await stream.send_request({"method": "a question"})
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    sent: list[str] = []
    sessions = McpSessions(Any, clock, Changes(""), LimitsOptions())
    streams = AnswerStreams(sessions, LimitsOptions())
    stream = AnswerStream(send, 1, "2025-11-25")
    caller = Caller(b"t" * 32, "key", frozenset(Permission))
    await streams.answer(stream, caller, b"session", respond)
    assert (len(streams._kept), stream.is_complete, len(sent)) == (1, True, 5)
    receiver = weakref.ref(send)
    del send
    gc.collect()
    assert receiver() is None


async def test_a_client_that_is_gone_leaves_no_question(
    replica: Opened, long: Long, at_once: None, admin: asyncpg.Connection
) -> None:
    async def has_rows(number: int) -> bool:
        return await rows(admin) == number

    async with (
        replica(long.tools()) as here,
        replica(long.tools()) as there,
        asking(here.url) as client,
    ):
        async with called(client, here.url) as events:
            last = await events.opening()
        async with resumed(client, there.url, last) as events:
            await events.opening()
            await until(lambda: has_rows(1))
        await until(lambda: has_rows(0))
        long.may_end.set()


@pytest.mark.parametrize("error", [unavailable("the database is away"), RuntimeError("a fault")])
async def test_a_reply_that_failed_is_tried_again(
    replica: Opened,
    long: Long,
    at_once: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    questions, errors = McpSessions.stream_questions, [error]

    async def fail_once(self: McpSessions, *arguments: Any) -> list[str]:
        if errors:
            raise errors.pop()
        return await questions(self, *arguments)

    monkeypatch.setattr(McpSessions, "stream_questions", fail_once)
    monkeypatch.setattr(answer_streams, "REPLY_S_MAX", 0.1)
    monkeypatch.setattr(answer_streams, "LOST_S", 60.0)
    async with replica(long.tools()) as server, asking(server.url) as client:
        async with called(client, server.url) as events:
            last = await events.opening()
            long.may_end.set()
            await events.next()
        async with resumed(client, server.url, last) as events:
            await events.opening()
            assert "result" in (await events.next()).message
    assert errors == []
    assert "an answer could not be delivered to a waiting client" in capsys.readouterr().out


async def test_an_event_is_looked_for_by_those_who_wait_for_its_stream(
    replica: Opened, long: Long, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, asked = McpSessions.stream_questions, []

    async def count(self: McpSessions, caller: Caller, session: bytes, stream: str) -> list[str]:
        found = await questions(self, caller, session, stream)
        asked.append(stream)
        return found

    monkeypatch.setattr(McpSessions, "stream_questions", count)
    monkeypatch.setattr(answer_streams, "REPLY_S_MAX", 60.0)
    monkeypatch.setattr(answer_streams, "LOST_S", 60.0)
    async with replica(long.tools()) as server, asking(server.url) as client:
        ids = []
        for number in (1, 2):
            async with called(client, server.url, progressToken="t") as events:
                ids.append(await events.opening())
                await until(lambda number=number: long.begun == number)
        async with (
            resumed(client, server.url, ids[0]),
            resumed(client, server.url, ids[1]) as events,
        ):
            streams = [last.partition("-")[0] for last in ids]
            await until(lambda: set(asked) == set(streams))
            asked.clear()
            long.report(1)
            await events.opening()
            await events.next()
            assert set(asked) == {streams[1]}
            long.may_end.set()


async def test_a_stream_that_ends_before_its_answer_can_be_resumed_again(
    replica: Opened, long: Long, at_once: None, clock: FakeClock
) -> None:
    limits = LimitsOptions(listen_s_max=0.05)
    async with replica(long.tools(), limits=limits) as server, asking(server.url) as client:
        async with called(client, server.url) as events:
            last = await events.opening()
        clock.advance(timedelta(seconds=1))
        async with resumed(client, server.url, last) as events:
            await events.opening()
            long.may_end.set()
            assert "result" in (await events.next()).message


@pytest.mark.parametrize("number", ["0" * 16 + "-1-bm8=", "0" * 16 + "-1-e30="])
async def test_an_id_that_is_none_is_refused(replica: Opened, long: Long, number: str) -> None:
    async with replica(long.tools()) as server, asking(server.url) as client:
        assert await client.status(server.url, **{"Last-Event-ID": number}) == 400


async def test_a_client_that_does_not_wait_for_its_answer_leaves_nothing_waiting(
    replica: Opened, long: Long, at_once: None
) -> None:
    async with replica(long.tools()) as server, asking(server.url) as client:
        request = body("take_long", progressToken="t")
        with pytest.raises(httpx2.ReadTimeout):
            await client.http.post(
                f"{server.url}/mcp", json=request, headers=client.headers(), timeout=0.3
            )
        long.may_end.set()
        await until(lambda: long.done == 1)


@pytest.mark.slow
async def test_a_host_behind_the_bridge_gets_its_answer_though_the_connection_broke(
    replica: Opened, long: Long, at_once: None
) -> None:
    async with (
        replica(long.tools()) as server,
        breakable(server.url) as (url, cut),
        hosting("stdio", MEMSVC_URL=url, MEMSVC_API_KEY="key-one") as host,
    ):
        await host.shake_hands("2025-11-25")
        answer = asyncio.create_task(host.call("take_long", session_id="one"))
        await until(lambda: long.begun == 1)
        for _ in range(2):
            await asyncio.sleep(0.2)  # until the event that it resumes from is there
            cut()
            await asyncio.sleep(1.5)  # until it has come back
        long.may_end.set()
        assert (await answer)["result"]["isError"] is False
        assert (long.begun, long.done) == (1, 1)
        assert "result" in await host.ask("tools/list")
