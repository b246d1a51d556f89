"""The HTTP routes of jobs: a tenant lists its jobs, retries one, or drops it."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.operations import RestOperation
from memsvc.gateway.tools import answer, call

JOBS_PATH: Final = "/api/jobs"
LIST_LIMIT: Final = 100
OPERATIONS: Final[Sequence[RestOperation]] = (
    RestOperation(
        method="GET",
        path=JOBS_PATH,
        tool="tenant_jobs",
        query=("state", "limit"),
        defaults={"limit": LIST_LIMIT},
    ),
    RestOperation(
        method="POST",
        path=JOBS_PATH + "/{id}/retry",
        tool="tenant_settle_job",
        defaults={"action": "retry"},
    ),
    RestOperation(
        method="DELETE",
        path=JOBS_PATH + "/{id}",
        tool="tenant_settle_job",
        defaults={"action": "drop"},
    ),
)


def routes(dispatch: Dispatch) -> list[BaseRoute]:
    """Return the routes below /api/jobs."""
    return [_route(dispatch, operation) for operation in OPERATIONS]


def _route(dispatch: Dispatch, operation: RestOperation) -> Route:
    async def perform(request: Request) -> Response:
        arguments = await operation.arguments(request, request.path_params)
        return answer(request, await call(dispatch, request, operation.tool, arguments))

    return Route(operation.path, perform, methods=[operation.method])
