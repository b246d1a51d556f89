"""The server process: claims its port, starts what it needs, serves, and drains when stopped."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Final

import uvicorn
import uvloop

from memsvc.adapters.clock import SystemClock
from memsvc.core.urls import CONSOLE_PATH, is_loopback
from memsvc.database_setup import DatabaseUrls, database_starting, migrate_database
from memsvc.folder_key import KEY_FILE, first_key
from memsvc.gateway.rest import Draining
from memsvc.process import Notify, begin, ready, taken_over
from memsvc.settings import Settings, off_notices
from memsvc.web_server import claimed, configured, local_host, url_host

OPEN_WARNING: Final = (
    "WARNING: auth.mode is open on an address that other machines can reach: anyone can"
    " connect with any key.\nSet auth.mode to listed, or host to 127.0.0.1.\n\n"
)


def run(settings: Settings, notify: Notify) -> None:
    """Serve until SIGTERM or SIGINT; return when all is written, closed and, if ours, stopped."""
    begin(settings)
    with (
        claimed(settings.host, settings.port) as sockets,
        database_starting(settings) as started,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(settings, started, sockets, notify))


async def _serve(
    settings: Settings,
    started: Callable[[], DatabaseUrls],
    sockets: list[socket.socket],
    notify: Notify,
) -> None:
    from memsvc.app import opened  # noqa: PLC0415 - takes a second or more, in which PostgreSQL starts

    urls = started()
    await migrate_database(urls, settings)
    draining = Draining()
    async with opened(settings, urls.app, draining) as app:
        key = await first_key(
            app.database, settings.data_dir.absolute() / KEY_FILE, SystemClock().now()
        )
        message = ready_message(
            settings.host,
            sockets[0].getsockname()[1],
            *key,
            console=settings.console.enabled,
            is_open=settings.auth.mode == "open",
            notices=off_notices(settings),
        )
        config = configured(
            app.asgi,
            settings.limits,
            lifespan="on",
            timeout_graceful_shutdown=ceil(settings.shutdown_grace_s),
        )
        on_stop = app.worker.stop if app.worker else None

        def on_ready() -> None:
            ready()
            notify(message)

        server = _Server(config, draining, on_ready, on_stop, notice_s=settings.shutdown_notice_s)
        await app.warm()
        await server.serve(sockets)


class _Server(uvicorn.Server):
    """A web server that reports when it is ready and drains on the first signal.

    It keeps answering for the notice, then accepts no connection and ends pending requests. Each
    further signal cuts one of these short.
    """

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
            self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with taken_over(self._stop):
            yield

    def _stop(self) -> None:
        if self._draining.started:
            self.force_exit = self.should_exit
            self.should_exit = True
            return
        self._draining.start()
        if self._on_stop is not None:
            self._on_stop()
        asyncio.get_running_loop().call_later(self._notice_s, self._end)

    def _end(self) -> None:
        self.should_exit = True


def ready_message(
    host: str,
    port: int,
    key: str,
    key_note: str,
    *,
    console: bool,
    is_open: bool,
    notices: Sequence[str] = (),
) -> str:
    """Return the ready line, the console's address, and what to paste into an MCP client."""
    url = f"http://{url_host(local_host(host))}:{port}"
    server = {"type": "http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {key}"}}
    snippet = json.dumps({"mcpServers": {"memsvc": server}}, indent=2, ensure_ascii=False)
    console_line = f"Web console: {url}{CONSOLE_PATH}\n" if console else ""
    notice_lines = "".join(f"{notice}\n" for notice in notices)
    warning = OPEN_WARNING if is_open and not is_loopback(host) else ""
    return f"ready {url}/mcp\n\n{warning}{key_note}\n{console_line}{notice_lines}For an MCP client:\n\n{snippet}\n"
