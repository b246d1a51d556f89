"""The database of a process: the configured server or the embedded one, migrated and opened."""

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field
from threading import Event
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import structlog

from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.core.errors import MemsvcError, unavailable
from memsvc.core.frozen import frozen
from memsvc.core.ports import Meter
from memsvc.settings import Settings
from memsvc.store.connections import Pooler
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions, fingerprint, has_mark, migrate_in_process

log = structlog.get_logger("memsvc.database_setup")

CHECK_INTERVAL_S: Final = 1.0
CHECK_BACKOFF_S_MAX: Final = 30.0
"""Interval between checks of the embedded server, and the longest one while it does not start."""


@frozen
class DatabaseUrls:
    """URLs of the database for the application role and, if known here, for the owner."""

    app: str = field(repr=False)
    admin: str = field(repr=False)


def database_exists(settings: Settings) -> bool:
    """Return whether a database is configured, or the data folder has one already."""
    return bool(settings.database.url) or EmbeddedPostgres(settings.data_dir).exists()


@contextmanager
def database_urls(settings: Settings) -> Iterator[DatabaseUrls]:
    """Yield the URLs of the configured server, or of the embedded one.

    The embedded server runs until the last process that uses it is done with it.
    """
    with database_starting(settings) as started:
        yield started()


@contextmanager
def database_starting(settings: Settings) -> Iterator[Callable[[], DatabaseUrls]]:
    """Yield a function that returns the URLs, while the embedded server starts in the background.

    The function waits until the server has started, or raises the error that kept it from starting.
    """
    if settings.database.url:
        yield lambda: DatabaseUrls(settings.database.url, settings.database.admin_url)
        return
    server = EmbeddedPostgres(
        settings.data_dir, statement_timeout_ms=settings.database.statement_timeout_ms
    )
    ending = Event()

    def started() -> DatabaseUrls:
        urls = starting.result()
        return DatabaseUrls(urls.app_url, urls.admin_url)

    try:
        # starting and checking it block
        with ThreadPoolExecutor(1, "embedded PostgreSQL") as executor:
            try:
                starting = executor.submit(server.start)
                executor.submit(_keep_alive, server, ending)
                yield started
            finally:
                ending.set()
    finally:
        server.stop()


def _keep_alive(server: EmbeddedPostgres, ending: Event) -> None:
    """Start the embedded server again whenever it dies."""
    pause_s = CHECK_INTERVAL_S
    while not ending.wait(pause_s):
        try:
            if server.ensure_alive():
                log.warning("the embedded PostgreSQL had stopped and was restarted")
            pause_s = CHECK_INTERVAL_S
        # OSError: this process may open no more files, for example
        except (MemsvcError, OSError) as error:
            pause_s = min(pause_s * 2, CHECK_BACKOFF_S_MAX)
            message = error.message if isinstance(error, MemsvcError) else type(error).__name__
            log.error(
                "the embedded PostgreSQL cannot be checked or started",
                error=message,
                again_in_s=pause_s,
            )


async def migrate_database(
    urls: DatabaseUrls, settings: Settings, *, force: bool = False
) -> tuple[str, ...]:
    """Migrate where the owner is known, and return the revisions that were applied.

    Does nothing when the database says that it is migrated, unless `force`.
    """
    if not urls.admin:
        return ()
    role, password = role_of(urls.app)
    timeout_ms = settings.database.statement_timeout_ms
    if not force and await has_mark(urls.app, fingerprint(role, timeout_ms)):
        return ()
    return await migrate_in_process(
        urls.admin, role, app_password=password, statement_timeout_ms=timeout_ms
    )


def role_of(url: str) -> tuple[str | None, str | None]:
    """Return the role and the password in a DSN."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    user = unquote(parts.username) if parts.username else query.get("user")
    return user, unquote(parts.password) if parts.password else query.get("password")


@asynccontextmanager
async def opened_database(
    settings: Settings, app_url: str, meter: Meter, revisions: Revisions
) -> AsyncIterator[Database]:
    """Open the pool of a database that this version of memsvc can work on.

    Raises UNAVAILABLE for any other.
    """
    database = await Database.open(app_url, settings.database, meter)
    try:
        _log_pooler(database, settings)
        await _check_schema(database, revisions)
        yield database
    finally:
        await database.close()


def _log_pooler(database: Database, settings: Settings) -> None:
    if database.pooler is Pooler.NONE:
        return
    if not database.prepared:
        keep = (
            "configure the pooler to support prepared statements (PgBouncer 1.21 and newer:"
            " max_prepared_statements)"
        )
        log.info(
            "SQL statements are not prepared in advance, so each costs one additional round"
            " trip to the database",
            recovery=keep,
        )
    if not settings.database.direct_url:
        message = (
            "memsvc is not notified of changes and new jobs, because the pooler is in transaction"
            " mode"
        )
        log.warning(
            message, recovery="set database.direct_url to PostgreSQL itself, not to the pooler"
        )


async def is_schema_current(database: Database, revisions: Revisions) -> bool:
    """Return whether the database has everything that these revisions bring."""
    rows = await database.registry("SELECT version_num FROM alembic_version")
    return revisions.is_current(rows[0]["version_num"] if rows else None)


async def _check_schema(database: Database, revisions: Revisions) -> None:
    exists = await database.registry("SELECT to_regclass('alembic_version') IS NOT NULL AS there")
    if not exists[0]["there"] or not await is_schema_current(database, revisions):
        raise unavailable(
            f"the database is not at revision {revisions.head}, which this version of memsvc needs",
            recovery="set database.admin_url; then run `memsvc migrate`, or restart the server,"
            " which migrates the database when it starts",
        )
