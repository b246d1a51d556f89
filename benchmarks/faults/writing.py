"""Writers that send each turn again under its turn id until it is acknowledged, and what they were
told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.calling import OK, TENANTS, WIRES, Caller, Tenant
from benchmarks.faults.serving import Ground

USER = "u1"
WRITERS = 8
READ_EVERY = 5
LETTERS = str.maketrans("0123456789", "abcdefghij")


@dataclass
class Acknowledged:
    """Turns that were acknowledged, by tenant: the session of each, and how often it was sent."""

    turns: dict[Tenant, dict[str, str]] = field(
        default_factory=lambda: {tenant: {} for tenant in TENANTS}
    )
    attempts: int = 0
    refused: list[str] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def count(self) -> int:
        return sum(map(len, self.turns.values()))

    async def reaches(self, count: int) -> None:
        """Wait until so many turns were acknowledged."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.count >= count)


def spoken(tenant: Tenant, turn: str, session: str) -> dict[str, Any]:
    """One turn, made of its id: two items, two facts by rules."""
    mark = turn.replace("-", "")
    name = tenant.canary.capitalize() + mark.translate(
        LETTERS
    )  # names with many digits are taken for secrets
    said = f"My name is {name}. I like {tenant.canary} tea {mark}."
    return {
        "session_id": session,
        "turn_id": turn,
        "user_id": USER,
        "input_items": [{"role": "user", "content": said}],
        "output_items": [{"role": "assistant", "content": f"Noted {tenant.canary} {mark}."}],
    }


class Writers:
    """Writers by number, half of them of each tenant, on all wires; two share a session."""

    def __init__(
        self,
        ground: Ground,
        *,
        writers: int = WRITERS,
        pause_s: float = 0.01,
        url: str | None = None,
        timeout_s: float = 60.0,
        first: int = 0,
    ) -> None:
        self.acknowledged = Acknowledged()
        self._ground = ground
        self._url = url or ground.url
        self._numbers = range(first, writers)
        self._pause_s = pause_s
        self._timeout_s = timeout_s
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Acknowledged]:
        """Let them write until the block ends; every turn that was begun is then acknowledged."""
        self._tasks = [asyncio.create_task(self._write(number)) for number in self._numbers]
        try:
            yield self.acknowledged
            await self.finish()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Let each end the turn that it is at."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _write(self, number: int) -> None:
        tenant = TENANTS[number % len(TENANTS)]
        session = f"s{number // 4}"
        kept = self.acknowledged.turns[tenant]
        wire = WIRES[number % len(WIRES)]
        async with Caller(
            self._url, tenant, wire, self._ground.seen, timeout_s=self._timeout_s
        ) as caller:
            turn = 0
            while not self._stopping:
                name = f"w{number}-t{turn}"
                answer = await caller.until_answered(
                    "memory_after_turn", **spoken(tenant, name, session)
                )
                if answer.code != OK or answer.body["stored_items"] != 2:
                    self.acknowledged.refused.append(f"{name}: {answer.code} {answer.body}")
                    return
                kept[name] = session
                async with self.acknowledged.changed:
                    self.acknowledged.changed.notify_all()
                turn += 1
                if turn % READ_EVERY == 0:
                    answer = await caller.call(
                        "memory_before_turn",
                        session_id=session,
                        user_id=USER,
                        current_input="What tea do I like?",
                    )
                    if answer.code == OK and not answer.body["recall_fact_ids"]:
                        self._ground.seen.wrong["memory_before_turn: an empty memory"] += 1
                await asyncio.sleep(self._pause_s)
