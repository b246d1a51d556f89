"""The tools that report a tenant's usage and its effective limits: tenant_usage, tenant_limits."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import perf_counter
from typing import Annotated, Final, Literal

from pydantic import Field

from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import admin_tool, result
from memsvc.core.tools import Result
from memsvc.store import usage
from memsvc.store.database import Database
from memsvc.store.usage import Quota

Kind = Literal["retention", "quota", "rate"]


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


class LimitReader:
    """Reads the effective limits of a tenant."""

    def __init__(self, effective_limits: EffectiveLimits) -> None:
        self._effective_limits = effective_limits

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
        return TenantLimits(self._effective_limits(scope.tenant))


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


@dataclass(frozen=True, slots=True)
class _UsageCount:
    """Usage of projects at a time, and until when it is served from the cache."""

    projects: Mapping[str, _ProjectUsage]
    at: datetime
    until: datetime


class UsageTools:
    """The tool tenant_usage; each count is of one snapshot, and slow counts are cached."""

    def __init__(self, database: Database, clock: Clock, calls_a_day: int, quota: Quota) -> None:
        self._database = database
        self._clock = clock
        self._calls_a_day = calls_a_day
        self._quota = quota
        self._cache: OrderedDict[tuple[bytes, str], _UsageCount] = OrderedDict()

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
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            model_calls = await usage.allowance_usage(tx, self._clock.now().date())
            until = await self._quota.unbounded_until(tx, self._clock.now())
        return UsageResult(
            total=UsageCounts.model_validate(total.fields),
            projects=[
                ProjectUsageCounts.model_validate({"project": name} | projects[name].fields)
                for name in sorted(projects)
            ],
            counted_at=min((count.at for count in counted), default=self._clock.now()),
            tenant_bytes_max=self._quota.bytes_max,
            unbounded_until=until,
            model_calls=dict(sorted(model_calls.items())),
            model_calls_a_day=self._calls_a_day,
        )

    async def _cached(self, scope: Scope) -> _UsageCount:
        key, now = (scope.tenant, scope.project), self._clock.now()
        cached = self._cache.get(key)
        if cached is not None and now < cached.until:
            return cached
        started = perf_counter()
        projects = await self._count(scope)
        elapsed_s = perf_counter() - started
        cache_time = timedelta(
            seconds=min(elapsed_s * CACHE_FACTOR, CACHE_S_MAX) if elapsed_s > UNCACHED_S_MAX else 0
        )
        self._cache.pop(key, None)
        counted = _UsageCount(projects, now, now + cache_time)
        if cache_time:
            self._cache[key] = counted
        while len(self._cache) > CACHED_MAX:
            self._cache.popitem(last=False)
        return counted

    async def _count(self, scope: Scope) -> dict[str, _ProjectUsage]:
        projects: dict[str, _ProjectUsage] = defaultdict(_ProjectUsage)
        whole = scope.project == ALL_PROJECTS
        async with self._database.begin(scope, read_only=True, whole_tenant=whole) as tx:
            for name, counts in (await usage.count_usage(tx)).items():
                projects[name].counts.update(counts)
            for row in await usage.jobs_queued(tx):
                projects[row["project"]].counts["jobs"] += row["jobs"]
            since = self._clock.now() - timedelta(hours=CALLS_OF_H)
            for row in await usage.calls_since(tx, since):
                projects[row["project"]].calls[row["status"]] += row["calls"]
        return projects
