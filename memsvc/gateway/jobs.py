"""The HTTP routes of jobs: a tenant sees its own, lets one be tried again, or drops it."""

from datetime import datetime
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from memsvc.core.errors import LacksPermissionError, invalid
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller, Permission
from memsvc.gateway.auth import CALLER
from memsvc.store import backlog
from memsvc.store.backlog import JobState, QueuedJob
from memsvc.store.database import Database

JOBS_PATH = "/api/jobs"
LIMIT = 100
LIMIT_MAX = 1000


def routes(database: Database, clock: Clock) -> list[BaseRoute]:
    """`GET /api/jobs`, `POST /api/jobs/{id}/retry`, `DELETE /api/jobs/{id}`: of the caller's tenant and projects."""

    async def list_jobs(request: Request) -> Response:
        caller = _caller(request, Permission.READ)
        found = await backlog.list_jobs(
            database, caller.tenant, projects=caller.projects, state=_state(request), limit=_limit(request)
        )
        now = clock.now()
        return _answer({"jobs": [shown(job) | {"age_s": _age_s(job, now)} for job in found]})

    async def retry(request: Request) -> Response:
        caller = _caller(request, Permission.ADMIN)
        job: int = request.path_params["job"]
        await backlog.retry(database, job, clock.now(), tenant=caller.tenant, projects=caller.projects)
        return _answer({"id": job, "state": JobState.WAITING})

    async def drop(request: Request) -> Response:
        caller = _caller(request, Permission.ADMIN)
        job: int = request.path_params["job"]
        await backlog.drop(database, job, tenant=caller.tenant, projects=caller.projects)
        return _answer({"id": job, "dropped": True})

    return [
        Route(JOBS_PATH, list_jobs, methods=["GET"]),
        Route(f"{JOBS_PATH}/{{job:int}}/retry", retry, methods=["POST"]),
        Route(f"{JOBS_PATH}/{{job:int}}", drop, methods=["DELETE"]),
    ]


def shown(job: QueuedJob) -> dict[str, Any]:
    """A job as it is told: nothing of it is content."""
    return {
        "id": job.ref.job,
        "name": job.ref.name,
        "project": job.ref.scope.project,
        "subject": job.ref.subject,
        "state": job.state,
        "failures": job.failures,
        "code": job.code,
        "queued_at": job.queued_at.isoformat(),
    }


def _caller(request: Request, permission: Permission) -> Caller:
    caller: Caller = request.scope[CALLER]
    if permission not in caller.permissions:
        raise LacksPermissionError(permission)
    return caller


def _state(request: Request) -> JobState | None:
    text = request.query_params.get("state")
    try:
        return JobState(text) if text else None
    except ValueError:
        raise invalid(f"state is one of: {', '.join(JobState)}") from None


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(LIMIT))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= LIMIT_MAX):
        raise invalid(f"limit is a number from 1 to {LIMIT_MAX}")
    return int(text)


def _age_s(job: QueuedJob, now: datetime) -> float:
    return round(max(0.0, (now - job.queued_at).total_seconds()), 3)


def _answer(body: dict[str, Any]) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
