"""Gateways on ports of this machine, with boards: what a response that goes on needs, as the
transport in memory ends none."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated, Subscription
from starlette.types import ASGIApp

from memsvc.gateway.limits import LimitsOptions
from memsvc.store.changes import Changes
from memsvc.web_server import limited_protocol
from tests.e2e.sdk import connected
from tests.waiting import until

if TYPE_CHECKING:
    from tests.gateway.conftest import Gateway


@dataclass
class Replica:
    """A server with boards, on a port."""

    gateway: "Gateway"
    changes: Changes
    url: str

    @asynccontextmanager
    async def client(self, key: str = "key-one") -> AsyncIterator[Client]:
        async with connected(self.url, key) as client:
            yield client

    async def write(self, conversation: str = "1", key: str = "key-one", **arguments: str) -> None:
        """A new text on a board of alice."""
        given = {"user_id": "alice", "conversation_id": conversation, "text": "new"} | arguments
        async with self.gateway.client("2026-07-28", key) as client:
            assert (await client.call_tool("board_write", given)).is_error is False

    def streams(self) -> int:
        """How many clients wait for changes, as the metrics tell."""
        lines = self.gateway.metrics.text().decode().splitlines()
        [line] = [one for one in lines if one.startswith("memsvc_listeners")]
        return int(float(line.split()[-1]))


Opened = Callable[..., AbstractAsyncContextManager[Replica]]


@asynccontextmanager
async def wired(app: ASGIApp, limits: LimitsOptions | None = None) -> AsyncIterator[str]:
    """Where the app is served; its lifespan is the caller's business. At the end no request may be
    under way."""
    http = limited_protocol(limits or LimitsOptions())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(
            app, http=http, ws="none", lifespan="off", log_config=None, access_log=False
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            async with asyncio.timeout(10):
                await serving


async def told(subscription: Subscription) -> str:
    """The URI of the next event."""
    async with asyncio.timeout(10):
        event = await anext(subscription)
    assert isinstance(event, ResourceUpdated)
    return event.uri


@asynccontextmanager
async def breakable(url: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """A way to a server, and what breaks the connections that go there just now."""
    writers: list[asyncio.StreamWriter] = []
    port = int(url.rpartition(":")[2])

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65536):
                writer.write(chunk)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writers.extend((writer, far_writer))
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    def cut() -> None:
        while writers:
            writers.pop().transport.abort()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", cut
    finally:
        server.close()
        cut()
