"""Purging takes all of what was named, and nothing of anybody else, whoever asks and however
often."""

import json
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.store import mcp_sessions
from tests.administration.purged import fill, of, purge, queued, rows, talk, without
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
    for door in (call, other_call):
        await talk(door, "ashs1", "ashu", "ashBen", turn="t4")
        await door("memory_forget", session_id="ashs1", user_id="ashu", turn_ids=["t4"])


async def test_every_table_of_a_tenant_has_rows_to_purge(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    assert call.database is not None
    async with call.database.begin_tenant(Scope(call.caller.tenant, ALL_PROJECTS)) as tx:
        now, later = (datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2027))
        limits = {"sessions_max": 1, "uris_max": 1}
        await mcp_sessions.subscribe(
            tx, b"session", "memory://ashu/c", "stamp", now=now, expires_at=later, **limits
        )
        await mcp_sessions.add_question(tx, b"session", "question", now=now, expires_at=later)
    empty = {
        table
        for table, found in of(await rows(admin), call.caller.tenant, None).items()
        if not found
    }
    assert empty <= {
        "allowances",
        "calls",
        "purges",
        "rates",
        "recalls",
        "restores",
        "summaries",
        "contradictions",
        "outcomes",
        "edges",
        "insights",
    }


async def test_a_purged_project_leaves_nothing_and_the_others_are_as_they_were(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    before = await rows(admin)
    counted = await purge(call, "project", dry_run=True)
    assert await rows(admin) == before
    receipt = await purge(call, "project")
    after = await rows(admin)
    assert not any(
        found
        for table, found in of(after, call.caller.tenant, "default").items()
        if table != "usage"
    )
    assert without(after, call.caller.tenant, "default") == without(
        before, call.caller.tenant, "default"
    )
    assert receipt["counts"] == counted["counts"] | {"calls": 1}, "that it was counted before"
    assert await admin.fetchval("SELECT count(*) FROM calls") == 1
    assert receipt["complete"]
    assert not receipt["resumed"]
    assert not counted["complete"]
    assert receipt["counts"]["entries"] == len(of(before, call.caller.tenant, "default")["entries"])
    assert not any(
        '"default"' in one and call.caller.tenant.hex() in one for one in await queued(admin)
    )
    (usage,) = of(after, call.caller.tenant, None)["usage"]
    assert usage["size_bytes"] == sum(
        one["size_bytes"] for one in of(after, call.caller.tenant, None)["projects"]
    )


async def test_a_purged_tenant_leaves_nothing_and_the_others_are_as_they_were(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    before = await rows(admin)
    name = (await purge(call, "tenant", project="*", dry_run=True))["name"]
    receipt = await call("tenant_purge", project="*", level="tenant", confirm=name)
    after = await rows(admin)
    assert not any(of(after, call.caller.tenant, None).values())
    assert await admin.fetchval("SELECT count(*) FROM calls") == 1
    assert without(after, call.caller.tenant, None) == without(before, call.caller.tenant, None)
    assert receipt["counts"]["files"] == len(of(before, call.caller.tenant, None)["files"])
    assert not any(call.caller.tenant.hex() in one for one in await queued(admin))


async def test_a_purged_session_takes_its_files_facts_and_turns_and_nothing_of_one_that_begins_alike(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    before = await rows(admin)
    counted = await purge(call, "session", "ashs1", dry_run=True)
    receipt = await purge(call, "session", "ashs1")
    after = await rows(admin)
    mine = of(after, call.caller.tenant, "default")
    text = json.dumps(
        {
            table: found
            for table, found in mine.items()
            if table not in ("memories", "facts", "entries")
        }
    )
    assert "/memory/ashs1/" not in text
    assert '"ashs1"' not in text
    assert "ashAnnashu" not in json.dumps([mine["entries"], mine["facts"]]).replace(
        "ashAnnashu2", ""
    )
    assert [one["session"] for one in mine["sessions"]] == ["ashs10"]
    assert receipt["counts"] == counted["counts"]
    gone = {
        table: [one for one in found if one not in after[table]] for table, found in before.items()
    }
    assert not any(
        "ashs10" in json.dumps(found) or "ashu2" in json.dumps(found) for found in gone.values()
    )
    assert not any(
        of(gone, call.caller.tenant, "elsewhere")[table] for table in gone if table != "usage"
    )


async def test_a_purged_user_goes_with_sessions_facts_boards_and_memories(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    before = await rows(admin)
    counted = await purge(call, "user", "ashu", dry_run=True)
    receipt = await purge(call, "user", "ashu")
    after = await rows(admin)
    text = (
        json.dumps(of(after, call.caller.tenant, "default"))
        .replace("ashu2", "")
        .replace("ashs10", "")
    )
    assert "ashu" not in text
    assert "ashs1" not in text
    assert receipt["counts"] == counted["counts"]
    assert (await call("memories_list", user_id="ashu"))["results"] == []
    assert (await call("memories_list", user_id="ashu2"))["results"]
    gone = {
        table: [one for one in found if one not in after[table]] for table, found in before.items()
    }
    assert not any(
        "ashs10" in json.dumps(found) or "ashu2" in json.dumps(found) for found in gone.values()
    )
    assert not any(
        of(gone, call.caller.tenant, "elsewhere")[table] for table in gone if table != "usage"
    )
    assert (await purge(call, "user", "ashu"))["counts"] == {}


async def test_receipt_names_shared_sessions_that_keep_the_words_of_a_purged_user(
    call: Door,
) -> None:
    for session, user, turn in (
        ("alone", "ada", "t1"),
        ("ada and ben", "ada", "t1"),
        ("ada and ben", "ben", "t2"),
        ("ben and cy", "ben", "t1"),
        ("ben and cy", "cy", "t2"),
    ):
        await talk(call, session, user, user, turn=turn)
    kept = {"default": ["ada and ben"]}
    assert (await purge(call, "user", "ada", dry_run=True))["kept_sessions"] == kept
    assert (await purge(call, "user", "ada", project="*"))["kept_sessions"] == kept
    again = await purge(call, "user", "ada")
    assert (again["found"], again["counts"], again["kept_sessions"]) == (True, {}, kept)
    assert (await purge(call, "session", "ada and ben"))["kept_sessions"] == {}
    gone = await purge(call, "user", "ada")
    assert (gone["found"], gone["kept_sessions"]) == (False, {})


@pytest.mark.parametrize("level", ["user", "session", "path", "project"])
async def test_receipt_says_that_nothing_of_a_name_is_stored(
    call: Door, other_call: Door, level: str
) -> None:
    # another tenant has this name
    await talk(other_call, "name", "name", "Ann", project="name")
    name, project = {"path": ("/name", "name"), "project": ("", "name")}.get(
        level, ("name", "name")
    )
    await call("memory_list_sessions", project=project)
    assert not (await purge(call, level, name, project=project, dry_run=True))["found"]
    assert not (await purge(call, level, name, project=project))["found"]
    assert (await purge(other_call, level, name, project=project))["found"] is (level != "path")


async def test_a_user_is_purged_from_every_project_at_once(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    await purge(call, "user", "ashu", project="*")
    mine = json.dumps(of(await rows(admin), call.caller.tenant, None)).replace("ashu2", "")
    assert "ashu" not in mine


async def test_shared_session_is_purged_after_one_of_its_users(
    call: Door, admin: asyncpg.Connection
) -> None:
    await talk(call, "shared", "ada", "Ada")
    await talk(call, "shared", "ben", "Ben", turn="t2")
    # before the job that moves the items of the first user to the session
    await purge(call, "user", "ada")
    await purge(call, "session", "shared")
    left = json.dumps(of(await rows(admin), call.caller.tenant, "default"))
    assert "Ada" not in left
    assert "Ben tea" not in left


async def test_a_purged_path_goes_with_its_history_and_one_that_begins_alike_stays(
    filled: None, call: Door, admin: asyncpg.Connection
) -> None:
    before = await rows(admin)
    receipt = await purge(call, "path", "/ash/a")
    after = await rows(admin)
    mine = of(after, call.caller.tenant, "default")
    assert {one["path"] for one in mine["files"] if one["path"].startswith("/ash/")} == {
        "/ash/ab",
        "/ash/a_b",
        "/ash/gone/x",
    }
    assert receipt["counts"]["files"] == 1
    assert receipt["counts"]["streams"] == 2
    assert receipt["counts"]["blocks"] == 2
    assert (await purge(call, "path", "/ash"))["counts"]["files"] == 3
    assert "about ash" not in json.dumps(
        of(await rows(admin), call.caller.tenant, "default")["entries"]
    )
    (project,) = of(await rows(admin), call.caller.tenant, "default")["projects"]
    assert project["size_bytes"] == 0
    assert of(await rows(admin), call.caller.tenant, "elsewhere") == of(
        before, call.caller.tenant, "elsewhere"
    ) | {"usage": of(await rows(admin), call.caller.tenant, "elsewhere")["usage"]}
