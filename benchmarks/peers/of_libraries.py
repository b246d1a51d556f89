"""mem0 and elfmem, which are used as libraries."""

from functools import partial
from pathlib import Path

from benchmarks.peers.library import RUNNERS, Library
from benchmarks.peers.store import Ground, Peer, Store


async def _open(runner: str, ground: Ground) -> Store:
    return await Library.open(RUNNERS / runner, Path(ground.environment, "bin", "python"), ground)


MEM0 = Peer(
    name="mem0",
    version="2.2.1",
    packages=("mem0ai==2.2.1",),
    installer="pip",
    used="library in process, infer=False, Qdrant on disk",
    separation="by the user_id that the caller names",
    open=partial(_open, "with_mem0.py"),
)

ELFMEM = Peer(
    name="elfmem",
    version="0.20.0",
    packages=("elfmem==0.20.0",),
    installer="pip",
    used="library in process, dream(skip_llm=True), frame attention",
    separation="none: one memory a file",
    open=partial(_open, "with_elfmem.py"),
    ways=("attention",),
)
