"""What is told of calls by the hour, and of the queue."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from memsvc.core.scope import Caller, Scope
from memsvc.runtime import effective_limits
from memsvc.settings import Settings
from memsvc.store import calls
from memsvc.store.calls import CallRecord, insert_calls
from memsvc.store.database import Database
from memsvc.store.jobs import enqueue
from tests.door import Door
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio


async def log(database: Database, clock: FakeClock, scope: Scope, **like: Any) -> None:
    fields = {
        "surface": "mcp",
        "tool": "file_read",
        "key_label": "laptop",
        "status": "success",
        "code": None,
        "duration_ms": 1.0,
        "arguments": {},
        "request_id": "r1",
        "called_at": clock.now(),
    } | like
    async with database.begin(scope) as tx:
        await insert_calls(
            tx, [CallRecord(tenant=scope.tenant, project=scope.project, call=uuid4(), **fields)]
        )


async def test_calls_are_counted_by_the_hour_and_by_how_they_ended(
    call: Door, database: Database, clock: FakeClock, scope: Scope
) -> None:
    clock.advance(
        seconds=-(
            clock.now() - clock.now().replace(minute=0, second=0, microsecond=0)
        ).total_seconds()
    )
    first = clock.now()
    for duration_ms in (1, 2, 3):
        await log(database, clock, scope, duration_ms=duration_ms)
    clock.advance(hours=2, minutes=5)
    await log(database, clock, scope, status="error", code="NOT_FOUND", duration_ms=9)
    await log(database, clock, scope, status="cancelled", duration_ms=11)
    told = await call("calls_summary")
    assert [
        (one["hour"], one["success"], one["error"], one["cancelled"]) for one in told["hours"]
    ] == [
        (first.isoformat().replace("+00:00", "Z"), 3, 0, 0),
        ((first + timedelta(hours=2)).isoformat().replace("+00:00", "Z"), 0, 1, 1),
    ]
    assert (told["hours"][0]["p50_ms"], told["hours"][0]["p95_ms"]) == (2, 2.9)
    assert {name: told["total"][name] for name in ("success", "error", "cancelled", "p50_ms")} == {
        "success": 3,
        "error": 1,
        "cancelled": 1,
        "p50_ms": 3,
    }
    assert told["counted_from"] is None


async def test_what_was_called_earlier_is_not_counted(
    call: Door, database: Database, clock: FakeClock, scope: Scope
) -> None:
    await log(database, clock, scope, called_at=clock.now() - timedelta(hours=2))
    assert (await call("calls_summary", hours=1))["total"] == {
        "success": 0,
        "error": 0,
        "cancelled": 0,
        "p50_ms": 0,
        "p95_ms": 0,
    }
    assert (await call("calls_summary", hours=3))["total"]["success"] == 1


async def test_only_calls_of_the_projects_that_a_key_may_touch_are_counted(
    call: Door, database: Database, clock: FakeClock, scope: Scope
) -> None:
    await log(database, clock, scope)
    await log(database, clock, Scope(scope.tenant, "secret"))
    await log(database, clock, Scope(bytes(32), "default"))
    assert (await call("calls_summary"))["total"]["success"] == 2
    assert (await call("calls_summary", project="secret"))["total"]["success"] == 1
    narrow = call.as_caller(Caller(scope.tenant, "narrow", projects=frozenset({"default"})))
    assert (await narrow("calls_summary"))["total"]["success"] == 1
    await narrow.refuses("PERMISSION_DENIED", "calls_summary", project="secret")


async def test_of_very_many_calls_the_newest_are_counted_and_that_is_said(
    call: Door, database: Database, clock: FakeClock, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "COUNTED_MAX", 2)
    for _ in range(3):
        clock.advance(seconds=1)
        await log(database, clock, scope)
    told = await call("calls_summary")
    assert told["total"]["success"] == 2
    assert told["counted_from"] == (clock.now() - timedelta(seconds=1)).isoformat().replace(
        "+00:00", "Z"
    )


async def test_the_queue_shows_what_waits_and_counts_all_states(
    call: Door, database: Database, clock: FakeClock, scope: Scope
) -> None:
    for project in ("default", "secret"):
        async with database.begin(Scope(scope.tenant, project)) as tx:
            await enqueue(tx, "file.summarise", "/a", now=clock.now())
    async with database.begin(Scope(bytes(32), "default")) as tx:
        await enqueue(tx, "file.summarise", "/b", now=clock.now())
    told = await call("tenant_jobs")
    assert told["counts"] == {"waiting": 2, "running": 0, "failed": 0}
    assert [
        (one["name"], one["project"], one["subject"], one["state"]) for one in told["jobs"]
    ] == [
        ("file.summarise", "secret", "/a", "waiting"),
        ("file.summarise", "default", "/a", "waiting"),
    ]
    assert (await call("tenant_jobs", state="failed"))["jobs"] == []
    narrow = call.as_caller(Caller(scope.tenant, "narrow", projects=frozenset({"default"})))
    seen = await narrow("tenant_jobs")
    assert (seen["counts"]["waiting"], [one["project"] for one in seen["jobs"]]) == (1, ["default"])
    secret, mine = (one["id"] for one in told["jobs"])
    await call.refuses("CONFLICT", "tenant_settle_job", id=mine, action="retry")
    await narrow.refuses("NOT_FOUND", "tenant_settle_job", id=secret, action="drop")
    dropped = await narrow("tenant_settle_job", id=mine, action="drop")
    assert dropped == {"id": mine, "name": "file.summarise", "project": "default", "state": None}
    assert (await call("tenant_jobs"))["counts"]["waiting"] == 1


async def test_what_is_in_force_is_told_as_it_is_configured_and_rates_as_this_tenant_has_them(
    scope: Scope,
) -> None:
    rates = {"tenants": [f"{scope.tenant.hex()[:12]}=0.5"], "tenant_calls_s": 600}
    configured = {"files": {"versions_days": 3}, "limits": {"rates": rates}}
    of = effective_limits(Settings.model_validate(configured))
    told = {one.setting: one for one in of(scope.tenant)}
    assert told["limits.rates.tenant_calls_s"].value == 300
    assert {one.setting: one.value for one in of(b"\xff" * 32)}[
        "limits.rates.tenant_calls_s"
    ] == 600
    assert (told["files.versions_days"].value, told["files.versions_days"].kind) == (3, "retention")
    assert all(one.about for one in told.values())
    unlimited = effective_limits(Settings.model_validate({"limits": {"rates": {"enabled": False}}}))
    assert not [one for one in unlimited(scope.tenant) if one.setting.startswith("limits.rates.")]
