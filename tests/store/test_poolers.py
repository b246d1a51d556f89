"""Behind a real PgBouncer: what a pooler in transaction mode hands out to others is nobody's
harm."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
import structlog

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store import changes as module
from memsvc.store.changes import Changes, change_key, notify
from memsvc.store.connections import Pooler
from memsvc.store.database import Database, DatabaseOptions
from memsvc.store.locks import TREE_LOCK
from memsvc.store.migrate import LOCK_KEY, migrate
from tests.fakes import FakeClock, RecordingMeter
from tests.pooler import PgBouncer, keeps_prepared_statements, needs_pgbouncer
from tests.servers import DatabaseUrls
from tests.waiting import until

pytestmark = [pytest.mark.anyio, needs_pgbouncer]

ADD_PROJECT = (
    "INSERT INTO projects (tenant, project, size_bytes, created_at) VALUES ($1, $2, 0, $3)"
)
COUNT = "UPDATE projects SET size_bytes = size_bytes + 1 WHERE tenant = $1 AND project = $2"
EVERY_PROJECT = (
    "SELECT tenant, pg_backend_pid() AS process FROM projects WHERE $1::bytea <> ''"
    " AND $2::text <> ''"
)


@pytest.fixture
def pooler(database_urls: DatabaseUrls) -> Iterator[PgBouncer]:
    with PgBouncer(database_urls) as pooler:
        yield pooler


@pytest.fixture
async def behind(pooler: PgBouncer, meter: RecordingMeter) -> AsyncIterator[Database]:
    """The pool of the application role through the pooler: ten connections, which share two."""
    database = await Database.open(pooler.urls.app, DatabaseOptions(pool_min=10), meter)
    yield database
    await database.close()


async def opened(url: str, **options: Any) -> tuple[Pooler, bool]:
    """What a pool finds out, and whether it prepares statements."""
    database = await Database.open(url, DatabaseOptions(pool_min=1, **options), RecordingMeter())
    await database.close()
    return database.pooler, database.prepared


async def test_statements_are_prepared_unless_the_pooler_would_lose_them(
    pooler: PgBouncer, database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    assert await opened(database_urls.app) == (Pooler.NONE, True)
    assert await opened(database_urls.app, prepared_statements="never") == (Pooler.NONE, False)
    assert await opened(pooler.urls.app) == (Pooler.WITHOUT_PREPARED, False)
    with pytest.raises(MemsvcError) as refused:
        await opened(pooler.urls.app, prepared_statements="always")
    assert refused.value.code is Code.UNAVAILABLE
    assert "database.prepared_statements" in str(refused.value.recovery)


async def test_a_pooler_in_session_mode_loses_nothing_if_one_says_so(
    database_urls: DatabaseUrls,
) -> None:
    with PgBouncer(database_urls, "session") as pooler:
        assert await opened(pooler.urls.app) == (Pooler.WITHOUT_PREPARED, False)
        assert await opened(pooler.urls.app, prepared_statements="always") == (
            Pooler.WITHOUT_PREPARED,
            True,
        )


@pytest.mark.skipif(not keeps_prepared_statements(), reason="no PgBouncer 1.21 or newer")
async def test_a_pooler_that_keeps_prepared_statements_is_given_them(
    database_urls: DatabaseUrls, scope: Scope, clock: FakeClock, meter: RecordingMeter
) -> None:
    with PgBouncer(database_urls, prepared_max=100) as pooler:
        database = await Database.open(pooler.urls.app, DatabaseOptions(pool_min=10), meter)
        assert (database.pooler, database.prepared) == (Pooler.SUPPORTS_PREPARED, True)
        await count_up(database, scope, clock)
        await database.close()


async def count_up(database: Database, scope: Scope, clock: FakeClock, times: int = 40) -> None:
    """Transactions at once that count in one row; every one is there at the end."""
    async with database.begin(scope) as tx:
        await tx.execute(ADD_PROJECT, clock.now())

    async def count() -> None:
        async with database.begin(scope, locks=[TREE_LOCK]) as tx:
            await tx.execute(COUNT)

    await asyncio.gather(*(count() for _ in range(times)))
    async with database.begin(scope, read_only=True) as tx:
        size = "SELECT size_bytes FROM projects WHERE tenant = $1 AND project = $2"
        assert await tx.fetchval(size) == times


async def test_transactions_that_wait_for_one_lock_all_end(
    behind: Database, scope: Scope, clock: FakeClock
) -> None:
    await count_up(behind, scope, clock)


async def test_tenants_share_connections_and_see_nothing_of_each_other(
    behind: Database, scope: Scope, other_scope: Scope, clock: FakeClock
) -> None:
    used: dict[Scope, set[int]] = {scope: set(), other_scope: set()}
    for each in used:
        async with behind.begin(each) as tx:
            await tx.execute(ADD_PROJECT, clock.now())

    async def look(whose: Scope) -> None:
        async with behind.begin(whose, read_only=True) as tx:
            [row] = await tx.fetch(EVERY_PROJECT)
        assert row["tenant"] == whose.tenant
        used[whose].add(row["process"])
        assert (
            await behind.registry("SELECT FROM projects") == []
        )  # in no transaction, hence nobody's

    await asyncio.gather(*(look(each) for each in [scope, other_scope] * 50))
    assert used[scope] & used[other_scope]


@pytest.mark.parametrize("end", ["killed", "cancelled", "failed"])
async def test_what_ends_in_the_middle_leaves_no_tenant_no_lock_and_no_rows(
    behind: Database,
    pooler: PgBouncer,
    scope: Scope,
    other_scope: Scope,
    clock: FakeClock,
    end: str,
) -> None:
    began = asyncio.Event()

    async def call() -> None:
        async with behind.begin(scope, locks=[TREE_LOCK]) as tx:
            await tx.execute(ADD_PROJECT, clock.now())
            began.set()
            if end == "failed":
                raise LookupError
            await tx.fetch("SELECT pg_sleep(60), $1::bytea, $2::text")

    if end == "killed":
        connection = await asyncpg.connect(pooler.urls.app, statement_cache_size=0)
        await connection.execute(f"BEGIN; SET LOCAL memsvc.tenant = '\\x{scope.tenant.hex()}'")
        await connection.execute(f"SELECT pg_advisory_xact_lock({TREE_LOCK.key(scope)})")
        await connection.execute(ADD_PROJECT, scope.tenant, scope.project, clock.now())
        connection.terminate()
    else:
        task = asyncio.create_task(call())
        await began.wait()
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError, LookupError):
            await task
    for each in [other_scope, scope] * 5:
        async with behind.begin(each, locks=[TREE_LOCK]) as tx:
            assert await tx.fetch(EVERY_PROJECT) == []


async def test_a_pooler_that_is_started_again_costs_the_calls_under_way_and_no_more(
    behind: Database, pooler: PgBouncer, scope: Scope, clock: FakeClock
) -> None:
    with pytest.raises(MemsvcError) as under_way:  # noqa: PT012
        async with behind.begin(scope) as tx:
            await tx.execute(ADD_PROJECT, clock.now())
            pooler.stop()
            await tx.execute(COUNT)
    with pytest.raises(MemsvcError) as meanwhile:
        await behind.registry("SELECT 1")
    assert under_way.value.code is meanwhile.value.code is Code.UNAVAILABLE
    pooler.start()
    await count_up(behind, scope, clock, 5)


async def test_statements_that_a_pooler_loses_are_an_outage_that_says_what_to_do(
    database_urls: DatabaseUrls, scope: Scope, clock: FakeClock, meter: RecordingMeter
) -> None:
    with PgBouncer(database_urls, "session") as pooler:
        options = DatabaseOptions(pool_min=1, prepared_statements="always")
        database = await Database.open(pooler.urls.app, options, meter)
        pooler.stop()
        pooler.start("transaction")
        tries = [count_up(database, scope, clock, 1) for _ in range(20)]
        ends = [
            end
            for end in await asyncio.gather(*tries, return_exceptions=True)
            if isinstance(end, MemsvcError)
        ]
        await database.close()
    assert {end.code for end in ends} == {Code.UNAVAILABLE}
    assert any("max_prepared_statements" in str(end.recovery) for end in ends)


async def test_what_listens_through_a_pooler_knows_that_it_is_deaf(
    pooler: PgBouncer, behind: Database, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in {
        "RECONNECT_S_MIN": 0.01,
        "RECONNECT_S_MAX": 0.02,
        "ECHO_S_MAX": 0.2,
    }.items():
        monkeypatch.setattr(module, name, seconds)
    deaf, hearing, told = Changes(pooler.urls.app), Changes(pooler.direct.app), list[int]()
    hearing.watch(change_key(scope, "m://a"), lambda: told.append(1))
    with structlog.testing.capture_logs() as lines:
        async with deaf.running(), hearing.running():
            await until(lambda: hearing.listening and bool(lines))
            told.clear()
            async with behind.begin(scope) as tx:
                await notify(tx, "m://a")
            await until(lambda: bool(told))
            assert not deaf.listening
    assert "direct_url" in lines[0]["recovery"]


async def test_migration_does_not_go_through_a_pooler_where_its_lock_would_stay(
    pooler: PgBouncer, database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    with pytest.raises(MemsvcError) as refused:
        await migrate(pooler.urls.admin, None)
    assert refused.value.code is Code.UNAVAILABLE
    assert "admin_url" in str(refused.value.recovery)
    held = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32)"
        " | objid::bigint = $1"
    )
    assert await admin.fetchval(held, LOCK_KEY) == 0
    assert await migrate(database_urls.admin, None) == ()
