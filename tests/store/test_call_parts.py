"""The parts of the call log: made ahead, dropped when their time is over, and never in the way of a
call."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.gateway.call_accounting import Retention
from memsvc.store.calls import (
    CallFilter,
    CallRecord,
    RolledPartitions,
    insert_calls,
    list_calls,
    roll,
)
from memsvc.store.database import Database
from memsvc.store.migrate import downgrade, migrate
from tests.servers import DatabaseUrls, TestServer

pytestmark = pytest.mark.anyio
PARTS = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'calls'::regclass
    ORDER BY 1
"""


@dataclass(frozen=True)
class Week:
    """The week in which a test runs."""

    now: datetime

    @property
    def monday(self) -> datetime:
        day = self.now - timedelta(days=self.now.weekday())
        return day.replace(hour=0, minute=0, second=0, microsecond=0)

    def part(self, weeks: int) -> str:
        """The name of the part of a week, counted from this one."""
        return f"calls_{self.monday + timedelta(weeks=weeks):%Y%m%d}"


@pytest.fixture
async def week(owner: asyncpg.Connection) -> Week:
    """This week, for which the parts are as a migration makes them: the template may have been
    migrated before the week began."""
    week = Week(datetime.now(UTC))
    if await owner.fetchval("SELECT to_regclass($1)", week.part(0)) is not None:
        await owner.execute(
            f"""
            DROP TABLE {week.part(0)};
            ALTER TABLE calls DETACH PARTITION calls_before;
            ALTER TABLE calls ATTACH PARTITION calls_before
                FOR VALUES FROM (MINVALUE) TO ('{week.monday + timedelta(weeks=1)}');
            SELECT memsvc_roll_calls(0);
            """
        )
    return week


async def log(database: Database, scope: Scope, called_at: datetime) -> None:
    record = CallRecord(
        tenant=scope.tenant,
        project=scope.project,
        call=uuid4(),
        called_at=called_at,
        surface="mcp",
        tool="echo",
        key_label="test",
        status="success",
        code=None,
        duration_ms=1.0,
        arguments={},
        request_id="r",
    )
    async with database.begin(scope) as tx:
        await insert_calls(tx, [record])


async def logged(database: Database, scope: Scope) -> list[datetime]:
    async with database.begin_tenant(scope, read_only=True) as tx:
        return [
            one.called_at
            for one in (await list_calls(tx, CallFilter(), after=None, limit=100)).calls
        ]


async def parts(admin: asyncpg.Connection) -> list[str]:
    return [row[0] for row in await admin.fetch(PARTS)]


async def aged(owner: asyncpg.Connection, week: Week, weeks: int) -> str:
    """A part as it was made so many weeks ago."""
    low = week.monday - timedelta(weeks=weeks)
    name = f"calls_{low:%Y%m%d}"
    await owner.execute("ALTER TABLE calls DETACH PARTITION calls_before")
    await owner.execute(
        f"CREATE TABLE {name} PARTITION OF calls FOR VALUES FROM ('{low}') TO"
        f" ('{low + timedelta(weeks=1)}')"
    )
    return name


async def test_a_call_of_any_time_is_kept(
    database: Database, scope: Scope, admin: asyncpg.Connection, week: Week
) -> None:
    times = [
        week.now - timedelta(days=400),
        week.now - timedelta(days=1),
        week.now,
        week.now + timedelta(weeks=2),
        week.now + timedelta(weeks=9),
    ]
    for called_at in times:
        await log(database, scope, called_at)
    assert await logged(database, scope) == times[::-1]
    assert await admin.fetchval("SELECT count(*) FROM calls_before") == 3
    assert await admin.fetchval("SELECT count(*) FROM calls_rest") == 1


async def test_weeks_to_come_are_made_once_and_take_what_came_too_early(
    database: Database, scope: Scope, admin: asyncpg.Connection, week: Week
) -> None:
    await admin.execute(f"DROP TABLE {week.part(2)}")
    soon = week.monday + timedelta(weeks=2, days=1)
    await log(database, scope, soon)
    assert await admin.fetchval("SELECT count(*) FROM calls_rest") == 1
    assert await roll(database, 30) == RolledPartitions(made=1, dropped=0, kept_days=30)
    assert await parts(admin) == [week.part(1), week.part(2), "calls_before", "calls_rest"]
    assert await admin.fetchval("SELECT count(*) FROM calls_rest") == 0
    assert await logged(database, scope) == [soon]
    assert await roll(database, 30) == RolledPartitions(made=0, dropped=0, kept_days=30)


