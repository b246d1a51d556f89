"""A process of a peer that answers JSON-RPC requests, a line each, on its standard streams.

That is what an MCP server on standard streams speaks, and the runners of this package, which wrap a
library, speak the same.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Self

LINE_BYTES_MAX = 2**26
ANSWER_S = 900.0
STOP_S = 15.0
TOLD_CHARS = 400


class PeerError(Exception):
    """A peer could not be installed or started, or did not do what it was asked for; the message
    says why."""


class Child:
    """The process, and the one conversation with it."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._log = log
        self._numbers = count(1)

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: Path, variables: Mapping[str, str]
    ) -> Self:
        """Start it in a folder, which is its home too, so that nothing that it keeps is elsewhere;
        what it says on stderr goes to `child.log` there."""
        log = folder / "child.log"
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in {"PATH", "LANG", "LC_ALL", "TZ"}
        }
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                env=kept | {"HOME": str(folder)} | variables,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=LINE_BYTES_MAX,
            )
        return cls(process, log)

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a request. PeerError when it fails, the process has ended, or nothing comes
        in 15 minutes."""
        number = next(self._numbers)
        await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._answer(number)
        except TimeoutError as error:
            raise PeerError(f"{method} was not done after {ANSWER_S:.0f} s") from error
        if "error" in answer:
            raise PeerError(f"{method} failed: {str(answer['error'].get('message'))[:TOLD_CHARS]}")
        return answer["result"]

    async def notify(self, method: str) -> None:
        """Send what has no answer."""
        await self._send({"jsonrpc": "2.0", "method": method})

    async def kill(self) -> None:
        """End it as a crash would."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        await self._process.wait()

    async def close(self) -> None:
        """Close its input, as a client that leaves does, and end it if it does not end by
        itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerError(f"the process has ended: {self._last_words()}") from error

    async def _answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; notifications and stray output before it are passed over."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if (
                isinstance(message, dict)
                and message.get("id") == number
                and "method" not in message
            ):
                return message
        raise PeerError(f"the process has ended: {self._last_words()}")

    def _last_words(self) -> str:
        return " ".join(self._log.read_text(errors="replace")[-TOLD_CHARS:].split())


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from family(int(child))


def memory_mb(pids: Sequence[int]) -> float:
    """What processes take of memory: pages that several share are counted once among them (PSS)."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total / 1024
