"""The tool that shows the queue: tenant_jobs."""

from datetime import datetime
from typing import Final

from pydantic import Field

from memsvc.core.errors import Code
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tools import Result, SpanningArguments, Tool
from memsvc.store.backlog import JobState, count_jobs, list_jobs
from memsvc.store.database import Database

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500


class JobsListArguments(SpanningArguments):
    project: str = Field(ALL_PROJECTS, description="only jobs of this project; `*`: of all that the key may touch")
    state: JobState | None = Field(None, description="only jobs that wait, run, or have failed for good")
    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="jobs at the most")


class ListedJob(Result):
    id: int = Field(description="the job, as /api/jobs takes it")
    name: str = Field(description="what it does")
    project: str = Field(description="the project that it is about")
    subject: str = Field(description="what in the project it is about: an identifier, never content")
    state: JobState = Field(description="what it is doing")
    failures: int = Field(description="how many of its attempts failed")
    code: Code | None = Field(description="the code of the last of these")
    queued_at: datetime = Field(description="when it was queued")
    age_s: float = Field(description="how long ago that is")


class JobsListResult(Result):
    jobs: list[ListedJob] = Field(description="the jobs, newest first")
    counts: dict[JobState, int] = Field(description="how many there are in each state, whatever is listed")


def jobs_tool(database: Database, clock: Clock) -> Tool:
    """This tool."""

    async def listing(scope: Scope, asked: JobsListArguments) -> JobsListResult:
        found = await list_jobs(database, scope.tenant, projects=scope.projects, state=asked.state, limit=asked.limit)
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
                for job in found
            ],
            counts=await count_jobs(database, scope.tenant, projects=scope.projects),
        )

    return Tool(
        name="tenant_jobs",
        title="List jobs",
        description="List the jobs in the queue, newest first: what follows writes, which wait for a worker, which run,"
        " and which have failed for good.",
        arguments=JobsListArguments,
        result=JobsListResult,
        run=listing,
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
        logged=frozenset({"project", "state"}),
        spans_projects=True,
        administrative=True,
    )
