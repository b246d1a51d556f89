"""Much goes at once as quickly by plans that were made while there was little."""

from time import perf_counter

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database, DatabaseOptions
from migrations.schema import TENANT_TABLES
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.servers import DatabaseUrls, TestServer

pytestmark = pytest.mark.anyio
MANY = 2000
S_MAX = 2.0
READS_MAX = 200
"""Rows read for each row that goes, over all tables and statements: what reads a table for each row
reads thousands."""
TABLES = [table for table in TENANT_TABLES if table != "calls"]


async def write(call: Door, documents: int) -> None:
    await call(
        "update_document", content=" ".join(f"[[document {number}]]" for number in range(documents))
    )
    await call("file_write", project="default", path="/many/0.md", content="A file")
    await call.work()


async def multiply(admin: asyncpg.Connection, files: int) -> None:
    """Make many files of the one that there is."""
    await admin.execute("DROP TABLE IF EXISTS made")
    await admin.execute(
        """
        CREATE TEMP TABLE made AS SELECT f.*, gen_random_uuid() AS new, n AS number
        FROM files AS f, generate_series(1, $1) AS n WHERE path = '/many/0.md'
            AND deleted_at IS NULL
        """.replace("$1", str(files))
    )
    for table, changed in (
        (
            "files",
            {"incarnation": "new", "stream": "number", "path": "format('/many/%s.md', number)"},
        ),
        ("streams", {"incarnation": "new", "stream": "number"}),
        ("blocks", {"stream": "number"}),
    ):
        columns = await admin.fetchval(
            """SELECT string_agg(attname, ',') FROM pg_attribute
            WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped""",
            table,
        )
        values = ", ".join(changed.get(name, f"o.{name}") for name in columns.split(","))
        key = "incarnation" if "incarnation" in changed else "stream"
        await admin.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM made JOIN {table} o USING"
            f" ({key})"
        )


async def rows_read(admin: asyncpg.Connection) -> int:
    """How many rows sessions that have ended have read of the tables of tenants."""
    read: int = await admin.fetchval(
        "SELECT sum(seq_tup_read + idx_tup_fetch)::int8 FROM pg_stat_user_tables WHERE relname ="
        " ANY($1)",
        TABLES,
    )
    return read


@pytest.mark.one_server("plans are those of one server")
async def test_two_thousand_documents_and_files_go_quickly_by_plans_for_a_few(
    database_urls: DatabaseUrls,
    server: TestServer,
    admin: asyncpg.Connection,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
) -> None:
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(
        f"ALTER ROLE {server.app} IN DATABASE {name} SET plan_cache_mode = force_generic_plan"
    )
    for table in TABLES:
        await admin.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    database = await Database.open(
        database_urls.app, DatabaseOptions(pool_min=1, pool_max=1), meter
    )
    took_s = {}

    async def removed(call: Door, files: int) -> None:
        for what, remove in {
            "documents": lambda: call("update_document", content="Nothing."),
            "entries of documents": call.work,
            "more files": lambda: multiply(admin, files),
            "files": lambda: call("file_delete", project="default", path="/many", recursive=True),
            "project": lambda: call(
                "tenant_purge", project="default", level="project", confirm="default"
            ),
        }.items():
            started = perf_counter()
            await remove()
            took_s[what] = perf_counter() - started

    try:
        call = open_door(database, clock, tokens, meter, scope)
        for _ in range(2):
            await write(call, 20)
            await removed(call, 20)
            await admin.execute("ANALYZE")
        await write(call, MANY)
        before = await rows_read(admin)
        await removed(call, MANY)
    finally:
        await database.close()
    assert max(took_s[what] for what in ("documents", "files", "project")) < S_MAX, took_s
    assert await rows_read(admin) - before < READS_MAX * MANY
