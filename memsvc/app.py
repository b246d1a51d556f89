"""The composition root: settings in, ASGI app out. The only file that knows every part."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.resources import files as resources
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from starlette.applications import Starlette

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.tools import Tool
from memsvc.gateway import rest, server
from memsvc.gateway.audit import CallLog
from memsvc.gateway.auth import Authenticator, effective_mode
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.metrics import Metrics
from memsvc.settings import McpOptions, Settings
from memsvc.store.database import Database
from memsvc.store.migrate import Revisions, migrate
from memsvc.styles.files import tools as file_tools
from memsvc.styles.files.files import Files
from memsvc.styles.files.writing import Writing
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.listing import Listing
from memsvc.styles.turns.maintenance import Maintenance
from memsvc.styles.turns.turns import TurnMemory
from memsvc.styles.turns.views import TurnViews


def version() -> str:
    """The version of this package; `0` where it is run without being installed."""
    try:
        return installed_version("memsvc")
    except PackageNotFoundError:
        return "0"


def instructions() -> str:
    """What the server tells an agent about how to use its tools."""
    return resources("memsvc").joinpath("instructions.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """Where the database is, for the application role and, if it is known here, for the owner."""

    app: str = field(repr=False)
    admin: str = field(repr=False)


@contextmanager
def database_urls(settings: Settings) -> Iterator[DatabaseUrls]:
    """The configured server, or the embedded one, which runs until the last process that uses it is done with it."""
    if settings.database.url:
        yield DatabaseUrls(settings.database.url, settings.database.admin_url)
        return
    server = EmbeddedPostgres(settings.data_dir)
    urls = server.start()
    try:
        yield DatabaseUrls(urls.app_url, urls.admin_url)
    finally:
        server.stop()


async def bring_up_to_date(urls: DatabaseUrls, settings: Settings) -> tuple[str, ...]:
    """Migrate, where the owner is known; the revisions that were applied."""
    if not urls.admin:
        return ()
    role, password = role_of(urls.app)
    return await migrate(
        urls.admin, role, app_password=password, statement_timeout_ms=settings.database.statement_timeout_ms
    )


def role_of(url: str) -> tuple[str | None, str | None]:
    """The role and the password in a DSN."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    user = unquote(parts.username) if parts.username else query.get("user")
    return user, unquote(parts.password) if parts.password else query.get("password")


def catalogue(database: Database, settings: Settings, clock: Clock, tokens: TokenCounter, meter: Meter) -> Catalogue:
    """Every tool of every style that the settings let in."""
    options: McpOptions = settings.settings.mcp
    published: list[Tool] = []
    if options.tools.file_io.enabled:
        views = [TurnViews(database, clock, options.memory)]
        published += file_tools.tools(
            Files(database, clock, settings.files, views), Writing(database, clock, settings.files)
        )
    if options.tools.memory.enabled:
        memory = TurnMemory(database, clock, tokens, meter, options.memory)
        maintenance = Maintenance(database, clock, options.memory)
        published += turn_tools.tools(memory, maintenance, Listing(database), clock, options.memory)
    return Catalogue(published)


def described_tools() -> Catalogue:
    """Every tool as the documentation tells of it: none of them can be called, as there is no database."""
    nothing = cast(Any, None)
    return catalogue(nothing, Settings(), SystemClock(), O200kCounter(), nothing)


@dataclass(frozen=True, slots=True)
class App:
    """The ASGI app, to be served with its lifespan, and the database below it."""

    asgi: Starlette
    database: Database


@asynccontextmanager
async def opened(settings: Settings, app_url: str, draining: rest.Draining) -> AsyncIterator[App]:
    """The app over an open database, which is closed after it.

    UNAVAILABLE when the database cannot be reached or was not migrated, PERMISSION_DENIED for a privileged role.
    """
    metrics, clock, revisions = Metrics(), SystemClock(), Revisions.shipped()
    database = await Database.open(app_url, settings.database, metrics)
    try:
        await _check_migrated(database, revisions)
        metrics.watch_pool(database.usage)
        call_log = CallLog(database, metrics, clock, settings.audit)
        tools = catalogue(database, settings, clock, O200kCounter(), metrics)
        asgi = server.build(
            dispatch=Dispatch(tools, call_log, metrics, clock),
            call_log=call_log,
            metrics=metrics,
            authenticator=Authenticator(database, settings.auth, effective_mode(settings.auth, settings.host), clock),
            limits=settings.limits,
            host=settings.host,
            instructions=instructions(),
            version=version(),
            checks={"database": rest.answers(database), "migrations": lambda: _is_migrated(database, revisions)},
            draining=draining,
        )
        yield App(asgi, database)
    finally:
        await database.close()


async def _is_migrated(database: Database, revisions: Revisions) -> bool:
    rows = await database.registry("SELECT version_num FROM alembic_version")
    return revisions.suffices(rows[0]["version_num"] if rows else None)


async def _check_migrated(database: Database, revisions: Revisions) -> None:
    exists = await database.registry("SELECT to_regclass('alembic_version') IS NOT NULL AS there")
    if not exists[0]["there"] or not await _is_migrated(database, revisions):
        raise MemsvcError(
            Code.UNAVAILABLE,
            f"the database is not at revision {revisions.head}, which this version of memsvc needs",
            recovery="set database.admin_url and run `memsvc migrate`, or start with database.admin_url set",
        )
