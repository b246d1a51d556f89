"""A transaction sees its own tenant whatever the query forgets, and the database's faults get their
names."""

import asyncio
from unittest.mock import AsyncMock
from uuid import uuid4

import asyncpg
import pytest
from pglast import parse_sql

from memsvc.core.errors import Code, ExclusiveLockError, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store.connections import NODE_LOST
from memsvc.store.database import (
    TRANSACTION_TIMEOUT_SINCE,
    Database,
    DatabaseOptions,
    begin_statement,
)
from memsvc.store.locks import TREE_LOCK, session_lock
from tests.fakes import FakeClock, RecordingMeter
from tests.servers import DatabaseUrls, Relay

ADD_PROJECT = (
    "INSERT INTO projects (tenant, project, size_bytes, created_at) VALUES ($1, $2, 0, $3)"
)
EVERY_PROJECT = "SELECT tenant FROM projects WHERE $1::bytea IS NOT NULL AND $2::text IS NOT NULL"
WAIT = "SELECT pg_sleep(60), $1::bytea, $2::text"
SESSIONS = (
    "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND"
    " backend_type = 'client backend'"
)


@pytest.fixture
async def two_tenants(
    database: Database, scope: Scope, other_scope: Scope, clock: FakeClock
) -> None:
    for each in (scope, other_scope):
        async with database.begin(each) as tx:
            await tx.execute(ADD_PROJECT, clock.now())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT $1::bytea",
        "SELECT $2::text",
        "SELECT $10::bytea, $2::text",
        "SELECT $1::bytea, $20::text",
    ],
)
async def test_a_statement_that_does_not_name_tenant_and_project_is_refused(
    database: Database, scope: Scope, sql: str
) -> None:
    async with database.begin(scope) as tx:
        for run in (tx.fetch, tx.fetchrow, tx.fetchval, tx.execute):
            with pytest.raises(ValueError, match=r"\$1"):
                await run(sql)
        assert tx.query_count == 0


@pytest.mark.usefixtures("two_tenants")
async def test_a_query_that_forgets_the_tenant_still_sees_its_own_rows_alone(
    database: Database, scope: Scope, other_scope: Scope, admin: asyncpg.Connection
) -> None:
    assert await admin.fetchval("SELECT count(*) FROM projects") == 2
    for each in (scope, other_scope):
        async with database.begin(each) as tx:
            assert [row["tenant"] for row in await tx.fetch(EVERY_PROJECT)] == [each.tenant]


@pytest.mark.usefixtures("two_tenants")
async def test_a_write_that_forgets_the_tenant_touches_its_own_rows_alone(
    database: Database,
    scope: Scope,
    other_scope: Scope,
    admin: asyncpg.Connection,
    clock: FakeClock,
) -> None:
    async with database.begin(scope) as tx:
        changed = (
            "UPDATE projects SET size_bytes = 9 WHERE $1::bytea IS NOT NULL AND $2::text IS"
            " NOT NULL"
        )
        assert await tx.execute(changed) == 1
        assert await tx.execute(EVERY_PROJECT.replace("SELECT tenant", "DELETE")) == 1
    assert [row[0] for row in await admin.fetch("SELECT tenant FROM projects")] == [
        other_scope.tenant
    ]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):  # noqa: PT012
        async with database.begin(scope) as tx:
            forged = ADD_PROJECT.replace("($1, $2, 0, $3)", "($4, $2 || encode($1, 'hex'), 0, $3)")
            await tx.execute(forged, clock.now(), other_scope.tenant)


@pytest.mark.usefixtures("two_tenants")
@pytest.mark.parametrize("setting", [None, "", "garbage", "\\x01"])
async def test_a_session_without_a_whole_tenant_sees_and_writes_nothing(
    database_urls: DatabaseUrls, setting: str | None, clock: FakeClock
) -> None:
    for url in (database_urls.app, database_urls.admin):
        connection = await asyncpg.connect(url)
        try:
            if setting is not None:
                await connection.execute("SELECT set_config('memsvc.tenant', $1, false)", setting)
            assert await connection.fetch("SELECT * FROM projects") == []
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(ADD_PROJECT, b"", "default", clock.now())
        finally:
            await connection.close()


