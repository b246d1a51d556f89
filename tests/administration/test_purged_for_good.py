"""What was purged stays away: no retry, job or rebuild brings it back, and what others know
stays."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Caller, Permission, Scope
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from tests.administration.purged import fill, of, purge, rows, said, talk
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder

pytestmark = pytest.mark.anyio


@pytest.fixture
def door(database: Any, clock: FakeClock, tokens: Any, meter: Any, scope: Scope) -> Door:
    """A service with an embedder, so that there are vectors to go."""
    return open_door(database, clock, tokens, meter, scope, embedder=FakeEmbedder())


@pytest.fixture
async def filled(call: Door, other_call: Door) -> None:
    await fill(call, "default", "ash")
    await fill(call, "elsewhere", "ash")
    await fill(other_call, "default", "ash")
    await call.work()
    await talk(call, "ashs1", "ashu", "ashBen", turn="t2")
    await talk(call, "ashs10", "ashu2", "ashBen", turn="t3")


async def test_what_was_purged_is_not_stored_again_by_a_retry_and_lives_anew_with_a_new_turn(
    filled: None, call: Door
) -> None:
    await purge(call, "session", "ashs1")
    retried = await talk(call, "ashs1", "ashu", "ashAnnashu")
    assert (retried["stored_items"], retried["fact_ids"]) == (0, [])
    assert (retried["forgotten"], "purged" in retried["note"]) == (True, True)
    assert not (await call("file_stat", project="default", path="/memory/ashs1"))["exists"]
    assert (await talk(call, "ashs1", "ashu", "Cleo", turn="t9"))["stored_items"] == 2
    assert (await purge(call, "session", "ashs1"))["counts"]["sessions"] == 1


async def test_a_job_that_was_queued_before_finds_nothing_and_makes_nothing(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    await purge(call, "user", "ashu")
    await purge(call, "project", project="elsewhere")
    before = await rows(admin)
    scope, jobs = Scope(call.caller.tenant, "default"), call.jobs
    for name in ("turns.follow_up", "turns.maintain"):
        await jobs[name].run(scope, "ashs1")
    await jobs["files.purge"].run(Scope(call.caller.tenant, "elsewhere"), "")
    assert await rows(admin) == before


async def test_a_fact_that_was_said_in_another_session_too_stays_and_one_that_was_not_goes(
    call: Door, admin: asyncpg.Connection
) -> None:
    await talk(call, "one", "u", "Ann")
    await call(
        "memory_after_turn",
        session_id="one",
        turn_id="t2",
        user_id="u",
        input_items=[said("I live in Rome.")],
    )
    await talk(call, "two", "u", "Ann")
    await purge(call, "session", "one")
    facts = (await call("memory_list_facts", session_id="three", user_id="u"))["facts"]
    assert {fact["key"]: fact["value"] for fact in facts}["name"] == "Ann"
    assert not any("Rome" in fact["value"] for fact in facts)
    held = of(await rows(admin), call.caller.tenant, "default")
    assert {json.dumps(one["evidence"]["session"]) for one in held["facts"]} == {'"two"'}
    assert "Rome" not in json.dumps(held["entries"])


async def test_what_is_said_wrongly_is_refused_and_nothing_goes(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    before = await rows(admin)
    for code, asked in (
        ("INVALID_ARGUMENT", {"level": "session", "name": "ashs1", "project": "default"}),
        (
            "INVALID_ARGUMENT",
            {"level": "session", "name": "ashs1", "project": "default", "confirm": "ashs10"},
        ),
        (
            "INVALID_ARGUMENT",
            {"level": "session", "name": "ashs1", "project": "*", "confirm": "ashs1"},
        ),
        ("INVALID_ARGUMENT", {"level": "session", "name": "", "project": "default"}),
        ("INVALID_ARGUMENT", {"level": "tenant", "project": "default", "confirm": "default"}),
        ("INVALID_ARGUMENT", {"level": "tenant", "project": "*", "confirm": "*"}),
        ("INVALID_ARGUMENT", {"level": "planet", "project": "default", "confirm": "default"}),
        ("PERMISSION_DENIED", {"level": "path", "name": "/", "project": "default", "confirm": ""}),
        (
            "PERMISSION_DENIED",
            {"level": "path", "name": "/memory", "project": "default", "confirm": "/memory"},
        ),
        (
            "INVALID_PATH",
            {"level": "path", "name": "/a/../b", "project": "default", "confirm": "/a/../b"},
        ),
    ):
        await call.refuses(code, "tenant_purge", **asked)
    reader = call.as_caller(
        Caller(call.caller.tenant, "r", frozenset({Permission.READ, Permission.WRITE}))
    )
    await reader.refuses(
        "PERMISSION_DENIED", "tenant_purge", project="default", level="project", confirm="default"
    )
    confined = call.as_caller(Caller(call.caller.tenant, "c", projects=frozenset({"default"})))
    for level in ("user", "tenant"):
        await confined.refuses(
            "PERMISSION_DENIED", "tenant_purge", project="*", level=level, name="", dry_run=True
        )
    assert await rows(admin) == before


async def test_a_session_that_others_share_stays_and_nothing_brings_the_facts_about_one_of_them_back(
    call: Door, admin: asyncpg.Connection, clock: FakeClock, tokens: Any
) -> None:
    await talk(call, "room", "ann", "Ann", turn="t1")
    await talk(call, "room", "ben", "Ben", turn="t2")
    await purge(call, "user", "ann")
    scope, database = Scope(call.caller.tenant, "default"), call.database
    assert database is not None
    rebuilding = TurnRebuild(database, clock, tokens, TurnOptions())
    assert not +(await rebuilding.run(scope, "room"))
    for user, learnt_in in (await rebuilding.users(scope)).items():
        assert not +(await rebuilding.check_user(scope, user, learnt_in, fix=True))
    facts = (await call("memory_list_facts", session_id="else", user_id="ann", state="all"))[
        "facts"
    ]
    assert facts == []
    assert (await call("memory_list_facts", session_id="else", user_id="ben"))["facts"]
    assert [one["session"] for one in (await rows(admin))["sessions"]] == ["room"]
    tiers = (
        "SELECT convert_from(b.content, 'UTF8') FROM blocks AS b JOIN streams AS s USING"
        " (tenant, stream) JOIN files AS f USING (tenant, incarnation) WHERE f.path LIKE '%tiers%'"
    )
    told = await admin.fetch(tiers)
    assert "Ann" not in "".join(row[0] for row in told)


async def test_rebuilding_a_purged_session_makes_nothing(
    filled: None, call: Door, admin: asyncpg.Connection, clock: FakeClock, tokens: Any
) -> None:
    await purge(call, "session", "ashs1")
    before = await rows(admin)
    assert call.database is not None
    rebuilding = TurnRebuild(call.database, clock, tokens, TurnOptions())
    scope = Scope(call.caller.tenant, "default")
    await rebuilding.run(scope, "ashs1")
    await rebuilding.check_user(scope, "ashu", ["ashs1", "ashs10"], fix=True)
    after = await rows(admin)
    assert {table: after[table] for table in after if table != "books"} == {
        table: before[table] for table in before if table != "books"
    }


async def test_a_trace_that_is_written_after_the_purge_began_goes_too(
    database: Any, clock: FakeClock, tokens: Any, meter: Any, scope: Scope, monkeypatch: pytest.MonkeyPatch,
    admin: asyncpg.Connection,
) -> None:  # fmt: skip
    monkeypatch.setattr("tests.door.FLUSH_EVERY_S", 1.0)
    call = open_door(database, clock, tokens, meter, scope)
    names = {"session": "s1", "user": "u", "project": ""}

    async def recalled_and_purged(level: str, name: str) -> None:
        await call(
            "memory_before_turn",
            project=level,
            session_id="s1",
            user_id="u",
            current_input="My name?",
        )
        await purge(call, level, name, project=level)

    for level in names:
        await talk(call, "s1", "u", "Ann", project=level)
    async with call.at_work():
        await asyncio.gather(*(recalled_and_purged(*one) for one in names.items()))
    assert await admin.fetch("SELECT project, session, user_id FROM recalls") == []


async def test_the_call_log_forgets_a_name_however_it_was_spelt(
    call: Door, admin: asyncpg.Connection
) -> None:
    await talk(call, " Mu\u0308l ", " Zoe\u0308 ", "Ann")
    await call.dispatch.call_log.flush()
    raw = json.dumps({"session_id": " Mu\u0308l ", "user_id": " Zoe\u0308 "})
    await admin.execute("UPDATE calls SET arguments = $1::text::jsonb", raw)
    await purge(call, "session", "M\u00fcl")
    assert await admin.fetchval("SELECT count(*) FROM calls WHERE tool = 'memory_after_turn'") == 0
