"""The revisions lead to the schema, there and back, once, and leave every tenant table behind its
wall."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import queue
from memsvc.store.database import Database
from memsvc.store.migrate import LOCK_KEY, downgrade, migrate
from memsvc.store.policies import LARGE_COLUMNS, STORAGE, scram_verifier
from memsvc.store.revisions import Revisions, fingerprint, has_mark, migrate_in_process
from memsvc.store.server_secrets import get_or_create
from migrations.schema import TENANT_TABLES, metadata
from tests.servers import DatabaseUrls, TestServer, current_revision

pytestmark = pytest.mark.slow

COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull,
        l.collname,
           pg_get_expr(d.adbin, d.adrelid) AS "default"
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
        AND c.relname <> ALL ($1)
        AND NOT c.relispartition ORDER BY 1, 2
"""
INDEXES = """
    SELECT indexdef FROM pg_indexes
    WHERE schemaname = 'public' AND tablename <> ALL ($1) AND tablename NOT LIKE 'calls\\_%'
"""
WRITTEN = {
    "columns": """
        SELECT c.relname || '.' || a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
            a.attnotnull, pg_get_expr(d.adbin, d.adrelid) AS "default"
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
            AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
            AND c.relname <> ALL ($1) AND NOT c.relispartition
    """,
    "unique indexes": """
        SELECT i.indexrelid::regclass::text AS name, i.indrelid::regclass::text AS "table"
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE c.relnamespace = 'public'::regnamespace AND i.indisunique
            AND c.relname <> ALL ($1) AND NOT c.relispartition
    """,
    "functions": """
        SELECT p.oid::regprocedure::text AS name FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND NOT p.proname = ANY ($1)
    """,
}
"""What those who write rely on: columns, keys and functions by name."""
NOT_OURS = ["alembic_version", *queue.TABLES]
PART = "calls_"
"""How the parts of the call log are called."""
EVERYTHING = """
    SELECT 'relation', c.relname, c.relacl::text, c.reloptions::text, pg_get_indexdef(c.oid)
        FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL SELECT 'function', proname, proacl::text, prosrc, NULL FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT 'type', typname, typacl::text, NULL, NULL FROM pg_type
        WHERE typnamespace = 'public'::regnamespace
"""


async def _as_sqlalchemy(url: str, work: Any) -> Any:
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url), poolclass=NullPool
    )
    async with engine.begin() as connection:
        result = await connection.run_sync(work)
    await engine.dispose()
    return result


async def test_the_migrations_lead_to_the_schema(database_urls: DatabaseUrls) -> None:
    def differences(connection: Connection) -> list[Any]:
        options = {
            "compare_server_default": True,
            "include_name": lambda name, kind, _: (
                kind != "table" or not (name in NOT_OURS or name.startswith(PART))
            ),
        }
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    assert await _as_sqlalchemy(database_urls.admin, differences) == []


async def test_the_migrations_make_the_same_columns_and_indexes_as_the_schema(
    admin: asyncpg.Connection, empty_urls: DatabaseUrls
) -> None:
    await _as_sqlalchemy(empty_urls.admin, metadata.create_all)
    made = await asyncpg.connect(empty_urls.admin)
    try:
        for catalogue in (COLUMNS, INDEXES):
            assert {tuple(row) for row in await admin.fetch(catalogue, NOT_OURS)} == {
                tuple(row) for row in await made.fetch(catalogue, NOT_OURS)
            }
    finally:
        await made.close()


STOPPED = {"0025", "0026"}
"""Revisions before which every server is stopped: one of before refuses to start on them."""


async def test_what_a_version_writes_suits_the_schema_of_the_next(
    empty_urls: DatabaseUrls, server: TestServer
) -> None:
    """So that servers of both may serve one database while they are replaced: no revision takes a
    column or function away, changes its type, wants more of a row, or forbids two rows."""
    known = sorted(Revisions.read_package().previous | {Revisions.read_package().head})
    before: dict[str, dict[Any, Any]] = {}
    for revision in known:
        await migrate(empty_urls.admin, server.app, revision)
        connection = await asyncpg.connect(empty_urls.admin)
        now = {
            name: {row["name"]: row for row in await connection.fetch(query, NOT_OURS)}
            for name, query in WRITTEN.items()
        }
        await connection.close()
        if revision in STOPPED:
            before = now
            continue
        for name, existing in before.items():
            assert existing.keys() <= now[name].keys(), revision
        for column, row in now["columns"].items():
            table = column.partition(".")[0]
            if column in before.get("columns", {}):
                was = before["columns"][column]
                assert (row["type"], row["attnotnull"] and not was["attnotnull"]) == (
                    was["type"],
                    False,
                ), revision
            elif any(each.startswith(f"{table}.") for each in before.get("columns", {})):
                assert row["default"] is not None or not row["attnotnull"], (revision, column)
        older = {each.partition(".")[0] for each in before.get("columns", {})}
        for index, row in now["unique indexes"].items():
            assert row["table"] not in older or index in before["unique indexes"], revision
        before = now