@pytest.mark.usefixtures("two_tenants")
async def test_the_tenant_is_gone_when_the_transaction_is(
    database_urls: DatabaseUrls, scope: Scope
) -> None:
    connection = await asyncpg.connect(database_urls.app)
    try:
        await connection.execute(f"BEGIN; SET LOCAL memsvc.tenant = '\\x{scope.tenant.hex()}'")
        assert len(await connection.fetch("SELECT * FROM projects")) == 1
        await connection.execute("COMMIT")
        assert await connection.fetch("SELECT * FROM projects") == []
    finally:
        await connection.close()


@pytest.mark.parametrize("purging", [False, True])
def test_a_transaction_begins_without_a_set_of_its_own(scope: Scope, purging: bool) -> None:
    """Citus repeats on the nodes the whole message that one stands in."""
    for read_only in (True, False):
        head = begin_statement(
            scope,
            locks=[TREE_LOCK],
            lock_timeout_ms=1000,
            read_only=read_only,
            purging=purging,
            exclusive=purging,
            has_timeout=True,
        )
        assert {type(raw.stmt).__name__ for raw in parse_sql(head)} == {
            "TransactionStmt",
            "SelectStmt",
        }


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        (
            (
                "SELECT hits FROM posting_lists WHERE tenant = $1 AND project = $2 AND book = 1 AND term ="
                " 'tea'"
            ),
            "term = 'tea'",
        ),
        (
            (
                "SELECT path FROM files WHERE tenant = $1 AND project = $2 AND path = '/a' AND"
                " deleted_at IS NULL"
            ),
            "path =",
        ),
    ],
)
async def test_policies_keep_the_indexes_usable(
    database: Database, scope: Scope, query: str, condition: str
) -> None:
    async with database.begin(scope) as tx:
        await tx.fetch("SELECT set_config('enable_seqscan', 'off', true), $1::bytea, $2::text")
        plan = "\n".join(row[0] for row in await tx.fetch(f"EXPLAIN {query}"))
    assert "Index" in plan
    assert condition in next(line for line in plan.splitlines() if "Index Cond" in line)


