"""Services behind every entry point and every worker: settings in, runtime out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files as resources

import structlog

from memsvc.adapters.clock import SystemClock
from memsvc.adapters.tokens import O200kCounter
from memsvc.adapters.tracing import opened_tracer
from memsvc.core.call_context import Tracer
from memsvc.core.errors import SettingsError
from memsvc.core.ports import Clock, Meter, TokenCounter
from memsvc.core.tools import Job, Published
from memsvc.core.urls import is_loopback
from memsvc.core.version import version
from memsvc.database_setup import is_schema_current, opened_database
from memsvc.folder_key import KEY_FILE, list_legacy_keys
from memsvc.gateway import rest
from memsvc.gateway.admission import Admission
from memsvc.gateway.audit import CallLog, call_log
from memsvc.gateway.auth import Authenticator
from memsvc.gateway.catalogue import Catalogue
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.metrics import Metrics
from memsvc.gateway.oauth import TokenVerifier
from memsvc.gateway.rate_limits import RateLimits
from memsvc.gateway.schemas import input_schema, output_schema
from memsvc.gateway.storage_quota import StorageQuota
from memsvc.settings import Settings
from memsvc.store.changes import Changes
from memsvc.store.database import Database
from memsvc.store.revisions import Revisions
from memsvc.tool_registry import Models, opened_models, published
from memsvc.worker import Worker

log = structlog.get_logger("memsvc.runtime")

Publish = Callable[[Database, Settings, Clock, TokenCounter, Meter, Models], Published]
"""Makes tools and jobs of these services: `published`, or what an entry point takes of it."""


def instructions() -> str:
    """Return what the server tells an agent about how to use its tools."""
    return resources("memsvc").joinpath("instructions.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Runtime:
    """Services behind every entry point."""

    database: Database
    metrics: Metrics
    clock: Clock
    published: Published
    worker: Worker | None
    call_log: CallLog
    dispatch: Dispatch
    authenticator: Authenticator
    changes: Changes
    rates: RateLimits
    tracer: Tracer
    models: Models
    tokens: O200kCounter

    async def warm(self) -> None:
        """Do the slow first-time work now, step by step, so that no caller waits for it.

        A vocabulary that cannot be used is logged; only calls that count tokens fail then.
        """
        try:
            await asyncio.to_thread(self.tokens.load)
        except RuntimeError as error:
            log.error(
                "tokens cannot be counted, and calls that count them will fail", fault=str(error)
            )
        for tool in self.dispatch.catalogue:
            input_schema(tool)
            output_schema(tool)
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class SharedRuntime:
    """Services that every process needs, whether it serves or only runs jobs."""

    metrics: Metrics
    clock: Clock
    tracer: Tracer
    database: Database
    models: Models


@asynccontextmanager
async def opened_shared_runtime(settings: Settings, app_url: str) -> AsyncIterator[SharedRuntime]:
    """Open the database and the models, measured and traced; close all at the end."""
    metrics, clock = Metrics(), SystemClock()
    async with (
        opened_tracer(settings.tracing, metrics, version()) as tracer,
        opened_database(settings, app_url, metrics, Revisions.read_package()) as database,
        opened_models(settings, database, clock, metrics) as models,
    ):
        metrics.watch_pool(database.usage)
        metrics.watch("memsvc_model_refused", models.refused)
        yield SharedRuntime(metrics, clock, tracer, database, models)


@asynccontextmanager
async def build_runtime(
    settings: Settings, app_url: str, host: str, publish: Publish = published
) -> AsyncIterator[Runtime]:
    """Build the runtime over an open database; nothing of it runs yet.

    With a `host` that only this machine reaches, keys that opened a tenant before they had to be
    listed are listed now, and a caller with a wrong key learns where the right one is.
    """
    async with opened_shared_runtime(settings, app_url) as shared:
        metrics, clock, database = shared.metrics, shared.clock, shared.database
        tracer, models = shared.tracer, shared.models
        tokens = O200kCounter()
        catalogue_parts = publish(database, settings, clock, tokens, metrics, models)
        worker = None
        if settings.worker.enabled:
            worker = worker_of(
                settings, app_url, database, clock, metrics, catalogue_parts.jobs, tracer=tracer
            )
        calls = call_log(database, metrics, clock, settings.audit)
        catalogue = Catalogue(catalogue_parts.tools)
        rates = RateLimits(database, settings.limits.rates, metrics)
        admission = Admission(
            settings.limits.slots, rates, metrics, connections_max=settings.database.pool_max
        )
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
            quota=StorageQuota(database, clock, settings.limits.stored.quota),
        )
        changes = Changes(settings.database.direct_url or app_url)
        issued = TokenVerifier(settings.auth.oauth, clock) if settings.auth.oauth.issuer else None
        await list_legacy_keys(database, settings.auth, host, clock.now())
        # as configured: over HTTP nobody learns where on this machine a relative folder is
        key_file = (
            settings.data_dir / KEY_FILE
            if is_loopback(host) and not settings.database.url
            else None
        )
        authenticator = Authenticator(database, settings.auth, clock, changes, issued, key_file)
        yield Runtime(
            database,
            metrics,
            clock,
            catalogue_parts,
            worker,
            calls,
            dispatch,
            authenticator,
            changes,
            rates,
            tracer,
            models,
            tokens,
        )


def checks_of(database: Database, worker: Worker | None) -> dict[str, rest.Check]:
    """Return the checks that a process must pass to be ready."""
    revisions = Revisions.read_package()
    checks = {
        "database": rest.database_check(database),
        "migrations": lambda: is_schema_current(database, revisions),
        "row_security": rest.isolation_check(database),
    }
    return checks | ({"worker": worker.alive} if worker else {})


def _disabled(settings: Settings, catalogue: Catalogue) -> frozenset[str]:
    """Return the tools that the settings disable one by one.

    Raises SettingsError for a name that is not a tool.
    """
    names, tool_names = frozenset(settings.settings.mcp.tools.disabled), catalogue.names()
    if not names <= {*tool_names}:
        raise SettingsError(
            [
                (
                    "settings.mcp.tools.disabled: not all of these are tools; there are:"
                    f" {', '.join(tool_names)}"
                )
            ]
        )
    return names


def worker_of(
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
    worker = Worker(
        url, database, jobs, clock, metrics, settings.worker, grace_s=grace_s, tracer=tracer
    )
    metrics.add_jobs(jobs)
    metrics.watch_jobs(lambda: worker.backlog)
    metrics.watch_index(lambda: worker.index_size)
    return worker
