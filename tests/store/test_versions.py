"""The states of a file are found by index and without reading what it holds, however long its
history is."""

import uuid
from time import perf_counter

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.store import file_gc, files, projects, usage, versions
from memsvc.store.database import Database
from memsvc.store.versions import FileState
from tests.fakes import FakeClock
from tests.plans import explain_bodies, record_plans

pytestmark = pytest.mark.anyio
APPENDS = 10_000
LINE_BYTES = 100
OTHER_TENANTS = 20
PATH = "/log"


@pytest.fixture
async def log(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection
) -> files.File:
    """A file of 10,000 appends a second apart, beside those of other tenants."""
    now = clock.now()
    async with database.begin(scope) as tx:
        file = await files.create(tx, PATH, b"", is_text=True, owner="", now=now)
    await admin.execute(
        """INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        SELECT $1, $2, $3, (n - 1) * $4::int, n + 1, $5::timestamptz + make_interval(secs => n),
               convert_to(lpad(n::text, $4::int, '.'), 'UTF8')
                   FROM generate_series(1, $6::int) AS n""",
        scope.tenant, scope.project, file.stream, LINE_BYTES, now, APPENDS,
    )  # fmt: skip
    await admin.execute(
        "UPDATE files SET revision = $1, size_bytes = $2", APPENDS + 1, APPENDS * LINE_BYTES
    )
    for table in ("files", "streams", "blocks"):
        columns = await admin.fetchval(
            """SELECT string_agg(attname, ', ') FROM pg_attribute
            WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
                AND attname <> 'tenant'""",
            table,
        )
        few = "WHERE start < 50000" if table == "blocks" else ""
        await admin.execute(
            f"""INSERT INTO {table} (tenant, {columns})
            SELECT sha256(n::text::bytea), {columns} FROM {table},
                generate_series(1, {OTHER_TENANTS}) AS n {few}"""
        )
    for table in ("files", "streams", "blocks", "projects", "usage"):
        await admin.execute(f"VACUUM ANALYZE {table}")
    return file


def _token(file_id: uuid.UUID, revision: int) -> str:
    return f"{file_id.hex}:{revision}"


async def page(
    database: Database, scope: Scope, before: str | None = None, limit: int = 50
) -> list[FileState]:
    async with database.begin(scope, read_only=True) as tx:
        found = await versions.history(tx, PATH, before=before, limit=limit)
        assert found is not None
        return found


async def test_every_state_of_ten_thousand_appends_is_found(
    database: Database, scope: Scope, log: files.File, clock: FakeClock
) -> None:
    newest = await page(database, scope)
    assert [state.revision for state in newest] == list(range(APPENDS, APPENDS - 50, -1))
    assert [state.size_bytes for state in newest[:2]] == [
        (APPENDS - 1) * LINE_BYTES,
        (APPENDS - 2) * LINE_BYTES,
    ]
    for revision in (APPENDS + 1, 5000, 4999, 17, 3):
        states = await page(database, scope, _token(log.incarnation, revision), limit=3)
        assert [state.revision for state in states] == [
            number for number in range(revision - 1, revision - 4, -1) if number > 0
        ]
    async with database.begin(scope, read_only=True) as tx:
        for revision in (1, 2, 3, 4096, 4097, APPENDS, APPENDS + 1):
            state = await versions.state(tx, PATH, _token(log.incarnation, revision))
            assert state is not None
            assert (state.revision, state.size_bytes) == (revision, (revision - 1) * LINE_BYTES)
            assert (state.created_at - clock.now()).total_seconds() == revision - 1
            content = await versions.content(tx, state)
            assert len(content) == state.size_bytes
            assert not content or content.endswith(f".{revision - 1}".encode())
        assert await versions.state(tx, PATH, _token(log.incarnation, APPENDS + 2)) is None
        assert await versions.state(tx, PATH, _token(uuid.uuid4(), 1)) is None
        assert await versions.state(tx, "/other", _token(log.incarnation, 1)) is None


@pytest.mark.one_server("plans are those of one server")
async def test_a_page_of_history_reads_no_more_blocks_than_it_shows(
    database: Database,
    scope: Scope,
    log: files.File,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = record_plans(monkeypatch)
    for before in (None, _token(log.incarnation, 5000)):
        plans.clear()
        await page(database, scope, before)
        assert len(plans) == (1 if before is None else 2)
        for plan in plans:
            found = [read.found for read in plan.reads if read.table == "blocks"]
            assert found
            assert sum(found) < 120


@pytest.mark.one_server("plans are those of one server")
async def test_no_statement_of_history_quotas_and_purge_reads_a_table_but_by_the_index_of_the_tenant(
    database: Database, scope: Scope, log: files.File, clock: FakeClock, admin: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    await explain_bodies(admin)
    plans = record_plans(monkeypatch)
    clock.advance(days=8)
    keep = file_gc.FileRetention(cutoff=clock.now(), past_states=3, deleted_before=clock.now())
    async with database.begin(scope) as tx:
        await versions.history(tx, PATH, before=None, limit=10)
        await versions.history(tx, PATH, before=_token(log.incarnation, 77), limit=10)
        state = await versions.state(tx, PATH, _token(log.incarnation, 50))
        assert state is not None
        await versions.content(tx, state)
        await versions.contents(tx, [state])
        assert await versions.is_known(tx, PATH)
        await usage.add_bytes(tx, 1, project_bytes_max=10, tenant_bytes_max=10, now=clock.now())
        assert [
            due.prune
            for due in await file_gc.files_to_collect(tx, keep, after=uuid.UUID(int=0), limit=10)
        ] == [True]
        assert await file_gc.lock_file(tx, log.incarnation)
        await file_gc.hide_old(tx, log.incarnation, keep)
        assert await file_gc.merge(tx, log.incarnation, after=0) is not None
        await file_gc.hide_all(tx, log.incarnation)
        assert not await file_gc.sweep(tx, log.incarnation, limit=5)
        await file_gc.sweep(tx, log.incarnation, limit=APPENDS)
        await file_gc.forget(tx, log.incarnation)
    async with database.begin_tenant(scope) as tx:
        await projects.names(tx, like="a", after="", only=None, limit=10)
    assert len(plans) > 18
    assert any(plan.sql.startswith("INSERT INTO usage") for plan in plans)
    for plan in plans:
        for read in plan.reads:
            assert read.kind != "Seq Scan", plan.sql
            assert "tenant =" in read.condition, plan.sql


async def test_a_page_of_a_long_history_takes_milliseconds(
    database: Database, scope: Scope, log: files.File
) -> None:
    took_ms = []
    for revision in range(APPENDS, 0, -500):
        started = perf_counter()
        await page(database, scope, _token(log.incarnation, revision))
        took_ms.append((perf_counter() - started) * 1000)
    assert sorted(took_ms)[len(took_ms) // 2] < 50
