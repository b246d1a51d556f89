"""Writers of every style of memory, who read back what was acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.calling import OK, TENANTS, Caller, Tenant
from benchmarks.faults.serving import Ground
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import LETTERS

PROJECT = "default"


@dataclass
class Rounds:
    """What every style acknowledged, by tenant: the mark of each round; and what was refused."""

    marks: dict[Tenant, list[str]] = field(
        default_factory=lambda: {tenant: [] for tenant in TENANTS}
    )
    refused: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.marks.values()))

    async def reaches(self, count: int) -> None:
        """Wait until so many rounds were acknowledged. TimeoutError after three minutes."""
        async with asyncio.timeout(180):
            while self.count < count and not self.refused:  # noqa: ASYNC110 - another process answers
                await asyncio.sleep(0.05)


@asynccontextmanager
async def writing(ground: Ground, url: str, name: str) -> AsyncIterator[Rounds]:
    """Let a writer of each tenant write in every style until the block ends."""
    rounds, stop = Rounds(), asyncio.Event()

    async def write(tenant: Tenant) -> None:
        async with Caller(url, tenant, "rest", ground.seen) as caller:
            number = 0
            while not stop.is_set():
                mark = f"{name}{str(number).translate(LETTERS)}"
                for tool, arguments in _calls(mark, tenant.canary + mark):
                    answer = await caller.until_answered(tool, **arguments)
                    if answer.code != OK:
                        rounds.refused.append(f"{tool}: {answer.code} {answer.body}")
                        return
                rounds.marks[tenant].append(mark)
                number += 1

    tasks = [asyncio.create_task(write(tenant)) for tenant in TENANTS]
    try:
        yield rounds
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def audit(ground: Ground, groups: Sequence[Rounds], trial: Trial) -> None:
    """Find what was acknowledged again in each style. The server of the ground must run."""
    lost = dict.fromkeys(("files", "knowledge", "boards", "memories", "documents"), 0)
    for tenant in TENANTS:
        marks = [mark for rounds in groups for mark in rounds.marks[tenant]]
        async with Caller(ground.url, tenant, "rest", ground.seen) as caller:
            for mark in marks:
                told = {
                    "files": await caller.used(
                        "file_read", project=PROJECT, path=f"/rolling/{mark}.txt"
                    ),
                    "knowledge": await caller.used("elfmem_ls", tag=mark),
                    "boards": await caller.used(
                        "whiteboard_get", user_id=mark, conversation_id="c1"
                    ),
                    "memories": await caller.used("memories_list", user_id=mark),
                }
                for style, body in told.items():
                    lost[style] += tenant.canary + mark not in str(dict(body)).lower()
            document = str(dict(await caller.used("read_document")))
            lost["documents"] += not any(tenant.canary + mark in document for mark in marks)
    for style, times in lost.items():
        trial.equal(f"{style} lost", times, 0)
    refused = [each for rounds in groups for each in rounds.refused]
    trial.equal("writes of every style refused for good", len(refused), 0)
    trial.remarks += refused[:5]


def _calls(mark: str, word: str) -> list[tuple[str, dict[str, Any]]]:
    """Calls of a round: ids are made of its mark, which logs may show, and texts of its word."""
    said = f"I like {word} tea."
    message = {"role": "user", "content": said}
    return [
        ("file_write", {"project": PROJECT, "path": f"/rolling/{mark}.txt", "content": word}),
        ("elfmem_remember", {"content": f"{word} is a tea.", "tags": [mark]}),
        ("elfmem_recall", {"query": word}),
        ("context_update", {"user_id": mark, "conversation_id": "c1", "entries": [message]}),
        ("memories_add", {"user_id": mark, "messages": [message]}),
        ("memories_search", {"user_id": mark, "query": "tea"}),
        ("update_document", {"content": f"# {word}\n\n{said}"}),
        ("memory_before_turn", {"session_id": mark, "current_input": said}),
        ("file_search", {"project": PROJECT, "query": word}),
    ]
