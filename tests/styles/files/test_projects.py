"""A caller can find out which projects there are."""

from typing import Any

import pytest

from memsvc.core.scope import Scope
from memsvc.store import files as store
from memsvc.store.database import Database
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.files.past import Past, open_past

pytestmark = pytest.mark.anyio
NAMES = ["Alpha", "alphabet", "beta_1", "beta-2", "gamma.x"]


@pytest.fixture
async def past(database: Database, clock: FakeClock, meter: RecordingMeter, scope: Scope) -> Past:
    past = open_past(database, clock, meter, scope)
    for name in NAMES:
        await past.elsewhere(Scope(scope.tenant, name)).write("/f", "x")
    return past


async def names(past: Past, **asked: Any) -> list[str]:
    return list((await past("projects", **asked))["projects"])


async def test_projects_are_listed_in_byte_order_a_page_at_a_time(past: Past) -> None:
    whole = sorted(NAMES)
    assert await past("projects") == {"projects": whole, "has_more": False, "next_cursor": None}
    assert await past.files.call("file_projects") == {
        "projects": whole,
        "has_more": False,
        "next_cursor": None,
    }
    first = await past("projects", limit=2)
    assert first == {"projects": whole[:2], "has_more": True, "next_cursor": whole[1]}
    assert await names(past, limit=3, after=first["next_cursor"]) == whole[2:]
    assert await names(past, after=whole[-1]) == []


async def test_a_question_is_a_subsequence_in_either_case(past: Past) -> None:
    assert await names(past, q="ALP") == ["Alpha", "alphabet"]
    assert await names(past, q="aBt") == ["alphabet"]
    assert await names(past, q="b2") == ["beta-2"]
    assert await names(past, q="a", limit=2, after="Alpha") == ["alphabet", "beta-2"]
    for wildcard in ("%", "\\", "_%", "a_b", "é", "\0"):
        assert await names(past, q=wildcard) == []
    assert await names(past, q="_") == ["beta_1"]
    assert await names(past, q=".") == ["gamma.x"]


async def test_only_projects_that_hold_something_now_are_there(
    past: Past, database: Database, clock: FakeClock, scope: Scope
) -> None:
    for name in NAMES[1:]:
        await past.elsewhere(Scope(scope.tenant, name))("delete", path="/f")
    assert await names(past) == ["Alpha"]
    memory = Scope(scope.tenant, "remembered")
    async with database.begin(memory) as tx:
        await store.create(tx, "/memory/s1/log", b"x", is_text=True, owner="turns", now=clock.now())
    assert await names(past) == ["Alpha", "remembered"]


async def test_projects_of_other_tenants_do_not_exist(past: Past, other_scope: Scope) -> None:
    stranger = past.elsewhere(other_scope)
    assert await names(stranger) == []
    await stranger.write("/f", "x")
    assert await names(stranger) == ["default"]


async def test_a_confined_key_sees_the_projects_that_it_may_touch(past: Past, scope: Scope) -> None:
    confined = past.elsewhere(scope, frozenset({"beta_1", "gamma.x", "nothing"}))
    assert await names(confined) == ["beta_1", "gamma.x"]
    assert await names(confined, limit=1, after="beta_1") == ["gamma.x"]
    assert await confined.files.call("file_projects", project="Alpha") == await confined("projects")


async def test_arguments_are_checked(past: Past) -> None:
    for limit in (0, 101):
        await past.refuses("INVALID_ARGUMENT", "projects", limit=limit)
    await past.refuses("INVALID_ARGUMENT", "projects", after="a/b")
    await past.refuses("INVALID_ARGUMENT", "projects", q="x" * 129)
    await past.refuses("INVALID_PATH", "projects", project="a/b")
