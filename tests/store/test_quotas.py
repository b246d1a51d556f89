"""Quotas are exact to the byte, whoever writes at the same time."""

import asyncio

import asyncpg
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.store.usage import add_bytes
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.files.past import Past, open_past

pytestmark = pytest.mark.anyio
ELSEWHERE = "elsewhere"


async def spent(
    database: Database,
    scope: Scope,
    clock: FakeClock,
    delta_bytes: int,
    *,
    project: int = 10**9,
    tenant: int = 0,
) -> str | None:
    """Spend in a transaction of its own; what it was refused with, if it was."""
    try:
        async with database.begin(scope) as tx:
            await add_bytes(
                tx, delta_bytes, project_bytes_max=project, tenant_bytes_max=tenant, now=clock.now()
            )
    except MemsvcError as error:
        return f"{error.code}: {error.message}"
    return None


async def counters(admin: asyncpg.Connection, tenant: bytes) -> tuple[dict[str, int], int]:
    """The counter of each project, and the tenant's."""
    rows = await admin.fetch("SELECT project, size_bytes FROM projects WHERE tenant = $1", tenant)
    return dict(rows), await admin.fetchval(
        "SELECT size_bytes FROM usage WHERE tenant = $1", tenant
    )


async def sums(admin: asyncpg.Connection, tenant: bytes) -> tuple[dict[str, int], int]:
    """What the counters ought to be; of a project that nothing is left in, nought."""
    rows = await admin.fetch(
        """SELECT project, coalesce(sum(f.size_bytes) FILTER (WHERE f.deleted_at IS NULL
            AND f.owner = ''), 0)::int8
        FROM projects FULL JOIN files f USING (tenant, project) WHERE tenant = $1
            GROUP BY project""",
        tenant,
    )
    return dict(rows), sum(dict(rows).values())


async def test_what_fits_exactly_is_taken_and_one_byte_more_is_refused(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    assert await spent(database, scope, clock, 10, project=10, tenant=10) is None
    told = await spent(database, scope, clock, 1, project=10)
    assert told is not None
    assert told.startswith("QUOTA_EXCEEDED: the project's files are limited to 10 bytes")
    elsewhere = Scope(scope.tenant, ELSEWHERE)
    told = await spent(database, elsewhere, clock, 1, project=10, tenant=10)
    assert told is not None
    assert told.startswith("QUOTA_EXCEEDED: the tenant's files are limited to 10 bytes")
    assert "11" in told
    assert await counters(admin, scope.tenant) == ({"default": 10}, 10)


async def test_no_limit_of_the_tenant_is_still_counted(
    database: Database,
    scope: Scope,
    other_scope: Scope,
    clock: FakeClock,
    admin: asyncpg.Connection,
) -> None:
    for where in (scope, Scope(scope.tenant, ELSEWHERE), other_scope):
        assert await spent(database, where, clock, 7) is None
    assert await counters(admin, scope.tenant) == ({"default": 7, ELSEWHERE: 7}, 14)
    assert await counters(admin, other_scope.tenant) == ({"default": 7}, 7)


async def test_giving_back_is_never_refused_and_never_goes_below_nothing(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    assert await spent(database, scope, clock, -5) is None
    assert await counters(admin, scope.tenant) == ({"default": 0}, 0)
    assert await spent(database, scope, clock, 20) is None
    assert await spent(database, scope, clock, -5, project=1, tenant=1) is None
    assert await spent(database, scope, clock, 0, project=1, tenant=1) is None
    assert await counters(admin, scope.tenant) == ({"default": 15}, 15)
    assert await spent(database, scope, clock, -50) is None
    assert await counters(admin, scope.tenant) == ({"default": 0}, 0)


async def test_spending_takes_one_round_trip(
    database: Database, scope: Scope, clock: FakeClock, meter: RecordingMeter
) -> None:
    meter.clear()
    await spent(database, scope, clock, 1)
    assert meter.total("memsvc_round_trips") == 3  # with BEGIN and COMMIT


@pytest.mark.parametrize("whose", ["project", "tenant"])
async def test_of_thirty_writers_at_once_exactly_those_that_fit_succeed(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection, whose: str
) -> None:
    ready = asyncio.Barrier(30)

    async def one(number: int) -> str | None:
        where = scope if whose == "project" or number % 2 else Scope(scope.tenant, ELSEWHERE)
        await ready.wait()
        return await spent(database, where, clock, 7, **{whose: 100})

    refused = [told for told in await asyncio.gather(*map(one, range(30))) if told is not None]
    assert len(refused) == 16
    assert all(whose in told for told in refused)
    projects, tenant = await counters(admin, scope.tenant)
    assert sum(projects.values()) == tenant == 98


@pytest.mark.parametrize("limit", ["project_bytes_max", "tenant_bytes_max"])
async def test_the_counters_are_the_sums_of_the_files_after_any_crowd(
    database: Database,
    scope: Scope,
    clock: FakeClock,
    meter: RecordingMeter,
    admin: asyncpg.Connection,
    limit: str,
) -> None:
    past = open_past(database, clock, meter, scope, **{limit: 100})
    places = [
        past,
        past if limit == "project_bytes_max" else past.elsewhere(Scope(scope.tenant, ELSEWHERE)),
    ]
    ready = asyncio.Barrier(30)

    async def write(number: int) -> bool:
        await ready.wait()
        return await tried(places[number % 2], number)

    async def tried(where: Past, number: int) -> bool:
        call = {"path": f"/f{number}", "content": "x" * 7, "project": where.scope.project}
        outcome = await where.files.call.dispatch.call(
            where.files.call.caller, "file_write", call, surface="test", request_id="test"
        )
        assert outcome.error is None or outcome.error.code is Code.QUOTA_EXCEEDED
        return outcome.error is None

    assert sum(await asyncio.gather(*map(write, range(30)))) == 14
    held = await counters(admin, scope.tenant)
    assert held[1] == 98
    assert held == await sums(admin, scope.tenant)
    kept = await admin.fetch("SELECT project, path FROM files WHERE tenant = $1", scope.tenant)
    changes = [
        places[row["project"] == ELSEWHERE].files("delete", path=row["path"]) for row in kept[:7]
    ]
    await asyncio.gather(*changes)
    assert await counters(admin, scope.tenant) == await sums(admin, scope.tenant)
    assert (await counters(admin, scope.tenant))[1] == 49
