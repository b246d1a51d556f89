"""The composition root: settings in, ASGI app out. The only file that knows every part."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.resources import files as resources
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from starlette.applications import Starlette

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embedder import embedder
from memsvc.adapters.llm import llm
from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.adapters.rerank import reranker
from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock, Llm, Meter, Reranker, TokenCounter
from memsvc.core.tools import Job, Published
from memsvc.gateway import files as file_routes
from memsvc.gateway import jobs as job_routes
from memsvc.gateway import rest, server
from memsvc.gateway import tools as tool_routes
from memsvc.gateway.audit import CallLog
from memsvc.gateway.auth import Authenticator, effective_mode
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import find_tool
from memsvc.gateway.metrics import Metrics
from memsvc.gateway.pipe import pipe_tool
from memsvc.settings import McpOptions, Settings, SettingsError
from memsvc.store import vectors
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions, bears, fingerprint, migrate_apart
from memsvc.styles.embedding import Embedding
from memsvc.styles.files import tools as file_tools
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.views import TurnViews
from memsvc.worker import Worker

log = structlog.get_logger("memsvc.app")


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


async def bring_up_to_date(urls: DatabaseUrls, settings: Settings, *, anyway: bool = False) -> tuple[str, ...]:
    """Migrate, where the owner is known and, unless `anyway`, the database does not say that this has been done; the
    revisions that were applied."""
    if not urls.admin:
        return ()
    role, password = role_of(urls.app)
    timeout_ms = settings.database.statement_timeout_ms
    if not anyway and await bears(urls.app, fingerprint(role, timeout_ms)):
        return ()
    return await migrate_apart(urls.admin, role, app_password=password, statement_timeout_ms=timeout_ms)


def role_of(url: str) -> tuple[str | None, str | None]:
    """The role and the password in a DSN."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    user = unquote(parts.username) if parts.username else query.get("user")
    return user, unquote(parts.password) if parts.password else query.get("password")


@dataclass(frozen=True, slots=True)
class Models:
    """The models that the settings name, as the styles take them; memsvc works without any."""

    embedding: Embedding | None = None
    reranker: Reranker | None = None
    llm: Llm | None = None
    turn_llm: Llm | None = None


def published(
    database: Database, settings: Settings, clock: Clock, tokens: TokenCounter, meter: Meter, models: Models
) -> Published:
    """Every tool of every style that the settings let in, those of the gateway itself, and every job."""
    options: McpOptions = settings.settings.mcp
    views = [TurnViews(database, clock, options.memory)]
    files = file_tools.published(
        database,
        clock,
        meter,
        settings.files,
        views,
        embedding=models.embedding,
        reranker=models.reranker,
        llm=models.llm,
    )
    tools = files.tools if options.tools.file_io.enabled else []
    jobs = [*files.jobs, *(models.embedding.jobs if models.embedding else ())]
    if options.tools.memory.enabled:
        turns = turn_tools.published(
            database,
            clock,
            tokens,
            meter,
            options.memory,
            embedding=models.embedding,
            llm=models.turn_llm,
            passages=files.passages if options.tools.file_io.enabled else None,
        )
        tools, jobs = [*tools, *turns.tools], [*jobs, *turns.jobs]
    if options.tools.mcp_pipe.enabled:
        tools = [*tools, pipe_tool(options.tools.mcp_pipe, settings.limits, clock)]
    if options.tools.find_tool.enabled:
        tools = [*tools, find_tool(models.embedding)]
    return Published(tools, jobs, files.content if options.tools.file_io.enabled else None)


@asynccontextmanager
async def _models(settings: Settings, database: Database, clock: Clock, meter: Meter) -> AsyncIterator[Models]:
    async with (
        embedder(settings.embeddings) as embeds,
        reranker(settings.rerank) as reranks,
        llm(settings.model, meter) as model,
        _turn_llm(settings, meter, model) as turn_model,
    ):
        embedding = Embedding(database, embeds, clock, meter) if embeds else None
        if embedding is not None and not await vectors.ready(database):
            log.warning("this database keeps no vectors: it has no pgvector 0.7, or was not migrated since it has")
            embedding = None
        yield Models(embedding, reranks, model, turn_model)


