"""Maintenance on a schedule: every session in which something may be due, and no other."""

import pytest

from memsvc.core.scope import Scope
from memsvc.styles.turns.maintenance.session_maintenance import MAINTAIN_ALL_JOB, MAINTAIN_JOB
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import file_paths, file_records, say


async def due(door: Door) -> list[str]:
    """The sessions that a scheduled run maintains, which it does."""
    await door.jobs[MAINTAIN_ALL_JOB].run(Scope(door.caller.tenant, "default"), "")
    return sorted(subject for name, subject in await door.work() if name == MAINTAIN_JOB)


async def test_it_is_off_unless_the_options_say_how_often(door: Door, opened: Opened) -> None:
    assert MAINTAIN_ALL_JOB not in door.jobs
    assert MAINTAIN_JOB in door.jobs
    assert opened(maintenance_every_hours=6).jobs[MAINTAIN_ALL_JOB].interval_s == 6 * 3600


async def test_every_session_is_maintained_until_nothing_more_can_come_due_in_it(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(maintenance_every_hours=6)
    await say(door, "t1", "Today I need milk. This week I need a plan.", session="busy")
    await say(door, "t1", "Hello.", session="quiet")
    assert await due(door) == ["busy", "quiet"]
    assert await file_records(door, "/memory/busy/memory_tiers/L1/2026/01/facts-20260105.jsonl")
    clock.advance(days=9)
    assert await due(door) == ["busy", "quiet"]
    assert "/memory/busy/memory_tiers/L1/2026/01/facts-20260105.jsonl" not in await file_paths(
        door, "/memory/busy"
    )
    clock.advance(days=1)
    assert await due(door) == []
    await say(door, "t2", "Hello again.", session="quiet")
    assert await due(door) == ["quiet"]


@pytest.mark.slow
async def test_many_sessions_are_queued_each_once(opened: Opened) -> None:
    door = opened(maintenance_every_hours=1)
    sessions = [f"s{number:03}" for number in range(205)]
    for session in sessions:
        path = f"/memory/{session}/meta/policy.json"
        await door("file_write", project="default", path=path, content="{}", mode="TRUNCATE")
    assert await due(door) == sessions
    assert await due(door) == sessions  # a session with a policy of its own is always looked at
