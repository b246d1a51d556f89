"""What the database itself keeps apart, by its policies and by what its roles may do, whatever it
is asked."""

from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.gateway.rest import isolation_check, run_check
from memsvc.store.database import Database, DatabaseOptions, Tx
from memsvc.store.migrate import migrate
from memsvc.store.revisions import fingerprint, has_mark
from memsvc.store.tables import OPEN_TABLES, TABLES
from migrations.schema import TENANT_TABLES
from tests.contract.catalogue import EXAMPLES, MARK, TOOLS, as_sent
from tests.contract.test_isolation import answer, fill, rows, without_the_tenant
from tests.door import Door
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls, TestServer

pytestmark = pytest.mark.anyio
READING = [name for name, tool in TOOLS.items() if tool.read_only and not tool.is_admin]
KEEPS_NOTHING = {"find_tool", "elfmem_guide", "memories_get_prompt"}
"""Tools whose examples find nothing that a tenant stored, or stores no more."""

INJECTED = "\\x0101'; SET memsvc.tenant = 'zzinjectedzz'; --"


@pytest.fixture
async def both(call: Door, other_call: Door) -> tuple[Door, Door]:
    """Two tenants, of whom the first has something of everything."""
    await fill(call)
    return call, other_call


def another_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every statement be given somebody else's tenant as $1, whatever the transaction may
    see."""
    begun = Tx.__init__

    def begin(
        tx: Tx, connection: Any, scope: Scope, meter: Any, *, whole_tenant: bool = False
    ) -> None:
        begun(tx, connection, scope, meter, whole_tenant=whole_tenant)
        tx._bound = (b"\x09" * 32, *tx._bound[1:])

    monkeypatch.setattr(Tx, "__init__", begin)


@pytest.mark.one_server("a statement goes to the node of the tenant that it asks for")
async def test_a_build_without_the_tenant_in_its_queries_asks_for_nobodys_rows(
    both: tuple[Door, Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `test_isolation` proves of the policies it proves of them alone: the tenant that a
    statement is given has no say any more."""
    call, _ = both
    shown = {tool: await answer(call, tool) for tool in READING}
    another_tenant(monkeypatch)
    assert MARK not in await answer(call, "file_read")
    without_the_tenant(monkeypatch)
    for tool in READING:
        assert await answer(call, tool) == shown[tool], tool


