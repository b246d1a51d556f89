"""`memsvc` as a process of its own, as an operator starts it; and its commands where the process is
not the point."""

import io
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import httpx2
import structlog

from memsvc.start import main
from tests.servers import DatabaseUrls

CHECKOUT = Path(__file__).resolve().parents[2]
WORDS_ALONE = {"MEMSVC_EMBEDDINGS__PROVIDER": ""}
"""What servers of tests are told: loading the encoder takes each a second."""


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without settings of memsvc but these. Any key is a tenant of its
    own, as most tests want it, unless they say otherwise: MEMSVC_AUTH__MODE="" is how it is
    shipped."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    if kept.pop(
        "PYTHONDONTWRITEBYTECODE", None
    ):  # to compile everything at each start would take most of the time
        kept["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "memsvc-test-pycache")
    return kept | {"PYTHONPATH": str(CHECKOUT), "MEMSVC_AUTH__MODE": "open"} | variables


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, and is told nothing."""
    return subprocess.run(
        [sys.executable, "-m", "memsvc", *arguments],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def typed(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As `run`, but within this process: loading the command line takes ten times as long as most
    commands do. Not for what handles signals."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    root, status = logging.getLogger(), 0
    logged, events = (root.handlers[:], root.level), structlog.get_config()

    def uncached(**options: Any) -> None:
        # a logger that is kept would write what later tests log to the streams of this command
        structlog_configure(**options | {"cache_logger_on_first_use": False})

    structlog_configure = structlog.configure
    with (
        patch.object(structlog, "configure", uncached),
        patch.dict(os.environ, environment(**variables), clear=True),
        patch.multiple(sys, argv=["memsvc", *arguments], stdin=io.StringIO()),
        redirect_stdout(out),
        redirect_stderr(err),
        ThreadPoolExecutor(
            1
        ) as apart,  # a test may be running in an event loop, and a command runs one of its own
    ):
        try:
            apart.submit(main).result()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            root.handlers[:], root.level = logged
            structlog_configure(**events)
    said = [stream.buffer.getvalue().decode("utf-8", "backslashreplace") for stream in (out, err)]
    return subprocess.CompletedProcess(list(arguments), status, *said)


def on(urls: DatabaseUrls) -> dict[str, str]:
    """The variables that name a database, for whoever may bring it up to date."""
    return {"MEMSVC_DATABASE_URL": urls.app, "MEMSVC_DATABASE__ADMIN_URL": urls.admin}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Served:
    """A running server; `greeting` is what it said on stdout, `url` where it is."""

    def __init__(
        self, data_dir: Path, *arguments: str, module: str = "memsvc", **variables: str
    ) -> None:
        self._log = data_dir.parent / f"{data_dir.name}-{os.urandom(4).hex()}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    module,
                    "serve",
                    "--data-dir",
                    str(data_dir),
                    "--port",
                    "0",
                    *arguments,
                ],
                env=environment(**WORDS_ALONE | variables),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.greeting = self._read_greeting()
        self.url = self.greeting.split()[1].removesuffix("/mcp")
        self.port = int(self.url.rpartition(":")[2])

    def _read_greeting(self) -> str:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line == "}\n":
                return "".join(lines)
        raise AssertionError(f"not ready, exit code {self.process.wait()}: {self.log()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def log(self) -> str:
        """Everything on stderr so far."""
        return self._log.read_text()

    def stop(self) -> int:
        """Tell it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def get(self, path: str) -> httpx2.Response:
        return httpx2.get(self.url + path, timeout=10)


async def call(url: str, key: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of one tool call, over HTTP."""
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
    }
    async with httpx2.AsyncClient(timeout=30) as client:
        response = await client.post(f"{url}/mcp", json=request, headers=headers)
    response.raise_for_status()
    result: dict[str, Any] = response.json()["result"]
    return result
