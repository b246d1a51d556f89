"""The statements of this style find their rows by index, whoever else is stored, and are few."""

from typing import Any

import asyncpg
import pytest

from migrations.schema import TENANT_TABLES
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter
from tests.plans import explain_bodies, record_plans
from tests.styles.knowledge.blocks import learn, remember

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("plans are those of one server")]
OTHERS = 100
BLOCKS = 60


@pytest.fixture
async def filled(call: Door, admin: asyncpg.Connection, clock: FakeClock) -> Door:
    """A memory beside those of many other tenants, who have as much."""
    for number in range(BLOCKS):
        tags = ["self/goal"] if number % 9 == 0 else [f"tag{number % 5}"]
        await remember(
            call,
            f"kumquat{number % 7} and zeppelin{number} meet marzipan{number % 5} in town",
            *tags,
        )
        clock.advance(minutes=5)
    await call("elfmem_dream")
    for number in range(3):
        await remember(call, f"obsidian walrus {number}")
    for table in TENANT_TABLES:
        columns = await admin.fetchval(
            """SELECT string_agg(attname, ', ') FROM pg_attribute
            WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
                AND attname <> 'tenant'""",
            table,
        )
        await admin.execute(
            f"""INSERT INTO {table} (tenant, {columns})
            SELECT sha256(n::text::bytea), {columns} FROM {table},
                generate_series(1, {OTHERS}) AS n"""
        )
        await admin.execute(f"VACUUM ANALYZE {table}")
    return call


async def ids(call: Door) -> list[str]:
    return [
        block["id"]
        for block in (await call("elfmem_ls", limit=1000))["result"]
        if block["status"] == "active"
    ]


async def test_no_statement_reads_a_table_but_by_an_index_that_begins_with_the_tenant(
    filled: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, third, *_ = await ids(filled)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("elfmem_remember", {"content": "a new thing about kumquat3", "tags": ["tag1"]}),
        ("elfmem_remember", {"content": "a new thing about kumquat3"}),
        ("elfmem_recall", {"query": "kumquat3 and zeppelins"}),
        ("elfmem_recall", {"query": "", "frame": "attention"}),
        ("elfmem_recall", {"query": "kumquat3", "frame": "task"}),
        ("elfmem_recall", {"query": "", "frame": "self"}),
        ("elfmem_recall", {"query": "kumquat3", "frame": "simulate"}),
        ("elfmem_status", {}),
        ("elfmem_show", {"block_id": one}),
        ("elfmem_ls", {"tag": "tag%", "category": "knowledge"}),
        ("elfmem_ls", {"category": "knowledge"}),
        ("elfmem_inbox", {}),
        ("elfmem_outcome", {"block_ids": [one, other, third], "signal": 0.9}),
        ("elfmem_outcome", {"block_ids": [one], "signal": 0.1}),
        (
            "elfmem_connect",
            {"source": one, "target": other, "if_exists": "update", "relation": "supports"},
        ),
        ("elfmem_disconnect", {"source": one, "target": other}),
        ("elfmem_edit", {"block_id": one, "content": "something else now"}),
        ("elfmem_dream", {}),
        ("elfmem_curate", {}),
        ("elfmem_forget", {"block_id": one}),
    ]
    await explain_bodies(admin)
    plans = record_plans(monkeypatch)
    for tool, arguments in calls:
        plans.clear()
        await filled(tool, **arguments)
        assert plans, tool
        for plan in plans:
            for read in plan.reads:
                told = f"{tool}: {read}\n{plan.sql}"
                assert read.kind != "Seq Scan", told
                assert "tenant =" in read.condition, told


@pytest.mark.parametrize(
    ("tool", "arguments", "most"),
    [
        ("elfmem_remember", {"content": "obsidian walrus"}, 10),
        ("elfmem_recall", {"query": "kumquat3"}, 16),
        ("elfmem_status", {}, 3),
        ("elfmem_outcome", {"block_ids": ["nobody"], "signal": 0.9}, 5),
    ],
)
async def test_a_call_takes_no_more_round_trips_than_promised(
    call: Door, meter: RecordingMeter, tool: str, arguments: dict[str, Any], most: int
) -> None:
    for number in range(12):
        await learn(call, f"kumquat{number % 7} and zeppelin{number}")
    meter.clear()
    await call(tool, **arguments)
    assert 0 < meter.total("memsvc_round_trips") <= most
