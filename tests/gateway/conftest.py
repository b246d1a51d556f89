"""A whole gateway around the tools of `catalogue`, in this process."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp

from memsvc.app import build
from memsvc.console.dependencies import ConsoleOptions
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.tools import Published, Tool
from memsvc.gateway.admission import Admission
from memsvc.gateway.auth import Authenticator, AuthOptions
from memsvc.gateway.call_accounting import AuditOptions, CallLog, call_log
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.limits import LimitsOptions, SseOptions
from memsvc.gateway.metrics import Metrics
from memsvc.gateway.rate_limits import RateLimits
from memsvc.gateway.rest import Draining, database_check
from memsvc.runtime import Models, Runtime, Services
from memsvc.settings import ALL_LISTED, Settings
from memsvc.store.calls import CallRecord, insert_calls
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from tests.fakes import FakeClock, RecordingMeter
from tests.gateway.boards import Boards
from tests.gateway.catalogue import catalogue
from tests.gateway.wired import Opened, Replica, wired
from tests.servers import DatabaseUrls
from tests.waiting import until

ORIGIN = "http://127.0.0.1:8080"
WIRES = ("legacy", "2026-07-28")


class OutOfReach:
    """A database that cannot be reached."""

    def __init__(self) -> None:
        self.flush_callbacks: list[Any] = []

    async def registry(self, *_: Any) -> list[Any]:
        raise MemsvcError(
            Code.UNAVAILABLE, "the database cannot be reached at the moment", retry_after_s=1.0
        )

    @asynccontextmanager
    async def begin(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise MemsvcError(
            Code.UNAVAILABLE, "the database cannot be reached at the moment", retry_after_s=1.0
        )
        yield


class Recorded(CallLog):
    """A call log that keeps what it is given."""

    def __init__(self, meter: RecordingMeter, clock: FakeClock) -> None:
        nowhere = cast(Database, OutOfReach())
        super().__init__(
            nowhere, clock, AuditOptions(), kind="calls", write=insert_calls, dropped=lambda _: None
        )
        self.records: list[CallRecord] = []

    def record(self, record: CallRecord) -> None:
        self.records.append(record)


@dataclass
class Gateway:
    """One gateway and what a test may want to look at in it."""

    app: ASGIApp
    metrics: Metrics
    call_log: CallLog
    dispatch: Dispatch
    draining: Draining

    def http(
        self, key: str | None = "key-one", client: tuple[str, int] = ("127.0.0.1", 1)
    ) -> httpx2.AsyncClient:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False, client=client)
        return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers)

    @asynccontextmanager
    async def client(self, wire: str, key: str = "key-one") -> AsyncIterator[Client]:
        async with (
            self.http(key) as http,
            Client(streamable_http_client(f"{ORIGIN}/mcp", http_client=http), mode=wire) as client,
        ):
            yield client


Running = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def running(database: Database, clock: FakeClock) -> Running:
    """Makes a running gateway: `async with running(auth=..., limits=..., host=...) as gateway`."""

    @asynccontextmanager
    async def run(
        auth: AuthOptions | None = None,
        limits: LimitsOptions | None = None,
        host: str = "127.0.0.1",
        **changes: Any,
    ) -> AsyncIterator[Gateway]:
        auth = auth or AuthOptions(mode="open")
        where = changes.get("database", database)
        metrics = Metrics()
        calls = call_log(where, metrics, clock, AuditOptions())
        tools = changes.get("tools") or catalogue()
        limits = limits or LimitsOptions()
        rates = RateLimits(where, limits.rates, metrics)
        admission = Admission(limits.slots, rates, metrics, connections_max=10)
        disabled = changes.get("disabled", frozenset({"disabled"}))
        dispatch = Dispatch(tools, calls, metrics, clock, admission, disabled=disabled)
        draining = Draining()
        settings = Settings(
            auth=auth,
            limits=limits,
            host=host,
            sse=changes.get("sse", SseOptions(enabled=False)),
            console=ConsoleOptions(enabled=False),
            settings=ALL_LISTED,
        )
        nothing: Any = None
        parts = Runtime(
            Services(settings, where, clock, nothing, metrics, Models()),
            Published([], [], prompts=changes.get("prompts", ())),
            None,
            calls,
            dispatch,
            Authenticator(where, auth, clock, metrics, changes.get("heard")),
            changes.get("heard", Changes("")),
            rates,
        )
        checks = {"database": database_check(where)} | changes.get("checks", {})
        app = build(parts, draining, checks, changes.get("background", ()))
        async with app.router.lifespan_context(app):
            yield Gateway(app, metrics, calls, dispatch, draining)

    return run


@pytest.fixture
def replica(running: Running, database: Database, database_urls: DatabaseUrls) -> Opened:
    """Makes a server with boards that hears of changes: `async with replica(limits=...) as
    server`."""

    @asynccontextmanager
    async def opened(more: Sequence[Tool] = (), **options: Any) -> AsyncIterator[Replica]:
        changes = Changes(database_urls.app)
        tools = Catalogue([*Boards(database).catalogue(), *more])
        async with (
            running(tools=tools, heard=changes, background=[changes.running], **options) as gateway,
            wired(gateway.app) as url,
        ):
            await until(lambda: changes.listening)
            try:
                yield Replica(gateway, changes, url)
            finally:
                gateway.draining.start()

    return opened


@pytest.fixture
async def gateway(running: Running) -> AsyncIterator[Gateway]:
    """A gateway as it runs on loopback."""
    async with running() as gateway:
        yield gateway
