"""The tools that report on a tenant: its usage and limits, its calls and its jobs."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import perf_counter
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from memsvc.core.cursors import decode_cursor, encode_cursor
from memsvc.core.errors import Code
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_identifier
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.timestamp import Timestamp
from memsvc.core.tool_methods import admin_tool, result
from memsvc.core.tools import Result
from memsvc.store import backlog, usage
from memsvc.store.backlog import JobState, count_jobs, list_jobs
from memsvc.store.calls import (
    COUNTED_MAX,
    CallFilter,
    CallPosition,
    CallRecord,
    CallsCounted,
    HourCounted,
    count_by_hour,
    list_calls,
)
from memsvc.store.database import Database
from memsvc.store.usage import Quota

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500
HOURS_DEFAULT = 24
HOURS_MAX = 168
Name = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A string that can be in the call log, where all characters are printable."""

Kind = Literal["retention", "quota", "rate"]


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
class CallsSummary:
    hours: Annotated[list[HourCounted], "each hour in which there was a call, the earliest first"]
    total: Annotated[CallsCounted, "all of them together"]
    since: Annotated[datetime, "the beginning of what was asked for"]
    counted_from: Annotated[
        datetime | None,
        f"the earliest call that was counted, where there were more than {COUNTED_MAX}; null: all"
        " were",
    ]


@frozen
class CallLogReader:
    """Call log of a tenant, within its retention.

    Calls past it are left out, though they may be purged up to a week later.
    """

    database: Database
    clock: Clock
    retention_days: int

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
        async with self.database.begin_tenant(scope, read_only=True) as tx:
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
        now = self.clock.now()
        since = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours - 1)
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            counted = await count_by_hour(tx, since, now, scope.projects)
        return CallsSummary(counted.hours, counted.total, since, counted.counted_from)

    def _since(self, requested: datetime | None) -> datetime | None:
        if self.retention_days == 0:
            return requested
        kept = self.clock.now() - timedelta(days=self.retention_days)
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


