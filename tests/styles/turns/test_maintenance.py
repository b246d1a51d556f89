"""Maintenance: safe to run at any time, by anyone, however often, and to be killed in the middle
of."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import asyncpg
import orjson
import pytest

from memsvc.core.call_context import NO_TRACER, TimeSliceError, call_scope
from memsvc.core.errors import Code
from memsvc.core.scope import Scope
from memsvc.store import guard
from memsvc.store.database import Database, Tx
from memsvc.store.locks import session_lock
from memsvc.styles.turns.maintenance import session_maintenance
from memsvc.styles.turns.maintenance.claim import MAINTENANCE_TURN
from memsvc.styles.turns.maintenance.session_maintenance import MAINTAIN_JOB
from tests.door import Door, Refused
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    events,
    file_paths,
    file_text,
    recalled_facts,
    row_counts,
    say,
    values,
)

RUN = "memory_run_maintenance"
NOTHING = {
    "ok": True,
    "compacted_items": 0,
    "archived_files": 0,
    "archived_bytes": 0,
    "expired_facts": 0,
    "expired_items": 0,
    "insights_written": 0,
    "insights_withdrawn": 0,
    "summaries_written": 0,
}
SAID = "My name is Ada. Today I need milk. This week I need a plan."


async def claim(database: Database, scope: Scope, clock: FakeClock) -> guard.Guard:
    async with database.begin(scope) as tx:
        return await guard.claim(tx, "s1", MAINTENANCE_TURN, fingerprint=b"", now=clock.now())


async def test_a_run_says_what_it_did_and_a_second_one_has_nothing_to_do(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", SAID)
    clock.advance(hours=48)
    first = await door(RUN, session_id="s1")
    assert (first["ok"], first["expired_facts"]) == (True, 1)
    assert first["summaries_written"] > 0
    assert await door(RUN, session_id="s1") == NOTHING
    clock.advance(hours=5)
    assert await door(RUN, session_id="s1") == NOTHING
    state = orjson.loads(await file_text(door, "/memory/s1/meta/state.json"))
    assert state["last_maintenance_at"] == "2026-01-07T17:00:00Z"


async def test_a_job_whose_every_step_takes_a_slice_comes_to_its_end(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", SAID)
    clock.advance(hours=48)
    maintain, slices = door.jobs[MAINTAIN_JOB], 0
    while slices < 10:
        slices += 1
        with suppress(TimeSliceError), call_scope("", NO_TRACER, slice_s=-1.0):
            await maintain.run(Scope(door.caller.tenant, "default"), "s1")
            break
    assert 1 < slices < 10
    assert await door(RUN, session_id="s1") == NOTHING


async def test_summaries_are_renewed_when_something_changed_and_they_are_old_enough(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", SAID)
    await door(RUN, session_id="s1")
    await say(door, "t2", "More.")
    assert (await door(RUN, session_id="s1"))["summaries_written"] == 0
    clock.advance(minutes=61)
    await say(door, "t3", "Still more.")
    assert (await door(RUN, session_id="s1"))["summaries_written"] > 0
    overview = await file_text(door, "/memory/s1/events/.overview")
    assert (
        orjson.loads(overview.removeprefix("Directory overview snapshot: "))["generated_at"]
        == "2026-01-05T13:01:00Z"
    )


async def test_a_session_that_does_not_exist_has_nothing_to_maintain(
    door: Door, admin: asyncpg.Connection
) -> None:
    before = await row_counts(admin)
    assert await door(RUN, session_id="never") == NOTHING
    assert await row_counts(admin) == before


async def test_what_lasts_survives_maintenance_and_what_was_of_the_day_is_gone(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recall_facts_limit=2)
    await say(door, "t1", "My name is Ada. I prefer tea. Today I need milk.")
    asked = "What is my name, and what do I prefer?"
    found = dict(await recalled_facts(door, await ask(door, asked)))
    assert found.keys() == {"user_name", "user_preference"}
    clock.advance(hours=48)
    assert (await door(RUN, session_id="s1"))["expired_facts"] == 1
    prepared = await ask(door, "What is my name, and what do I need today?")
    assert await recalled_facts(door, prepared) == [("user_name", "Ada")]
    index = await file_text(door, "/memory/s1/indexes/active_facts.json")
    assert "Ada" in index
    assert "milk" not in index


async def test_maintenance_takes_nothing_that_was_said(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", SAID, answer="Noted.")
    before = await events(door)
    clock.advance(days=400)
    await door(RUN, session_id="s1")
    assert await events(door) == before
    assert values(await ask(door, "What is my name?")) == ["Ada"]


async def test_of_two_runs_at_once_one_is_told_to_come_back(
    door: Door, database: Database, scope: Scope
) -> None:
    await say(door, "t1", SAID)
    async with database.begin(scope, locks=[session_lock("s1")]):
        first = asyncio.create_task(door(RUN, session_id="s1"))
        while not await _claimed(database, scope):  # noqa: ASYNC110
            await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await door(RUN, session_id="s1")
    assert (refused.value.code, refused.value.body["retryable"]) == (Code.RESOURCE_BUSY, True)
    assert refused.value.body["retry_after_s"] > 0
    assert (await first)["ok"]
    assert (await door(RUN, session_id="s1"))["ok"]


async def _claimed(database: Database, scope: Scope) -> bool:
    async with database.begin(scope, read_only=True) as tx:
        return await guard.find(tx, "s1", MAINTENANCE_TURN) is not None


async def test_a_claim_is_taken_over_after_two_minutes_and_whoever_held_it_is_fenced_out(
    door: Door, database: Database, scope: Scope, clock: FakeClock
) -> None:
    await say(door, "t1", SAID)
    stale = await claim(database, scope, clock)
    clock.advance(seconds=119)
    with pytest.raises(Refused) as refused:
        await door(RUN, session_id="s1")
    assert refused.value.code is Code.RESOURCE_BUSY
    clock.advance(seconds=1)
    fresh = await claim(database, scope, clock)
    assert fresh.token != stale.token
    for attempt in (_hold, _finish):
        with pytest.raises(Exception, match="took over"):
            await attempt(database, scope, clock, stale)
    async with database.begin(scope) as tx:
        await guard.release(tx, "s1", MAINTENANCE_TURN, stale.token)
    assert await _claimed(database, scope)
    async with database.begin(scope) as tx:
        await guard.hold(tx, "s1", MAINTENANCE_TURN, fresh.token, now=clock.now())
        await guard.release(tx, "s1", MAINTENANCE_TURN, fresh.token)
    assert (await door(RUN, session_id="s1"))["ok"]


async def _hold(database: Database, scope: Scope, clock: FakeClock, held: guard.Guard) -> None:
    async with database.begin(scope) as tx:
        await guard.hold(tx, "s1", MAINTENANCE_TURN, held.token, now=clock.now())


async def _finish(database: Database, scope: Scope, clock: FakeClock, held: guard.Guard) -> None:
    async with database.begin(scope) as tx:
        await guard.finish(tx, "s1", MAINTENANCE_TURN, held.token, result={})


async def test_a_run_that_is_overtaken_in_the_middle_stops_and_writes_no_more(
    door: Door, database: Database, scope: Scope, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(door, "t1", SAID)
    begun = 0
    original = Database.begin

    @asynccontextmanager
    async def begin(self: Database, *given: Any, **more: Any) -> AsyncIterator[Tx]:
        nonlocal begun
        begun += 1
        if begun == 3:
            clock.advance(minutes=3)
            async with original(self, scope) as tx:
                await guard.claim(tx, "s1", MAINTENANCE_TURN, fingerprint=b"", now=clock.now())
        async with original(self, *given, **more) as tx:
            yield tx

    monkeypatch.setattr(Database, "begin", begin)
    with pytest.raises(Refused) as refused:
        await door(RUN, session_id="s1")
    assert refused.value.code is Code.RESOURCE_BUSY
    monkeypatch.undo()
    assert not [path for path in await file_paths(door, "/memory/s1") if path.endswith(".abstract")]
    assert await _claimed(database, scope)


class PulledOutError(Exception):
    """What happens to a run whose process is gone: nothing of it runs any more."""


@pytest.mark.parametrize("survives", range(11))
async def test_a_run_that_is_killed_between_its_steps_is_finished_by_the_next_one(
    door: Door, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    await say(door, "t1", SAID, user_id="u1")
    clock.advance(hours=48)
    begun = 0
    original = Database.begin

    @asynccontextmanager
    async def begin(self: Database, *given: Any, **more: Any) -> AsyncIterator[Tx]:
        nonlocal begun
        begun += 1
        if begun > survives:
            raise PulledOutError
        async with original(self, *given, **more) as tx:
            yield tx

    monkeypatch.setattr(Database, "begin", begin)
    with pytest.raises(Refused):
        await door(RUN, session_id="s1")
    monkeypatch.undo()
    clock.advance(minutes=2)
    await door(RUN, session_id="s1")
    assert await door(RUN, session_id="s1") == NOTHING
    assert sorted(
        values(await ask(door, "My name? And what do I need, today and this week?", user_id="u1"))
    ) == [
        "Ada",
        "a plan",
    ]
    listed = (await door("memory_list_dir_with_abstract", session_id="s1"))["summaries"]
    assert all(one["has_overview"] for one in listed)


@pytest.mark.parametrize("way", ["asyncio", "anyio"])
async def test_a_run_that_is_cancelled_gives_its_claim_up(
    door: Door, database: Database, scope: Scope, way: str
) -> None:
    await say(door, "t1", SAID)
    async with database.begin(scope, locks=[session_lock("s1")]):
        if way == "asyncio":
            run = asyncio.create_task(door(RUN, session_id="s1"))
            while not await _claimed(database, scope):  # noqa: ASYNC110
                await asyncio.sleep(0)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(_run, door)
                while not await _claimed(database, scope):  # noqa: ASYNC110
                    await asyncio.sleep(0)
                group.cancel_scope.cancel()
    assert not await _claimed(database, scope)
    assert (await door(RUN, session_id="s1"))["ok"]


async def _run(door: Door) -> None:
    await door(RUN, session_id="s1")


async def test_a_session_whose_writer_does_not_let_go_is_busy(
    opened: Opened, database: Database, scope: Scope
) -> None:
    door = opened(session_lock_timeout_ms=50)
    await say(door, "t1", SAID)
    async with database.begin(scope, locks=[session_lock("s1")]):
        with pytest.raises(Refused) as refused:
            await door(RUN, session_id="s1")
    assert (refused.value.code, refused.value.body["retryable"]) == (Code.RESOURCE_BUSY, True)
    assert (await door(RUN, session_id="s1"))["ok"]


async def test_a_time_to_live_and_a_user_who_changes_a_fact_elsewhere_do_not_wait_for_each_other(
    door: Door, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(door, "t1", "My name is Ada.", user_id="alice")
    await say(door, "t2", "My name is Kim.")
    await say(door, "t3", "Hello.", user_id="bob")
    policy = '{"ttl_days": 1}'
    await door(
        "file_write",
        project="default",
        path="/memory/s1/meta/policy.json",
        content=policy,
        mode="TRUNCATE",
    )
    clock.advance(days=3)
    removed: list[str] = []
    whole = session_maintenance.forget_lines

    async def amid(tx: Tx, gone: Any, now: Any) -> None:
        if gone:
            removed.extend(fact.statement.value for fact in gone)
            await say(door, "x1", "My name is Eve.", session="s2", user_id="alice")
        await whole(tx, gone, now)

    monkeypatch.setattr(session_maintenance, "forget_lines", amid)
    assert (await door(RUN, session_id="s1"))["expired_facts"] == 1
    assert removed == ["Kim"]
    assert values(await ask(door, "What is my name?", session="s2", user_id="alice")) == ["Eve"]
    assert values(await ask(door, "What is my name?")) == []
