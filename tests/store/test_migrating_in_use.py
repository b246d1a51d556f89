"""A database in use is migrated: writers of the version before hardly wait, and what is broken off
goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import asyncpg
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.migrate import downgrade, migrate
from memsvc.store.revisions import Revisions
from tests.servers import DatabaseUrls, TestServer, current_revision

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ROWS = 5000
WAIT_S_MAX = 2.0
ENTRY = """
    INSERT INTO entries (tenant, project, book, entry, ref, said_at, digest, asks, length, tokens,
        stream, start,
                         size_bytes, text)
    SELECT '\\x01', 'default', 1, n, 'r', now(), 1, false, 1, 1, 1, n, 1, 'text'
    FROM generate_series($1::int, $2::int) n
"""
SESSION = """
    INSERT INTO sessions (tenant, project, session, user_id, latest_turn, turns, context_start,
        counters, created_at,
                          updated_at)
    SELECT '\\x01', 'default', n::text, 'u', 't', 1, 0, '{}', now(), now()
        FROM generate_series($1::int, $2::int) n
"""
FACT = """
    INSERT INTO facts (tenant, project, book, entry, record, fact_id, key, slot, value, cues, tier,
        confidence, state,
                       valid_from, evidence)
    SELECT '\\x01', 'default', 1, n, '', n::text, 'k', '', 'v', '', 'L1', 1, 'active', now(), '{}'
    FROM generate_series($1::int, $2::int) n
"""
WAITS = """
    SELECT count(*) FROM pg_locks WHERE relation = 'facts'::regclass
        AND mode = 'AccessExclusiveLock' AND NOT granted
"""


@pytest.fixture
async def old_urls(empty_urls: DatabaseUrls, server: TestServer) -> DatabaseUrls:
    """A database as the first version left it, with some thousand rows."""
    await migrate(empty_urls.admin, server.app, "0001")
    async with connected(empty_urls.superuser) as admin:
        for statement in (ENTRY, SESSION, FACT):
            await admin.execute(statement, 1, ROWS)
    return empty_urls


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def facts_in_use(url: str) -> AsyncIterator[None]:
    """Somebody reads the facts in a transaction that does not end."""
    async with connected(url) as reader, reader.transaction():
        await reader.execute("SELECT count(*) FROM facts")
        yield


async def has_waited(admin: asyncpg.Connection, times: int) -> None:
    """Until the migration has waited for the facts, and has let those behind it pass, so often."""
    for wanted in (1, 0) * times:
        while await admin.fetchval(WAITS) != wanted:  # noqa: ASYNC110 - another process waits, and tells nobody
            await asyncio.sleep(0.01)


async def test_no_writer_waits_long_while_the_database_is_migrated(
    old_urls: DatabaseUrls, server: TestServer
) -> None:
    waited_s, done = [0.0], asyncio.Event()

    async def write() -> None:
        async with connected(old_urls.superuser) as writer:
            number = ROWS
            while not done.is_set():
                number += 1
                for statement in (ENTRY, SESSION, FACT):
                    started = perf_counter()
                    await writer.execute(statement, number, number)
                    waited_s.append(perf_counter() - started)

    writing = asyncio.create_task(write())
    async with connected(old_urls.superuser) as admin:
        async with facts_in_use(old_urls.superuser):
            migrating = asyncio.create_task(migrate(old_urls.admin, server.app))
            await asyncio.wait_for(has_waited(admin, 2), 30)
        await migrating
        done.set()
        await writing
        assert await current_revision(old_urls.admin) == Revisions.read_package().head
        assert await admin.fetchval("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0
        assert await admin.fetchval("SELECT count(*) FROM facts") == ROWS + (len(waited_s) - 1) // 3
    assert len(waited_s) > 10
    assert max(waited_s) < WAIT_S_MAX


async def test_a_migration_that_was_broken_off_goes_on_where_it_stood(
    old_urls: DatabaseUrls, server: TestServer
) -> None:
    async with connected(old_urls.superuser) as admin, facts_in_use(old_urls.superuser):
        migrating = asyncio.create_task(migrate(old_urls.admin, server.app))
        await asyncio.wait_for(has_waited(admin, 1), 30)
        migrating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await migrating
        stood = await current_revision(old_urls.admin)
        assert stood == "0002"
        # what is left of a build that was killed
        await admin.execute("CREATE INDEX facts_latest ON facts (tenant)")
        await admin.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'facts_latest'::regclass"
        )
    assert (await migrate(old_urls.admin, server.app))[0] == "0003"
    async with connected(old_urls.superuser) as admin:
        assert "valid_from" in await admin.fetchval(
            "SELECT pg_get_indexdef('facts_latest'::regclass)"
        )
        assert await admin.fetchval("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0


async def test_a_way_back_that_had_to_wait_names_each_revision_once(
    empty_urls: DatabaseUrls, server: TestServer
) -> None:
    applied = await migrate(empty_urls.admin, server.app)
    async with connected(empty_urls.superuser) as admin:
        async with facts_in_use(empty_urls.superuser):
            going_back = asyncio.create_task(downgrade(empty_urls.admin, "0002"))
            await asyncio.wait_for(has_waited(admin, 2), 30)
        assert await going_back == tuple(reversed(applied))[:-2]


async def test_who_keeps_a_migration_from_a_table_is_named(
    old_urls: DatabaseUrls, server: TestServer
) -> None:
    async with facts_in_use(old_urls.superuser):
        with pytest.raises(MemsvcError, match=r"in use for too long, by process \d+") as refused:
            await migrate(old_urls.admin, server.app, lock_timeout_s=0.2)
    assert refused.value.code is Code.RESOURCE_BUSY
    assert (await migrate(old_urls.admin, server.app))[-1] == Revisions.read_package().head
