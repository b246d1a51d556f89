"""Hot queries find their rows by index under forced row level security, in few round trips, whoever
else is stored."""

import re
from typing import Any

import asyncpg
import pytest

from memsvc.store.database import Database
from migrations.schema import TENANT_TABLES
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter
from tests.plans import Plan, explain_bodies, record_plans

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("plans are those of one server")]
OTHER_TENANTS = 120
TURNS = 60


def turn(number: int) -> dict[str, Any]:
    return {
        "session_id": "s1",
        "turn_id": f"t{number}",
        "user_id": "u1",
        "input_items": [
            {"role": "user", "content": f"{number}: what about kumquat{number % 7} and zeppelins?"}
        ],
        "output_items": [
            {
                "role": "assistant",
                "content": f"{number}: marzipan{number % 5}, and an obsidian walrus.",
            }
        ],
    }


@pytest.fixture
async def filled(call: Door, admin: asyncpg.Connection, clock: FakeClock) -> Door:
    """A door whose tenant has a session and files, beside many other tenants that have as much."""
    for number in range(TURNS):
        clock.advance(minutes=1)
        await call("memory_after_turn", **turn(number))
        await call(
            "file_write",
            project="default",
            path=f"/notes/{number % 9}/{number}.md",
            content="x" * 50,
        )
    await call("file_write", project="default", path="/memories/a.md", content="Ada likes tea.")
    await call("update_document", content="".join(f"- [[d{number}]]\n" for number in range(TURNS)))
    await call(
        "update_document", id="d1", content="# Walruses\nand [[d1.1]]\n# Zeppelins\nand [[d1.2]]"
    )
    await call(
        "memory_after_turn",
        **turn(TURNS) | {"input_items": [{"role": "user", "content": "My name is Ada."}]},
    )
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
                generate_series(1, {OTHER_TENANTS}) AS n"""
        )
        await admin.execute(f"VACUUM ANALYZE {table}")
    return call


CALLS: dict[str, dict[str, Any]] = {
    "memory_before_turn": {
        "session_id": "s1",
        "user_id": "u1",
        "current_input": "Who am I, and what about zeppelins?",
    },
    "memory_after_turn": turn(1000)
    | {"input_items": [{"role": "user", "content": "My name is Bo. I like tea."}]},
    "file_stat": {"project": "default", "path": "/notes/3/3.md"},
    "file_read": {"project": "default", "path": "/notes/3/3.md"},
    "file_write": {"project": "default", "path": "/notes/3/3.md", "content": "more"},
    "file_list": {"project": "default", "path": "/notes", "depth": 1},
    "file_delete": {"project": "default", "path": "/notes/3/3.md"},
}
KEYS = {
    "entries": ("tenant", "project", "book", "entry"),
    "files": ("tenant", "project", "incarnation"),
}
SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("file_search", {"project": "default", "query": "notes, and what about walruses?"}),
    ("file_search", {"project": "*", "query": "notes, and what about walruses?"}),
    ("file_search", {"project": "default", "query": "notes", "path_prefix": "/notes/4"}),
    ("file_search", {"project": "*", "query": "notes", "path_prefix": "/notes/4/4.md"}),
]
HOT: list[tuple[str, dict[str, Any]]] = [
    *CALLS.items(),
    *SEARCHES,
    ("file_rename", {"project": "default", "from_path": "/notes/4/4.md", "to_path": "/moved.md"}),
    ("file_rename", {"project": "default", "from_path": "/notes/5", "to_path": "/moved"}),
    (
        "file_rename",
        {
            "project": "default",
            "from_path": "/moved.md",
            "to_path": "/notes/6/6.md",
            "overwrite": True,
        },
    ),
    ("file_list_versions", {"project": "default", "path": "/notes/6/6.md"}),
    ("file_projects", {}),
    ("read_document", {"id": "d1"}),
    ("get_document_tree", {}),
    ("update_document", {"id": "d2", "content": "[[d2.1]]"}),
    ("update_document", {"id": "d2", "content": "none"}),
    ("edit_document", {"id": "d3", "old_text": "# d3", "new_text": "# Obsidian"}),
    ("move_document", {"id": "d1", "parent": "d3"}),
    ("split_document", {"id": "d1", "apply": True}),
    ("search_documents", {"query": "what about walruses?"}),
    ("document_history", {"id": "d1"}),
    ("memory", {"command": "view", "path": "/memories"}),
    ("memory", {"command": "view", "path": "/memories/a.md"}),
    ("file_delete", {"project": "default", "path": "/notes", "recursive": True}),
]


async def test_no_hot_query_reads_a_table_but_by_an_index_that_begins_with_the_tenant(
    filled: Door, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await explain_bodies(admin)
    plans = record_plans(monkeypatch)
    for tool, arguments in HOT:
        plans.clear()
        await filled(tool, **arguments)
        assert plans, tool
        for plan in plans:
            for read in plan.reads:
                told = f"{tool}: {read}\n{plan.sql}"
                assert read.kind != "Seq Scan", told
                assert "tenant =" in read.condition, told


async def test_search_reads_the_postings_of_each_term_by_one_index_scan(
    filled: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = record_plans(monkeypatch)
    await filled("memory_before_turn", **CALLS["memory_before_turn"])
    searches = [plan for plan in plans if re.search(r"\bposting_lists\b", plan.sql)]
    assert searches
    for plan in searches:
        found = [read for read in plan.reads if read.table == "posting_lists"]
        assert found
        for read in found:
            assert read.kind in ("Index Only Scan", "Index Scan")
            assert all(
                f"{column} =" in read.condition for column in ("tenant", "project", "book", "term")
            ), read


async def looks_up_by_primary_keys(call: Door, plans: list[Plan]) -> None:
    """Pieces and their files are read one by one, whatever the planner knows of the tables."""
    for tool, arguments in SEARCHES:
        plans.clear()
        assert (await call(tool, **arguments))["chunks"]
        searches = [plan for plan in plans if "entries" in plan.sql]
        assert len(searches) >= 2
        for plan in searches:
            assert {read.table for read in plan.reads} >= KEYS.keys()
            for read in plan.reads:
                if (table := read.table) in KEYS:
                    assert (read.kind, read.index) == ("Index Scan", f"{table}_pkey"), plan.sql
                    assert all(f"{column} =" in read.condition for column in KEYS[table]), read


async def test_file_search_looks_pieces_and_their_files_up_by_their_primary_keys(
    filled: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    await looks_up_by_primary_keys(filled, record_plans(monkeypatch))


async def test_file_search_does_so_in_tables_that_nobody_has_analysed(
    call: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        await call("file_write", project="default", path=f"/notes/4/{number}.md", content="walrus")
    await looks_up_by_primary_keys(call, record_plans(monkeypatch))


@pytest.mark.parametrize(
    ("tool", "arguments", "most"),
    [
        ("memory_before_turn", CALLS["memory_before_turn"], 6),
        ("memory_before_turn", {"session_id": "s1", "current_input": "What about zeppelins?"}, 6),
        ("memory_before_turn", {"session_id": "new", "current_input": "What about zeppelins?"}, 6),
        ("memory_before_turn", CALLS["memory_before_turn"] | {"session_id": "new"}, 6),
        ("memory_after_turn", CALLS["memory_after_turn"], 12),
        ("memory_after_turn", turn(1001), 12),
        ("memory_after_turn", CALLS["memory_after_turn"] | {"session_id": "new"}, 12),
        ("file_stat", CALLS["file_stat"], 3),
        ("file_read", CALLS["file_read"], 4),
        ("file_write", CALLS["file_write"], 8),
        ("file_write", CALLS["file_write"] | {"mode": "TRUNCATE"}, 8),
        ("file_write", CALLS["file_write"] | {"path": "/new"}, 7),
        ("file_list", CALLS["file_list"], 4),
        ("file_list", {"project": "default", "depth": 3}, 4),
        ("file_delete", CALLS["file_delete"], 7),
        ("file_delete", {"project": "default", "path": "/notes", "recursive": True}, 9),
        ("file_search", SEARCHES[0][1], 5),
        ("file_search", SEARCHES[1][1], 6),
        ("file_search", SEARCHES[2][1], 5),
        ("file_rename", {"project": "default", "from_path": "/notes/3/3.md", "to_path": "/f"}, 9),
        ("file_rename", {"project": "default", "from_path": "/notes", "to_path": "/d"}, 9),
        ("file_list_versions", {"project": "default", "path": "/notes/3/3.md"}, 4),
        ("file_projects", {}, 3),
        ("memory", {"command": "view", "path": "/memories"}, 14),
        ("read_document", {"id": "d1"}, 4),
        ("get_document_tree", {}, 3),
        ("update_document", {"id": "d1", "content": "other words"}, 8),
        ("update_document", {"id": "d1", "content": "[[new]] [[newer]]"}, 11),
        ("move_document", {"id": "d1", "parent": "d2"}, 20),
        ("search_documents", {"query": "walruses"}, 4),
    ],
)
async def test_a_call_takes_no_more_round_trips_than_promised(
    database: Database,
    call: Door,
    meter: RecordingMeter,
    tool: str,
    arguments: dict[str, Any],
    most: int,
) -> None:
    for number in range(3):
        await call("memory_after_turn", **turn(number))
    await call("file_write", project="default", path="/notes/3/3.md", content="x")
    await call(
        "memory_after_turn",
        **turn(3) | {"input_items": [{"role": "user", "content": "My name is Ada."}]},
    )
    await call("update_document", content="[[d1]] [[d2]]")
    meter.clear()
    await call(tool, **arguments)
    assert 0 < meter.total("memsvc_round_trips") <= most
