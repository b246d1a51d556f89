"""Every table of a tenant is declared, and what is declared of it is so."""

import asyncpg
import pytest

from memsvc.administration.archive_reader import ORDER
from memsvc.administration.usage_tools import UsageCounts
from memsvc.store.tables import SERVER_TABLES, TABLES, Archive, key_of, purge_order
from migrations.schema import metadata

LAST = {"sessions": {"session", "user_id"}, "forgets": {"user_id"}}
"""Columns by which rows go with their owner in a step of their own."""


async def columns(admin: asyncpg.Connection, kind: str) -> dict[str, list[str]]:
    """The columns of each table with a tenant, or those of its primary key in order."""
    of_key = (
        "JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)"
    )
    rows = await admin.fetch(
        f"""
        SELECT c.relname, a.attname FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        {of_key if kind == "key" else ""}
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
            AND NOT c.relispartition AND c.relname <> ALL ('{{tenants,api_keys}}')
        ORDER BY {"array_position(i.indkey::int2[], a.attnum)" if kind == "key" else "a.attnum"}
        """
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["relname"], []).append(row["attname"])
    return {name: names for name, names in found.items() if "tenant" in names}


@pytest.mark.anyio
async def test_every_table_with_a_tenant_is_declared_with_its_key(
    admin: asyncpg.Connection,
) -> None:
    keys = await columns(admin, "key")
    assert {*keys} == {*TABLES}
    without_signs = {name: names[: len(key_of(name))] for name, names in keys.items()}
    assert without_signs == {name: [*key_of(name)] for name in keys}
    assert {*metadata.tables} == {*TABLES, *SERVER_TABLES}


@pytest.mark.anyio
@pytest.mark.parametrize("owner", ["book", "session", "user_id", "incarnation"])
async def test_rows_with_a_column_of_an_owner_go_with_it(
    admin: asyncpg.Connection, owner: str
) -> None:
    with_column = {
        name for name, names in (await columns(admin, "all")).items() if owner in names
    } - {name for name, of in LAST.items() if owner in of}
    assert {*purge_order(owner)} == with_column
    assert with_column, "nobody owns anything"


@pytest.mark.anyio
async def test_what_names_an_entry_of_an_index_says_up_to_which(admin: asyncpg.Connection) -> None:
    """An entry that a restore numbers anew must not get the number of one that a row still names."""
    naming = {
        name
        for name, names in (await columns(admin, "all")).items()
        if "book" in names and {"entry", "first_entry"} & {*names}
    }
    assert {name for name, table in TABLES.items() if table.next_entry} == {
        name for name in naming if TABLES[name].archive is Archive.ROWS
    }


def test_archives_hold_tables_in_the_order_of_their_format() -> None:
    """A reader refuses another order: a new table comes after `recalls`, before the call log."""
    assert (
        *("files", "books", "entries", "guards", "sessions", "facts", "insights", "notions"),
        *("notion_tags", "edges", "contradictions", "outcomes", "activity", "memories"),
        *("memory_findings", "memory_settings", "outlines", "outline_nodes", "summaries"),
        *("recalls", "calls", "job_refs"),
    ) == ORDER


def test_every_table_is_archived_or_left_out_for_a_reason() -> None:
    archived = {name for name, table in TABLES.items() if isinstance(table.archive, Archive)}
    derived = {name for name, table in TABLES.items() if table.archive is Archive.DERIVED}
    assert {*ORDER} | {"streams", "blocks"} == archived - derived
    assert {TABLES[name].derived_from for name in derived} <= {*ORDER}
    assert all(TABLES[name].derived_from for name in derived)
    assert all(
        len(table.archive) > 9 for table in TABLES.values() if isinstance(table.archive, str)
    )


def test_what_tables_count_as_is_reported() -> None:
    counted = {name for table in TABLES.values() for name in table.usage}
    assert counted <= {*UsageCounts.model_fields}
    assert "held_bytes" in counted


def test_whoever_finds_something_is_deleted_before_it() -> None:
    order = purge_order()
    assert {*order} == {*TABLES}
    found_by = {
        "job_refs": "files",
        "posting_lists": "entries",
        "facts": "entries",
        "entries": "books",
        "edges": "notions",
        "notions": "entries",
        "files": "streams",
        "streams": "blocks",
        "blocks": "projects",
        "projects": "usage",
        "usage": "calls",
    }
    assert all(order.index(finding) < order.index(found) for finding, found in found_by.items())
