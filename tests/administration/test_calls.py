"""The call log as those see it who may: filtered, a page at a time, and no further than it is
kept."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from memsvc.core.scope import Caller, Scope
from memsvc.store import calls
from memsvc.store.calls import CallRecord, insert_calls
from memsvc.store.database import Database
from tests.door import Door
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio

Log = Callable[..., Awaitable[None]]


@pytest.fixture
def log(database: Database, clock: FakeClock, scope: Scope) -> Log:
    """Logs a call, a second after the one before."""

    async def one(project: str = "default", tenant: bytes = scope.tenant, **like: Any) -> None:
        fields = {
            "surface": "mcp",
            "tool": "file_read",
            "key_label": "laptop",
            "status": "success",
            "code": None,
            "duration_ms": 1.5,
            "arguments": {"path": "/a"},
            "request_id": "r1",
            "called_at": clock.advance(seconds=1),
        } | like
        async with database.begin(Scope(tenant, project)) as tx:
            await insert_calls(
                tx, [CallRecord(tenant=tenant, project=project, call=uuid4(), **fields)]
            )

    return one


async def listed(door: Door, of: str = "tool", /, **asked: Any) -> list[Any]:
    """One member of each call of a page."""
    return [call[of] for call in (await door("calls_list", **asked))["calls"]]


async def test_a_call_is_shown_as_it_was_logged(call: Door, log: Log, clock: FakeClock) -> None:
    await log(status="error", code="NOT_FOUND", surface="rest")
    [shown] = (await call("calls_list"))["calls"]
    assert shown.pop("id")
    assert shown == {
        "called_at": clock.now().isoformat().replace("+00:00", "Z"),
        "surface": "rest",
        "tool": "file_read",
        "project": "default",
        "key_label": "laptop",
        "status": "error",
        "code": "NOT_FOUND",
        "duration_ms": 1.5,
        "arguments": {"path": "/a"},
        "request_id": "r1",
    }


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        ({}, ["d", "c", "b", "a"]),
        ({"tool": "file_write"}, ["b"]),
        ({"status": "error"}, ["d", "c"]),
        ({"status": "success"}, ["b", "a"]),
        ({"status": "cancelled"}, []),
        ({"code": "CONFLICT"}, ["d"]),
        ({"surface": "rest"}, ["c"]),
        ({"key_label": "phone"}, ["d"]),
        ({"session_id": "s1"}, ["a"]),
        ({"session_id": "s"}, []),
        ({"project": "other"}, ["c"]),
        ({"project": "*", "status": "error", "surface": "mcp"}, ["d"]),
        ({"since": "2026-01-05T12:00:03Z"}, ["d", "c"]),
        ({"until": "2026-01-05T12:00:03Z"}, ["b", "a"]),
        ({"since": "2026-01-05T12:00:02Z", "until": "2026-01-05T12:00:03Z"}, ["b"]),
    ],
)
async def test_calls_are_listed_newest_first_by_what_they_were(
    call: Door, log: Log, narrowed: dict[str, Any], found: list[str]
) -> None:
    await log(request_id="a", arguments={"session_id": "s1"})
    await log(request_id="b", tool="file_write")
    await log("other", request_id="c", surface="rest", status="error", code="NOT_FOUND")
    await log(
        request_id="d",
        key_label="phone",
        status="error",
        code="CONFLICT",
        arguments={"session_id": "s10"},
    )
    assert await listed(call, "request_id", **narrowed) == found


async def test_pages_follow_each_other_without_a_gap_even_within_one_moment(
    call: Door, log: Log, clock: FakeClock
) -> None:
    for number in range(7):
        await log(
            request_id=str(number),
            called_at=clock.now() if number < 4 else clock.advance(seconds=1),
        )
    seen: list[str] = []
    asked: dict[str, Any] = {}
    pages = 0
    while True:
        page = await call("calls_list", limit=2, **asked)
        seen += [one["request_id"] for one in page["calls"]]
        pages += 1
        if page["next_cursor"] is None:
            break
        asked = {"cursor": page["next_cursor"]}
        await log(request_id="meanwhile")
    assert pages == 4
    assert seen[:3] == ["6", "5", "4"]
    assert sorted(seen) == sorted("0123456")


async def test_a_page_that_looked_at_many_and_found_few_says_where_to_go_on(
    call: Door, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "SCAN_MAX", 3)
    await log(request_id="first", surface="rest")
    for _ in range(5):
        await log()
    first = await call("calls_list", surface="rest")
    assert first["calls"] == []
    second = await call("calls_list", surface="rest", cursor=first["next_cursor"])
    assert [one["request_id"] for one in second["calls"]] == ["first"]


@pytest.mark.parametrize(
    "cursor",
    ["x", "MjAyNg", "AAAA", "MjAyNi0wMS0wNSAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMA", "é"],
)
async def test_a_cursor_that_is_none_is_refused(call: Door, cursor: str) -> None:
    await call.refuses("INVALID_ARGUMENT", "calls_list", cursor=cursor)


async def test_a_key_sees_the_calls_of_its_tenant_and_its_projects_alone(
    call: Door, other_call: Door, log: Log, scope: Scope
) -> None:
    await log("a", request_id="a")
    await log("b", request_id="b")
    await log("*", request_id="all")
    confined = call.as_caller(Caller(scope.tenant, "narrow", projects=frozenset({"a"})))
    assert await listed(call, "request_id") == ["all", "b", "a"]
    assert await listed(confined, "request_id") == ["a"]
    assert await listed(confined, "request_id", project="a") == ["a"]
    await confined.refuses("PERMISSION_DENIED", "calls_list", project="b")
    assert await listed(other_call) == []


async def test_what_is_past_its_time_is_shown_no_more(
    call: Door, log: Log, clock: FakeClock
) -> None:
    await log(request_id="old")
    clock.advance(days=20)
    await log(request_id="new")
    assert await listed(call, "request_id") == ["new", "old"]
    clock.advance(timedelta(days=10))
    assert await listed(call, "request_id") == ["new"]
    assert await listed(call, "request_id", since="2026-01-01T00:00:00Z") == ["new"]


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-05T12:00:00"]
)
async def test_a_moment_that_no_clock_shows_everywhere_is_refused(call: Door, moment: str) -> None:
    await call.refuses("INVALID_ARGUMENT", "calls_list", until=moment)
    await call.refuses("INVALID_ARGUMENT", "keys_create", expires_at=moment)


async def test_what_an_administrator_changed_is_in_the_log_when_the_answer_is_there(
    call: Door, admin: asyncpg.Connection
) -> None:
    made = await call("keys_create", label="robot")
    await call("keys_update", key_id=made["key"]["key_id"], label="laptop")
    await call("keys_revoke", key_id=made["key"]["key_id"], even_last=True)
    await call("keys_list")
    await call.refuses(
        "INVALID_ARGUMENT", "tenant_purge", project="default", level="project", confirm="another"
    )
    await call("file_write", project="default", path="/a", content="b", mode="TRUNCATE")
    await call("tenant_purge", project="default", level="project", confirm="default")
    logged = [row["tool"] for row in await admin.fetch("SELECT tool FROM calls ORDER BY tool")]
    assert logged == ["keys_create", "keys_revoke", "keys_update", "tenant_purge"]
