"""The server process: claims its port, brings up what is below, serves, and drains when it is told to stop.

The worker process is the same without MCP, on a port of its own if it is to be probed.
"""

import asyncio
import gc
import json
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from math import ceil
from typing import Literal

import structlog
import uvicorn
import uvloop
from starlette.applications import Starlette

from memsvc.adapters.clock import SystemClock
from memsvc.app import opened, opened_worker
from memsvc.core.errors import invalid
from memsvc.core.urls import is_loopback
from memsvc.databases import DatabaseUrls, bring_up_to_date, database_urls
from memsvc.gateway.connections import bounded
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.logs import configure_logging
from memsvc.gateway.rest import Draining
from memsvc.own_key import KEY_FILE, first_key
from memsvc.settings import Settings
from memsvc.sockets import claimed, shown

log = structlog.get_logger("memsvc.serve")

KEEP_ALIVE_S = 75
PROBE_GRACE_S = 1
QUIET_LIBRARIES = ("alembic", "mcp", "pgqueuer", "uvicorn")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Say = Callable[[str], None]


def run(settings: Settings, say: Say, *, conformance: bool = False) -> None:
    """Serve until SIGTERM or SIGINT. Returns when everything is written, closed and, if it was ours, stopped.

    `conformance` adds what the official MCP suite wants to find; INVALID_ARGUMENT unless bound to loopback.
    """
    if conformance and not is_loopback(settings.host):
        raise invalid("--conformance is for this machine alone", recovery="set host to 127.0.0.1")
    begin(settings)
    if conformance:
        log.warning("FIXTURES OF THE CONFORMANCE SUITE ARE SERVED: this server is for its tests, and for nothing else")
    with (
        claimed(settings.host, settings.port) as sockets,
        database_urls(settings) as urls,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(settings, urls, sockets, say, conformance=conformance))


def work(settings: Settings, say: Say) -> None:
    """Run jobs until SIGTERM or SIGINT. Returns when those under way have ended or were handed back."""
    begin(settings)
    with (
        claimed(settings.host, settings.worker.port) if settings.worker.port else nullcontext() as sockets,
        database_urls(settings) as urls,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_work(settings, urls, sockets or [], say))


def begin(settings: Settings) -> None:
    """What every serving process does first: log as it should, and let a signal undo what was started."""
    configure_logging(settings.log_level)
    for library in QUIET_LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
    for each in STOP_SIGNALS:  # until the process's own part takes them over, so that what was started is stopped
        signal.signal(each, signal.default_int_handler)


async def _work(settings: Settings, urls: DatabaseUrls, sockets: list[socket.socket], say: Say) -> None:
    await bring_up_to_date(urls, settings)
    draining = Draining()
    async with opened_worker(settings, urls.app, draining) as app:
        draining.then(app.worker.stop)
        with taken_over(draining.begin):
            async with _probed(app.asgi, settings.limits, sockets):
                say("working")
                await app.worker.run()


@asynccontextmanager
async def _probed(asgi: Starlette, limits: LimitsOptions, sockets: list[socket.socket]) -> AsyncIterator[None]:
    """Answer on these sockets, if there are any, as long as the block."""
    if not sockets:
        yield
        return
    probes = _Probes(_configured(asgi, limits, lifespan="off", timeout_graceful_shutdown=PROBE_GRACE_S))
    task = asyncio.create_task(probes.serve(sockets))
    try:
        yield
    finally:
        probes.should_exit = True
        await task


class _Probes(uvicorn.Server):
    """Leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _configured(
    asgi: Starlette, limits: LimitsOptions, *, lifespan: Literal["on", "off"], timeout_graceful_shutdown: int
) -> uvicorn.Config:
    return uvicorn.Config(
        asgi,
        http=bounded(limits),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=timeout_graceful_shutdown,
    )


async def _serve(
    settings: Settings, urls: DatabaseUrls, sockets: list[socket.socket], say: Say, *, conformance: bool
) -> None:
    await bring_up_to_date(urls, settings)
    draining = Draining()
    async with opened(settings, urls.app, draining, conformance=conformance) as app:
        key = await first_key(app.database, settings.data_dir.absolute() / KEY_FILE, SystemClock().now())
        url = f"http://{shown(settings.host)}:{sockets[0].getsockname()[1]}/mcp"
        config = _configured(
            app.asgi, settings.limits, lifespan="on", timeout_graceful_shutdown=ceil(settings.shutdown_grace_s)
        )
        on_stop = app.worker.stop if app.worker else None
        await _Server(
            config, draining, lambda: say(greeting(url, *key)), on_stop, notice_s=settings.shutdown_notice_s
        ).serve(sockets)


class _Server(uvicorn.Server):
    """Says when it is ready, and drains on the first signal: it answers on for the notice, then takes no connection and
    ends what is under way. Each further signal ends one of these."""

    def __init__(
        self,
        config: uvicorn.Config,
        draining: Draining,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None] | None,
        *,
        notice_s: float,
    ) -> None:
        super().__init__(config)
        self._notice_s = notice_s
        self._draining = draining
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            gc.collect()
            gc.freeze()  # what is here now stays: later collections need not look through it
            self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with taken_over(self._stop):
            yield

    def _stop(self) -> None:
        if self._draining.begun:
            self.force_exit = self.should_exit
            self.should_exit = True
            return
        self._draining.begin()
        if self._on_stop is not None:
            self._on_stop()
        asyncio.get_running_loop().call_later(self._notice_s, self._end)

    def _end(self) -> None:
        self.should_exit = True


@contextmanager
def taken_over(stop: Callable[[], None]) -> Iterator[None]:
    """Let the signals that end this process call `stop`."""
    loop = asyncio.get_running_loop()
    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_IGN)  # what is left is quick, and must not stop half way


def greeting(url: str, key: str, about_key: str) -> str:
    """The ready line, and what to paste into an MCP client."""
    server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {key}"}}
    snippet = json.dumps({"mcpServers": {"memsvc": server}}, indent=2, ensure_ascii=False)
    return f"ready {url}\n\n{about_key}\nFor an MCP client:\n\n{snippet}\n"
