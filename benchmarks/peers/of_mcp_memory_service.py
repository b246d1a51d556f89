"""mcp-memory-service on standard streams, as its own instructions set it up, with SQLite and an
external embedder.

Users are partitions of its store. A conversation id is given, without which it refuses what is
alike in meaning to something of the last day; what is the same to the letter it refuses all the
same.
"""

import re
from collections.abc import Sequence

from benchmarks.peers.child import PeerError
from benchmarks.peers.over_stdio import OverStdio
from benchmarks.peers.store import LIMIT, Found, Ground, Peer, Store, Turn

ENTRY = re.compile(r"^\d+\. (.*?)\n   Hash: ", re.MULTILINE | re.DOTALL)
DUPLICATE = "uplicate"
SEMANTIC, HYBRID = "semantic", "hybrid"


class McpMemoryService(OverStdio):
    """The `Store` behind it."""

    async def add(self, user: str, turn: Turn) -> float:
        spent = 0.0
        for one in turn.messages:
            arguments = {"content": self._ground.known(one), "conversation_id": user, "store": user}
            try:
                _, ms = await self.tool("memory_store", **arguments)
            except PeerError as error:
                if DUPLICATE not in str(error):
                    raise
                ms = 0.0
            spent += ms
        return spent

    async def fill(self, user: str, turns: Sequence[Turn]) -> None:
        for turn in turns:
            await self.add(user, turn)

    async def search(self, user: str, text: str, way: str) -> Found:
        result, ms = await self.tool("memory_search", query=text, mode=way, limit=LIMIT, store=user)
        told = self.text(result)
        if told.startswith("Error"):  # it tells errors of a search as a success
            raise PeerError(told[:400])
        return Found([self._ground.behind(entry) for entry in ENTRY.findall(told)], ms)


async def _open(ground: Ground) -> Store:
    variables = {
        "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
        "MCP_MEMORY_BASE_DIR": str(ground.data),
        "MCP_MEMORY_SQLITE_PATH": str(ground.data / "memory.db"),
        "MCP_EXTERNAL_EMBEDDING_URL": f"{ground.embeddings_url}/embeddings",
        "MCP_EXTERNAL_EMBEDDING_MODEL": "local",
        # nothing but the endpoint for embeddings is asked
        "MCP_MEMORY_OFFLINE": "1",
        "MCP_MEMORY_ONNX_ALLOW_DOWNLOAD": "0",
    }
    command = [str(ground.environment / "bin" / "memory"), "server"]
    return await McpMemoryService.start(command, ground, variables)


MCP_MEMORY_SERVICE = Peer(
    name="mcp-memory-service",
    version="12.4.0",
    packages=("mcp-memory-service==12.4.0",),
    installer="pip",
    used="MCP on standard streams, SQLite, external embedder",
    separation="by the store that the caller names",
    open=_open,
    ways=(SEMANTIC, HYBRID),
    python_must="import sqlite3; sqlite3.Connection.enable_load_extension",
)
