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
    id: Annotated[UUID, "id of the call"]
    called_at: Annotated[datetime, "end time"]
    surface: Annotated[str, "interface of the call: mcp, rest or pipe"]
    tool: Annotated[str, "name of the tool; `unknown` if no tool has the requested name"]
    project: Annotated[str, "project of the call; *: several projects"]
    key_label: Annotated[str, "label of the key that was used"]
    status: Annotated[str, "outcome of the call: success, error or cancelled"]
    code: Annotated[str | None, "error code, if the call failed"]
    duration_ms: Annotated[float, "duration of the call, in milliseconds"]
    arguments: Annotated[
        dict[str, Any],
        "arguments of the call: numbers, identifiers and paths are shown unchanged; of all"
        " other values, only the size is shown",
    ]
    request_id: Annotated[str, "id of the request, which is also in the server's log"]


@result
class CallList:
    calls: Annotated[list[ListedCall], "calls, newest first"]
    next_cursor: Annotated[str | None, "cursor of the next page, if there may be more calls"] = None


@result
class CallsSummary:
    hours: Annotated[
        list[HourCounted], "call counts of each hour with at least one call, earliest first"
    ]
    total: Annotated[CallsCounted, "call counts of all hours together"]
    since: Annotated[datetime, "start of the requested period"]
    counted_from: Annotated[
        datetime | None,
        f"time of the earliest counted call, if only the latest {COUNTED_MAX} calls were"
        " counted; null: all calls were counted",
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
        "List calls",
        Permission.READ,
        logs=("tool", "status", "code", "surface", "session_id"),
        project="only calls in this project; `*`: in all projects that the key can use",
    )
    async def list_page(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        *,
        tool: Annotated[Name | None, "only calls to this tool"] = None,
        status: Annotated[
            Literal["success", "error", "cancelled"] | None, "only calls with this outcome"
        ] = None,
        code: Annotated[Name | None, "only calls that failed with this error code"] = None,
        surface: Annotated[
            Name | None, "only calls over this interface, such as mcp, rest or pipe"
        ] = None,
        key_label: Annotated[Name | None, "only calls by keys with this label"] = None,
        session_id: Annotated[Name | None, "only calls that named this session"] = None,
        since: Annotated[Timestamp | None, "only calls at or after this time"] = None,
        until: Annotated[Timestamp | None, "only calls before this time"] = None,
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "maximum number of calls"] = LIMIT_DEFAULT,
        cursor: Annotated[str, Field(max_length=128), "next_cursor of the previous page"] = "",
    ) -> CallList:
        """List logged calls, newest first, in pages.

        Each entry has the tool, time, key, outcome and duration. A page may have fewer calls
        than `limit` and still have a next_cursor; pass that cursor to continue."""
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
        "Count calls",
        Permission.READ,
        project="only calls in this project; `*`: in all projects that the key can use",
    )
    async def summary(
        self,
        scope: Scope,
        hours: Annotated[
            int, Field(ge=1, le=HOURS_MAX), "number of hours to count, including the current one"
        ] = HOURS_DEFAULT,
    ) -> CallsSummary:
        """Count calls for each of the last hours, by outcome and duration."""
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
    id: Annotated[int, "id of the job, for tenant_settle_job and /api/jobs"]
    name: Annotated[str, "kind of background work"]
    project: Annotated[str, "project that the job works on"]
    subject: Annotated[str, "identifier of the object that the job works on; never its content"]
    state: Annotated[JobState, "state of the job"]
    failures: Annotated[int, "number of failed attempts"]
    code: Annotated[Code | None, "error code of the last failed attempt"]
    queued_at: Annotated[datetime, "time when the job was queued"]
    age_s: Annotated[float, "number of seconds since the job was queued"]


@result
class JobList:
    jobs: Annotated[list[ListedJob], "jobs, newest first"]
    counts: Annotated[dict[JobState, int], "number of jobs in each state, regardless of filters"]


@result
class SettledJob:
    id: Annotated[int, "id of the job"]
    name: Annotated[str, "kind of background work"]
    project: Annotated[str, "project that the job works on"]
    state: Annotated[JobState | None, "new state of the job; null: the job was removed"]


@frozen
class JobTools:
    """The jobs of a tenant."""

    database: Database
    clock: Clock

    @admin_tool(
        "tenant_jobs",
        "List jobs",
        Permission.READ,
        logs=("state",),
        project="only jobs of this project; `*`: of all projects that the key can use",
    )
    async def listing(
        self,
        scope: Scope,
        state: Annotated[
            JobState | None, "only jobs in this state: waiting, running or permanently failed"
        ] = None,
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "maximum number of jobs"] = LIMIT_DEFAULT,
    ) -> JobList:
        """List background jobs, newest first: waiting, running and permanently failed ones."""
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
        "Retry or drop a job",
        Permission.ADMIN,
        destructive=True,
        removes=lambda args: args.action == "drop",
        logs=("action",),
        project="project of the job; `*`: any project that the key can use",
    )
    async def settle(
        self,
        scope: Scope,
        id_: Annotated[int, Field(ge=0, le=JOB_MAX), "id of the job, as returned by tenant_jobs"],
        action: Annotated[
            Literal["retry", "drop"],
            "retry runs a permanently failed job again, with its attempts counted from 0;"
            " drop removes a waiting or failed job, so that it is never run",
        ],
    ) -> SettledJob:
        """Retry a permanently failed job, or remove a job from the queue.

        Returns NOT_FOUND if the job does not exist, and CONFLICT if the job is running, or if
        action is retry and the job has not failed."""
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
        Kind,
        "kind of limit: how long data is kept, how much can be stored, or how often"
        " calls can be made",
    ]
    setting: Annotated[str, "name of the server setting; the last part of the name is the unit"]
    value: Annotated[int | float, "value of the setting"]
    about: Annotated[str, "meaning of the setting"]