async def test_up_down_and_up_again(empty_urls: DatabaseUrls, server: TestServer) -> None:
    url = empty_urls.admin
    assert await current_revision(url) is None
    applied = await migrate(url, server.app)
    assert applied[-1] == await current_revision(url) == Revisions.read_package().head
    assert await migrate(url, server.app) == ()
    assert await downgrade(url, "base") == tuple(reversed(applied))
    assert await current_revision(url) is None
    left = await asyncpg.connect(url)
    assert (
        await left.fetchval("SELECT count(*) FROM pg_class WHERE relname LIKE 'memsvc\\_queue%'")
        == 0
    )
    assert (
        await left.fetchval("SELECT count(*) FROM pg_type WHERE typname LIKE 'memsvc\\_queue%'")
        == 0
    )
    await left.close()
    assert await migrate(url, server.app) == applied
    assert await current_revision(empty_urls.app) == Revisions.read_package().head


def test_only_a_database_at_the_newest_revision_or_a_later_one_suffices() -> None:
    revisions = Revisions("0003", frozenset({"0001", "0002"}))
    judged = {
        revision: revisions.is_current(revision)
        for revision in (None, "0001", "0002", "0003", "0004")
    }
    assert judged == {None: False, "0001": False, "0002": False, "0003": True, "0004": True}


async def test_a_process_apart_migrates_as_well_and_tells_its_errors(
    empty_urls: DatabaseUrls, server: TestServer
) -> None:
    asked = {"app_password": None, "statement_timeout_ms": 30000}
    assert (await migrate_in_process(empty_urls.admin, server.app, **asked))[
        -1
    ] == Revisions.read_package().head
    assert await migrate_in_process(empty_urls.admin, server.app, **asked) == ()
    with pytest.raises(MemsvcError) as refused:
        await migrate_in_process("postgresql://nobody@127.0.0.1:1/nothing", None, **asked)
    assert refused.value.code is Code.UNAVAILABLE


async def test_a_database_says_what_migrated_it_last(
    database_urls: DatabaseUrls, server: TestServer
) -> None:
    mark = fingerprint(server.app, 30000)
    assert await has_mark(database_urls.app, mark)
    assert not await has_mark(database_urls.app, fingerprint(server.app, 1000))
    assert not await has_mark("postgresql://nobody@127.0.0.1:1/nothing", mark)
    await downgrade(database_urls.admin, "0001")
    await migrate(database_urls.admin, server.app, "0001")
    assert not await has_mark(database_urls.app, mark)


async def test_of_two_starters_one_migrates(empty_urls: DatabaseUrls, server: TestServer) -> None:
    both = await asyncio.gather(*(migrate(empty_urls.admin, server.app) for _ in range(2)))
    everything = tuple(reversed(await downgrade(empty_urls.admin, "base")))
    assert sorted(both) == [(), everything]


async def test_a_starter_does_not_wait_for_another_for_ever(
    empty_urls: DatabaseUrls, server: TestServer
) -> None:
    first = await asyncpg.connect(empty_urls.admin)
    await first.execute(f"SELECT pg_advisory_lock({LOCK_KEY})")
    with pytest.raises(MemsvcError) as refused:
        await migrate(empty_urls.admin, server.app, lock_timeout_s=0.05)
    await first.close()
    assert refused.value.code is Code.RESOURCE_BUSY


async def test_a_database_out_of_reach_is_unavailable(database_urls: DatabaseUrls) -> None:
    gone = "postgresql://nobody@127.0.0.1:1/nothing"
    with pytest.raises(MemsvcError) as refused:
        await migrate(gone, None)
    assert refused.value.code is Code.UNAVAILABLE


async def test_every_tenant_table_has_a_forced_policy_and_its_tenant_first_in_every_key(
    admin: asyncpg.Connection,
) -> None:
    walled = await admin.fetch(
        """
        SELECT c.relname FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid
        WHERE c.relrowsecurity AND c.relforcerowsecurity AND p.polpermissive AND p.polcmd = '*'
            AND p.polroles = '{0}'
          AND pg_get_expr(p.polqual, c.oid) = pg_get_expr(p.polwithcheck, c.oid)
        """
    )
    assert {row[0] for row in walled} == set(TENANT_TABLES)
    keys = await admin.fetch(
        """
        SELECT i.indexrelid::regclass::text AS index, a.attname FROM pg_index i
        JOIN pg_class c ON c.oid = i.indrelid AND c.relname = ANY ($1)
        JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum = 1
        """,
        list(TENANT_TABLES),
    )
    assert {row["attname"] for row in keys} == {"tenant"}
    assert len(keys) >= len(TENANT_TABLES)


