"""Migration of a database to a schema revision, once, however many servers start together."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import monotonic
from typing import Any, Final

import asyncpg
import orjson
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from memsvc.core.errors import MemsvcError, conflict, resource_busy, unavailable
from memsvc.core.frozen import frozen
from memsvc.package_files import migrations_dir
from memsvc.store import policies, queue
from memsvc.store.connections import CANNOT_CONNECT, connection_error, shares_by_transaction
from memsvc.store.policies import AppRole
from memsvc.store.revisions import Revisions, fingerprint

LOCK_KEY = 0x6D656D737663  # "memsvc"
CONNECT_TIMEOUT_S = 10.0
DDL_LOCK_TIMEOUT_S: Final = 0.5
"""How long a change of a table waits for its lock before a retry: everybody else queues behind
it."""
RETRY_S: Final = 0.5
POLL_S: Final = 0.05
_IN_USE: Final = frozenset({"55P03", "40P01"})
"""SQL states of a lock timeout and of a deadlock."""


async def migrate(
    admin_url: str,
    app_role: str | None,
    revision: str = "head",
    *,
    app_password: str | None = None,
    statement_timeout_ms: int = 30000,
    lock_timeout_s: float = 60.0,
) -> tuple[str, ...]:
    """Upgrade to a revision as the owner of the tables; return the applied revisions.

    Policies and privileges are renewed. The tables of the job queue follow the installed PgQueuer,
    whatever the revision. The
    application role is made when it is absent, a password is given and the owner may make roles.

    Of several callers at once the first migrates and the others wait for it: RESOURCE_BUSY after
    `lock_timeout_s`, and where others hold a table for so long. Each revision is committed by
    itself: interrupted, it resumes where it stopped. UNAVAILABLE when the database cannot be
    reached. What a newer memsvc has migrated is left alone, so that a server of the version before
    can start again while its replicas are replaced.
    """
    role = AppRole(app_role, app_password, statement_timeout_ms) if app_role else None
    mark = fingerprint(app_role, statement_timeout_ms) if revision == "head" else None

    def finish(connection: Connection) -> None:
        left = policies.scalar(
            connection, "SELECT obj_description(to_regclass('alembic_version'), 'pg_class')"
        )
        if left != mark:
            literal = "NULL" if mark is None else f"'{mark}'"
            connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS {literal}")

    extra = _ExtraWork(queue.converge, finish)

    def upgrade(config: Config) -> None:
        command.upgrade(config, revision)

    return await _run(admin_url, role, upgrade, extra, lock_timeout_s, tuple)


async def downgrade(
    admin_url: str, revision: str, *, even_with_loss: bool = False, lock_timeout_s: float = 60.0
) -> tuple[str, ...]:
    """Go back to an older revision, or to `base` without a job queue; return the undone revisions.

    Errors as `migrate`; CONFLICT where a newer memsvc has been and, unless `even_with_loss`, where
    tables or columns would go that hold something. Then nothing is changed.
    """
    extra = _ExtraWork(queue.remove) if revision == "base" else None

    def downgrade_transaction(config: Config) -> None:
        with config.attributes["connection"].begin() as transaction:
            revert(transaction.connection, config)

    def revert(connection: Connection, config: Config) -> None:
        config.attributes["applied"].clear()  # from an attempt that was rolled back
        before = in_use(connection)
        command.downgrade(config, revision)
        lost = missing_since(connection, before)
        if lost and not even_with_loss:
            raise conflict(
                f"migrating back to revision {revision} would lose data in: {', '.join(lost)}",
                recovery="keep the newer schema, which the previous version of memsvc can also use;"
                " to migrate back despite the loss, take a backup and run the command again with"
                " --even-with-loss",
            )
        if revision != "base":  # the mark of the last migration no longer applies
            connection.exec_driver_sql("COMMENT ON TABLE alembic_version IS NULL")

    def reject_version() -> tuple[str, ...]:
        raise conflict(
            "this database was migrated by a newer version of memsvc",
            recovery="use the newer version of memsvc to migrate the database back",
        )

    return await _run(admin_url, None, downgrade_transaction, extra, lock_timeout_s, reject_version)


@frozen
class _ExtraWork:
    """Work on the queue by the bare driver, and at the end in a transaction."""

    queue: Callable[[Any], Awaitable[None]]
    last: Callable[[Connection], object] | None = None


async def _run(
    admin_url: str,
    app_role: AppRole | None,
    work: Callable[[Config], None],
    extra: _ExtraWork | None,
    lock_timeout_s: float,
    reject_version: Callable[[], tuple[str, ...]],
) -> tuple[str, ...]:
    """Return what `work` applied, or `reject_version` where a newer memsvc has been."""
    applied: list[str] = []

    def run(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
        config.attributes |= {
            "connection": connection,
            "applied": applied,
            "lock_timeout_ms": round(lock_timeout_s * 1000),
        }
        work(config)
        connection.commit()  # reading the revision began a transaction, even with nothing to apply

    async with migration_lock(admin_url, lock_timeout_s) as connection:
        async with connection.begin():
            revision = await connection.run_sync(
                lambda own: MigrationContext.configure(own).get_current_revision()
            )
        if not Revisions.read_package().is_known(revision):
            return reject_version()
        async with connection.begin():
            timeout_s = min(DDL_LOCK_TIMEOUT_S, lock_timeout_s)
            await connection.execute(text(f"SET lock_timeout = {round(timeout_s * 1000)}"))
            # Citus alters no function after statements over several connections to nodes
            await connection.execute(
                text("SELECT set_config('citus.multi_shard_modify_mode', 'sequential', false)")
            )

        async def with_retries(step: Callable[[], Awaitable[object]]) -> None:
            await _with_retries(connection, lock_timeout_s, step, applied)

        async def change(step: Callable[..., object], *arguments: Any) -> None:
            async with connection.begin():
                await connection.run_sync(step, *arguments)

        await with_retries(lambda: connection.run_sync(run))
        await with_retries(lambda: change(policies.secure))
        if (
            extra is not None
        ):  # in no transaction: a new label of an enum can be used only when it is committed
            driver = (await connection.get_raw_connection()).driver_connection
            await with_retries(lambda: extra.queue(driver))
        if app_role is not None:
            await with_retries(lambda: change(policies.grant, app_role))
        if extra is not None and extra.last is not None:
            await with_retries(partial(change, extra.last))
    return tuple(applied)


async def _with_retries(
    connection: AsyncConnection,
    lock_timeout_s: float,
    step: Callable[[], Awaitable[object]],
    applied: list[str],
) -> None:
    """Repeat a step while others hold what it has to lock.

    RESOURCE_BUSY when they have done so for `lock_timeout_s` without a revision being applied
    meanwhile.
    """
    progress, since = -1, monotonic()
    while True:
        try:
            await step()
            return
        except (DBAPIError, asyncpg.PostgresError) as error:
            if getattr(getattr(error, "orig", error), "sqlstate", None) not in _IN_USE:
                raise
            await connection.rollback()
            if len(applied) > progress:
                progress, since = len(applied), monotonic()
            elif monotonic() - since >= lock_timeout_s:
                raise resource_busy(
                    "the tables to be migrated have been in use for too long, by"
                    f" {await _lock_owners(connection)}",
                    recovery="wait until these transactions end, and run the migration again; it"
                    " resumes where it stopped",
                ) from error
        await asyncio.sleep(RETRY_S)


async def _lock_owners(connection: AsyncConnection) -> str:
    """Return the PostgreSQL processes whose transactions hold locks on tables of this schema."""
    rows = await connection.execute(
        text("""
            SELECT DISTINCT l.pid, a.usename FROM pg_locks AS l JOIN pg_class AS c
                ON c.oid = l.relation
            LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
            WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND l.granted
                AND c.relnamespace = current_schema()::regnamespace AND l.pid <> pg_backend_pid()
                    ORDER BY 1 LIMIT 5
        """)
    )
    owners = ", ".join(f"process {row.pid} of the role {row.usename}" for row in rows)
    await connection.rollback()
    return owners or "transactions that ended in the meantime"


@asynccontextmanager
async def migration_lock(admin_url: str, lock_timeout_s: float) -> AsyncIterator[AsyncConnection]:
    """Yield a connection of the owner that holds the migration lock until it is closed.

    UNAVAILABLE over a pooler in transaction mode, where the next client would hold the lock, for
    ever.
    """
    with _checked_connection(admin_url):
        shared = await shares_by_transaction(admin_url)
    if shared:
        raise unavailable(
            "the database is behind a pooler in transaction mode, and migrations need a"
            " direct connection",
            recovery="set database.admin_url to PostgreSQL itself, not to the pooler",
        )
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: _connect(admin_url),
        poolclass=NullPool,
    )
    try:
        async with engine.connect() as connection:
            await connection.execute(text(f"SET lock_timeout = {round(lock_timeout_s * 1000)}"))
            await connection.commit()
            until = monotonic() + lock_timeout_s
            # polled: a concurrent build of an index waits for the snapshot of a waiting statement
            while not await connection.scalar(text(f"SELECT pg_try_advisory_lock({LOCK_KEY})")):
                await connection.commit()
                if monotonic() >= until:
                    raise resource_busy(
                        "another server has been migrating this database for too long",
                    )
                await asyncio.sleep(POLL_S)
            await connection.commit()
            yield connection
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != "55P03":
            raise
        raise resource_busy(
            "other connections have kept the database locked for too long"
        ) from error
    finally:
        await engine.dispose()


async def _connect(url: str) -> Any:
    with _checked_connection(url):
        return await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)


@contextmanager
def _checked_connection(url: str) -> Iterator[None]:
    """Raise UNAVAILABLE for what keeps the driver from connecting."""
    try:
        yield
    except CANNOT_CONNECT as error:
        raise connection_error(url, error, "database.admin_url") from error


_KEPT: Final = text("""
    SELECT coalesce(whole.relname, c.relname) AS name, bool_or(pg_relation_size(c.oid) > 0) AS held
    FROM pg_class AS c
    LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid LEFT JOIN pg_class AS whole
        ON whole.oid = i.inhparent
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' GROUP BY 1
""")
"""Tables, a partition under the name of its whole, and whether they hold any row: by their size, as
the owner too is bound by the policies and sees no row."""

_COLUMNS: Final = text("""
    SELECT c.relname AS name, a.attname AS place FROM pg_class AS c JOIN pg_attribute AS a
        ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition
        AND a.attnum > 0 AND NOT a.attisdropped
