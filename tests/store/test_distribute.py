"""Distributing the schema, on a database that only looks as if it had Citus: functions of its names
take notes, and refuse what Citus is known to refuse."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from anyio import to_thread
from typer.testing import CliRunner

from memsvc.cli.main import commands
from memsvc.core.errors import Code, MemsvcError
from memsvc.store.database import Database, DatabaseOptions
from memsvc.store.migrate import migrate
from memsvc.store.node_plans import CREATE_FUNCTION, FUNCTION_BODY
from memsvc.store.policies import LOCAL, ROLE_SETTINGS, SHARD_TABLES
from memsvc.store.shard_setup import ShardStep, shard_all_tables
from migrations.schema import TENANT_TABLES
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls, TestServer

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("Citus is played here")]

# `said` is what was asked of Citus, `refused` the tables that it is to fail at.
LOOKS_LIKE_CITUS = """
    INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
    VALUES (4000000000, 'citus', 10, 'pg_catalog'::regnamespace, false, '12.1-1');
    CREATE TABLE pg_dist_partition (
        logicalrelid regclass PRIMARY KEY, partmethod "char", partkey text, colocationid int
    );
    CREATE TABLE said (number serial, statement text);
    CREATE TABLE refused (name text);
    CREATE FUNCTION citus_is_coordinator() RETURNS boolean LANGUAGE sql AS 'SELECT true';
    CREATE FUNCTION column_to_column_name(regclass, text) RETURNS text LANGUAGE sql AS 'SELECT $2';
    CREATE FUNCTION create_distributed_table(
        cut regclass, by text, colocate_with text DEFAULT 'default', shard_count int DEFAULT NULL
    ) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        beside int;
    BEGIN
        IF (SELECT relforcerowsecurity FROM pg_class WHERE oid = cut) THEN
            RAISE EXCEPTION 'COPY FROM not supported with row-level security';
        ELSIF EXISTS (SELECT FROM refused WHERE name = cut::text) THEN
            RAISE EXCEPTION 'could not connect to a node';
        END IF;
        SELECT colocationid INTO beside FROM pg_dist_partition
            WHERE logicalrelid = to_regclass(colocate_with);
        IF beside IS NULL AND colocate_with <> 'none' THEN
            RAISE EXCEPTION 'relation % is not distributed', colocate_with;
        END IF;
        INSERT INTO pg_dist_partition VALUES (cut, 'h', by, coalesce(beside, 7));
        INSERT INTO said (statement) VALUES (format('%s by %s beside %s in %s', cut, by,
            colocate_with, shard_count));
    END $$;
    CREATE FUNCTION create_distributed_function(
        run regprocedure, by text, colocate_with text, force_delegation boolean
    ) RETURNS void LANGUAGE sql AS $$
        INSERT INTO said (statement) VALUES (format('%s by %s beside %s', run, by, colocate_with))
    $$;
    CREATE FUNCTION truncate_local_data_after_distributing_table(emptied regclass) RETURNS void
        LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = emptied) THEN
            RAISE EXCEPTION 'supplied parameter is not a distributed relation';
        END IF;
        EXECUTE format('TRUNCATE %s', emptied);
        INSERT INTO said (statement) VALUES (format('%s emptied', emptied));
    END $$;