@asynccontextmanager
async def _turn_llm(settings: Settings, meter: Meter, general: Llm | None) -> AsyncIterator[Llm | None]:
    if settings.turn_model == settings.model:
        yield general
        return
    async with llm(settings.turn_model, meter, settings.turn_model_section) as own:
        yield own


def described_tools() -> Catalogue:
    """Every tool as the documentation tells of it, those that an option brings too: none of them can be called, as
    there is no database."""
    nothing = cast(Any, None)
    everything = Settings.model_validate({"settings": {"mcp": {"memory": {"shadow": {"enabled": True}}}}})
    return Catalogue(published(nothing, everything, SystemClock(), O200kCounter(), nothing, Models()).tools)


@dataclass(frozen=True, slots=True)
class App:
    """The ASGI app, to be served with its lifespan, the database below it, and the worker that runs with it, if any."""

    asgi: Starlette
    database: Database
    worker: Worker | None


@asynccontextmanager
async def opened(settings: Settings, app_url: str, draining: rest.Draining) -> AsyncIterator[App]:
    """The app over an open database, which is closed after it.

    UNAVAILABLE when the database cannot be reached or was not migrated, PERMISSION_DENIED for a privileged role.
    """
    metrics, clock, revisions = Metrics(), SystemClock(), Revisions.shipped()
    async with (
        _opened_database(settings, app_url, metrics, revisions) as database,
        _models(settings, database, clock, metrics) as models,
    ):
        metrics.watch_pool(database.usage)
        parts = published(database, settings, clock, O200kCounter(), metrics, models)
        worker = _worker(settings, app_url, database, clock, metrics, parts.jobs) if settings.worker.enabled else None
        call_log = CallLog(database, metrics, clock, settings.audit)
        catalogue = Catalogue(parts.tools)
        dispatch = Dispatch(catalogue, call_log, metrics, clock, _disabled(settings, catalogue))
        checks = {"database": rest.answers(database), "migrations": lambda: _is_migrated(database, revisions)}
        asgi = server.build(
            dispatch=dispatch,
            call_log=call_log,
            metrics=metrics,
            authenticator=Authenticator(database, settings.auth, effective_mode(settings.auth, settings.host), clock),
            limits=settings.limits,
            host=settings.host,
            instructions=instructions(),
            version=version(),
            checks=checks | ({"worker": worker.alive} if worker else {}),
            draining=draining,
            routes=[
                *job_routes.routes(database, clock),
                *tool_routes.routes(dispatch),
                *file_routes.routes(dispatch, parts.content),
            ],
            background=[worker.running] if worker else [],
        )
        yield App(asgi, database, worker)


@asynccontextmanager
async def opened_worker(settings: Settings, app_url: str) -> AsyncIterator[Worker]:
    """The worker alone, over a database that is closed after it. Errors as `opened`."""
    metrics, clock = Metrics(), SystemClock()
    async with (
        _opened_database(settings, app_url, metrics, Revisions.shipped()) as database,
        _models(settings, database, clock, metrics) as models,
    ):
        parts = published(database, settings, clock, O200kCounter(), metrics, models)
        yield _worker(settings, app_url, database, clock, metrics, parts.jobs)


def _disabled(settings: Settings, catalogue: Catalogue) -> frozenset[str]:
    """The tools that the settings take out one by one; SettingsError for a name that would take out nothing."""
    names, there = frozenset(settings.settings.mcp.tools.disabled), catalogue.names()
    if not names <= {*there}:
        raise SettingsError([f"settings.mcp.tools.disabled: not all of these are tools; there are: {', '.join(there)}"])
    return names


def _worker(
    settings: Settings, app_url: str, database: Database, clock: Clock, metrics: Metrics, jobs: Sequence[Job]
) -> Worker:
    url = settings.database.direct_url or app_url
    worker = Worker(url, database, jobs, clock, metrics, settings.worker, grace_s=settings.shutdown_grace_s)
    metrics.know_jobs(jobs)
    metrics.watch_jobs(lambda: worker.backlog)
    return worker


@asynccontextmanager
async def _opened_database(
    settings: Settings, app_url: str, metrics: Metrics, revisions: Revisions
) -> AsyncIterator[Database]:
    database = await Database.open(app_url, settings.database, metrics)
    try:
        await _check_migrated(database, revisions)
        yield database
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
