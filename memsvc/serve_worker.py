"""The worker process: runs queued jobs, answers no calls, and has a port if it is to be probed.

It does not load what answers calls (the MCP SDK, the console), which would stay in its memory.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext

import uvicorn
import uvloop
from starlette.applications import Starlette

from memsvc.database_setup import DatabaseUrls, database_starting, migrate_database
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.rest import Draining
from memsvc.process import Notify, begin, ready, taken_over
from memsvc.settings import Settings
from memsvc.web_server import claimed, configured

HEALTH_GRACE_S = 1


def run(settings: Settings, notify: Notify) -> None:
    """Run jobs until SIGTERM or SIGINT; return when those running have ended or were returned."""
    begin(settings)
    with (
        claimed(settings.host, settings.worker.port)
        if settings.worker.port
        else nullcontext() as sockets,
        database_starting(settings) as started,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_work(settings, started, sockets or [], notify))


async def _work(
    settings: Settings,
    started: Callable[[], DatabaseUrls],
    sockets: list[socket.socket],
    notify: Notify,
) -> None:
    from memsvc.worker_app import opened  # noqa: PLC0415 - takes a while, in which PostgreSQL starts

    urls = started()
    await migrate_database(urls, settings)
    draining = Draining()
    async with opened(settings, urls.app, draining) as app:
        draining.on_start(app.worker.stop)
        with taken_over(draining.start):
            async with _health_endpoint(app.asgi, settings.limits, sockets):
                ready()
                notify("working")
                await app.worker.run()


@asynccontextmanager
async def _health_endpoint(
    asgi: Starlette, limits: LimitsOptions, sockets: list[socket.socket]
) -> AsyncIterator[None]:
    """Answer on these sockets, if there are any, for the duration of the block."""
    if not sockets:
        yield
        return
    server = _HealthServer(
        configured(asgi, limits, lifespan="off", timeout_graceful_shutdown=HEALTH_GRACE_S)
    )
    task = asyncio.create_task(server.serve(sockets))
    try:
        yield
    finally:
        server.should_exit = True
        await task


class _HealthServer(uvicorn.Server):
    """A web server that leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