@frozen
class JobTools:
    """The jobs of a tenant."""

    database: Database
    clock: Clock

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
            self.database, scope.tenant, projects=scope.projects, state=state, limit=limit
        )
        now = self.clock.now()
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
            await count_jobs(self.database, scope.tenant, projects=scope.projects),
        )

    @admin_tool(
        "tenant_settle_job",
        title="Settle a job",
        needs=Permission.ADMIN,
        destructive=True,
        removes=lambda args: args.action == "drop",
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
            ref = await backlog.drop(self.database, id_, tenant=tenant, projects=projects)
        else:
            ref = await backlog.retry(
                self.database, id_, self.clock.now(), tenant=tenant, projects=projects
            )
        state = None if action == "drop" else JobState.WAITING
        return SettledJob(id_, ref.name, ref.scope.project, state)


@result
class TenantLimit:
    kind: Annotated[
        Kind, "how long something is kept, how much of it there may be, or how often it may be"
    ]
    setting: Annotated[str, "the setting of the server, whose name ends with the unit"]
    value: Annotated[int | float, "its value"]
    about: Annotated[str, "what it says"]


@result
class TenantLimits:
    limits: Annotated[Sequence[TenantLimit], "what is in force for you"]


EffectiveLimits = Callable[[bytes], Sequence[TenantLimit]]
"""Returns the effective limits of a tenant."""


@frozen
class LimitReader:
    """Reads the effective limits of a tenant."""

    effective_limits: EffectiveLimits

    @admin_tool(
        "tenant_limits",
        title="Tell what holds",
        needs=Permission.READ,
        project="any: the same holds for all projects",
    )
    async def limits(self, scope: Scope) -> TenantLimits:
        """Tell how long things are kept, how much there may be and how often you may call.

        That is as the server is configured. What a project or a session says otherwise is not in
        it."""
        return TenantLimits(self.effective_limits(scope.tenant))


CALLS_OF_H: Final = 24
UNCACHED_S_MAX: Final = 0.02
"""A count that took longer is cached for LASTING times as long, at most LASTING_S_MAX: people look
again and again, and counting takes longer the more there is."""
CACHE_FACTOR: Final = 20
CACHE_S_MAX: Final = 60.0
CACHED_MAX: Final = 1000
"""Counts that a process caches."""


class UsageCounts(Result):
    files: int = Field(0, description="files that callers wrote")
    file_bytes: int = Field(0, description="what these hold: what counts against the quota")
    contents: int = Field(
        0, description="contents of files, past ones included, without what was only appended"
    )
    stored_bytes: int = Field(
        0, description="what all files hold, those of the memory itself and past ones included"
    )
    turn_bytes: int = Field(
        0, description="what the files of turn memory hold, deleted ones until they are purged"
    )
    board_bytes: int = Field(0, description="what whiteboards hold, likewise")
    document_bytes: int = Field(0, description="what documents of the notebook hold, likewise")
    past_bytes: int = Field(0, description="what files held before, and can be restored")
    knowledge_bytes: int = Field(0, description="what blocks of knowledge say")
    memories_bytes: int = Field(0, description="what memories say, past ones included")
    derived_bytes: int = Field(
        0,
        description="what is derived from all of these, about: the index, facts, vectors, recall"
        " traces",
    )
    held_bytes: int = Field(
        0, description="all of that and files: what counts against the tenant's quota"
    )
    memory_file_bytes: int = Field(0, description="what the files of the memory itself hold now")
    sessions: int = Field(0, description="sessions of turn memory")
    turns: int = Field(0, description="turns in these")
    facts: int = Field(0, description="facts that hold, memories among them")
    memories: int = Field(0, description="memories, deleted ones included")
    boards: int = Field(0, description="whiteboards")
    documents: int = Field(0, description="documents of the notebook")
    blocks: int = Field(0, description="blocks of knowledge, archived ones included")
    index_entries: int = Field(0, description="entries of the index that can be found")
    vectors: int = Field(0, description="vectors of these")
    jobs: int = Field(0, description="jobs in the queue")
    calls: dict[str, int] = Field({}, description="calls of the last 24 hours, by how they ended")


class ProjectUsageCounts(UsageCounts):
    project: str = Field(description="the project; * for calls that named none")


class UsageResult(Result):
    total: UsageCounts = Field(description="all of these projects together")
    projects: list[ProjectUsageCounts] = Field(
        description="each project in which anything is, by name"
    )
    counted_at: datetime = Field(
        description="when that was counted; what took long to count is told again for 20 times as"
        " long, or a minute"
    )
    tenant_bytes_max: int = Field(
        description="what the tenant may hold in all of its projects; 0: without a limit"
    )
    unbounded_until: datetime | None = Field(
        description="until when the tenant may hold more, as one who was there before there was"
        " the quota"
    )
    model_calls: dict[str, int] = Field(
        description="how often models were asked today (UTC), by purpose"
    )
    model_calls_a_day: int = Field(description="how often they may be; 0: without a limit")


@dataclass(slots=True)
class _ProjectUsage:
    """Counts of a project by what is counted, and of its calls by status."""

    counts: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def fields(self) -> dict[str, object]:
        """The counts as fields of a result."""
        return {**self.counts, "calls": dict(sorted(self.calls.items()))}


@frozen
class _UsageCount:
    """Usage of projects at a time, and until when it is served from the cache."""

    projects: Mapping[str, _ProjectUsage]
    at: datetime
    until: datetime


@frozen
class UsageTools:
    """The tool tenant_usage; each count is of one snapshot, and slow counts are cached."""

    database: Database
    clock: Clock
    calls_a_day: int
    quota: Quota
    cache: OrderedDict[tuple[bytes, str], _UsageCount] = field(default_factory=OrderedDict)

    @admin_tool(
        "tenant_usage",
        title="Tell what is held",
        needs=Permission.READ,
        project="the project, or * for all of your projects",
    )
    async def usage(self, scope: Scope) -> UsageResult:
        """Tell what each project holds and in sum.

        Files, sessions, facts, boards, documents, blocks, the index, jobs that wait, and the calls
        of the last 24 hours."""
        names = [ALL_PROJECTS] if scope.projects is None else sorted(scope.projects)
        counted = [await self._cached(Scope(scope.tenant, name)) for name in names]
        projects = {name: found for count in counted for name, found in count.projects.items()}
        total = _ProjectUsage()
        for project in projects.values():
            total.counts.update(project.counts)
            total.calls.update(project.calls)
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            model_calls = await usage.allowance_usage(tx, self.clock.now().date())
            until = await self.quota.unbounded_until(tx, self.clock.now())
        return UsageResult(
            total=UsageCounts.model_validate(total.fields),
            projects=[
                ProjectUsageCounts.model_validate({"project": name} | projects[name].fields)
                for name in sorted(projects)
            ],
            counted_at=min((count.at for count in counted), default=self.clock.now()),
            tenant_bytes_max=self.quota.bytes_max,
            unbounded_until=until,
            model_calls=dict(sorted(model_calls.items())),
            model_calls_a_day=self.calls_a_day,
        )

    async def _cached(self, scope: Scope) -> _UsageCount:
        key, now = (scope.tenant, scope.project), self.clock.now()
        cached = self.cache.get(key)
        if cached is not None and now < cached.until:
            return cached
        started = perf_counter()
        projects = await self._count(scope)
        elapsed_s = perf_counter() - started
        cache_time = timedelta(
            seconds=min(elapsed_s * CACHE_FACTOR, CACHE_S_MAX) if elapsed_s > UNCACHED_S_MAX else 0
        )
        self.cache.pop(key, None)
        counted = _UsageCount(projects, now, now + cache_time)
        if cache_time:
            self.cache[key] = counted
        while len(self.cache) > CACHED_MAX:
            self.cache.popitem(last=False)
        return counted

    async def _count(self, scope: Scope) -> dict[str, _ProjectUsage]:
        projects: dict[str, _ProjectUsage] = defaultdict(_ProjectUsage)
        whole = scope.project == ALL_PROJECTS
        async with self.database.begin(scope, read_only=True, whole_tenant=whole) as tx:
            for name, counts in (await usage.count_usage(tx)).items():
                projects[name].counts.update(counts)
            for row in await usage.jobs_queued(tx):
                projects[row["project"]].counts["jobs"] += row["jobs"]
            since = self.clock.now() - timedelta(hours=CALLS_OF_H)
            for row in await usage.calls_since(tx, since):
                projects[row["project"]].calls[row["status"]] += row["calls"]
        return projects
