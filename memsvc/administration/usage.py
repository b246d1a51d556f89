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
LONG_S: Final = 0.02
"""A count that took longer is cached for LASTING times as long, at most LASTING_S_MAX: people look
again and again, and counting takes longer the more there is."""
LASTING: Final = 20
LASTING_S_MAX: Final = 60.0
REMEMBERED_MAX: Final = 1000
"""Counts that a process caches."""


@dataclass(slots=True)
class Held:
    """Usage of a project: counts by what is counted, and calls by status."""

    counts: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Held") -> None:
        """Add another project's counts."""
        self.counts.update(other.counts)
        self.calls.update(other.calls)


@dataclass(frozen=True, slots=True)
class Counted:
    """Usage of projects at a time, and until when it is served from the cache."""

    projects: Mapping[str, Held]
    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Report:
    """Usage by project and when it was counted, model calls, and the quota.

    `taken` are today's model calls by purpose, `calls_a_day` their limit; the quota is not enforced
    until `unbounded_until`.
    """

    projects: dict[str, Held]
    counted_at: datetime
    taken: dict[str, int]
    calls_a_day: int
    quota: Quota
    unbounded_until: datetime | None

    @property
    def total(self) -> Held:
        """Usage of all of them together."""
        total = Held()
        for one in self.projects.values():
            total.add(one)
        return total


class Usage:
    """Counts of what a tenant stores, one snapshot per transaction; slow counts are cached."""

    def __init__(self, database: Database, clock: Clock, calls_a_day: int, quota: Quota) -> None:
        self._database = database
        self._clock = clock
        self._calls_a_day = calls_a_day
        self._quota = quota
        self._remembered: OrderedDict[tuple[bytes, str], Counted] = OrderedDict()

    async def report(self, scope: Scope) -> Report:
        """Return the usage of one project, or of all that the key may touch."""
        names = [ALL_PROJECTS] if scope.projects is None else sorted(scope.projects)
        counted = [await self._lately(Scope(scope.tenant, name)) for name in names]
        projects = {name: held for one in counted for name, held in one.projects.items()}
        counted_at = min((one.at for one in counted), default=self._clock.now())
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            taken = await usage.taken_on(tx, self._clock.now().date())
            until = await self._quota.unbounded_until(tx, self._clock.now())
        return Report(dict(sorted(projects.items())), counted_at, taken, self._calls_a_day, self._quota, until)

    async def _lately(self, scope: Scope) -> Counted:
        key, now = (scope.tenant, scope.project), self._clock.now()
        lately = self._remembered.get(key)
        if lately is not None and now < lately.until:
            return lately
        began = perf_counter()
        projects = await self._counted(scope)
        took_s = perf_counter() - began
        lasting = timedelta(seconds=min(took_s * LASTING, LASTING_S_MAX) if took_s > LONG_S else 0)
        self._remembered.pop(key, None)
        counted = Counted(projects, now, now + lasting)
        if lasting:
            self._remembered[key] = counted
        while len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return counted

    async def _counted(self, scope: Scope) -> dict[str, Held]:
        found: dict[str, Held] = defaultdict(Held)
        whole = scope.project == ALL_PROJECTS
        async with self._database.begin(scope, read_only=True, whole_tenant=whole) as tx:
            for name, counts in (await usage.counted(tx)).items():
                found[name].counts.update(counts)
            for row in await usage.jobs_queued(tx):
                found[row["project"]].counts["jobs"] += row["jobs"]
            since = self._clock.now() - timedelta(hours=CALLS_OF_H)
            for row in await usage.calls_since(tx, since):
                found[row["project"]].calls[row["status"]] += row["calls"]
        return found