@result
class TenantLimits:
    limits: Annotated[Sequence[TenantLimit], "limits that apply to you"]


EffectiveLimits = Callable[[bytes], Sequence[TenantLimit]]
"""Returns the effective limits of a tenant."""


@frozen
class LimitReader:
    """Reads the effective limits of a tenant."""

    effective_limits: EffectiveLimits

    @admin_tool(
        "tenant_limits",
        "Show limits",
        Permission.READ,
        project="ignored: the limits are the same for all projects",
    )
    async def limits(self, scope: Scope) -> TenantLimits:
        """Return the configured limits on retention, storage and call rates.

        Overrides for a project or session are not included."""
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
    files: int = Field(0, description="number of files written by callers")
    file_bytes: int = Field(
        0,
        description="total size of all files written by callers, in bytes; counts against the"
        " project's quota",
    )
    contents: int = Field(
        0,
        description="number of stored file contents, current and past; an append to a file does not"
        " add a content",
    )
    stored_bytes: int = Field(
        0,
        description="total size of all files, in bytes, including past versions and the files in"
        " which memory is stored",
    )
    turn_bytes: int = Field(
        0,
        description="total size of the files of turn memory, in bytes, including deleted files"
        " until they are purged",
    )
    board_bytes: int = Field(
        0,
        description="total size of the files of whiteboards, in bytes, including deleted files"
        " until they are purged",
    )
    document_bytes: int = Field(
        0,
        description="total size of the files of notebook documents, in bytes, including deleted"
        " files until they are purged",
    )
    past_bytes: int = Field(
        0, description="total size of all past file versions that can be restored, in bytes"
    )
    knowledge_bytes: int = Field(0, description="total size of all knowledge blocks, in bytes")
    memories_bytes: int = Field(
        0, description="total size of all memories, in bytes, including their past texts"
    )
    derived_bytes: int = Field(
        0,
        description="approximate total size of derived data (index, facts, vectors, recall traces),"
        " in bytes",
    )
    held_bytes: int = Field(
        0,
        description="total size of all memory and files together, in bytes; counts against the"
        " tenant's quota",
    )
    memory_file_bytes: int = Field(
        0,
        description="current total size of the files in which memory is stored, in bytes, without"
        " past versions",
    )
    sessions: int = Field(0, description="number of sessions in turn memory")
    turns: int = Field(0, description="number of turns in all sessions")
    facts: int = Field(0, description="number of current facts, including memories")
    memories: int = Field(0, description="number of memories, including deleted ones")
    boards: int = Field(0, description="number of whiteboards")
    documents: int = Field(0, description="number of notebook documents")
    blocks: int = Field(0, description="number of knowledge blocks, including archived ones")
    index_entries: int = Field(0, description="number of searchable index entries")
    vectors: int = Field(0, description="number of index entries that have a vector")
    jobs: int = Field(0, description="number of jobs in the queue")
    calls: dict[str, int] = Field(
        {}, description="number of calls in the last 24 hours, by outcome"
    )


class ProjectUsageCounts(UsageCounts):
    project: str = Field(
        description="name of the project; *: calls for several projects or for none"
    )


class UsageResult(Result):
    total: UsageCounts = Field(description="sum of the counts of all listed projects")
    projects: list[ProjectUsageCounts] = Field(
        description="projects that contain data, sorted by name"
    )
    counted_at: datetime = Field(
        description="time of the count; a slow count is reused for up to a minute"
    )
    tenant_bytes_max: int = Field(
        description="storage quota of the tenant for all projects together, in bytes; 0: unlimited"
    )
    unbounded_until: datetime | None = Field(
        description="end of the grace period in which a tenant that is older than the quota may"
        " exceed it; null: no grace period"
    )
    model_calls: dict[str, int] = Field(
        description="number of model calls made today (UTC), by purpose"
    )
    model_calls_a_day: int = Field(
        description="maximum number of model calls per day, for all purposes together; 0: unlimited"
    )


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
        "Report usage",
        Permission.READ,
        project="the project, or * for all of your projects",
    )
    async def usage(self, scope: Scope) -> UsageResult:
        """Report how much each project stores, and the total.

        Counts files, sessions, facts, boards, documents, blocks, index entries, waiting jobs, and
        the calls of the last 24 hours."""
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
