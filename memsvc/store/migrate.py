"""Brings a database to a revision of the schema, once, however many servers start at the same moment."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from memsvc.core.errors import Code, MemsvcError
from memsvc.resources import migrations_dir
from memsvc.store import policies
from memsvc.store.policies import AppRole

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

    The application role is made when it is absent, a password is given and the owner may make roles. Of several callers
    at once the first migrates and the others wait for it: RESOURCE_BUSY after `lock_timeout_s`. UNAVAILABLE when the
    database is out of reach.
    """
    role = AppRole(app_role, app_password, statement_timeout_ms) if app_role else None
    return await _run(admin_url, role, lambda config: command.upgrade(config, revision), lock_timeout_s)


async def downgrade(admin_url: str, revision: str, *, lock_timeout_s: float = 60.0) -> tuple[str, ...]:
    """Go back to an older revision, or to `base`; the revisions that were undone. Errors as `migrate`."""
    return await _run(admin_url, None, lambda config: command.downgrade(config, revision), lock_timeout_s)


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions that this package brings."""

    head: str
    older: frozenset[str]

    @classmethod
    def shipped(cls) -> "Revisions":
        """Reads them from the package."""
        newest, *older = (script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())
        return cls(newest, frozenset(older))

    def suffices(self, revision: str | None) -> bool:
        """True for the newest one, and for one that is unknown here: a newer memsvc migrated before this one went."""
        return revision is not None and revision not in self.older


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


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    return config


async def _run(
    admin_url: str, app_role: AppRole | None, work: Callable[[Config], None], lock_timeout_s: float
) -> tuple[str, ...]:
    applied: list[str] = []

    def run(connection: Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        config.attributes["applied"] = applied
        work(config)
        policies.secure(connection)
        if app_role is not None:
            policies.grant(connection, app_role)

    async with _alone(admin_url, lock_timeout_s) as connection, connection.begin():
        await connection.run_sync(run)
    return tuple(applied)


@asynccontextmanager
async def _alone(admin_url: str, lock_timeout_s: float) -> AsyncIterator[AsyncConnection]:
    """A connection of the owner that holds the migration lock until it is closed."""
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
    try:
        return await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)
    except (TimeoutError, OSError, ValueError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
        raise MemsvcError(
            Code.UNAVAILABLE,
            f"cannot connect to the database: {type(error).__name__}",
            recovery="check database.url and database.admin_url",
        ) from error
