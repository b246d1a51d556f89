"""Brings a database to a revision of the schema, once, however many servers start at the same moment."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from memsvc.core.errors import Code, MemsvcError
from memsvc.resources import migrations_dir
from memsvc.store import losses, policies, queue, vector_table
from memsvc.store.dsn import connection_error
from memsvc.store.policies import AppRole
from memsvc.store.poolers import CANNOT_CONNECT, hands_out
from memsvc.store.revisions import Revisions, fingerprint

LOCK_KEY = 0x6D656D737663  # "memsvc"
CONNECT_TIMEOUT_S = 10.0


async def migrate(
    admin_url: str,
    app_role: str | None,
    revision: str = "head",
    *,
    app_password: str | None = None,
    statement_timeout_ms: int = 30000,
    lock_timeout_s: float = 60.0,
) -> tuple[str, ...]:
    """Upgrade to a revision as the owner of the tables, renew policies and privileges; the revisions that were applied.

    The tables of the job queue follow the installed PgQueuer, whatever the revision; the table of vectors is made where
    PostgreSQL has pgvector.
    The application role is made when it is absent, a password is given and the owner may make roles. Of several callers
    at once the first migrates and the others wait for it: RESOURCE_BUSY after `lock_timeout_s`. UNAVAILABLE when the
    database is out of reach. What a newer memsvc has migrated is left alone, so that a server of the version before can
    start again while its replicas are replaced.
    """
    role = AppRole(app_role, app_password, statement_timeout_ms) if app_role else None
    mark = fingerprint(app_role, statement_timeout_ms) if revision == "head" else None

    def finish(connection: Connection) -> None:
        vector_table.ensure(connection)
        if connection.scalar(text("SELECT obj_description(to_regclass('alembic_version'), 'pg_class')")) != mark:
            connection.execute(text(f"COMMENT ON TABLE alembic_version IS {_literal(mark)}"))

    beside = _Beside(queue.converge, finish)
    return await _run(admin_url, role, lambda config: command.upgrade(config, revision), beside, lock_timeout_s, tuple)


async def downgrade(
    admin_url: str, revision: str, *, even_with_loss: bool = False, lock_timeout_s: float = 60.0
) -> tuple[str, ...]:
    """Go back to an older revision, or to `base`, where the job queue goes too; the revisions that were undone.

    Errors as `migrate`; CONFLICT where a newer memsvc has been and, unless `even_with_loss`, where tables or columns
    would go that hold something. Then nothing is changed.
    """
    beside = _Beside(queue.remove, vector_table.drop) if revision == "base" else None

    def go_back(config: Config) -> None:
        connection = config.attributes["connection"]
        before = losses.in_use(connection)
        command.downgrade(config, revision)
        lost = losses.gone(connection, before)
        if lost and not even_with_loss:
            raise MemsvcError(
                Code.CONFLICT,
                f"these hold something that revision {revision} has no place for: {', '.join(lost)}",
                recovery="the version before works on the newer schema too; else back up, and add --even-with-loss",
            )
        if revision != "base":  # whoever migrated last has not been here any more
            connection.execute(text("COMMENT ON TABLE alembic_version IS NULL"))

    def refused() -> tuple[str, ...]:
        raise MemsvcError(
            Code.CONFLICT,
            "a newer memsvc has migrated this database",
            recovery="go back with that one: this version does not know how",
        )

    return await _run(admin_url, None, go_back, beside, lock_timeout_s, refused)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What is done beside the revisions: to the queue on the bare driver, and at the end in a transaction."""

    queue: Callable[[Any], Awaitable[None]]
    last: Callable[[Connection], object]


def _literal(mark: str | None) -> str:
    return "NULL" if mark is None else f"'{mark}'"


async def current_revision(url: str) -> str | None:
    """The revision that a database is at, as either role; None when it was never migrated. UNAVAILABLE as `migrate`."""
    connection = await _connect(url)
    try:
        revision: str | None = await connection.fetchval("SELECT version_num FROM alembic_version")
        return revision
    except asyncpg.UndefinedTableError:
        return None
    finally:
        await connection.close()


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    return config


async def _run(
    admin_url: str,
    app_role: AppRole | None,
    work: Callable[[Config], None],
    beside: _Beside | None,
    lock_timeout_s: float,
    refused: Callable[[], tuple[str, ...]],
) -> tuple[str, ...]:
    """What `work` applied, or what `refused` says where a newer memsvc has been."""
    applied: list[str] = []

    def run(connection: Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        config.attributes["applied"] = applied
        # Citus alters no function after what went to nodes over several connections; elsewhere it is nobody's setting
        connection.execute(text("SELECT set_config('citus.multi_shard_modify_mode', 'sequential', true)"))
        work(config)
        policies.secure(connection)

    async with alone(admin_url, lock_timeout_s) as connection:
        async with connection.begin():
            newer = not Revisions.shipped().knows(await connection.run_sync(_revision))
        if newer:
            return refused()
        async with connection.begin():
            await connection.run_sync(run)
        if beside is not None:  # in no transaction: a new label of an enum can be used only when it is committed
            driver = await connection.get_raw_connection()
            await beside.queue(driver.driver_connection)
        if app_role is not None:
            async with connection.begin():
                await connection.run_sync(policies.grant, app_role)
        if beside is not None:
            async with connection.begin():
                await connection.run_sync(beside.last)
    return tuple(applied)


@asynccontextmanager
async def alone(admin_url: str, lock_timeout_s: float) -> AsyncIterator[AsyncConnection]:
    """A connection of the owner that holds the migration lock until it is closed.

    UNAVAILABLE over a pooler in transaction mode, where whoever comes next would hold the lock, and for ever.
    """
    with _reached(admin_url):
        shared = await hands_out(admin_url)
    if shared:
        raise MemsvcError(
            Code.UNAVAILABLE,
            "a pooler in transaction mode is before the database, and migration needs a connection of its own",
            recovery="let database.admin_url name PostgreSQL itself",
        )
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: _connect(admin_url),
        poolclass=NullPool,
    )
    try:
        async with engine.connect() as connection:
            await connection.execute(text(f"SET lock_timeout = {round(lock_timeout_s * 1000)}"))
            await connection.execute(text(f"SELECT pg_advisory_lock({LOCK_KEY})"))
            await connection.commit()
            yield connection
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != "55P03":
            raise
        raise MemsvcError(Code.RESOURCE_BUSY, "another server has been migrating this database for too long") from error
    finally:
        await engine.dispose()


async def _connect(url: str) -> Any:
    with _reached(url):
        return await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)


@contextmanager
def _reached(url: str) -> Iterator[None]:
    """UNAVAILABLE for what keeps the driver from connecting."""
    try:
        yield
    except CANNOT_CONNECT as error:
        raise connection_error(url, error, "database.admin_url") from error
