"""Writers of turns, and what has to be there when the database that they wrote to is restored as of
a moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memsvc.core.errors import RETRYABLE
from memsvc.core.scope import Scope
from memsvc.store.database import Database, DatabaseOptions
from memsvc.store.keys import remember_tenant
from tests.door import Door, Refused, open_door
from tests.fakes import FakeClock, RecordingMeter

WRITERS = 3


@dataclass
class Writers:
    """Turns, each sent again until it is acknowledged; when each was begun and acknowledged."""

    door: Door
    begun: dict[str, datetime] = field(default_factory=dict)
    acknowledged: dict[str, datetime] = field(default_factory=dict)
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def write(self, writer: int) -> None:
        for number in range(100_000):
            turn = f"w{writer}-{number}"
            self.begun[turn] = datetime.now(UTC)
            while not await self._stored(writer, turn):
                pass
            self.acknowledged[turn] = datetime.now(UTC)
            async with self.progress:
                self.progress.notify_all()

    async def _stored(self, writer: int, turn: str) -> bool:
        try:
            await self.door(
                "memory_after_turn",
                session_id=f"s{writer}",
                turn_id=turn,
                user_id="ada",
                **said(turn),
            )
        except Refused as error:
            if error.code not in RETRYABLE:
                raise
            return False
        return True

    async def get_on(self, turns: int = 12) -> None:
        """Until so many more are acknowledged."""
        wanted = len(self.acknowledged) + turns
        async with self.progress:
            await self.progress.wait_for(lambda: len(self.acknowledged) >= wanted)

    def before(self, moment: datetime) -> set[str]:
        return {turn for turn, at in self.acknowledged.items() if at < moment}

    def after(self, moment: datetime) -> set[str]:
        return {turn for turn, at in self.begun.items() if at > moment}

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.write(number)) for number in range(WRITERS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for end in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(end, asyncio.CancelledError), end


def said(turn: str) -> dict[str, Any]:
    mark = turn.replace("-", "")
    return {
        "input_items": [{"role": "user", "content": f"My favourite tea is {mark}."}],
        "output_items": [{"role": "assistant", "content": f"Noted {mark}."}],
    }


@asynccontextmanager
async def served(url: str, tokens: Any, scope: Scope) -> AsyncIterator[Door]:
    """The service over a database, without its wire."""
    database = await Database.open(url, DatabaseOptions(pool_min=1), RecordingMeter())
    try:
        await remember_tenant(database, scope.tenant, datetime.now(UTC))
        yield open_door(database, FakeClock(datetime.now(UTC)), tokens, RecordingMeter(), scope)
    finally:
        await database.close()


async def turns_in(door: Door) -> dict[str, int]:
    """How many items each turn has."""
    found: dict[str, int] = {}
    for writer in range(WRITERS):
        cursor = ""
        while cursor is not None:
            page = await door(
                "memory_list_turns", session_id=f"s{writer}", limit=100, cursor=cursor
            )
            for item in page["items"]:
                found[item["turn_id"]] = found.get(item["turn_id"], 0) + 1
            cursor = page["next_cursor"]
    return found


async def judged(door: Door, writers: Writers, moment: datetime) -> None:
    """What is there after the restore is what was there at the moment, whole; a retry brings back
    what came after."""
    there = await turns_in(door)
    assert set(there.values()) == {2}
    assert writers.before(moment) - there.keys() == set()
    assert writers.after(moment) & there.keys() == set()
    lost = min(writers.after(moment) & writers.acknowledged.keys())
    await door(
        "memory_after_turn", session_id=f"s{lost[1]}", turn_id=lost, user_id="ada", **said(lost)
    )
    assert (await turns_in(door)).keys() == there.keys() | {lost}
    known = max(writers.before(moment)).replace("-", "")
    answer = await door(
        "memory_before_turn", session_id="new", user_id="ada", current_input=f"Noted {known}?"
    )
    assert f"tea is {known}" in str(answer)
