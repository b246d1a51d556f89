"""The tools over the call log and the queue: calls_list, calls_summary, tenant_jobs and others."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from memsvc.core.cursors import decode_cursor, encode_cursor
from memsvc.core.errors import Code
from memsvc.core.paths import check_identifier
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.timestamp import Timestamp
from memsvc.core.tool_methods import admin_tool, result
from memsvc.store import backlog
from memsvc.store.backlog import JobState, count_jobs, list_jobs
from memsvc.store.calls import (
    COUNTED_MAX,
    CallFilter,
    CallPosition,
    CallRecord,
    HourOfCalls,
    count_by_hour,
    list_calls,
)
from memsvc.store.database import Database

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500
HOURS_DEFAULT = 24
HOURS_MAX = 168
Name = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A string that can be in the call log, where all characters are printable."""


@result
class ListedCall:
    id: Annotated[UUID, "the call"]
    called_at: Annotated[datetime, "when it ended"]
    surface: Annotated[str, "which way it came"]
    tool: Annotated[str, "the tool; unknown where there is none of the name that was given"]
    project: Annotated[str, "the project that it touched, * for several"]
    key_label: Annotated[str, "the label of the key that it came with"]
    status: Annotated[str, "success, error, or cancelled"]
    code: Annotated[str | None, "the code of the error, if it was one"]
    duration_ms: Annotated[float, "how long it took"]
    arguments: Annotated[
        dict[str, Any],
        "the shape of its arguments: numbers, identifiers and paths as they were, of"
        " all else the size",
    ]
    request_id: Annotated[str, "the request that it was part of, as in the log"]


@result
class CallList:
    calls: Annotated[list[ListedCall], "the calls, newest first"]
    next_cursor: Annotated[str | None, "cursor of the next page, when there may be one"] = None


@result
class CallsCounted:
    success: Annotated[int, "calls that succeeded"]
    error: Annotated[int, "calls that failed"]
    cancelled: Annotated[int, "calls that their callers gave up"]
    p50_ms: Annotated[float, "the time in which half of them were over; 0 without any"]
    p95_ms: Annotated[float, "the time in which all but a twentieth were over; 0 without any"]


@result
class HourCounted(CallsCounted):
    hour: Annotated[datetime, "when the hour began"]


@result
class CallsSummary:
    hours: Annotated[list[HourCounted], "each hour in which there was a call, the earliest first"]
    total: Annotated[CallsCounted, "all of them together"]
    since: Annotated[datetime, "the beginning of what was asked for"]
    counted_from: Annotated[
        datetime | None,
        f"the earliest call that was counted, where there were more than {COUNTED_MAX}; null: all"
        " were",
    ]


class CallLogReader:
    """Call log of a tenant, within its retention.

    Calls past it are left out, though they may be purged up to a week later.
    """

    def __init__(self, database: Database, clock: Clock, retention_days: int) -> None:
        self._database = database
        self._clock = clock
        self._retention_days = retention_days

    @admin_tool(
        "calls_list",
        title="List calls",
        needs=Permission.READ,
        logs=("tool", "status", "code", "surface", "session_id"),
        project="only calls of this project; `*`: of all that the key may touch",
    )
    async def list_page(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        *,
        tool: Annotated[Name | None, "only calls of this tool"] = None,
        status: Annotated[
            Literal["success", "error", "cancelled"] | None, "only calls that ended so"
        ] = None,
        code: Annotated[Name | None, "only calls that failed with this code"] = None,
        surface: Annotated[
            Name | None, "only calls that came this way, such as mcp, rest, pipe"
        ] = None,
        key_label: Annotated[Name | None, "only calls of keys of this label"] = None,
        session_id: Annotated[
            Name | None, "only calls that named this session, as they named it"
        ] = None,
        since: Annotated[Timestamp | None, "only calls at this time or later"] = None,
        until: Annotated[Timestamp | None, "only calls before this time"] = None,
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "calls at the most"] = LIMIT_DEFAULT,
        cursor: Annotated[str, Field(max_length=128), "next_cursor of the page before"] = "",
    ) -> CallList:
        """List the calls that were made, newest first, a page at a time.

        Who called which tool when, how it ended and how long it took. A page may be short and have
        a next_cursor: go on with it."""
        filters = CallFilter(
            projects=scope.projects,
            tool=tool,
            status=status,
            code=code,
            surface=surface,
            key_label=key_label,
            session_id=check_identifier(session_id, "session_id") if session_id else None,
            since=self._since(since),
            until=until,
        )
        after = CallPosition(*decode_cursor(cursor, datetime, UUID)) if cursor else None
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            page = await list_calls(tx, filters, after=after, limit=limit)
        return CallList(
            [_listed(call) for call in page.calls],
            None if page.next is None else encode_cursor(page.next.called_at, page.next.call),
        )

    @admin_tool(
        "calls_summary",
        title="Count calls",
        needs=Permission.READ,
        project="only calls of this project; `*`: of all that the key may touch",
    )
    async def summary(
        self,
        scope: Scope,
        hours: Annotated[
            int, Field(ge=1, le=HOURS_MAX), "how many hours back, this one among them"
        ] = HOURS_DEFAULT,
    ) -> CallsSummary:
        """Count the calls of the last hours: how they ended and how long they took, by the hour."""
        now = self._clock.now()
        since = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours - 1)
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            counted = await count_by_hour(tx, since, now, scope.projects)
        return CallsSummary(
            [
                HourCounted(*_counts(hour), hour.hour)
                for hour in counted.hours
                if hour.hour is not None
            ],
            CallsCounted(*_counts(counted.total)),
            since,
            counted.counted_from,
        )

    def _since(self, requested: datetime | None) -> datetime | None:
        if self._retention_days == 0:
            return requested
        kept = self._clock.now() - timedelta(days=self._retention_days)
        return kept if requested is None else max(requested, kept)


def _listed(call: CallRecord) -> ListedCall:
    return ListedCall(
        call.call,
        call.called_at,
        call.surface,
        call.tool,
        call.project,
        call.key_label,
        call.status,
        call.code,
        round(call.duration_ms, 2),
        call.arguments,
        call.request_id,
    )


def _counts(hour: HourOfCalls) -> tuple[int, int, int, float, float]:
    return hour.success, hour.error, hour.cancelled, round(hour.p50_ms, 2), round(hour.p95_ms, 2)


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
