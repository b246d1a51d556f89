"""Probes of a process that serves no calls: health, readiness and metrics."""

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.middleware import Middleware

from memsvc.gateway import rest
from memsvc.gateway.limits import RequestId
from memsvc.gateway.metrics import Metrics, MetricsOptions


def health_app(
    metrics: Metrics,
    options: MetricsOptions,
    checks: Mapping[str, rest.Check],
    draining: rest.Draining,
) -> Starlette:
    """Return the app of a process that serves only health, readiness and metrics."""
    return Starlette(
        routes=rest.routes(metrics, options, checks, draining),
        middleware=[Middleware(RequestId)],
        exception_handlers=rest.EXCEPTION_HANDLERS,
    )
