"""An MCP server on standard streams, with no more of a client than calling its tools takes."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, Self

from benchmarks.peers.child import Child, PeerError, family
from benchmarks.peers.store import Ground, folder_bytes

REVISION = "2025-06-18"


class OverStdio:
    """What the stores behind such a server have in common."""

    def __init__(self, child: Child, ground: Ground) -> None:
        self._child = child
        self._ground = ground

    @classmethod
    async def start(
        cls, command: Sequence[str], ground: Ground, variables: Mapping[str, str]
    ) -> Self:
        """Start a server and greet it."""
        child = await Child.start(command, ground.data, variables)
        client = {"name": "benchmark", "version": "1"}
        greeting = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        await child.call("initialize", greeting)
        await child.notify("notifications/initialized")
        return cls(child, ground)

    async def tool(self, name: str, **arguments: Any) -> tuple[dict[str, Any], float]:
        """The result of a tool and the milliseconds that it took. PeerError when it is an error."""
        started = perf_counter()
        result: dict[str, Any] = await self._child.call(
            "tools/call", {"name": name, "arguments": arguments}
        )
        ms = (perf_counter() - started) * 1000
        if result.get("isError"):
            raise PeerError(f"{name}: {self.text(result)[:400]}")
        return result, ms

    @staticmethod
    def text(result: Mapping[str, Any]) -> str:
        """What a result says in its text."""
        return "\n".join(part.get("text", "") for part in result["content"])

    async def settle(self) -> None:
        """Everything is found at once."""

    async def data_bytes(self) -> int:
        return folder_bytes(self._ground.data)

    def pids(self) -> list[int]:
        return list(family(self._child.pid))

    async def kill(self) -> None:
        await self._child.kill()

    async def close(self) -> None:
        await self._child.close()
