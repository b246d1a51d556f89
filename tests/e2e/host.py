"""A host that starts its server as a process and speaks JSON lines with it, as SDKs of 2024 and
2025 do."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.e2e.process import environment

LONG_S = 60.0
VERSION = "2025-06-18"


class Host:
    """One process and what was said to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.other: list[dict[str, Any]] = []
        self._number = 0

    async def write(self, line: str | bytes) -> None:
        """Send one line, whatever it is."""
        assert self.process.stdin is not None
        self.process.stdin.write((line.encode() if isinstance(line, str) else line) + b"\n")
        await self.process.stdin.drain()

    async def read(self) -> dict[str, Any]:
        """The next line, which has to be JSON-RPC."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), LONG_S)
        if not line:
            raise AssertionError(f"the server has ended: {await self.errors()}")
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer to a request; what comes before it is kept in `other`."""
        self._number += 1
        await self.write(
            json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        )
        while (message := await self.read()).get("id") != self._number:
            self.other.append(message)
        return message

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a call of a tool."""
        return await self.ask("tools/call", name=tool, arguments=arguments)

    async def shake_hands(self, version: str = VERSION) -> dict[str, Any]:
        """The result of `initialize`, after which the server may be used."""
        answer = await self.ask(
            "initialize",
            protocolVersion=version,
            capabilities={},
            clientInfo={"name": "host", "version": "1"},
        )
        await self.write('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """Say no more."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def ended(self) -> int:
        """The exit code, within a minute."""
        return await asyncio.wait_for(self.process.wait(), LONG_S)

    async def errors(self) -> str:
        """All that was said on stderr, once the process has ended."""
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()


@asynccontextmanager
async def hosting(
    *arguments: str, stderr: int = asyncio.subprocess.PIPE, **variables: str
) -> AsyncIterator[Host]:
    """A host of `memsvc` with these arguments, which is ended if the test has not done it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "memsvc",
        *arguments,
        env=environment(**variables),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        limit=2**26,
    )
    host = Host(process)
    try:
        yield host
    finally:
        if process.returncode is None:
            host.close()
            try:
                await host.ended()
            except TimeoutError:
                os.kill(process.pid, signal.SIGKILL)
                raise
