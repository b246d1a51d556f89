"""Calls that take long: how far they have come is told, and they end when their clients want no
more of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from mcp import Client

from memsvc.core.scope import Scope
from memsvc.core.tools import ProgressCallback
from memsvc.gateway.dispatch import Catalogue
from memsvc.gateway.limits import SseOptions
from memsvc.store.calls import CallRecord
from memsvc.store.database import Database
from memsvc.store.keys import hash_key
from memsvc.store.locks import session_lock
from tests.e2e.sdk import WIRES, connected
from tests.gateway.catalogue import EchoArguments, EchoResult, tool
from tests.gateway.conftest import Gateway, Running
from tests.gateway.wired import wired
from tests.waiting import until

pytestmark = pytest.mark.anyio

LOCK = session_lock("held")
RESULT = EchoResult(project="p", text="", items=[], parts=[])
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Slow:
    """Tools that take as long as a test wants."""

    database: Database
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def count(self, _: Scope, progress: ProgressCallback, __: EchoArguments) -> EchoResult:
        """Tells of three steps, of one twice, and of one that would go back."""
        for done in (1, 2, 2, 1, 3):
            progress.report(done, 3, "counting")
            await asyncio.sleep(0.15)
        return RESULT

    async def think(self, scope: Scope, _: EchoArguments) -> EchoResult:
        """Holds a lock and waits for ever, as for a model that does not answer."""
        async with self.database.begin(scope, locks=[LOCK]):
            self.begun.set()
            await asyncio.Event().wait()
        return RESULT

    async def wait(self, scope: Scope, _: EchoArguments) -> EchoResult:
        """Waits for a lock that somebody else holds."""
        self.begun.set()
        async with self.database.begin(scope, locks=[LOCK], lock_timeout_ms=60_000):
            return RESULT

    def catalogue(self) -> Catalogue:
        return Catalogue(
            [
                tool("count", self.count, takes=("scope", "progress")),
                tool("think", self.think),
                tool("wait", self.wait),
            ]
        )


@dataclass
class Served:
    """A server with slow tools on a port, and what it logs."""

    gateway: Gateway
    slow: Slow
    url: str
    records: list[CallRecord]

    async def cancelled(self) -> None:
        """Until the one call that there was is logged as cancelled; it holds no lock then."""
        await until(lambda: bool(self.records))
        assert [record.status for record in self.records] == ["cancelled"]
        scope = Scope(hash_key("key-one"), "default")
        async with self.slow.database.begin(scope, locks=[LOCK], lock_timeout_ms=1000):
            pass


@pytest.fixture
async def served(
    running: Running, database: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    slow = Slow(database)
    async with (
        running(tools=slow.catalogue(), sse=SseOptions()) as gateway,
        wired(gateway.app) as url,
    ):
        records: list[CallRecord] = []
        monkeypatch.setattr(gateway.call_log, "record", records.append)
        try:
            yield Served(gateway, slow, url, records)
        finally:
            gateway.draining.start()


def request(name: str, *, newer: bool, number: int = 7, **meta: Any) -> dict[str, Any]:
    meta = (ENVELOPE if newer else {}) | meta
    params: dict[str, Any] = {"name": name, "arguments": {}} | ({"_meta": meta} if meta else {})
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def headers(*, newer: bool, key: str = "key-one", **more: str) -> dict[str, str]:
    version = {"MCP-Protocol-Version": "2026-07-28" if newer else "2025-11-25"}
    routed = {"Mcp-Method": "tools/call"} if newer else {}
    accept = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    return accept | version | routed | more


@asynccontextmanager
async def sending(
    url: str, body: dict[str, Any], sent: dict[str, str]
) -> AsyncIterator[asyncio.Task[httpx2.Response]]:
    """A request under way; its connection is closed at the end."""
    async with httpx2.AsyncClient(timeout=60) as http:
        task = asyncio.create_task(http.post(f"{url}/mcp", json=body, headers=sent))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_is_told_how_far_its_call_has_come(served: Served, wire: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(done: float, total: float | None, doing: str | None) -> None:
        told.append((done, total, doing))

    async with connected(served.url, "key-one", wire) as client:
        answer = await client.call_tool("count", {}, progress_callback=hear)
        assert not answer.is_error
        assert [done for done, _, _ in told] == [1, 2, 3]
        assert {(total, doing) for _, total, doing in told} == {(3, "counting")}
        await client.call_tool("count", {})
    assert len(told) == 3


async def test_an_answer_is_one_body_unless_progress_is_asked_for_and_can_be_read(
    served: Served,
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "application/json, text/event-stream"),
        ({"progressToken": 1}, "application/json, text/event-stream"),
        ({"progressToken": 1}, "application/json"),
    ]
    kinds = []
    async with httpx2.AsyncClient(timeout=60) as http:
        for meta, accepted in cases:
            body, sent = (
                request("count", newer=False, **meta),
                headers(newer=False, Accept=accepted),
            )
            came = await http.post(f"{served.url}/mcp", json=body, headers=sent)
            kinds.append(came.headers["content-type"].partition(";")[0])
    assert kinds == ["application/json", "text/event-stream", "application/json"]


@pytest.mark.parametrize("name", ["think", "wait"])
async def test_closing_the_connection_ends_a_call_of_the_newer_wire(
    served: Served, name: str
) -> None:
    scope = Scope(hash_key("key-one"), "default")
    async with served.slow.database.begin(scope, locks=[LOCK] if name == "wait" else []):
        sent = headers(newer=True, **{"Mcp-Name": name})
        async with sending(served.url, request(name, newer=True), sent):
            await served.slow.begun.wait()
        await until(lambda: bool(served.records))
    await served.cancelled()


async def test_closing_the_connection_ends_a_call_that_tells_of_its_progress(
    served: Served,
) -> None:
    body = request("think", newer=True, progressToken="t")
    async with sending(served.url, body, headers(newer=True, **{"Mcp-Name": "think"})):
        await served.slow.begun.wait()
    await served.cancelled()


async def begun(url: str, key: str = "key-one") -> str:
    """A session of the older wire."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    accept = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient() as http:
        came = await http.post(f"{url}/mcp", json=body, headers=accept)
    return str(came.headers["mcp-session-id"])


