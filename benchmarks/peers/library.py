"""A peer that is a library: a runner imports it in its own environment and is told what to do by
lines of JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.child import Child, family
from benchmarks.peers.store import LIMIT, Found, Ground, Turn, folder_bytes

RUNNERS = Path(__file__).with_name("runners")
QUIET = {
    "MEM0_TELEMETRY": "False",
    "OPENAI_API_KEY": "none",
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
}
"""Nothing but the endpoint for embeddings is asked."""


class Library:
    """The `Store` behind a runner."""

    def __init__(self, child: Child, ground: Ground) -> None:
        self._child = child
        self._ground = ground

    @classmethod
    async def open(cls, runner: Path, python: Path, ground: Ground) -> "Library":
        """Start a runner on a data folder."""
        child = await Child.start([str(python), str(runner)], ground.data, QUIET)
        options = {
            "folder": str(ground.data),
            "embeddings_url": ground.embeddings_url,
            "dimensions": ground.dimensions,
        }
        await child.call("open", options)
        return cls(child, ground)

    async def add(self, user: str, turn: Turn) -> float:
        messages: list[dict[str, Any]] = [
            {
                "id": one.dia_id,
                "role": role,
                "speaker": one.speaker,
                "text": self._ground.known(one),
                "at": one.said_at.isoformat(),
            }
            for role, said in (("user", turn.asked), ("assistant", turn.answered))
            for one in said
        ]
        told = await self._child.call("add", {"user": user, "messages": messages})
        return float(told["ms"])

    async def fill(self, user: str, turns: Sequence[Turn]) -> None:
        for turn in turns:
            await self.add(user, turn)

    async def settle(self) -> None:
        await self._child.call("settle", {})

    async def search(self, user: str, text: str, way: str) -> Found:
        told = await self._child.call(
            "search", {"user": user, "text": text, "limit": LIMIT, "way": way}
        )
        return Found([self._ids(one) for one in told["value"]], told["ms"])

    async def data_bytes(self) -> int:
        return folder_bytes(self._ground.data)

    def pids(self) -> list[int]:
        return list(family(self._child.pid))

    async def kill(self) -> None:
        await self._child.kill()

    async def close(self) -> None:
        await self._child.close()

    def _ids(self, found: dict[str, str]) -> frozenset[str]:
        """An entry is known by its id if the peer carries one, else by its text."""
        return frozenset([found["id"]]) if "id" in found else self._ground.behind(found["text"])
