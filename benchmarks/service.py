"""A service to measure: one that runs already, or one started for the purpose on a temporary data
folder."""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any
from urllib.parse import urlsplit

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.gateway.mcp.http import TOOLSETS_HEADER

WIRES = ("2026-07-28", "legacy")
START_S = 120
QUIET_S, QUIET_SHARE, QUIET_TRIES = 6.0, 0.05, 100
"""A service is quiet that takes this share of a processor for so many seconds."""


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is. In open mode any key is a tenant of its own. `data_dir` and `pid` are
    those of one that was started here, `dsn` is its database's as a superuser."""

    url: str
    key: str
    data_dir: Path | None = None
    dsn: str | None = None
    pid: int | None = None

    @asynccontextmanager
    async def client(
        self, *, key: str | None = None, wire: str = WIRES[0]
    ) -> AsyncIterator[Client]:
        """An MCP client of the SDK. It is shown every tool: one that is not listed makes the SDK
        ask for the list again at each call."""
        headers = {"Authorization": f"Bearer {key or self.key}", TOOLSETS_HEADER: "all"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=wire) as client,
        ):
            yield client

    def superuser_dsn(self) -> str:
        """Where its database is. SystemExit where nobody said."""
        if self.dsn is None:
            raise SystemExit("--url needs --dsn as well: a superuser's, of the same database")
        return self.dsn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say which service is measured, and over which wire."""
    parser.add_argument("--url", help="MCP address of a running service; without it one is started")
    parser.add_argument("--key", default="benchmark", help="API key for --url")
    parser.add_argument(
        "--dsn",
        help="with --url: a superuser's DSN of its database, for what goes past the service",
    )
    parser.add_argument(
        "--wire", default=WIRES[0], help=f"MCP revision to speak: {' or '.join(WIRES)}"
    )


def local_embedder(folder: Path) -> dict[str, str]:
    """The settings by which a service embeds with the model of a folder."""
    return {
        "MEMSVC_EMBEDDINGS__PROVIDER": "local",
        "MEMSVC_EMBEDDINGS__FOLDER": str(folder.resolve()),
    }


@asynccontextmanager
async def service(arguments: argparse.Namespace, **variables: str) -> AsyncIterator[Service]:
    """The service that the options ask for; one that is started here has these variables as
    settings."""
    if arguments.url:
        yield Service(arguments.url, arguments.key, dsn=arguments.dsn)
        return
    with tempfile.TemporaryDirectory(prefix="memsvc-benchmark-") as folder:
        # held here, so that it outlives every process of the service
        postgres = EmbeddedPostgres(Path(folder) / "data")
        urls = await asyncio.to_thread(postgres.start)
        dsn = urlsplit(urls.superuser_url)._replace(path=urlsplit(urls.admin_url).path).geturl()
        try:
            async with _serving(
                Service("", arguments.key, Path(folder) / "data", dsn), variables
            ) as running:
                yield running
        finally:
            await asyncio.to_thread(postgres.stop)


@asynccontextmanager
async def another(
    running: Service, *, stderr: IO[bytes] | None = None, **variables: str
) -> AsyncIterator[Service]:
    """One more process that serves the same database, without jobs; `stderr` takes its log."""
    async with _serving(running, {"MEMSVC_WORKER__ENABLED": "false"} | variables, stderr) as beside:
        yield beside


@asynccontextmanager
async def _serving(
    place: Service, variables: dict[str, str], stderr: IO[bytes] | None = None
) -> AsyncIterator[Service]:
    port = free_port()
    environment = os.environ | {
        "MEMSVC_DATA_DIR": str(place.data_dir),
        "MEMSVC_PORT": str(port),
        "MEMSVC_LOG_LEVEL": "warning",
        "MEMSVC_AUTH__MODE": "open",
        "MEMSVC_LIMITS__RATES__ENABLED": "false",  # one client that never waits is what is measured
        "MEMSVC_WORKER__SWEEP_S": str(QUIET_S / 2),  # see `settled`
    }
    command = [sys.executable, "-m", "memsvc", "serve"]
    with (
        tempfile.TemporaryFile() as unread,
        process(command, environment | variables, stderr or unread) as started,
    ):
        try:
            await asyncio.to_thread(until_said, started, b"ready ")
        except RuntimeError as error:
            unread.seek(0)
            raise RuntimeError(f"{error}: {unread.read().decode()[-1000:]}") from error
        yield Service(
            f"http://127.0.0.1:{port}/mcp", place.key, place.data_dir, place.dsn, started.pid
        )


@contextmanager
def process(
    command: list[str],
    environment: dict[str, str],
    stderr: IO[bytes] | None = None,
    cwd: Path | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is told to stop at the end of the block, with all that it started."""
    started = subprocess.Popen(
        command,
        env=environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=stderr or subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        started.terminate()
        started.wait(timeout=60)


def until_said(process: "subprocess.Popen[bytes]", begin: bytes, within_s: float = START_S) -> None:
    """Wait for a line on stdout that begins so. RuntimeError when the process ends before, or takes
    too long."""
    assert process.stdout is not None
    deadline = monotonic() + within_s
    while monotonic() < deadline:
        line = process.stdout.readline()
        if line.startswith(begin):
            return
        if not line and process.poll() is not None:
            raise RuntimeError(f"the process ended with {process.returncode} before it was ready")
    raise RuntimeError("the process was not ready in time")


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def settled(running: Service) -> None:
    """Wait until a service is quiet: it has done what follows turns, and the regular jobs of all
    the tenants that it got at once. One that was not started here gets 20 s."""
    if running.pid is None:
        await asyncio.sleep(20)
        return
    for _ in range(QUIET_TRIES):
        used_s = cpu_s(running.pid)
        await asyncio.sleep(QUIET_S)
        if cpu_s(running.pid) - used_s <= QUIET_SHARE * QUIET_S:
            return
    print("the service does not become quiet", file=sys.stderr)


def cpu_s(pid: int) -> float:
    """The seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """The resident memory of a process now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The body of a successful call; RuntimeError with the error's code otherwise."""
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"{tool} failed: {getattr(result.content[0], 'text', '')[:200]}")
    body: dict[str, Any] = result.structured_content
    return body
