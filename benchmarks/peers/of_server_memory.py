"""The official MCP memory server: entities with observations in one file of JSON lines.

A message is an entity named by its id, its text the observation. A search there is for the literal
text of the query, without regard to case, and ranks nothing: so a whole question finds next to
nothing. The way `words` does what a model that knows this would do at its best: it asks for each
word of the question that is no stop word, and ranks by how many of the words found an entity, rare
words counting more.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from shutil import which

from benchmarks.locomo import Said
from benchmarks.peers.child import PeerError
from benchmarks.peers.over_stdio import OverStdio
from benchmarks.peers.store import LIMIT, Found, Ground, Peer, Store, Turn
from memsvc.core.analysis import is_stop_word

SCRIPT = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
WHOLE, WORDS = "whole question", "words"


def content_words(text: str) -> list[str]:
    """The words of a question that are no stop words, each once."""
    return [
        word for word in dict.fromkeys(re.findall(r"\w+", text.lower())) if not is_stop_word(word)
    ]


class ServerMemory(OverStdio):
    """The `Store` behind it; it knows no users."""

    async def add(self, user: str, turn: Turn) -> float:
        _, ms = await self.tool(
            "create_entities", entities=[self._entity(one) for one in turn.messages]
        )
        return ms

    async def fill(self, user: str, turns: Sequence[Turn]) -> None:
        said = [self._entity(one) for turn in turns for one in turn.messages]
        await self.tool("create_entities", entities=said)

    async def search(self, user: str, text: str, way: str) -> Found:
        score: Counter[str] = Counter()
        spent = 0.0
        for query in [text] if way == WHOLE else content_words(text):
            result, ms = await self.tool("search_nodes", query=query)
            spent += ms
            names = [one["name"] for one in result["structuredContent"]["entities"]]
            for name in names:
                score[name] += 1 / math.log(2 + len(names))
        return Found([frozenset([name]) for name, _ in score.most_common(LIMIT)], spent)

    def _entity(self, message: Said) -> dict[str, object]:
        said = self._ground.known(message)
        return {"name": message.dia_id, "entityType": "message", "observations": [said]}


async def _open(ground: Ground) -> Store:
    node = which("node")
    if node is None:
        raise PeerError("there is no node on the path")
    variables = {"MEMORY_FILE_PATH": str(ground.data / "memory.jsonl")}
    return await ServerMemory.start([node, str(ground.environment / SCRIPT)], ground, variables)


SERVER_MEMORY = Peer(
    name="server-memory",
    version="2026.8.31",
    packages=("@modelcontextprotocol/server-memory@2026.8.31",),
    installer="npm",
    used="MCP on standard streams",
    separation="none: one graph a file",
    open=_open,
    ways=(WHOLE, WORDS),
)
