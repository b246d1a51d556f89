"""A service to measure: one that runs already, or one started for the purpose on a temporary data folder."""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

WIRES = ("2026-07-28", "legacy")
START_S = 120


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is. In open mode any key is a tenant of its own."""

    url: str
    key: str
    data_dir: Path | None

    @asynccontextmanager
    async def client(self, *, key: str | None = None, wire: str = WIRES[0]) -> AsyncIterator[Client]:
        """An MCP client of the SDK."""
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key or self.key}"}, timeout=120) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=wire) as client,
        ):
            yield client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say which service is measured, and where the figures go."""
    parser.add_argument("--url", help="MCP address of a running service; without it one is started")
    parser.add_argument("--key", default="benchmark", help="API key for --url")
    parser.add_argument("--json", type=Path, help="file to write the figures to")


@asynccontextmanager
async def service(arguments: argparse.Namespace) -> AsyncIterator[Service]:
    """The service that the options ask for."""
    if arguments.url:
        yield Service(arguments.url, arguments.key, None)
        return
    with tempfile.TemporaryDirectory(prefix="memsvc-benchmark-") as folder:
        port = free_port()
        environment = os.environ | {
            "MEMSVC_DATA_DIR": f"{folder}/data",
            "MEMSVC_PORT": str(port),
            "MEMSVC_LOG_LEVEL": "warning",
            "MEMSVC_LIMITS__RATES__ENABLED": "false",  # one client that never waits is what is measured
        }
        command = [sys.executable, "-m", "memsvc", "serve"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            await asyncio.to_thread(_until_ready, process)
            yield Service(f"http://127.0.0.1:{port}/mcp", arguments.key, Path(folder) / "data")
        finally:
            process.terminate()
            process.wait(timeout=60)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The body of a successful call; RuntimeError with the error's code otherwise."""
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"{tool} failed: {getattr(result.content[0], 'text', '')[:200]}")
    body: dict[str, Any] = result.structured_content
    return body


def _until_ready(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdout is not None
    deadline = monotonic() + START_S
    while monotonic() < deadline:
        line = process.stdout.readline()
        if line.startswith(b"ready "):
            return
        if not line and process.poll() is not None:
            raise RuntimeError(f"the service ended with {process.returncode} before it was ready")
    raise RuntimeError("the service was not ready in time")