async def test_every_table_with_a_tenant_is_a_tenant_table(admin: asyncpg.Connection) -> None:
    rows = await admin.fetch(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND"
        " column_name = 'tenant'"
    )
    assert {row[0] for row in rows if not row[0].startswith(PART)} - set(TENANT_TABLES) - {
        "embeddings"
    } == {
        "tenants",
        "api_keys",
    }


async def test_the_application_role_reads_and_writes_rows_and_can_do_nothing_else(
    admin: asyncpg.Connection, server: TestServer
) -> None:
    role = await admin.fetchrow("SELECT * FROM pg_roles WHERE rolname = $1", server.app)
    assert role is not None
    assert not any(
        role[power] for power in ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb")
    )
    for table in metadata.tables:
        for privilege, expected in {
            "SELECT": 1,
            "INSERT": 1,
            "UPDATE": 1,
            "DELETE": 1,
            "TRUNCATE": 0,
            "TRIGGER": 0,
        }.items():
            has = await admin.fetchval(
                "SELECT has_table_privilege($1, $2, $3)", server.app, table, privilege
            )
            assert has is bool(expected), (table, privilege)
    assert not await admin.fetchval(
        "SELECT has_table_privilege($1, 'alembic_version', 'UPDATE')", server.app
    )
    assert not await admin.fetchval(
        "SELECT has_schema_privilege($1, 'public', 'CREATE')", server.app
    )
    assert not await admin.fetchval(
        "SELECT pg_has_role($1, $2, 'MEMBER')", server.app, server.owner
    )


async def test_tables_are_stored_as_they_are_used(admin: asyncpg.Connection) -> None:
    stored = dict(
        await admin.fetch(
            "SELECT relname, reloptions FROM pg_class WHERE relname = ANY ($1)", list(STORAGE)
        )
    )
    assert stored == {
        table: [f"{name}={value}" for name, value in wanted.items()]
        for table, wanted in STORAGE.items()
    }
    has_lz4 = await admin.fetchval(
        "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
    )
    for table, column in LARGE_COLUMNS:
        method = await admin.fetchval(
            "SELECT attcompression::text FROM pg_attribute WHERE attrelid = $1::text::regclass"
            " AND attname = $2",
            table,
            column,
        )
        assert method == ("l" if has_lz4 else "")


@pytest.mark.one_server("the role is set up otherwise")
async def test_a_missing_application_role_is_made_with_limits_when_that_is_allowed(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, server: TestServer
) -> None:
    role = f"{server.app}_new"
    await migrate(database_urls.admin, role, app_password="pass 'word'")
    assert not await admin.fetchval("SELECT count(*) FROM pg_roles WHERE rolname = $1", role)
    try:
        await migrate(
            database_urls.superuser, role, app_password="pass 'word'", statement_timeout_ms=1234
        )
        settings = await admin.fetchval("SELECT rolconfig FROM pg_roles WHERE rolname = $1", role)
        assert settings == [
            "jit=off",
            "plan_cache_mode=force_generic_plan",
            "statement_timeout=1234ms",
            "idle_in_transaction_session_timeout=60s",
            "tcp_keepalives_idle=30",
            "tcp_keepalives_interval=10",
            "tcp_keepalives_count=3",
        ]
        assert await admin.fetchval("SELECT has_table_privilege($1, 'entries', 'INSERT')", role)
        stored = await admin.fetchval("SELECT rolpassword FROM pg_authid WHERE rolname = $1", role)
        assert stored.startswith("SCRAM-SHA-256$4096:")
    finally:
        await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_postgresql_knows_the_verifier_of_a_password(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, server: TestServer
) -> None:
    await admin.execute(f"ALTER ROLE {server.app} PASSWORD '{scram_verifier(server.password)}'")
    connection = await asyncpg.connect(database_urls.app)
    await connection.close()


async def test_a_new_migration_takes_no_lock_on_a_table_that_is_as_it_should_be(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, server: TestServer
) -> None:
    async with admin.transaction():
        await admin.execute(
            "LOCK TABLE " + ", ".join((*TENANT_TABLES, *queue.TABLES)) + " IN ROW EXCLUSIVE MODE"
        )
        assert await migrate(database_urls.admin, server.app, lock_timeout_s=1) == ()