async def test_a_block_that_fails_leaves_nothing_behind(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    with pytest.raises(LookupError):  # noqa: PT012
        async with database.begin(scope) as tx:
            await tx.execute(ADD_PROJECT, clock.now())
            raise LookupError
    assert await admin.fetchval("SELECT count(*) FROM projects") == 0


async def test_a_lock_that_is_held_is_busy_until_it_is_free(
    database: Database, scope: Scope, other_scope: Scope
) -> None:
    lock = session_lock("s1")
    async with database.begin(scope, locks=[lock]):
        with pytest.raises(MemsvcError) as refused:
            async with database.begin(scope, locks=[lock], lock_timeout_ms=20):
                pytest.fail("two hold the same lock")
        for free in ((scope, session_lock("s10")), (scope, TREE_LOCK), (other_scope, lock)):
            async with database.begin(free[0], locks=[free[1]], lock_timeout_ms=20):
                pass
    assert refused.value.code is Code.RESOURCE_BUSY
    assert refused.value.retryable
    async with database.begin(scope, locks=[lock], lock_timeout_ms=20):
        pass


async def test_those_who_wait_for_a_lock_hold_it_one_at_a_time(
    database: Database, scope: Scope, meter: RecordingMeter
) -> None:
    inside, together = 0, asyncio.Barrier(5)

    async def hold() -> None:
        nonlocal inside
        await together.wait()
        async with database.begin(scope, locks=[session_lock("s1")]) as tx:
            inside += 1
            await tx.fetch("SELECT $1::bytea, $2::text")
            assert inside == 1
            inside -= 1

    await asyncio.gather(*(hold() for _ in range(5)))
    assert len(meter.amounts["memsvc_lock_wait_ms"]) == 5


async def test_a_writer_that_vanished_in_the_midst_of_a_statement_lets_its_locks_go(
    database: Database, database_urls: DatabaseUrls, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.store.database.WRITES_S_MAX", 1)
    lock = session_lock("s")
    vanished = await asyncpg.connect(database_urls.app)
    try:
        if vanished.get_server_version().major < TRANSACTION_TIMEOUT_SINCE:
            pytest.skip("this PostgreSQL cannot end a transaction as a whole")
        await vanished.execute(
            begin_statement(scope, locks=[lock], lock_timeout_ms=1000, has_timeout=True)
        )
        await vanished.prepare("SELECT $1::int")  # parsed and described; no more is ever sent
        async with database.begin(scope, locks=[lock], lock_timeout_ms=20_000, long_running=True):
            pass
    finally:
        vanished.terminate()


async def test_a_transaction_that_writes_for_too_long_is_ended_unless_it_lasts(
    database: Database, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsvc.store.database.WRITES_S_MAX", 1)
    asked = "SELECT current_setting('transaction_timeout', true), $1::bytea, $2::text"
    async with database.begin(scope) as tx:
        set_to = await tx.fetchval(asked)
    if set_to is None:
        pytest.skip("this PostgreSQL cannot end a transaction as a whole")
    assert set_to == "1s"
    for long in ({"long_running": True}, {"purging": True}, {"read_only": True}):
        async with database.begin(scope, **long) as tx:
            assert await tx.fetchval(asked) == "0"
    with pytest.raises(MemsvcError) as ended:
        async with database.begin(scope) as tx:
            await tx.fetch(WAIT)
    assert ended.value.code is Code.UNAVAILABLE


async def test_a_statement_that_takes_too_long_is_called_that_and_leaves_nothing_behind(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    with pytest.raises(MemsvcError, match="took too long") as ended:  # noqa: PT012
        async with database.begin(scope) as tx:
            await tx.execute(ADD_PROJECT, clock.now())
            await tx.fetch(
                "SELECT set_config('statement_timeout', '20', true), $1::bytea, $2::text"
            )
            await tx.fetch(WAIT)
    assert ended.value.code is Code.RESOURCE_BUSY
    assert ended.value.retryable
    assert not isinstance(ended.value, ExclusiveLockError)
    assert await admin.fetchval("SELECT count(*) FROM projects") == 0


async def test_a_row_that_somebody_else_is_changing_is_busy(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    change = "UPDATE projects SET size_bytes = 1 WHERE tenant = $1 AND project = $2"
    async with database.begin(scope) as tx:
        await tx.execute(ADD_PROJECT, clock.now())
    async with database.begin(scope) as tx:
        await tx.execute(change)
        with pytest.raises(MemsvcError) as refused:
            async with database.begin(scope, lock_timeout_ms=20) as second:
                await second.execute(change)
    assert refused.value.code is Code.RESOURCE_BUSY
    assert isinstance(refused.value, ExclusiveLockError)


async def test_a_call_that_is_cancelled_as_it_begins_is_no_fault_of_the_connection(
    database: Database, scope: Scope
) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))

    async def call() -> None:
        async with database.begin(scope, locks=[TREE_LOCK]):
            pytest.fail("a lock that somebody else has")

    async with database.begin(scope, locks=[TREE_LOCK]):
        task = asyncio.create_task(call())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert faults == []


@pytest.mark.parametrize("moment", ["in a statement", "between statements", "waiting for a lock"])
async def test_a_cancelled_call_leaves_no_transaction_behind(
    database: Database, scope: Scope, admin: asyncpg.Connection, clock: FakeClock, moment: str
) -> None:
    reached = asyncio.Event()

    async def call() -> None:
        async with database.begin(scope) as tx:
            await tx.execute(ADD_PROJECT, clock.now())
            reached.set()
            if moment == "in a statement":
                await tx.fetch(WAIT)
            elif moment == "between statements":
                await asyncio.Event().wait()
            else:
                await tx.lock(TREE_LOCK)

    async with database.begin(scope, locks=[TREE_LOCK]):
        task = asyncio.create_task(call())
        await reached.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    states = [
        row["state"]
        for row in await admin.fetch(SESSIONS + " AND usename = current_setting('role')")
    ]
    assert "idle in transaction" not in states
    assert await admin.fetchval("SELECT count(*) FROM projects") == 0
    async with database.begin(scope) as tx:
        assert await tx.fetch(EVERY_PROJECT) == []


async def test_a_cancelled_call_ends_as_one_where_the_database_does_not_hear_that_it_was_cancelled(
    database_urls: DatabaseUrls,
    scope: Scope,
    meter: RecordingMeter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memsvc.store.connections.ROLLBACK_S_MAX", 0.05)
    monkeypatch.setattr("asyncpg.connect_utils._cancel", AsyncMock())  # asks PostgreSQL for nothing
    database = await Database.open(
        database_urls.app, DatabaseOptions(pool_min=1, pool_max=1), meter
    )
    try:
        asked, sleep = asyncio.Event(), "SELECT pg_sleep($3), $1::bytea, $2::text"

        async def call() -> None:
            async with database.begin(scope) as tx:
                await tx.fetch(sleep, 0)  # prepared now, so that the next one is executed at once
                asked.set()
                await tx.fetch(sleep, 1)

        task = asyncio.create_task(call())
        await asked.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with database.begin(scope) as tx:
            assert await tx.fetch(EVERY_PROJECT) == []
    finally:
        await database.close()


async def test_a_server_that_is_gone_is_unavailable_and_one_that_is_back_answers(
    database_urls: DatabaseUrls, scope: Scope, meter: RecordingMeter
) -> None:
    async with Relay(database_urls.app) as relay:
        database = await Database.open(
            relay.url, DatabaseOptions(pool_min=1, acquire_timeout_ms=500), meter
        )
        try:
            with pytest.raises(MemsvcError) as in_flight:  # noqa: PT012
                async with database.begin(scope) as tx:
                    await relay.cut()
                    await tx.fetch("SELECT $1::bytea, $2::text")
            with pytest.raises(MemsvcError) as afterwards:
                async with database.begin(scope):
                    pytest.fail("a transaction without a server")
            assert in_flight.value.code is afterwards.value.code is Code.UNAVAILABLE
            assert afterwards.value.retryable
            await relay.mend()
            async with database.begin(scope) as tx:
                assert await tx.fetch(EVERY_PROJECT) == []
        finally:
            await database.close()


async def test_no_server_at_the_start_is_unavailable(meter: RecordingMeter) -> None:
    with pytest.raises(MemsvcError) as refused:
        await Database.open(
            "postgresql://app:secret-word@127.0.0.1:1/nothing", DatabaseOptions(), meter
        )
    assert refused.value.code is Code.UNAVAILABLE
    assert "secret-word" not in str(refused.value.body())


async def test_a_full_pool_is_told_as_too_many_calls(
    database_urls: DatabaseUrls, scope: Scope, meter: RecordingMeter
) -> None:
    options = DatabaseOptions(pool_min=1, pool_max=1, acquire_timeout_ms=20)
    database = await Database.open(database_urls.app, options, meter)
    try:
        async with database.begin(scope):
            with pytest.raises(MemsvcError) as refused:
                async with database.begin(scope):
                    pytest.fail("a second connection from a pool of one")
    finally:
        await database.close()
    assert (refused.value.code, refused.value.retry_after_s) == (Code.RESOURCE_BUSY, 1.0)


async def test_a_fault_of_ours_is_no_outage(database: Database, scope: Scope) -> None:
    for wrong in (2**70, "not a number"):
        with pytest.raises(asyncpg.DataError):
            async with database.begin(scope) as tx:
                await tx.fetch("SELECT $1::bytea, $2::text, $3::bigint", wrong)


@pytest.mark.parametrize(
    "told", [*(f"{begins}: 127.0.0.1:5432" for begins in NODE_LOST), "unexpected chunk"]
)
async def test_a_node_that_goes_away_under_a_write_is_unavailable(
    database: Database, scope: Scope, told: str
) -> None:
    """Citus says so by the state of a fault of its own, which other faults have as well."""
    lost = told.startswith(NODE_LOST)
    with pytest.raises(MemsvcError if lost else asyncpg.InternalServerError) as ended:
        async with database.begin(scope) as tx:
            await tx.unbound(
                f"DO $$ BEGIN RAISE EXCEPTION '{told}' USING ERRCODE = 'XX000'; END $$"
            )
    assert not lost or (ended.value.code, ended.value.retryable) == (Code.UNAVAILABLE, True)


@pytest.mark.parametrize("role", ["admin", "superuser"])
async def test_a_privileged_role_is_refused(
    database_urls: DatabaseUrls, meter: RecordingMeter, role: str
) -> None:
    with pytest.raises(MemsvcError) as refused:
        await Database.open(getattr(database_urls, role), DatabaseOptions(), meter)
    assert refused.value.code is Code.PERMISSION_DENIED
    assert refused.value.recovery is not None


async def test_a_read_only_transaction_writes_nothing(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    with pytest.raises(MemsvcError):
        async with database.begin(scope, read_only=True) as tx:
            await tx.execute(ADD_PROJECT, clock.now())
    async with database.begin(scope) as tx:
        assert await tx.fetch(EVERY_PROJECT) == []


async def test_json_goes_in_and_comes_out_as_objects(database: Database, scope: Scope) -> None:
    value = {"text": "メモ", "list": [1, None, 2.5], "id": str(uuid4())}
    async with database.begin(scope) as tx:
        assert (
            await tx.fetchval(
                "SELECT $3::jsonb WHERE $1::bytea IS NOT NULL AND $2::text <> ''", value
            )
            == value
        )
