"""One client between a transport and the SDK: what it asked is answered, and nothing waits for it
for ever."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import CallToolRequestParams, JSONRPCNotification, JSONRPCRequest

from memsvc.gateway.mcp.connection import Connection

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
LONG_S = 30


class Peer:
    """The client's side, and a tool that waits until it may answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.asks: MemoryObjectSendStream[Any]
        self.hears: MemoryObjectReceiveStream[Any]
        self.called = anyio.Event()
        self.may_answer = anyio.Event()
        self.ended = anyio.Event()

    async def ask(self, number: int, method: str, **params: Any) -> None:
        await self.asks.send(
            SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params))
        )

    async def hear(self) -> Any:
        with anyio.fail_after(LONG_S):
            return (await self.hears.receive()).message

    async def shake_hands(self) -> None:
        await self.ask(0, "initialize", **HELLO)
        await self.hear()
        message = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
        await self.asks.send(SessionMessage(message))

    async def call(self) -> None:
        await self.ask(1, "tools/call", name="wait", arguments={})
        with anyio.fail_after(LONG_S):
            await self.called.wait()

    async def until_ended(self) -> None:
        with anyio.fail_after(LONG_S):
            await self.ended.wait()


@asynccontextmanager
async def served(connection: Connection, *, buffered: float = 0) -> AsyncIterator[Peer]:
    peer = Peer(connection)

    async def wait(_: Any, __: Any) -> dict[str, Any]:
        peer.called.set()
        await peer.may_answer.wait()
        return {"content": [], "isError": False}

    server: Server[Any] = Server("test")
    server.add_request_handler("tools/call", CallToolRequestParams, wait)
    peer.asks, reads = anyio.create_memory_object_stream[Any](0)
    writes, peer.hears = anyio.create_memory_object_stream[Any](buffered)

    async def serve() -> None:
        await connection.serve(server, reads, writes)
        peer.ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        yield peer
        tasks.cancel_scope.cancel()
    for stream in (peer.asks, peer.hears, reads, writes):
        stream.close()


@pytest.mark.parametrize("ending", ["told to end", "client gone"])
async def test_what_was_asked_is_answered_before_the_end(ending: str) -> None:
    async with served(Connection()) as peer:
        await peer.shake_hands()
        await peer.call()
        if ending == "told to end":
            peer.connection.end()
        else:
            peer.asks.close()
        assert not peer.ended.is_set()
        assert peer.connection.pending == 1
        peer.may_answer.set()
        assert (await peer.hear()).id == 1
        await peer.until_ended()


async def test_what_takes_longer_than_the_grace_is_cut_off() -> None:
    async with served(Connection(grace_s=0.01)) as peer:
        await peer.shake_hands()
        await peer.call()
        peer.connection.end()
        assert (await peer.hear()).error.message == "Connection closed"
        await peer.until_ended()


async def test_what_the_client_took_back_is_not_waited_for() -> None:
    async with served(Connection()) as peer:
        await peer.shake_hands()
        await peer.call()
        message = JSONRPCNotification(
            jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1}
        )
        await peer.asks.send(SessionMessage(message))
        peer.connection.end()
        await peer.until_ended()


async def test_a_silent_client_is_sent_away_unless_it_waits_for_an_answer() -> None:
    async with served(Connection(idle_s=0.05)) as peer:
        await peer.shake_hands()
        await peer.call()
        with anyio.move_on_after(0.2):
            await peer.ended.wait()
        assert not peer.ended.is_set()
        peer.may_answer.set()
        await peer.hear()
        await peer.until_ended()


async def test_a_client_that_does_not_read_is_sent_away() -> None:
    async with served(Connection(write_s=0.05)) as peer:
        await peer.shake_hands()
        peer.may_answer.set()
        await peer.call()
        await peer.until_ended()
        assert peer.connection.write_failed


async def test_nobody_asks_once_the_end_has_come() -> None:
    async with served(Connection(), buffered=math.inf) as peer:
        await peer.shake_hands()
        peer.connection.end()
        await peer.until_ended()
        with pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
            await peer.ask(1, "ping")
