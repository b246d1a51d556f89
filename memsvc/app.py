"""The composition root: settings in, ASGI app out. The only file that knows every part."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.resources import files as resources
from typing import Any, cast

import structlog
from starlette.applications import Starlette

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.embedder import embedder
from memsvc.adapters.llm import ModelOptions, llm
from memsvc.adapters.rerank import reranker
from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import SettingsError
from memsvc.core.ports import Clock, Llm, Meter, Reranker, TokenCounter
from memsvc.core.tools import Job, Published
from memsvc.databases import is_migrated, opened_database
from memsvc.gateway import files as file_routes
from memsvc.gateway import jobs as job_routes
from memsvc.gateway import memories as memory_routes
from memsvc.gateway import openapi, rest, server
from memsvc.gateway import tools as tool_routes
from memsvc.gateway.audit import CallLog
from memsvc.gateway.auth import Authenticator, effective_mode
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import find_tool
from memsvc.gateway.happenings import HappeningsEndpoint
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.metrics import Metrics
from memsvc.gateway.pipe import pipe_tool
from memsvc.settings import McpOptions, Settings
from memsvc.store import vectors
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions
from memsvc.styles.embedding import Embedding
from memsvc.styles.files import tools as file_tools
from memsvc.styles.knowledge import tools as knowledge_tools
from memsvc.styles.memories import tools as memories_tools
from memsvc.styles.notebook import tools as notebook_tools
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.views import TurnViews
from memsvc.styles.whiteboard import tools as whiteboard_tools
from memsvc.styles.whiteboard.boards import OWNER as WHITEBOARD
from memsvc.worker import Worker

log = structlog.get_logger("memsvc.app")

Publish = Callable[[Database, Settings, Clock, TokenCounter, Meter, "Models"], Published]
"""What makes tools and jobs of all this: `published`, or what a way in takes of it."""


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
class Models:
    """The models that the settings name, as the styles take them; memsvc works without any."""

    embedding: Embedding | None = None
    reranker: Reranker | None = None
    llm: Llm | None = None
    turn_llm: Llm | None = None
    memories_llm: Llm | None = None


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
        versions_owned={WHITEBOARD: settings.whiteboard.history_kept},
    )
    quoted = {"files": files} if options.tools.file_io.enabled else {}  # what before_turn may quote, by its source
    if options.tools.whiteboard.enabled:
        quoted["whiteboard"] = whiteboard_tools.published(
            database, clock, tokens, meter, settings.whiteboard, llm=models.llm, embedding=models.embedding
        )
    tools = [tool for style in quoted.values() for tool in style.tools]
    prompts = tuple(prompt for style in quoted.values() for prompt in style.prompts)
    jobs = [*files.jobs, *(models.embedding.jobs if models.embedding else ())]
    if options.tools.notebook.enabled:
        notebook = notebook_tools.published(database, clock, meter, settings.notebook, embedding=models.embedding)
        tools, jobs = [*tools, *notebook.tools], [*jobs, *notebook.jobs]
        quoted["notebook"] = notebook
    if options.tools.memory.enabled:
        turns = turn_tools.published(
            database,
            clock,
            tokens,
            meter,
            options.memory,
            embedding=models.embedding,
            llm=models.turn_llm,
            passages={source: style.passages for source, style in quoted.items() if style.passages is not None},
        )
        tools, jobs = [*tools, *turns.tools], [*jobs, *turns.jobs]
    if options.tools.knowledge.enabled:
        knowledge = knowledge_tools.published(
            database, clock, tokens, meter, settings.knowledge, embedding=models.embedding, llm=models.llm
        )
        tools, jobs = [*tools, *knowledge.tools], [*jobs, *knowledge.jobs]
    happenings = None
    if options.tools.memories.enabled:
        memories = memories_tools.published(
            database, clock, meter, settings.memories, embedding=models.embedding, llm=models.memories_llm
        )
        tools, happenings = [*tools, *memories.tools], memories.happenings
    if options.tools.mcp_pipe.enabled:
        tools = [*tools, pipe_tool(options.tools.mcp_pipe, settings.limits, clock)]
    if options.tools.find_tool.enabled:
        tools = [*tools, find_tool(models.embedding)]
    content = files.content if options.tools.file_io.enabled else None
    return Published(tools, jobs, content, prompts=prompts, happenings=happenings)


@asynccontextmanager
async def _models(settings: Settings, database: Database, clock: Clock, meter: Meter) -> AsyncIterator[Models]:
    async with (
        embedder(settings.embeddings) as embeds,
        reranker(settings.rerank) as reranks,
        llm(settings.model, meter) as model,
        _own_llm(settings.turn_model, settings.turn_model_section, settings, meter, model) as turn_model,
        _own_llm(settings.memories_model, "model", settings, meter, model) as memories_model,
    ):
        embedding = Embedding(database, embeds, clock, meter) if embeds else None
        if embedding is not None and not await vectors.ready(database):
            log.warning("this database keeps no vectors: it has no pgvector 0.7, or was not migrated since it has")
            embedding = None
        yield Models(embedding, reranks, model, turn_model, memories_model)


@asynccontextmanager
async def _own_llm(
    options: ModelOptions, section: str, settings: Settings, meter: Meter, general: Llm | None
) -> AsyncIterator[Llm | None]:
    """The model of one style, which is the general one where it is asked in no other way."""
    if options == settings.model:
        yield general
        return
    async with llm(options, meter, section) as own:
        yield own


def described() -> Published:
    """What the documentation tells of, what an option brings too: no tool can be called, as there is no database."""
    nothing = cast(Any, None)
    everything = Settings.model_validate({"settings": {"mcp": {"memory": {"shadow": {"enabled": True}}}}})
    return published(nothing, everything, SystemClock(), O200kCounter(), nothing, Models())


@dataclass(frozen=True, slots=True)
class App:
    """The ASGI app, to be served with its lifespan, the database below it, and the worker that runs with it, if any."""

    asgi: Starlette
    database: Database
    worker: Worker | None


@dataclass(frozen=True, slots=True)
class Parts:
    """What stands behind every way in."""

    database: Database
    metrics: Metrics
    clock: Clock
    published: Published
    worker: Worker | None
    call_log: CallLog
    dispatch: Dispatch
    authenticator: Authenticator
    changes: Changes | None


@asynccontextmanager
async def put_together(
    settings: Settings, app_url: str, host: str, publish: Publish = published
) -> AsyncIterator[Parts]:
    """All parts over an open database, none of them running yet. `host` decides who is let in without being listed."""
    metrics, clock = Metrics(), SystemClock()
    async with (
        opened_database(settings, app_url, metrics, Revisions.shipped()) as database,
        _models(settings, database, clock, metrics) as models,
    ):
        metrics.watch_pool(database.usage)
        parts = publish(database, settings, clock, O200kCounter(), metrics, models)
        worker = _worker(settings, app_url, database, clock, metrics, parts.jobs) if settings.worker.enabled else None
        call_log = CallLog(database, metrics, clock, settings.audit)
        catalogue = Catalogue(parts.tools)
        dispatch = Dispatch(catalogue, call_log, metrics, clock, _disabled(settings, catalogue))
        authenticator = Authenticator(database, settings.auth, effective_mode(settings.auth, host), clock)
        resources = any(tool.resource is not None and tool.name not in dispatch.disabled for tool in catalogue)
        heard = resources or parts.happenings is not None
        changes = Changes(settings.database.direct_url or app_url) if heard else None
        yield Parts(database, metrics, clock, parts, worker, call_log, dispatch, authenticator, changes)


@asynccontextmanager
async def opened(settings: Settings, app_url: str, draining: rest.Draining) -> AsyncIterator[App]:
    """The app over an open database, which is closed after it.

    UNAVAILABLE when the database cannot be reached or was not migrated, PERMISSION_DENIED for a privileged role.
    """
    revisions = Revisions.shipped()
    async with put_together(settings, app_url, settings.host) as parts:
        database, worker = parts.database, parts.worker
        checks = {"database": rest.answers(database), "migrations": lambda: is_migrated(database, revisions)}
        asgi = server.build(
            dispatch=parts.dispatch,
            call_log=parts.call_log,
            metrics=parts.metrics,
            authenticator=parts.authenticator,
            limits=settings.limits,
            sse=settings.sse,
            host=settings.host,
            instructions=instructions(),
            version=version(),
            checks=checks | ({"worker": worker.alive} if worker else {}),
            draining=draining,
            prompts=parts.published.prompts,
            changes=parts.changes,
            routes=[
                *job_routes.routes(database, parts.clock),
                *tool_routes.routes(parts.dispatch),
                *file_routes.routes(parts.dispatch, parts.published.content),
                *openapi.routes(parts.dispatch, version()),
            ],
            listening=lambda subscriptions: memory_routes.routes(
                parts.dispatch, _happenings(parts, subscriptions, settings)
            ),
            background=[part.running for part in (worker, parts.changes) if part is not None],
        )
        yield App(asgi, database, worker)


def _happenings(parts: Parts, subscriptions: Subscriptions | None, settings: Settings) -> HappeningsEndpoint | None:
    if subscriptions is None or parts.published.happenings is None:
        return None
    return HappeningsEndpoint(
        parts.dispatch, parts.published.happenings, subscriptions, parts.authenticator, settings.limits
    )


@asynccontextmanager
async def opened_worker(settings: Settings, app_url: str) -> AsyncIterator[Worker]:
    """The worker alone, over a database that is closed after it. Errors as `opened`."""
    metrics, clock = Metrics(), SystemClock()
    async with (
        opened_database(settings, app_url, metrics, Revisions.shipped()) as database,
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
