"""The tools over the queue: tenant_jobs lists jobs, tenant_settle_job retries or drops one."""

from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from memsvc.core.errors import Code
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tools import AllProjectsArguments, Result, Tool
from memsvc.store import backlog
from memsvc.store.backlog import JobState, count_jobs, list_jobs
from memsvc.store.database import Database

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500
JOB_MAX: Final = 2**53


class JobsListArguments(AllProjectsArguments):
    project: str = Field(
        ALL_PROJECTS, description="only jobs of this project; `*`: of all that the key may touch"
    )
    state: JobState | None = Field(
        None, description="only jobs that wait, run, or have failed for good"
    )
    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="jobs at the most")


class ListedJob(Result):
    id: int = Field(description="the job, as tenant_settle_job and /api/jobs take it")
    name: str = Field(description="what it does")
    project: str = Field(description="the project that it is about")
    subject: str = Field(
        description="what in the project it is about: an identifier, never content"
    )
    state: JobState = Field(description="what it is doing")
    failures: int = Field(description="how many of its attempts failed")
    code: Code | None = Field(description="the code of the last of these")
    queued_at: datetime = Field(description="when it was queued")
    age_s: float = Field(description="how long ago that is")


class JobsListResult(Result):
    jobs: list[ListedJob] = Field(description="the jobs, newest first")
    counts: dict[JobState, int] = Field(
        description="how many there are in each state, whatever is listed"
    )


class SettleJobArguments(AllProjectsArguments):
    project: str = Field(
        ALL_PROJECTS, description="only a job of this project; `*`: of any that the key may touch"
    )
    id: int = Field(ge=0, le=JOB_MAX, description="the job, as tenant_jobs tells it")
    action: Literal["retry", "drop"] = Field(
        description="retry: try a job that failed for good again, as if it never had been tried;"
        " drop: take one that waits or has failed out of the queue, so that it does not run"
    )


class SettleJobResult(Result):
    id: int = Field(description="the job")
    name: str = Field(description="what it does")
    project: str = Field(description="the project that it is about")
    state: JobState | None = Field(description="what it is doing now; null: it is no longer there")


def job_tools(database: Database, clock: Clock) -> list[Tool]:
    """Return the tools of this module."""
    return [_list_tool(database, clock), _settle_tool(database, clock)]


def _settle_tool(database: Database, clock: Clock) -> Tool:
    async def settle(scope: Scope, args: SettleJobArguments) -> SettleJobResult:
        tenant, projects = scope.tenant, scope.projects
        if args.action == "drop":
            ref = await backlog.drop(database, args.id, tenant=tenant, projects=projects)
        else:
            ref = await backlog.retry(
                database, args.id, clock.now(), tenant=tenant, projects=projects
            )
        state = None if args.action == "drop" else JobState.WAITING
        return SettleJobResult(id=args.id, name=ref.name, project=ref.scope.project, state=state)

    return Tool(
        name="tenant_settle_job",
        title="Settle a job",
        description="Let a job that failed for good be tried again, or take a job out of the"
        " queue. NOT_FOUND when there is none; CONFLICT when it runs, or has not failed and"
        " is to be tried again.",
        arguments=SettleJobArguments,
        result=SettleJobResult,
        run=settle,
        permission=Permission.ADMIN,
        read_only=False,
        idempotent=False,
        destructive=True,
        logged=frozenset({"project", "action"}),
        spans_projects=True,
        is_admin=True,
    )


def _list_tool(database: Database, clock: Clock) -> Tool:
    async def listing(scope: Scope, args: JobsListArguments) -> JobsListResult:
        jobs = await list_jobs(
            database, scope.tenant, projects=scope.projects, state=args.state, limit=args.limit
        )
        now = clock.now()
        return JobsListResult(
            jobs=[
                ListedJob(
                    id=job.ref.job,
                    name=job.ref.name,
                    project=job.ref.scope.project,
                    subject=job.ref.subject,
                    state=job.state,
                    failures=job.failures,
                    code=job.code,
                    queued_at=job.queued_at,
                    age_s=round(max(0.0, (now - job.queued_at).total_seconds()), 3),
                )
                for job in jobs
            ],
            counts=await count_jobs(database, scope.tenant, projects=scope.projects),
        )

    return Tool(
        name="tenant_jobs",
        title="List jobs",
        description="List the jobs in the queue, newest first: what follows writes, which wait"
        " for a worker, which run, and which have failed for good.",
        arguments=JobsListArguments,
        result=JobsListResult,
        run=listing,
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
        logged=frozenset({"project", "state"}),
        spans_projects=True,
        is_admin=True,
    )
