"""The composition root: settings in, ASGI app out. The only file that knows every part."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.resources import files as resources

import structlog
from starlette.applications import Starlette

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.tokens import O200kCounter
from memsvc.adapters.tracing import opened_tracer
from memsvc.console_door import console
from memsvc.core.errors import SettingsError
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.tools import Job, Published
from memsvc.core.underway import Tracer
from memsvc.core.version import version
from memsvc.databases import is_migrated, opened_database
from memsvc.gateway import archives as archive_routes
from memsvc.gateway import files as file_routes
from memsvc.gateway import jobs as job_routes
from memsvc.gateway import memories as memory_routes
from memsvc.gateway import openapi, rest, server
from memsvc.gateway import tools as tool_routes
from memsvc.gateway.admission import Admission
from memsvc.gateway.audit import CallLog, call_log
from memsvc.gateway.auth import Authenticator, effective_mode
from memsvc.gateway.catalogue import Catalogue
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.happenings import HappeningsEndpoint
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.metrics import Metrics
from memsvc.gateway.oauth import Tokens
from memsvc.gateway.rates import Rates
from memsvc.gateway.retention import Retention
from memsvc.publishing import Models, opened_models, published
from memsvc.settings import Settings
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions
from memsvc.worker import Worker

log = structlog.get_logger("memsvc.app")

Publish = Callable[[Database, Settings, Clock, TokenCounter, Meter, Models], Published]
"""What makes tools and jobs of all this: `published`, or what a way in takes of it."""


def instructions() -> str:
    """What the server tells an agent about how to use its tools."""
    return resources("memsvc").joinpath("instructions.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class App:
    """The ASGI app, to be served with its lifespan, the database below it, and the worker that runs with it, if any."""

    asgi: Starlette
    database: Database
    worker: Worker | None


@dataclass(frozen=True, slots=True)
class WorkerApp:
    """The worker alone, and the ASGI app that tells how it is."""

    asgi: Starlette
    worker: Worker


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
    changes: Changes
    rates: Rates
    tracer: Tracer
    models: Models


@dataclass(frozen=True, slots=True)
class _Ground:
    """What every process stands on, whether it serves or only works."""

    metrics: Metrics
    clock: Clock
    tracer: Tracer
    database: Database
    models: Models


@asynccontextmanager
async def _grounded(settings: Settings, app_url: str) -> AsyncIterator[_Ground]:
    """An open database and the models that the settings name, measured and traced; all closed at the end."""
    metrics, clock = Metrics(), SystemClock()
    async with (
        opened_tracer(settings.tracing, metrics, version()) as tracer,
        opened_database(settings, app_url, metrics, Revisions.shipped()) as database,
        opened_models(settings, database, clock, metrics) as models,
    ):
        metrics.watch_pool(database.usage)
        metrics.watch("memsvc_model_refused", models.refused)
        yield _Ground(metrics, clock, tracer, database, models)


@asynccontextmanager
async def put_together(
    settings: Settings, app_url: str, host: str, publish: Publish = published
) -> AsyncIterator[Parts]:
    """All parts over an open database, none of them running yet. `host` decides who is let in without being listed."""
    async with _grounded(settings, app_url) as ground:
        metrics, clock, database = ground.metrics, ground.clock, ground.database
        tracer, models = ground.tracer, ground.models
        parts = publish(database, settings, clock, O200kCounter(), metrics, models)
        worker = None
        if settings.worker.enabled:
            worker = _worker(settings, app_url, database, clock, metrics, parts.jobs, tracer=tracer)
        calls = call_log(database, metrics, clock, settings.audit)
        catalogue = Catalogue(parts.tools)
        rates = Rates(database, settings.limits.rates, metrics)
        admission = Admission(settings.limits.slots, rates, metrics, connections_max=settings.database.pool_max)
        metrics.watch("memsvc_calls_running", admission.running_calls)
        metrics.watch("memsvc_calls_waiting", admission.waiting_calls)
        dispatch = Dispatch(
            catalogue,
            calls,
            metrics,
            clock,
            _disabled(settings, catalogue),
            admission=admission,
            tracer=tracer,
            slow_ms=settings.audit.slow_ms,
        )
        changes = Changes(settings.database.direct_url or app_url)
        tokens = Tokens(settings.auth.oauth, clock) if settings.auth.oauth.issuer else None
        mode = effective_mode(settings.auth, host)
        authenticator = Authenticator(database, settings.auth, mode, clock, changes, tokens)
        yield Parts(
            database, metrics, clock, parts, worker, calls, dispatch, authenticator, changes, rates, tracer, models
        )


@asynccontextmanager
async def opened(
    settings: Settings, app_url: str, draining: rest.Draining, *, conformance: bool = False
) -> AsyncIterator[App]:
    """The app over an open database, which is closed after it.

    UNAVAILABLE when the database cannot be reached or was not migrated, PERMISSION_DENIED for a privileged role.
    `conformance`: with what the official suite wants to find, for a server that nobody else uses.
    """
    publish = _with_fixtures if conformance else published
    async with put_together(settings, app_url, settings.host, publish) as parts:
        database, worker = parts.database, parts.worker
        checks = _checks(database, worker)
        asgi = server.build(
            dispatch=parts.dispatch,
            call_log=parts.call_log,
            metrics=parts.metrics,
            metrics_options=settings.metrics,
            tracer=parts.tracer,
            authenticator=parts.authenticator,
            limits=settings.limits,
            sse=settings.sse,
            administration=settings.settings.mcp.tools.admin.over_mcp,
            conformance=conformance,
            host=settings.host,
            instructions=instructions(),
            version=version(),
            checks=checks,
            console=console(
                settings.console,
                dispatch=parts.dispatch,
                authenticator=parts.authenticator,
                database=database,
                checks=checks,
                clock=parts.clock,
                version=version(),
            ),
            draining=draining,
            told={"model": lambda: not parts.models.refused()} if parts.models.any_asked else {},
            prompts=parts.published.prompts,
            guides=parts.published.guides,
            completions=parts.published.completions,
            changes=parts.changes,
            routes=[
                *job_routes.routes(database, parts.clock),
                *tool_routes.routes(parts.dispatch),
                *file_routes.routes(parts.dispatch, parts.published.content, settings.limits),
                *archive_routes.routes(parts.dispatch, parts.published.archives),
                *openapi.routes(parts.dispatch, version()),
            ],
            listening=lambda subscriptions: memory_routes.routes(
                parts.dispatch, _happenings(parts, subscriptions, settings)
            ),
            background=[
                *parts.published.background,
                Retention(database, settings.audit.retention_days).running,
                *(part.running for part in (worker, parts.changes, parts.rates) if part is not None),
            ],
        )
        yield App(asgi, database, worker)


def _with_fixtures(
    database: Database, settings: Settings, clock: Clock, tokens: TokenCounter, meter: Meter, models: Models
) -> Published:
    """What is published, and the tools of the conformance suite."""
    from memsvc.gateway.mcp.conformance.serving import tools  # noqa: PLC0415 - for this mode alone

    there = published(database, settings, clock, tokens, meter, models)
    return replace(there, tools=[*there.tools, *tools()])


def _happenings(parts: Parts, subscriptions: Subscriptions | None, settings: Settings) -> HappeningsEndpoint | None:
    if subscriptions is None or parts.published.happenings is None:
        return None
    return HappeningsEndpoint(
        parts.dispatch, parts.published.happenings, subscriptions, parts.authenticator, settings.limits
    )


@asynccontextmanager
async def opened_worker(settings: Settings, app_url: str, draining: rest.Draining) -> AsyncIterator[WorkerApp]:
    """The worker alone, over a database that is closed after it. Errors as `opened`."""
    async with _grounded(settings, app_url) as ground:
        metrics, clock, database, tracer = ground.metrics, ground.clock, ground.database, ground.tracer
        parts = published(database, settings, clock, O200kCounter(), metrics, ground.models)
        worker = _worker(settings, app_url, database, clock, metrics, parts.jobs, tracer=tracer)
        yield WorkerApp(server.probes(metrics, settings.metrics, _checks(database, worker), draining), worker)


def _checks(database: Database, worker: Worker | None) -> dict[str, rest.Check]:
    """What has to hold for a process to be ready."""
    revisions = Revisions.shipped()
    checks = {"database": rest.answers(database), "migrations": lambda: is_migrated(database, revisions)}
    return checks | ({"worker": worker.alive} if worker else {})


def _disabled(settings: Settings, catalogue: Catalogue) -> frozenset[str]:
    """The tools that the settings take out one by one; SettingsError for a name that would take out nothing."""
    names, there = frozenset(settings.settings.mcp.tools.disabled), catalogue.names()
    if not names <= {*there}:
        raise SettingsError([f"settings.mcp.tools.disabled: not all of these are tools; there are: {', '.join(there)}"])
    return names


def _worker(
    settings: Settings,
    app_url: str,
    database: Database,
    clock: Clock,
    metrics: Metrics,
    jobs: Sequence[Job],
    *,
    tracer: Tracer,
) -> Worker:
    url, grace_s = settings.database.direct_url or app_url, settings.shutdown_grace_s
    worker = Worker(url, database, jobs, clock, metrics, settings.worker, grace_s=grace_s, tracer=tracer)
    metrics.know_jobs(jobs)
    metrics.watch_jobs(lambda: worker.backlog)
    metrics.watch_index(lambda: worker.index_size)
    return worker