async def test_parts_past_their_time_are_dropped_and_no_other(
    database: Database,
    scope: Scope,
    admin: asyncpg.Connection,
    owner: asyncpg.Connection,
    week: Week,
) -> None:
    kept = await aged(owner, week, 3)
    gone = week.monday - timedelta(weeks=6)
    await owner.execute(
        f"CREATE TABLE calls_gone PARTITION OF calls FOR VALUES FROM ('{gone}') TO"
        f" ('{gone + timedelta(weeks=1)}')"
    )
    for called_at in (
        gone,
        week.now - timedelta(weeks=50),
        week.monday - timedelta(weeks=3),
        week.now,
    ):
        await log(database, scope, called_at)
    assert await roll(database, 0) == RolledPartitions(made=1, dropped=0, kept_days=0)
    assert await roll(database, 30) == RolledPartitions(made=0, dropped=1, kept_days=30)
    assert "calls_gone" not in await parts(admin)
    assert kept in await parts(admin)
    assert await logged(database, scope) == [week.now, week.monday - timedelta(weeks=3)]


async def test_the_owner_says_what_may_not_be_dropped(
    database: Database,
    scope: Scope,
    admin: asyncpg.Connection,
    owner: asyncpg.Connection,
    week: Week,
) -> None:
    kept = await aged(owner, week, 6)
    await owner.execute(
        "CREATE OR REPLACE FUNCTION memsvc_calls_kept_days_min() RETURNS integer LANGUAGE sql"
        " STABLE SET search_path = pg_catalog, pg_temp AS 'SELECT 90'"
    )
    assert (await roll(database, 1)).kept_days == 90
    assert kept in await parts(admin)


@pytest.mark.parametrize("days", [-1, 36501, None])
async def test_a_number_of_days_that_is_none_is_refused(
    database: Database, days: int | None
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await database.registry("SELECT memsvc_roll_calls($1)", days)


async def test_the_application_reads_no_part_makes_none_and_drops_none(
    database: Database,
    scope: Scope,
    admin: asyncpg.Connection,
    owner: asyncpg.Connection,
    week: Week,
) -> None:
    await log(database, scope, week.now)
    for name in await parts(admin):
        for statement in (f"SELECT * FROM {name}", f"DELETE FROM {name}", f"DROP TABLE {name}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await database.registry(statement)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await database.registry("CREATE TABLE calls_mine PARTITION OF calls DEFAULT")
    assert await owner.fetch("SELECT * FROM calls") == []


async def test_a_reader_in_the_way_costs_no_call_and_is_told(
    database: Database,
    scope: Scope,
    admin: asyncpg.Connection,
    owner: asyncpg.Connection,
    week: Week,
) -> None:
    await aged(owner, week, 6)
    await owner.execute("ALTER FUNCTION memsvc_roll_calls(integer) SET lock_timeout = '10ms'")
    transaction = admin.transaction()
    await transaction.start()
    await admin.fetch("SELECT * FROM calls")
    assert await Retention(database, 30).roll() is False
    await log(database, scope, week.now)
    await transaction.rollback()
    assert await Retention(database, 30).roll() is True


async def test_the_migration_keeps_every_row_both_ways(
    database_urls: DatabaseUrls,
    database: Database,
    admin: asyncpg.Connection,
    scope: Scope,
    server: TestServer,
    week: Week,
) -> None:
    times = [
        week.now - timedelta(days=40),
        week.now,
        week.now + timedelta(weeks=2),
        week.now + timedelta(weeks=20),
    ]
    for called_at in times:
        await log(database, scope, called_at)
    await downgrade(database_urls.admin, "0011")
    before = """
        INSERT INTO calls (tenant, called_at, call, project, surface, tool, key_label, status,
            duration_ms, arguments,
                           request_id)
        VALUES ($1, $2, gen_random_uuid(), 'default', 's', 't', 'k', 'success', 1, '{}', 'r')
    """
    await admin.execute(before, scope.tenant, week.now - timedelta(days=1))
    await migrate(database_urls.admin, server.app)
    assert await logged(database, scope) == sorted(
        [*times, week.now - timedelta(days=1)], reverse=True
    )
    assert await logged(database, Scope(b"\x02" * 32, "default")) == []
