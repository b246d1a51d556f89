"""The server process: claims its port, brings up what is below, serves, and drains when it is told to stop.

The worker process is the same without a port.
"""

import asyncio
import errno
import gc
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from math import ceil
from pathlib import Path

import uvicorn
import uvloop

from memsvc.adapters.clock import SystemClock
from memsvc.app import opened, opened_worker
from memsvc.core.errors import Code, MemsvcError
from memsvc.databases import DatabaseUrls, bring_up_to_date, database_urls
from memsvc.gateway.logs import configure_logging
from memsvc.gateway.rest import Draining
from memsvc.settings import Settings
from memsvc.store import keys
from memsvc.store.database import Database

KEY_FILE = "api-key"
KEEP_ALIVE_S = 75
QUIET_LIBRARIES = ("alembic", "mcp", "pgqueuer", "uvicorn")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Say = Callable[[str], None]


def run(settings: Settings, say: Say) -> None:
    """Serve until SIGTERM or SIGINT. Returns when everything is written, closed and, if it was ours, stopped."""
    begin(settings)
    with (
        claimed(settings.host, settings.port) as sockets,
        database_urls(settings) as urls,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(settings, urls, sockets, say))


def work(settings: Settings, say: Say) -> None:
    """Run jobs until SIGTERM or SIGINT. Returns when those under way have ended or were handed back."""
    begin(settings)
    with database_urls(settings) as urls, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(settings, urls, say))


def begin(settings: Settings) -> None:
    """What every serving process does first: log as it should, and let a signal undo what was started."""
    configure_logging(settings.log_level)
    for library in QUIET_LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
    for each in STOP_SIGNALS:  # until the process's own part takes them over, so that what was started is stopped
        signal.signal(each, signal.default_int_handler)


async def _work(settings: Settings, urls: DatabaseUrls, say: Say) -> None:
    await bring_up_to_date(urls, settings)
    async with opened_worker(settings, urls.app) as worker:
        with taken_over(worker.stop):
            say("working")
            await worker.run()


async def _serve(settings: Settings, urls: DatabaseUrls, sockets: list[socket.socket], say: Say) -> None:
    await bring_up_to_date(urls, settings)
    draining = Draining()
    async with opened(settings, urls.app, draining) as app:
        key = await first_key(app.database, settings.data_dir.absolute() / KEY_FILE, SystemClock().now())
        url = f"http://{_shown(settings.host)}:{sockets[0].getsockname()[1]}/mcp"
        config = uvicorn.Config(
            app.asgi,
            http="httptools",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=ceil(settings.shutdown_grace_s),
        )
        on_stop = app.worker.stop if app.worker else None
        await _Server(config, draining, lambda: say(greeting(url, *key)), on_stop).serve(sockets)


class _Server(uvicorn.Server):
    """Says when it is ready, and drains on the first signal; a second one ends the waiting."""

    def __init__(
        self,
        config: uvicorn.Config,
        draining: Draining,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
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
        self._draining.begin()
        if self._on_stop is not None:
            self._on_stop()
        self.force_exit = self.should_exit
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


@contextmanager
def claimed(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Sockets that listen on every address of a host. UNAVAILABLE when one is taken or is not this machine's."""
    with ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            raise _not_to_be_had(host, port, error) from error
        sockets: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                listener = stack.enter_context(socket.socket(family, kind, protocol))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:]))
                listener.listen()  # bound alone, the port could be bound by another process as well
            except OSError as error:
                if sockets and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    continue
                raise _not_to_be_had(host, port, error) from error
            sockets.append(listener)
        yield sockets


def _not_to_be_had(host: str, port: int, error: OSError) -> MemsvcError:
    match error.errno:
        case errno.EADDRINUSE:
            reason, recovery = "is taken by another process", "stop that process, or choose another with --port"
        case errno.EACCES:
            reason, recovery = "may not be used by this user", "choose a port above 1023 with --port"
        case _:
            reason, recovery = "is no address of this machine", "choose another address with --host"
    return MemsvcError(Code.UNAVAILABLE, f"{_shown(host)}:{port} {reason}", recovery=recovery)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def first_key(database: Database, file: Path, now: datetime) -> tuple[str, str]:
    """What to show as the key, and a sentence about it. The first key of a database is made here and kept in the file.

    Its text is shown the first time only. A key that the file holds is never replaced.
    """
    kept = read_secret(file)
    if kept is not None:
        found = await keys.find_key(database, keys.hash_key(kept))
        if found is not None and found.opens(now):
            return f"<the key in {file}>", f"The API key is in {file}."
        return "<API key>", f"The API key in {file} is not valid here (any more): make one with `memsvc key create`."
    if any(key.opens(now) for key in await keys.list_keys(database)):
        return "<API key>", "Keys were made before: use one of them, or make another with `memsvc key create`."
    made = await keys.create_key(database, "first", now)
    try:
        _write_secret(file, made.text)
    except OSError as error:
        await keys.revoke_key(database, made.key.key_id, now)
        if isinstance(error, FileExistsError):  # another server, started at the same moment, was first
            return await first_key(database, file, now)
        raise MemsvcError(
            Code.UNAVAILABLE, f"cannot write {file}: {error.strerror}", recovery="set data_dir to a folder to write to"
        ) from error
    return made.text, f"The API key was made just now and is shown this once; it is kept in {file}."


def read_secret(file: Path) -> str | None:
    """The key that is kept in this file, if there is one."""
    return file.read_text("utf-8").strip() if file.exists() else None


def _write_secret(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def greeting(url: str, key: str, about_key: str) -> str:
    """The ready line, and what to paste into an MCP client."""
    server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {key}"}}
    snippet = json.dumps({"mcpServers": {"memsvc": server}}, indent=2, ensure_ascii=False)
    return f"ready {url}\n\n{about_key}\nFor an MCP client:\n\n{snippet}\n"
