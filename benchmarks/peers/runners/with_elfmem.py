"""elfmem as a library: messages are learnt as blocks and consolidated without a model, by
embeddings alone."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from elfmem import MemorySystem
from loop import serve

BATCH = 100
"""Messages that are consolidated in one go, whose embeddings are asked for in one request."""
TIMEOUT_S = 300


class Elfmem:
    """One memory in a folder; it knows no users."""

    def __init__(self, folder: str, embeddings_url: str, dimensions: int) -> None:
        self._loop = asyncio.new_event_loop()
        options = {
            "llm": {"model": "none", "base_url": embeddings_url},
            "embeddings": {
                "model": "local",
                "dimensions": dimensions,
                "base_url": embeddings_url,
                "timeout": TIMEOUT_S,
            },
        }
        self._memory: MemorySystem = self._run(
            MemorySystem.from_config(f"{folder}/agent.db", options)
        )
        self._run(self._memory.begin_session())

    def add(self, user: str, messages: list[dict[str, str]]) -> None:
        """Put each message into the inbox."""
        for one in messages:
            self._run(self._memory.learn(one["text"], source=user))

    def settle(self) -> None:
        """Consolidate all of the inbox: what is in there is not found before."""
        done = self._run(self._memory.dream(skip_llm=True, inbox_max=BATCH))
        while done is not None and done.inbox_remaining:
            done = self._run(self._memory.dream(skip_llm=True, inbox_max=BATCH))

    def search(self, user: str, text: str, limit: int, way: str) -> list[dict[str, str]]:
        """The texts, best first."""
        found = self._run(self._memory.recall(text, top_k=limit, frame=way))
        return [{"text": one.content} for one in found[:limit]]

    def close(self) -> None:
        """End the session and let go of the folder."""
        self._run(self._memory.end_session())
        self._run(self._memory.close())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coroutine)


if __name__ == "__main__":
    serve(Elfmem)
