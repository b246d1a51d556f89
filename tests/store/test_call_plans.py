"""Listing calls reads an index from its end, as the application role behind the policies, however
many there are."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.store import calls
from memsvc.store.calls import SCAN_MAX
from tests.door import Door
from tests.fakes import FakeClock
from tests.plans import record_plans

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("plans are those of one server")]
ROWS, TENANTS = 100_000, 100


@pytest.fixture
async def filled(call: Door, admin: asyncpg.Connection, clock: FakeClock) -> Door:
    """A log of a hundred tenants over some weeks, each in its part. One tenant has a tenth of
    all."""
    now = clock.advance(datetime.now(UTC) - clock.now())
    monday = (now - timedelta(days=now.weekday())).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    await admin.execute("ALTER TABLE calls DETACH PARTITION calls_before")
    for week in range(-4, 1):
        low, high = monday + timedelta(weeks=week), monday + timedelta(weeks=week + 1)
        await admin.execute(
            f"CREATE TABLE calls_{week + 4} PARTITION OF calls FOR VALUES FROM ('{low}') TO"
            f" ('{high}')"
        )
    await admin.execute(
        """
        INSERT INTO calls (tenant, project, called_at, call, surface, tool, key_label, status, code,
            duration_ms,
                           arguments, request_id)
        SELECT CASE WHEN n % 10 = 0 THEN $1 ELSE sha256(int4send(n % $2)) END, 'p' || n % 7,
               $3::timestamptz - n * interval '20 seconds', gen_random_uuid(), 'mcp',
                   'tool' || n % 30, 'k' || n % 3,
               CASE WHEN n % 500 = 0 THEN 'error' ELSE 'success' END, CASE WHEN n % 500 = 0
                   THEN 'CONFLICT' END, 1,
               '{"session_id": "s1"}', 'r'
        FROM generate_series(0, $4::int4) AS n
        """,
        call.caller.tenant,
        TENANTS,
        now,
        ROWS,
    )
    await admin.execute("ANALYZE calls")
    return call


ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"tool": "tool0"},
    {"tool": "none"},
    {"project": "p3"},
    {"status": "error"},
    {"code": "CONFLICT", "surface": "rest"},
    {"key_label": "none", "session_id": "none"},
)


async def test_a_page_reads_the_newest_calls_of_its_tenant_and_no_more_than_it_says(
    filled: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = record_plans(monkeypatch)
    for asked in ASKED:
        first = await filled("calls_list", limit=10, **asked)
        cursor = {"cursor": first["next_cursor"]} if first["next_cursor"] else {}
        plans.clear()
        await filled("calls_list", limit=10, **asked, **cursor)
        [plan] = plans
        assert plan.reads
        for read in plan.reads:
            told = f"{asked}: {read}"
            assert read.table.startswith("calls_"), told
            assert read.kind == "Index Scan", told
            assert "tenant = $1" in read.condition, told
            assert "called_at" in read.condition, told
        assert sum(read.found + read.thrown_away for read in plan.reads) <= SCAN_MAX + len(
            plan.reads
        ), asked
        failed = {"status", "code"} & asked.keys()
        assert not failed or sum(read.found for read in plan.reads) <= ROWS / 500 + 1, asked
    plans.clear()
    assert (await filled.as_tenant(Scope(b"\x09" * 32, "default"))("calls_list"))["calls"] == []
    assert sum(read.found + read.thrown_away for read in plans[0].reads) == 0


async def test_a_summary_reads_the_calls_of_its_hours_by_an_index_and_no_more_than_it_counts(
    filled: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = record_plans(monkeypatch)
    most = 30
    monkeypatch.setattr(calls, "COUNTED_MAX", most)
    for hours in (1, 24, 168):
        plans.clear()
        told = await filled("calls_summary", hours=hours)
        _, plan = plans  # the first is the setting
        assert plan.reads
        for read in plan.reads:
            assert read.table.startswith("calls_"), read
            assert read.kind == "Index Scan", read
            assert "tenant = $1" in read.condition, read
            assert "called_at" in read.condition, read
        assert sum(read.found + read.thrown_away for read in plan.reads) <= most + len(plan.reads)
    assert told["counted_from"] is not None