@pytest.mark.one_server("a statement without a tenant goes to every node")
async def test_without_either_wall_every_tool_that_reads_would_show_what_is_not_its_callers(
    both: tuple[Door, Door], admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tests that find no leak would find one, tool by tool."""
    _, other_call = both
    alone = {tool: await answer(other_call, tool) for tool in READING}
    without_the_tenant(monkeypatch)
    assert {tool: await answer(other_call, tool) for tool in READING} == alone
    for table in TENANT_TABLES:
        await admin.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    leaking = {tool for tool in READING if await answer(other_call, tool) != alone[tool]}
    assert leaking >= set(READING) - KEEPS_NOTHING


@pytest.mark.parametrize("setting", [None, "", "garbage", "\\x01", "\\x", "\\x" + "00" * 32])
async def test_without_a_tenant_no_table_shows_or_loses_a_row(
    both: tuple[Door, Door],
    database_urls: DatabaseUrls,
    admin: asyncpg.Connection,
    setting: str | None,
) -> None:
    call, _ = both
    before = await rows(admin, call.caller.tenant, "default")
    for url in (database_urls.app, database_urls.admin):
        connection = await asyncpg.connect(url)
        try:
            if setting is not None:
                await connection.execute("SELECT set_config('memsvc.tenant', $1, false)", setting)
            for table in (*TENANT_TABLES, "embeddings"):
                if await admin.fetchval("SELECT to_regclass($1) IS NULL", table):
                    continue
                assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0, table
                for change in (f"UPDATE {table} SET tenant = tenant", f"DELETE FROM {table}"):
                    assert (await connection.execute(change)).endswith(" 0"), table
        finally:
            await connection.close()
    assert await rows(admin, call.caller.tenant, "default") == before


OPENED = {
    "off": "ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
    "not for the owner": "ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
    "a second policy": "CREATE POLICY oops ON {table} USING (true)",
    "none": "DROP POLICY tenant_only ON {table}",
    "another condition": "ALTER POLICY tenant_only ON {table} USING (tenant IS NOT NULL)",
    "another check": "ALTER POLICY tenant_only ON {table} WITH CHECK (true)",
    "for some": "ALTER POLICY tenant_only ON {table} TO {app}",
}
"""Ways to let rows of a table change hands, or be seen by others."""


async def test_no_row_changes_hands(admin: asyncpg.Connection) -> None:
    """A row of one tenant can neither be given to another nor be written in its name."""
    assert {*TABLES} == {*TENANT_TABLES, "embeddings"}
    assert await admin.fetch(OPEN_TABLES) == []


@pytest.mark.parametrize("table", ["facts", "calls"])
@pytest.mark.parametrize("opened", OPENED)
async def test_a_table_that_was_opened_is_named_until_migration_closes_it(
    database: Database,
    database_urls: DatabaseUrls,
    server: TestServer,
    admin: asyncpg.Connection,
    meter: RecordingMeter,
    table: str,
    opened: str,
) -> None:
    mark, ready = fingerprint(server.app, 30000), isolation_check(database, interval_s=0)
    assert await ready()
    assert await has_mark(database_urls.app, mark)
    await admin.execute(OPENED[opened].format(table=table, app=server.app))
    with pytest.raises(MemsvcError, match=f"on {table}$") as refused:
        await Database.open(database_urls.app, DatabaseOptions(), meter)
    assert refused.value.code is Code.PERMISSION_DENIED
    assert not await run_check(ready)
    assert not await has_mark(database_urls.app, mark)
    await migrate(database_urls.admin, server.app)
    assert await admin.fetch(OPEN_TABLES) == []
    assert await run_check(ready)
    assert await has_mark(database_urls.app, mark)


async def test_tables_in_a_schema_of_their_own_are_looked_at_there(
    database_urls: DatabaseUrls,
    server: TestServer,
    admin: asyncpg.Connection,
    meter: RecordingMeter,
) -> None:
    for change in (
        "CREATE SCHEMA apart",
        f"GRANT USAGE ON SCHEMA apart TO {server.app}",
        "ALTER TABLE facts SET SCHEMA apart",
        "ALTER TABLE apart.facts DISABLE ROW LEVEL SECURITY",
    ):
        await admin.execute(change)
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(
        f"ALTER ROLE {server.app} IN DATABASE {name} SET search_path = apart, public"
    )
    with pytest.raises(MemsvcError, match=r"on facts$"):
        await Database.open(database_urls.app, DatabaseOptions(), meter)


def in_every_text(value: Any, text: str) -> Iterator[Any]:
    """The value with the text in place of, and behind, one of its strings at a time."""
    match value:
        case str():
            yield from (text, value + text)
        case list():
            for at, inner in enumerate(value):
                yield from (
                    [*value[:at], changed, *value[at + 1 :]]
                    for changed in in_every_text(inner, text)
                )
        case dict():
            for name, inner in value.items():
                yield from (value | {name: changed} for changed in in_every_text(inner, text))


async def test_no_argument_becomes_part_of_a_statement_or_chooses_the_tenant(
    both: tuple[Door, Door], admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, other_call = both
    said: list[str] = []
    for name in ("execute", "fetch", "fetchrow", "fetchval"):
        run = getattr(asyncpg.Connection, name)

        async def recorded(self: Any, sql: str, *given: Any, run: Any = run, **options: Any) -> Any:
            said.append(sql)
            return await run(self, sql, *given, **options)

        monkeypatch.setattr(asyncpg.Connection, name, recorded)
    before = await rows(admin, call.caller.tenant, "default")
    said.clear()
    tried = 0
    for tool in EXAMPLES:
        for arguments in in_every_text(await as_sent(other_call, tool), INJECTED):
            await answer(other_call, tool, **arguments)
            tried += 1
    assert tried > 200
    own = f"'\\x{other_call.caller.tenant.hex()}'"
    settings = [sql for sql in said if "set_tenant" in sql]
    assert len(settings) > 300
    assert all(own in sql for sql in settings)
    assert not [sql for sql in said if "zzinjectedzz" in sql]
    assert await rows(admin, call.caller.tenant, "default") == before


async def test_what_sets_the_tenant_of_a_transaction_takes_any_bytes_for_a_tenant_and_may_no_more_than_its_caller(
    both: tuple[Door, Door], database_urls: DatabaseUrls, server: TestServer
) -> None:
    connection = await asyncpg.connect(database_urls.app)
    told = "SELECT current_setting('memsvc.tenant'), current_user, current_setting('lock_timeout')"
    try:
        for tenant in (b"", b"'; SET ROLE postgres; --", b"\\x", both[0].caller.tenant):
            async with connection.transaction():
                await connection.execute("SELECT set_tenant($1, 7, 0)", tenant)
                assert tuple(await connection.fetchrow(told)) == (
                    "\\x" + tenant.hex(),
                    server.app,
                    "7ms",
                )
                assert bool(await connection.fetchval("SELECT count(*) FROM files")) is (
                    len(tenant) == 32
                )
            assert await connection.fetchval("SELECT count(*) FROM files") == 0
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("SELECT set_tenant(NULL, 7, 0)")
    finally:
        await connection.close()


FORBIDDEN = [
    "SET ROLE {owner}",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION {owner}",
    "ALTER ROLE {app} SUPERUSER",
    "ALTER ROLE {app} BYPASSRLS",
    "CREATE ROLE mallory",
    "ALTER TABLE files DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE files NO FORCE ROW LEVEL SECURITY",
    "DROP POLICY tenant_only ON files",
    "CREATE POLICY all_of_it ON files USING (true)",
    "TRUNCATE files",
    "DROP TABLE files",
    "CREATE TABLE public.mine (x int)",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    (
        "CREATE TRIGGER t BEFORE INSERT ON files FOR EACH ROW EXECUTE FUNCTION"
        " suppress_redundant_updates_trigger()"
    ),
    "COPY files TO '/out'",
    "COPY files TO PROGRAM 'cat'",
    "COPY files FROM PROGRAM 'true'",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT pg_ls_dir('.')",
    "SELECT pg_stat_file('PG_VERSION')",
    "SELECT lo_import('/etc/hostname')",
    "SELECT lo_export(1, '/out')",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_hba_file_rules",
    "SELECT pg_reload_conf()",
    "ALTER SYSTEM SET fsync = off",
    "SET row_security = off; SELECT * FROM files",
    "SET session_replication_role = replica",
    "SELECT pg_terminate_backend({other})",
    "SELECT pg_cancel_backend({other})",
    "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
    "INSERT INTO alembic_version VALUES ('x')",
    "DELETE FROM alembic_version",
]


async def test_the_application_role_may_not_do_more_than_read_and_write_rows(
    database_urls: DatabaseUrls, server: TestServer, admin: asyncpg.Connection
) -> None:
    other = await admin.fetchval("SELECT pg_backend_pid()")
    connection = await asyncpg.connect(database_urls.app)
    done = []
    try:
        for statement in FORBIDDEN:
            sql = statement.format(owner=server.owner, app=server.app, other=other)
            try:
                await connection.execute(sql)
                done.append(sql)
            except (
                asyncpg.InsufficientPrivilegeError,
                asyncpg.InvalidParameterValueError,
                asyncpg.RaiseError,
            ):
                pass
            await connection.execute("RESET ALL")
    finally:
        await connection.close()
    assert done == []


@pytest.mark.one_server("statistics are on the nodes")
async def test_the_application_role_learns_nothing_of_others_from_the_catalogue(
    both: tuple[Door, Door], database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    del both
    await admin.execute("ANALYZE")
    assert await admin.fetchval("SELECT count(*) FROM pg_stats WHERE tablename = 'files'") > 0
    await admin.fetch("SELECT 'what an operator asks', pg_sleep(0)")
    connection = await asyncpg.connect(database_urls.app)
    try:
        known = await connection.fetch(
            "SELECT DISTINCT tablename FROM pg_stats WHERE schemaname = 'public'"
        )
        assert {row["tablename"] for row in known} & {*TENANT_TABLES, "embeddings"} == set()
        seen = await connection.fetch(
            "SELECT query FROM pg_stat_activity WHERE usename <> current_user"
        )
        assert {row["query"] for row in seen} <= {"<insufficient privilege>"}
        schemas = await connection.fetch(
            """SELECT nspname FROM pg_namespace WHERE has_schema_privilege(oid, 'USAGE')
            AND nspname NOT IN ('pg_catalog', 'information_schema', 'public')"""
        )
        assert schemas == []
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "privilege",
    [
        "SUPERUSER",
        "BYPASSRLS",
        "CREATEROLE",
        "IN ROLE pg_read_server_files",
        "IN ROLE pg_write_server_files",
    ],
)
async def test_a_role_that_may_become_a_privileged_one_is_refused(
    database_urls: DatabaseUrls,
    server: TestServer,
    admin: asyncpg.Connection,
    meter: RecordingMeter,
    privilege: str,
) -> None:
    above = f"{server.app}_above"
    await admin.execute(f"CREATE ROLE {above} {privilege}; GRANT {above} TO {server.app}")
    try:
        with pytest.raises(MemsvcError) as refused:
            await Database.open(database_urls.app, DatabaseOptions(), meter)
        assert refused.value.code is Code.PERMISSION_DENIED
    finally:
        await admin.execute(f"DROP ROLE {above}")
