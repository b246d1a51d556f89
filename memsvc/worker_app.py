"""The worker with its probes: settings in, worker out, without anything that answers calls."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware

from memsvc.core.frozen import frozen
from memsvc.gateway import rest
from memsvc.gateway.metrics import Metrics, MetricsOptions
from memsvc.gateway.middleware import HttpMiddleware
from memsvc.gateway.rest import Draining
from memsvc.runtime import checks_of, opened_services, published, worker_of
from memsvc.settings import Settings
from memsvc.worker import Worker


@frozen
class WorkerApp:
    """The worker alone, and the ASGI app that reports its state."""

    asgi: Starlette
    worker: Worker


@asynccontextmanager
async def opened(settings: Settings, app_url: str, draining: Draining) -> AsyncIterator[WorkerApp]:
    """Open the worker over an open database, which is closed after it.

    Raises UNAVAILABLE when the database cannot be reached or was not migrated, PERMISSION_DENIED
    for a privileged role.
    """
    async with opened_services(settings, app_url) as services:
        worker = worker_of(services, app_url, published(services).jobs)
        checks = checks_of(services.database, worker)
        yield WorkerApp(health_app(services.metrics, settings.metrics, checks, draining), worker)


def health_app(
    metrics: Metrics,
    options: MetricsOptions,
    checks: Mapping[str, rest.Check],
    draining: rest.Draining,
) -> Starlette:
    """Return the app of a process that serves only health, readiness and metrics."""
    return Starlette(
        routes=rest.routes(metrics, options, checks, draining),
        middleware=[Middleware(HttpMiddleware, draining=rest.Draining())],
        exception_handlers=rest.EXCEPTION_HANDLERS,
    )
