"""Turns that arrive at the same moment are stored as if they had come one after the other."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import Code
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.store.locks import index_lock, session_lock
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.options import TurnOptions
from tests.door import Door, Refused, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.turns.talk import ask, events, file_records, say, snapshot, values

pytestmark = pytest.mark.slow


async def at_once(calls: list[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
    """Start all calls from one barrier."""
    barrier = asyncio.Barrier(len(calls))

    async def run(call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        await barrier.wait()
        return await call()

    return await asyncio.gather(*map(run, calls))


async def waiting(admin: asyncpg.Connection, most: int) -> None:
    """Until so many calls wait for an advisory lock of this database."""
    waiting = """
        SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """
    while await admin.fetchval(waiting) < most:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def entries_of(admin: asyncpg.Connection, book: str) -> list[int]:
    rows = await admin.fetch("SELECT e.entry FROM entries e JOIN books b USING (tenant, project,"
" book) WHERE b.name = $1 ORDER BY 1", book)  # fmt: skip
    return [row[0] for row in rows]


async def test_ten_identical_turns_at_once_are_one_turn_with_ten_equal_answers(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection
) -> None:
    async with database.begin(scope, locks=[session_lock("s1")]):
        storing = asyncio.gather(
            *(say(door, "t1", "My name is Ada.", answer="Hi.", user_id="u1") for _ in range(10))
        )
        await waiting(admin, 10)
    answers = await storing
    assert all(answer == answers[0] for answer in answers)
    assert [record["id"] for record in await events(door)] == ["t1-in-0", "t1-out-0"]
    assert await admin.fetchval("SELECT turns FROM sessions") == 1
    assert await admin.fetchval("SELECT count(*) FROM facts") == 1


async def test_of_ten_different_turns_of_one_id_one_is_stored_and_the_others_are_conflicts(
    door: Door,
) -> None:
    async def attempt(number: int) -> str:
        try:
            return str((await say(door, "t1", f"Version {number}"))["turn_id"])
        except Refused as refused:
            return refused.code.value

    outcomes = await at_once([lambda number=number: attempt(number) for number in range(10)])
    assert Counter(outcomes) == {"t1": 1, "CONFLICT": 9}
    assert len(await events(door)) == 1


async def test_twenty_different_turns_at_once_are_all_stored_whole_and_numbered_without_gaps(
    door: Door, admin: asyncpg.Connection
) -> None:
    await at_once(
        [lambda turn=turn: say(door, f"t{turn}", f"Question {turn}. I like thing {turn}.", answer=f"Answer {turn}")
         for turn in range(20)]
    )  # fmt: skip
    records = await events(door)
    assert Counter(record["turn_id"] for record in records) == {f"t{turn}": 2 for turn in range(20)}
    for first, second in zip(records[::2], records[1::2], strict=True):
        assert (first["turn_id"], first["type"]) == (second["turn_id"], "input_item")
    assert await entries_of(admin, "turns/s1") == list(range(40))
    assert await entries_of(admin, "facts/session/s1") == list(range(20))
    assert await admin.fetchval("SELECT turns FROM sessions") == 20
    assert (await admin.fetchrow("SELECT entries, next_entry FROM books WHERE name = 'turns/s1'"))[
        "next_entry"
    ] == 40
    refs = await admin.fetch("SELECT ref FROM entries JOIN books b USING (tenant, project, book)"
                             " WHERE b.name = 'turns/s1' ORDER BY entry")  # fmt: skip
    assert [row["ref"] for row in refs] == [record["id"] for record in records]


async def test_twenty_sessions_of_a_user_that_state_a_name_at_once_leave_one_name(
    door: Door, admin: asyncpg.Connection
) -> None:
    await at_once(
        [lambda n=n: say(door, "t1", f"My name is Name{n}. I prefer way {n}.", session=f"s{n}", user_id="u1")
         for n in range(20)]
    )  # fmt: skip
    await at_once(
        [
            lambda n=n: say(door, "t2", f"My name is Other{n}.", session=f"s{19 - n}", user_id="u1")
            for n in range(20)
        ]
    )
    rows = await admin.fetch("SELECT state, key, value FROM facts ORDER BY entry")
    assert Counter((row["key"], row["state"]) for row in rows) == {
        ("name", "superseded"): 39,
        ("name", "active"): 1,
        ("preference", "superseded"): 19,
        ("preference", "active"): 1,
    }
    last = next(row["value"] for row in rows if row["key"] == "name" and row["state"] == "active")
    for session in ("s0", "s19", "elsewhere"):
        assert values(await ask(door, "What is my name?", session=session, user_id="u1")) == [last]
    assert await entries_of(admin, "facts/user/u1") == list(range(60))
    for n in range(20):
        records = await file_records(
            door, f"/memory/s{n}/memory_tiers/L0/2026/01/facts-202601.jsonl"
        )
        upserts = Counter(record["id"] for record in records if record["type"] == "fact_upsert")
        closed = Counter(record["of"] for record in records if record["type"] == "fact_supersede")
        assert set(upserts.values()) == {1}
        still = set(upserts) - set(closed)
        rows_active = await admin.fetch(
            "SELECT record FROM facts WHERE state = 'active' AND evidence ->> 'session' = $1",
            f"s{n}",
        )
        assert still == {row["record"] for row in rows_active}


async def test_turns_and_maintenance_of_the_sessions_of_a_user_get_in_nobodys_way(
    door: Door, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    # nobody ends in a deadlock, and what expired is gone while what is new is kept
    for n in range(6):
        await say(
            door, "t0", f"Today I need thing {n}. My name is Old{n}.", session=f"s{n}", user_id="u1"
        )
    clock.advance(hours=48)

    def write(n: int) -> Callable[[], Coroutine[Any, Any, Any]]:
        said = f"Today I need new {n}. My name is New{n}."
        return lambda: say(door, "t1", said, session=f"s{n}", user_id="u1")

    def maintain(n: int) -> Callable[[], Coroutine[Any, Any, Any]]:
        return lambda: door("memory_run_maintenance", session_id=f"s{n}")

    await at_once([make(n) for n in range(6) for make in (write, maintain)])
    assert (
        await admin.fetchval("SELECT count(*) FROM facts WHERE expires_at <= $1", clock.now()) == 0
    )
    assert (
        await admin.fetchval("SELECT count(*) FROM facts WHERE state = 'active' AND key = 'name'")
        == 1
    )
    [(task,)] = await admin.fetch(
        "SELECT value FROM facts WHERE state = 'active' AND key = 'today_task'"
    )
    told = values(await ask(door, "What do I need today?", user_id="u1"))
    assert told[-1:] == [task]  # the name stands before it
    for n in range(6):
        path = f"/memory/s{n}/memory_tiers/L1/2026/01/facts-20260105.jsonl"
        assert not await _exists(door, path)


async def _exists(door: Door, path: str) -> bool:
    return bool((await door("file_stat", project="default", path=path))["exists"])


@pytest.mark.parametrize("held", ["session", "book"])
async def test_a_lock_that_is_not_to_be_had_in_time_is_a_retryable_refusal_that_wrote_nothing(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    admin: asyncpg.Connection,
    held: str,
) -> None:
    door = open_door(
        database, clock, tokens, meter, scope, turns=TurnOptions(session_lock_timeout_ms=50)
    )
    lock = (
        session_lock("s1")
        if held == "session"
        else index_lock(turn_index.new_facts("s1", "u1").name)
    )
    before = await snapshot(admin)
    async with database.begin(scope, locks=[lock]):
        with pytest.raises(Refused) as refused:
            await say(door, "t1", "My name is Ada.", user_id="u1")
        assert (refused.value.code, refused.value.body["retryable"]) == (Code.RESOURCE_BUSY, True)
        await say(door, "t1", "Hello there.", session="s2", user_id="u1")
    assert {record["turn_id"] for record in await events(door, "s2")} == {"t1"}
    after = await snapshot(admin)
    assert not [row for row in after["guards"] if "'s1'" in row]
    assert [len(before["facts"]), len(after["facts"])] == [0, 0]
    assert (await say(door, "t1", "My name is Ada.", user_id="u1"))["fact_ids"] == ["user_name"]


@pytest.mark.parametrize("times", [1, 5])
async def test_a_call_that_is_cancelled_while_it_waits_leaves_nothing_and_no_lock(
    door: Door, database: Database, scope: Scope, admin: asyncpg.Connection, times: int
) -> None:
    before = await snapshot(admin)
    async with database.begin(scope, locks=[session_lock("s1")]):
        calls = [asyncio.create_task(say(door, "t1", "My name is Ada.")) for _ in range(times)]
        await waiting(admin, times)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
    assert await snapshot(admin) == before
    await say(door, "t1", "My name is Ada.")
    assert len(await events(door)) == 1


async def test_readers_see_a_turn_whole_or_not_at_all(door: Door) -> None:
    async def read() -> None:
        for _ in range(15):
            seen = (await ask(door, "hello"))["input_items"][:-1]
            said = Counter(orjson.dumps(item["metadata"]["turn"]) for item in seen)
            assert set(said.values()) <= {3}

    async def write() -> None:
        for turn in range(9):
            items = [
                {"role": "user", "content": f"{turn} {part}", "metadata": {"turn": turn}}
                for part in range(3)
            ]
            await door("memory_after_turn", session_id="s1", turn_id=f"t{turn}", input_items=items)

    await at_once([write, read, read])
