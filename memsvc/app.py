"""The composition root: settings in, ASGI app out. The only file that knows every part."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.resources import files as resources

import structlog
from starlette.applications import Starlette

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import SettingsError
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.tools import Job, Published
from memsvc.databases import is_migrated, opened_database
from memsvc.gateway import files as file_routes
from memsvc.gateway import jobs as job_routes
from memsvc.gateway import memories as memory_routes
from memsvc.gateway import openapi, rest, server
from memsvc.gateway import tools as tool_routes
from memsvc.gateway.audit import CallLog
from memsvc.gateway.auth import Authenticator, effective_mode
from memsvc.gateway.catalogue import Catalogue
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.happenings import HappeningsEndpoint
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.metrics import Metrics
from memsvc.publishing import Models, opened_models, published
from memsvc.settings import Settings
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions
from memsvc.worker import Worker

log = structlog.get_logger("memsvc.app")

Publish = Callable[[Database, Settings, Clock, TokenCounter, Meter, Models], Published]
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
        opened_models(settings, database, clock, metrics) as models,
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
            administration=settings.settings.mcp.tools.admin.over_mcp,
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
        opened_models(settings, database, clock, metrics) as models,
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