"""


@pytest.fixture
async def role(server: TestServer, admin: asyncpg.Connection) -> AsyncIterator[str]:
    """An application role that no other test sets up."""
    name = f"{server.app}_on_citus"
    await admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{server.password}'")
    yield name
    await admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.fixture
async def citus(admin: asyncpg.Connection) -> asyncpg.Connection:
    await admin.execute(LOOKS_LIKE_CITUS)
    return admin


async def said(citus: asyncpg.Connection) -> list[str]:
    return [row["statement"] for row in await citus.fetch("DELETE FROM said RETURNING statement")]


async def distributed(urls: DatabaseUrls, role: str, **options: bool) -> list[ShardStep]:
    """The steps that were taken."""
    taken: list[ShardStep] = []
    await shard_all_tables(urls.superuser, role, shards=48, report=taken.append, **options)
    return taken


async def settings_of(admin: asyncpg.Connection, role: str) -> set[str]:
    return set(
        await admin.fetchval("SELECT rolconfig FROM pg_roles WHERE rolname = $1", role) or ()
    )


async def test_a_database_without_citus_is_refused_in_plain_words(
    tmp_path: Path, database_urls: DatabaseUrls
) -> None:
    config = tmp_path / "memsvc.yaml"
    config.write_text(
        f"database:\n  url: {database_urls.app}\n  admin_url: {database_urls.admin}\n", "utf-8"
    )
    typed = ["db", "distribute", "--dry-run", "--config", str(config)]
    told = await to_thread.run_sync(CliRunner().invoke, commands, typed)
    assert isinstance(told.exception, MemsvcError)
    assert told.exception.code is Code.UNAVAILABLE
    assert told.exception.message == "the Citus extension is not installed in this database"
    assert "CREATE EXTENSION citus" in str(told.exception.recovery)


async def test_every_table_is_distributed_or_said_to_stay(admin: asyncpg.Connection) -> None:
    """A new table of a tenant is distributed by being one; any other has to be named."""
    rows = await admin.fetch(
        """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
            AND relkind IN ('r', 'p')
        AND NOT relispartition"""
    )
    assert {row["relname"] for row in rows} == {*SHARD_TABLES, *LOCAL}
    assert {*TENANT_TABLES} - {*LOCAL} <= {*SHARD_TABLES}
    assert {*TENANT_TABLES} & {*LOCAL} == {"job_refs"}


async def test_a_dry_run_names_every_table_and_changes_nothing(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    steps = await distributed(database_urls, role, dry_run=True)
    statements = [statement for step in steps for statement in step.statements]
    for table in SHARD_TABLES:
        assert (
            sum(f"create_distributed_table('{table}', 'tenant'" in one for one in statements) == 1
        )
    for table, why in LOCAL.items():
        assert f"{table} stays on the coordinator: it {why}" in [step.description for step in steps]
    assert await said(citus) == []
    assert await citus.fetchval("SELECT count(*) FROM pg_dist_partition") == 0
    assert await settings_of(citus, role) == set()


async def test_all_tables_are_cut_by_tenant_beside_each_other_and_a_second_run_finds_nothing_to_do(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    await citus.execute(
        "INSERT INTO usage VALUES ('\\x01', 1); INSERT INTO calls (tenant, called_at, call,"
        " project, surface, tool, key_label, status, duration_ms, arguments, request_id) SELECT"
        " '\\x01', now(), gen_random_uuid(), 'p', 's', 't', 'k', 'success', 1, '{}', 'r'"
    )
    await distributed(database_urls, role)
    first, *others = await said(citus)
    assert first == "files by tenant beside none in 48"
    assert set(others) == {f"{table} by tenant beside files in " for table in SHARD_TABLES[1:]} | {
        "run_on_node(bytea,text,text) by tenant beside files",
        "usage emptied",
        "calls emptied",
    }
    assert {*others[-2:]} == {"usage emptied", "calls emptied"}
    walled = (
        "SELECT count(*) FROM pg_class WHERE relname = ANY ($1) AND relrowsecurity AND"
        " relforcerowsecurity"
    )
    assert await citus.fetchval(walled, SHARD_TABLES) == len(SHARD_TABLES)
    assert await settings_of(citus, role) == {f"{name}={value}" for name, value in ROLE_SETTINGS}

    again = await distributed(database_urls, role)
    assert [step for step in again if step.statements] == []
    assert await said(citus) == []


async def test_a_run_that_broke_off_goes_on_where_it_stood(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    await citus.execute("INSERT INTO refused VALUES ('facts')")
    with pytest.raises(MemsvcError) as broken:
        await distributed(database_urls, role)
    assert broken.value.code is Code.CONFLICT
    assert "create_distributed_table('facts'" in broken.value.message
    assert "could not connect to a node" in broken.value.message
    done = {told.split(" ")[0] for told in await said(citus)}
    assert {"files"} <= done < {*SHARD_TABLES}
    assert await citus.fetchval("SELECT relforcerowsecurity FROM pg_class WHERE relname = 'facts'")
    await citus.execute("DELETE FROM refused")
    await distributed(database_urls, role)
    left = {*SHARD_TABLES, "run_on_node(bytea,text,text)"} - done
    assert {told.split(" ")[0] for told in await said(citus)} == left


async def test_a_function_of_an_earlier_version_is_replaced(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    await distributed(database_urls, role)
    await citus.execute(CREATE_FUNCTION.replace("syntax_error", "division_by_zero"))
    await said(citus)
    await distributed(database_urls, role)
    assert await said(citus) == ["run_on_node(bytea,text,text) by tenant beside files"]
    body = await citus.fetchval("SELECT prosrc FROM pg_proc WHERE proname = 'run_on_node'")
    assert body == FUNCTION_BODY


async def test_the_application_alone_may_let_nodes_run_statements(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    await distributed(database_urls, role)
    await citus.execute("GRANT EXECUTE ON FUNCTION run_on_node TO PUBLIC")
    await said(citus)
    await distributed(database_urls, role)
    assert await said(citus) == ["run_on_node(bytea,text,text) by tenant beside files"]
    may_run = "SELECT has_function_privilege($1, 'run_on_node(bytea,text,text)', 'EXECUTE')"
    assert [await citus.fetchval(may_run, name) for name in ("public", role)] == [False, True]


async def test_what_cannot_be_distributed_is_told_before_anything_is_changed(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    await citus.execute(
        """
        ALTER TABLE facts ADD CONSTRAINT once UNIQUE (fact_id);
        CREATE TABLE aside (name text UNIQUE);
        ALTER TABLE sessions ADD CONSTRAINT known FOREIGN KEY (session) REFERENCES aside (name);
        ALTER TABLE notions ADD COLUMN number serial;
        CREATE TRIGGER watch BEFORE INSERT ON books FOR EACH ROW EXECUTE FUNCTION
            suppress_redundant_updates_trigger();
        ALTER TABLE rates DROP CONSTRAINT rates_pkey;
        ALTER TABLE rates ALTER tenant DROP NOT NULL;
        CREATE TABLE strange (tenant bytea NOT NULL);
        ALTER TABLE strange FORCE ROW LEVEL SECURITY;
        INSERT INTO pg_dist_partition VALUES ('job_refs', 'h', 'tenant', 1),
            ('files', 'h', 'project', 1);
        """
    )
    with pytest.raises(MemsvcError) as refused:
        await distributed(database_urls, role, dry_run=True)
    assert refused.value.code is Code.CONFLICT
    for fault in (
        "facts has the unique key once without the tenant",
        "sessions has the foreign key known, which crosses tenants",
        "notions counts its column number by a sequence",
        "books has the trigger watch",
        "rates has no column tenant that is never empty",
        "job_refs is distributed, but must stay on the coordinator",
        "files is distributed by a column other than its tenant",
        "strange is unknown to this version of memsvc",
    ):
        assert fault in refused.value.message
    assert await said(citus) == []


async def test_a_foreign_key_within_a_tenant_is_none_of_citus_business(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    await citus.execute(
        "ALTER TABLE streams ADD FOREIGN KEY (tenant, project, incarnation)"
        " REFERENCES files (tenant, project, incarnation)"
    )
    assert await distributed(database_urls, role, dry_run=True)


async def test_an_application_at_work_and_an_unmigrated_database_keep_it_from_being_distributed(
    server: TestServer, database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    at_work = await asyncpg.connect(database_urls.app.replace(f"{server.app}:", f"{role}:"))
    with pytest.raises(MemsvcError, match=f"the role {role} has 1 open connections"):
        await distributed(database_urls, role)
    await at_work.close()
    await citus.execute("UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(MemsvcError, match="not up to date"):
        await distributed(database_urls, role)
    await citus.execute("UPDATE pg_extension SET extversion = '11.1-1' WHERE extname = 'citus'")
    with pytest.raises(MemsvcError, match=r"Citus must be version 11\.2 or newer"):
        await distributed(database_urls, role)
    assert await said(citus) == []


async def test_an_owner_who_may_not_set_up_the_role_is_told_the_statement(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, server: TestServer, role: str
) -> None:
    await citus.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {server.owner}")
    with pytest.raises(MemsvcError) as refused:
        await shard_all_tables(database_urls.admin, role, report=lambda _: None)
    assert refused.value.code is Code.PERMISSION_DENIED
    assert f"ALTER ROLE {role} SET citus.propagate_set_commands = 'local'" in refused.value.message
    assert await said(citus) == []


async def test_a_role_that_is_not_set_up_for_citus_is_not_served(
    database_urls: DatabaseUrls,
    citus: asyncpg.Connection,
    server: TestServer,
    role: str,
    meter: RecordingMeter,
) -> None:
    """Its nodes would show it no row of anybody, and nothing would say so."""
    app = database_urls.app.replace(f"{server.app}:", f"{role}:")
    with pytest.raises(
        MemsvcError, match="the application role is not set up for Citus"
    ) as refused:
        await Database.open(app, DatabaseOptions(pool_min=1), meter)
    assert refused.value.recovery is not None
    assert "memsvc db distribute" in refused.value.recovery
    await distributed(database_urls, role)
    await (await Database.open(app, DatabaseOptions(pool_min=1), meter)).close()


async def test_a_later_migration_leaves_the_role_as_citus_needs_it(
    database_urls: DatabaseUrls, citus: asyncpg.Connection, role: str
) -> None:
    await migrate(database_urls.superuser, role)
    assert "plan_cache_mode=force_generic_plan" in await settings_of(citus, role)
    await distributed(database_urls, role)
    await migrate(database_urls.superuser, role)
    assert await settings_of(citus, role) >= {
        "plan_cache_mode=auto",
        "citus.propagate_set_commands=local",
    }
