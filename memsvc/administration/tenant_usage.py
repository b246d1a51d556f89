"""Usage of a tenant: stored data and calls, by project and in total."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import perf_counter
from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.store import usage
from memsvc.store.database import Database
from memsvc.store.usage import Quota

CALLS_OF_H: Final = 24
UNCACHED_S_MAX: Final = 0.02
"""A count that took longer is cached for LASTING times as long, at most LASTING_S_MAX: people look
again and again, and counting takes longer the more there is."""
CACHE_FACTOR: Final = 20
CACHE_S_MAX: Final = 60.0
CACHED_MAX: Final = 1000
"""Counts that a process caches."""


@dataclass(slots=True)
class ProjectUsage:
    """Usage of a project: counts by what is counted, and calls by status."""

    counts: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, other: "ProjectUsage") -> None:
        """Add another project's counts."""
        self.counts.update(other.counts)
        self.calls.update(other.calls)


@dataclass(frozen=True, slots=True)
class UsageCount:
    """Usage of projects at a time, and until when it is served from the cache."""

    projects: Mapping[str, ProjectUsage]
    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage by project and when it was counted, model calls, and the quota.

    `model_calls` are today's model calls by purpose, `calls_a_day` their limit; the quota is not
    enforced until `unbounded_until`.
    """

    projects: dict[str, ProjectUsage]
    counted_at: datetime
    model_calls: dict[str, int]
    calls_a_day: int
    quota: Quota
    unbounded_until: datetime | None

    @property
    def total(self) -> ProjectUsage:
        """Usage of all of them together."""
        total = ProjectUsage()
        for project in self.projects.values():
            total.add(project)
        return total


class TenantUsage:
    """Counts of what a tenant stores, one snapshot per transaction; slow counts are cached."""

    def __init__(self, database: Database, clock: Clock, calls_a_day: int, quota: Quota) -> None:
        self._database = database
        self._clock = clock
        self._calls_a_day = calls_a_day
        self._quota = quota
        self._cache: OrderedDict[tuple[bytes, str], UsageCount] = OrderedDict()

    async def report(self, scope: Scope) -> UsageReport:
        """Return the usage of one project, or of all that the key may touch."""
        names = [ALL_PROJECTS] if scope.projects is None else sorted(scope.projects)
        counted = [await self._cached(Scope(scope.tenant, name)) for name in names]
        projects = {name: usage_ for count in counted for name, usage_ in count.projects.items()}
        counted_at = min((count.at for count in counted), default=self._clock.now())
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            model_calls = await usage.allowance_usage(tx, self._clock.now().date())
            until = await self._quota.unbounded_until(tx, self._clock.now())
        return UsageReport(
            dict(sorted(projects.items())),
            counted_at,
            model_calls,
            self._calls_a_day,
            self._quota,
            until,
        )

    async def _cached(self, scope: Scope) -> UsageCount:
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
        counted = UsageCount(projects, now, now + cache_time)
        if cache_time:
            self._cache[key] = counted
        while len(self._cache) > CACHED_MAX:
            self._cache.popitem(last=False)
        return counted

    async def _count(self, scope: Scope) -> dict[str, ProjectUsage]:
        projects: dict[str, ProjectUsage] = defaultdict(ProjectUsage)
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