async def test_a_policy_that_was_taken_away_comes_back(
    database_urls: DatabaseUrls,
    owner: asyncpg.Connection,
    admin: asyncpg.Connection,
    server: TestServer,
) -> None:
    await owner.execute("DROP POLICY tenant_only ON entries")
    await owner.execute("ALTER TABLE entries DISABLE ROW LEVEL SECURITY")
    await migrate(database_urls.admin, server.app)
    assert await admin.fetchval("SELECT relrowsecurity FROM pg_class WHERE relname = 'entries'")
    assert await admin.fetchval("SELECT count(*) FROM pg_policies WHERE tablename = 'entries'") == 1


async def test_a_second_migration_changes_nothing(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, server: TestServer
) -> None:
    before = sorted(await admin.fetch(EVERYTHING), key=repr)
    assert await migrate(database_urls.admin, server.app) == ()
    assert sorted(await admin.fetch(EVERYTHING), key=repr) == before


async def test_the_queue_is_there_and_the_application_role_may_do_with_it_what_it_has_to(
    admin: asyncpg.Connection, server: TestServer
) -> None:
    for table in queue.TABLES:
        assert await admin.fetchval("SELECT to_regclass($1) IS NOT NULL", table)
        granted = {
            privilege
            for privilege in (
                "SELECT",
                "INSERT",
                "UPDATE",
                "DELETE",
                "TRUNCATE",
                "TRIGGER",
                "REFERENCES",
            )
            if await admin.fetchval(
                "SELECT has_table_privilege($1, $2, $3)", server.app, table, privilege
            )
        }
        assert granted == set(filter(None, queue.TABLE_GRANTS.get(table, "").split(", ")))
    for privilege, expected in (("USAGE", True), ("UPDATE", False)):
        has = await admin.fetchval(
            "SELECT has_sequence_privilege($1, $2, $3)", server.app, queue.SEQUENCE, privilege
        )
        assert has is expected


async def test_an_older_queue_is_brought_up_to_date(
    database_urls: DatabaseUrls, owner: asyncpg.Connection, server: TestServer
) -> None:
    await owner.execute(
        "DROP INDEX memsvc_queue_ep_ea_idx, memsvc_queue_tenant; ALTER TABLE memsvc_queue DROP slot"
    )
    await migrate(database_urls.admin, server.app)
    assert await owner.fetchval("SELECT to_regclass('memsvc_queue_ep_ea_idx') IS NOT NULL")
    assert await owner.fetchval("SELECT to_regclass('memsvc_queue_tenant') IS NOT NULL")
    assert await owner.fetchval("SELECT slot IS NULL FROM memsvc_queue") is None


def test_no_variable_of_the_environment_renames_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    given = queue.names().model_dump()
    for name in (*given, "schema"):
        monkeypatch.setenv(name.upper(), "elsewhere")
        monkeypatch.setenv(f"PGQUEUER_{name.upper()}", "elsewhere")
    assert queue.names.__wrapped__().model_dump() == given


async def test_what_a_newer_memsvc_has_migrated_is_left_alone_and_not_taken_down(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    await admin.execute(
        "UPDATE alembic_version SET version_num = '9999'; COMMENT ON TABLE alembic_version IS"
        " 'newer'"
    )
    before = await admin.fetch(EVERYTHING)
    assert await migrate(database_urls.admin, "memsvc_app") == ()
    with pytest.raises(MemsvcError) as refused:
        await downgrade(database_urls.admin, "0001")
    assert refused.value.code is Code.CONFLICT
    assert await admin.fetch(EVERYTHING) == before
    assert await current_revision(database_urls.app) == "9999"
    assert Revisions.read_package().is_current("9999")
    assert (
        await admin.fetchval("SELECT obj_description('alembic_version'::regclass, 'pg_class')")
        == "newer"
    )


async def test_going_back_is_refused_where_something_would_be_lost(
    database_urls: DatabaseUrls, database: Database, admin: asyncpg.Connection
) -> None:
    secret = await get_or_create(database, "kept", datetime.now(UTC))
    before = await admin.fetch(EVERYTHING)
    with pytest.raises(MemsvcError, match="server_secrets") as refused:
        await downgrade(database_urls.admin, "0002")
    assert refused.value.code is Code.CONFLICT
    assert "postings" not in refused.value.message
    assert await admin.fetch(EVERYTHING) == before
    assert await get_or_create(database, "kept", datetime.now(UTC)) == secret
    assert "0003" in await downgrade(database_urls.admin, "0002", even_with_loss=True)
    assert await admin.fetchval("SELECT to_regclass('server_secrets')") is None