async def cancel(
    url: str, session: str | None, *, key: str = "key-one", number: int = 7, status: int = 202
) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
    named = {} if session is None else {"Mcp-Session-Id": session}
    async with httpx2.AsyncClient() as http:
        came = await http.post(
            f"{url}/mcp", json=body, headers=headers(newer=False, key=key, **named)
        )
    assert came.status_code == status


@pytest.mark.parametrize("name", ["think", "wait"])
async def test_a_notification_ends_a_call_of_the_older_wire(served: Served, name: str) -> None:
    session = await begun(served.url)
    scope = Scope(hash_key("key-one"), "default")
    async with served.slow.database.begin(scope, locks=[LOCK] if name == "wait" else []):
        sent = headers(newer=False, **{"Mcp-Session-Id": session})
        async with sending(served.url, request(name, newer=False), sent) as under_way:
            await served.slow.begun.wait()
            await cancel(served.url, session)
            answer = (await asyncio.wait_for(under_way, 10)).json()
    assert answer["error"]["code"] == -32800
    await served.cancelled()


async def test_nobody_ends_a_call_of_somebody_else(served: Served) -> None:
    session, other = await begun(served.url), await begun(served.url)
    assert session != other
    sent = headers(newer=False, **{"Mcp-Session-Id": session})
    async with sending(served.url, request("think", newer=False), sent) as under_way:
        await served.slow.begun.wait()
        await cancel(served.url, other)
        await cancel(served.url, None)
        await cancel(served.url, session, key="key-two", status=404)
        await cancel(served.url, session, number=8)
        assert served.records == []
        assert not under_way.done()
        await cancel(served.url, session)
        await asyncio.wait_for(under_way, 10)
    await served.cancelled()


async def test_a_client_of_the_sdk_that_gives_up_ends_its_call(served: Served) -> None:
    for wire in WIRES:
        served.records.clear()
        served.slow.begun.clear()
        async with connected(served.url, "key-one", wire) as client:
            calling = asyncio.create_task(client.call_tool("think", {}))
            await served.slow.begun.wait()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await served.cancelled()


async def test_a_call_over_server_sent_events_is_ended_by_a_notification(served: Served) -> None:
    from mcp.client.sse import sse_client  # noqa: PLC0415 - the transport that is given up

    stream = sse_client(f"{served.url}/sse", headers={"Authorization": "Bearer key-one"})
    async with Client(stream, mode="legacy") as client:
        calling = asyncio.create_task(client.call_tool("think", {}))
        await served.slow.begun.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await served.cancelled()
