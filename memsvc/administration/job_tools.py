"""The tools over the queue: tenant_jobs lists jobs, tenant_settle_job retries or drops one."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from memsvc.core.errors import Code
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import admin_tool, result
from memsvc.store import backlog
from memsvc.store.backlog import JobState, count_jobs, list_jobs
from memsvc.store.database import Database

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500
JOB_MAX: Final = 2**53


@result
class ListedJob:
    id: Annotated[int, "the job, as tenant_settle_job and /api/jobs take it"]
    name: Annotated[str, "what it does"]
    project: Annotated[str, "the project that it is about"]
    subject: Annotated[str, "what in the project it is about: an identifier, never content"]
    state: Annotated[JobState, "what it is doing"]
    failures: Annotated[int, "how many of its attempts failed"]
    code: Annotated[Code | None, "the code of the last of these"]
    queued_at: Annotated[datetime, "when it was queued"]
    age_s: Annotated[float, "how long ago that is"]


@result
class JobList:
    jobs: Annotated[list[ListedJob], "the jobs, newest first"]
    counts: Annotated[dict[JobState, int], "how many there are in each state, whatever is listed"]


@result
class SettledJob:
    id: Annotated[int, "the job"]
    name: Annotated[str, "what it does"]
    project: Annotated[str, "the project that it is about"]
    state: Annotated[JobState | None, "what it is doing now; null: it is no longer there"]


class JobTools:
    """The jobs of a tenant."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @admin_tool(
        "tenant_jobs",
        title="List jobs",
        needs=Permission.READ,
        logs=("state",),
        project="only jobs of this project; `*`: of all that the key may touch",
    )
    async def listing(
        self,
        scope: Scope,
        state: Annotated[
            JobState | None, "only jobs that wait, run, or have failed for good"
        ] = None,
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "jobs at the most"] = LIMIT_DEFAULT,
    ) -> JobList:
        """List the jobs in the queue, newest first.

        What follows writes, which wait for a worker, which run, and which have failed for good."""
        jobs = await list_jobs(
            self._database, scope.tenant, projects=scope.projects, state=state, limit=limit
        )
        now = self._clock.now()
        return JobList(
            [
                ListedJob(
                    job.ref.job,
                    job.ref.name,
                    job.ref.scope.project,
                    job.ref.subject,
                    job.state,
                    job.failures,
                    job.code,
                    job.queued_at,
                    round(max(0.0, (now - job.queued_at).total_seconds()), 3),
                )
                for job in jobs
            ],
            await count_jobs(self._database, scope.tenant, projects=scope.projects),
        )

    @admin_tool(
        "tenant_settle_job",
        title="Settle a job",
        needs=Permission.ADMIN,
        destructive=True,
        logs=("action",),
        project="only a job of this project; `*`: of any that the key may touch",
    )
    async def settle(
        self,
        scope: Scope,
        id_: Annotated[int, Field(ge=0, le=JOB_MAX), "the job, as tenant_jobs tells it"],
        action: Annotated[
            Literal["retry", "drop"],
            "retry: try a job that failed for good again, as if it never had been tried; drop:"
            " take one that waits or has failed out of the queue, so that it does not run",
        ],
    ) -> SettledJob:
        """Let a job that failed for good be tried again, or take a job out of the queue.

        NOT_FOUND when there is none; CONFLICT when it runs, or has not failed and is to be tried
        again."""
        tenant, projects = scope.tenant, scope.projects
        if action == "drop":
            ref = await backlog.drop(self._database, id_, tenant=tenant, projects=projects)
        else:
            ref = await backlog.retry(
                self._database, id_, self._clock.now(), tenant=tenant, projects=projects
            )
        state = None if action == "drop" else JobState.WAITING
        return SettledJob(id_, ref.name, ref.scope.project, state)