""")


def in_use(connection: Connection) -> frozenset[str]:
    """Return the tables that hold something, as `table`, and their columns, as `table.column`."""
    tables = {row.name for row in connection.execute(_KEPT) if row.held}
    columns = {
        f"{row.name}.{row.place}" for row in connection.execute(_COLUMNS) if row.name in tables
    }
    return frozenset(tables | columns)


_DERIVED: Final = frozenset(
    {
        *("posting_lists", "books.withheld", "embeddings"),
        *("entries.search_book", "entries.search_entry", "entries.utc_offset"),
    }
)
"""Tables and columns whose content an older revision has in another form."""


def missing_since(connection: Connection, before: frozenset[str]) -> list[str]:
    """Return what of `before` no longer exists; a table that went is named without its columns.

    What is made anew from the rest is left out.
    """
    tables = {row.name for row in connection.execute(_KEPT)}
    remaining = tables | {f"{row.name}.{row.place}" for row in connection.execute(_COLUMNS)}
    return sorted(
        name
        for name in before - remaining - _DERIVED
        if "." not in name or name.partition(".")[0] in tables
    )


def main() -> None:
    """Migrate for a server: what to do is on standard input, the result on standard output."""
    request = orjson.loads(sys.stdin.buffer.read())
    try:
        applied = asyncio.run(
            migrate(
                request["admin_url"],
                request["app_role"],
                app_password=request["app_password"],
                statement_timeout_ms=request["statement_timeout_ms"],
            )
        )
        result: dict[str, object] = {"applied": applied}
    except MemsvcError as error:
        result = error.body()
    sys.stdout.buffer.write(orjson.dumps(result))


if __name__ == "__main__":
    main()
