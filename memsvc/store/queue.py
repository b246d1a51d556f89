"""Job queue of PgQueuer: its names in this database, its tables, and its connections.

Every name is given here: PgQueuer would take missing ones from environment variables, some of them
as bare as CHANNEL. Its rows hold no content: the headers say whose job it is and about what, by
identifiers alone.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.composer import ComposedQuery
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel

from memsvc.store.connections import CACHED_STATEMENTS, CANNOT_CONNECT, connection_error

QUEUE = "memsvc_queue"
LOG = "memsvc_queue_log"
STATISTICS = "memsvc_queue_statistics"
SCHEDULES = "memsvc_queue_schedules"
TABLES = (QUEUE, LOG, STATISTICS, SCHEDULES)
BY_TENANT = "memsvc_queue_tenant"

# What the application role may do: run and look after jobs. PgQueuer looks whether the statistics
# are there.
TABLE_GRANTS = {
    QUEUE: "SELECT, INSERT, UPDATE, DELETE",
    LOG: "SELECT, INSERT, DELETE",
    STATISTICS: "SELECT",
}
SEQUENCE = f"{QUEUE}_id_seq"

_TAKEN_FROM = 2
"""Jobs are taken from those that wait, and from those that a dead worker had."""
_BY_PRIORITY = 10
"""How often the statement names the priority to choose or to order jobs by."""
CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 35.0
CLOSE_TIMEOUT_S = 2.0


@cache
def names() -> DBSettings:
    """Return PgQueuer's settings: the names in our database."""
    return DBSettings(
        prefix="memsvc_",
        db_schema=None,
        channel=Channel(QUEUE),
        function="memsvc_queue_changed",
        statistics_table=STATISTICS,
        queue_status_type="memsvc_queue_status",
        queue_table=QUEUE,
        queue_table_log=LOG,
        trigger="memsvc_queue_changed",
        schedules_table=SCHEDULES,
        durability=Durability.durable,
        widen_id=True,
    )


@cache
def statements() -> QueryQueueBuilder:
    """Return PgQueuer's statements over our names."""
    return QueryQueueBuilder(names())


@dataclass
class _TenantQueries(QueryQueueBuilder):
    """PgQueuer's statements, with a limit of running jobs for each tenant.

    The one that takes jobs skips those of tenants that have `tenant_jobs_max` running, or might
    have more with what it takes. Jobs are taken in the order in which they became due: one that is
    put back comes after those that waited meanwhile. All have one priority.
    """

    tenant_jobs_max: int = 0

    def build_dequeue_query(self, *, batch_size: int, **given: Any) -> ComposedQuery:
        composed = super().build_dequeue_query(batch_size=batch_size, **given)
        return ComposedQuery(
            _by_tenant(composed.sql, self.tenant_jobs_max - batch_size), composed.args
        )


@cache  # a worker takes jobs by one statement, thousands of times
def _by_tenant(sql: str, jobs_max: int) -> str:
    skip_condition = f"""
        AND coalesce(\\1.headers ->> 'tenant', '') <> ALL (ARRAY(
            SELECT coalesce(own.headers ->> 'tenant', '') FROM {QUEUE} AS own
            WHERE own.queue_manager_id = $3 AND own.status = 'picked'
            GROUP BY 1 HAVING count(*) > {jobs_max}))
    """
    sql, times = re.subn(r"(?<=AND )(\w+)\.execute_after < NOW\(\)", rf"\g<0>{skip_condition}", sql)
    sql, ordered = re.subn(
        r"(\b\w+\.|SELECT id, |ORDER BY )priority\b(?: DESC)?", r"\1execute_after", sql
    )
    if (times, ordered) != (_TAKEN_FROM, _BY_PRIORITY):
        raise RuntimeError("the installed PgQueuer is not compatible with this version of memsvc")
    return sql


def _queries(driver: AsyncpgDriver, statements: QueryQueueBuilder) -> Queries:
    return Queries(
        driver, QueryBuilderEnvironment(names()), statements, QuerySchedulerBuilder(names())
    )


async def converge(connection: Any) -> None:
    """Create or upgrade the queue's tables, as the owner and outside a transaction.

    Nothing is locked where there is nothing to do. One caller at a time: it runs under the
    migration lock.
    """
    queries = _queries(AsyncpgDriver(connection), statements())
    if not await queries.schema_is_installed():
        await queries.install(create_schema=False)
        await queries.optimize_autovacuum()
    elif (await queries.plan_upgrade()).statements:
        await queries.apply_upgrade()
    if not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", BY_TENANT):
        await connection.execute(
            f"CREATE INDEX {BY_TENANT} ON {QUEUE} ((headers ->> 'tenant'), (headers ->> 'project'))"
        )


async def remove(connection: Any) -> None:
    """Drop the queue with every job in it, as the owner."""
    await _queries(AsyncpgDriver(connection), statements()).uninstall()


class _Driver(AsyncpgDriver):
    """Driver that reports every answer of the database."""

    def __init__(self, connection: asyncpg.Connection, on_answer: Callable[[], None]) -> None:
        super().__init__(connection)
        self._on_answer = on_answer

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        rows = await super().fetch(query, *args)
        self._on_answer()
        return rows


@asynccontextmanager
async def connected(
    url: str,
    *,
    use_prepared: bool = True,
    tenant_jobs_max: int,
    on_answer: Callable[[], None],
    on_lost: Callable[[], None],
) -> AsyncIterator[Queries]:
    """Yield the queue over a connection of its own, which listens for new jobs.

    Through a pooler it receives no notice of them, and polls now and then. `use_prepared` says
    whether statements are prepared, `tenant_jobs_max` how many jobs of a tenant are taken at once;
    `on_answer` is called with every answer, `on_lost` when the connection ends. UNAVAILABLE when it
    cannot be made.
    """
    try:
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=ANSWER_TIMEOUT_S,
            statement_cache_size=CACHED_STATEMENTS if use_prepared else 0,
            server_settings={"application_name": "memsvc worker"},
        )
    except CANNOT_CONNECT as error:
        raise connection_error(url, error, "database.direct_url, or database.url") from error
    connection.add_termination_listener(lambda _: on_lost())
    try:
        yield _queries(
            _Driver(connection, on_answer), _TenantQueries(names(), tenant_jobs_max=tenant_jobs_max)
        )
    finally:
        with suppress(TimeoutError, OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
            await connection.close(timeout=CLOSE_TIMEOUT_S)
