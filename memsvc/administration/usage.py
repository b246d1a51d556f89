"""What a tenant holds and does: counted by project, and in sum."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta

from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.store import usage, vectors
from memsvc.store.database import Database

CALLS_OF_H = 24


@dataclass(slots=True)
class Held:
    """What a project holds: counts by what is counted, and calls by how they ended."""

    counts: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Held") -> None:
        """Count what another one holds too."""
        self.counts.update(other.counts)
        self.calls.update(other.calls)


@dataclass(frozen=True, slots=True)
class Report:
    """What the projects hold, by name; what models were asked today, by purpose, and how often they may be."""

    projects: dict[str, Held]
    taken: dict[str, int]
    calls_a_day: int

    @property
    def total(self) -> Held:
        """What they hold together."""
        total = Held()
        for one in self.projects.values():
            total.add(one)
        return total


class Usage:
    """Counts what a tenant holds, in one snapshot for each transaction."""

    def __init__(self, database: Database, clock: Clock, calls_a_day: int) -> None:
        self._database = database
        self._clock = clock
        self._calls_a_day = calls_a_day

    async def report(self, scope: Scope) -> Report:
        """Of one project, or of all that the key may touch."""
        projects: dict[str, Held] = {}
        for name in [ALL_PROJECTS] if scope.projects is None else sorted(scope.projects):
            projects |= await self._counted(Scope(scope.tenant, name))
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            taken = await usage.taken_on(tx, self._clock.now().date())
        return Report(dict(sorted(projects.items())), taken, self._calls_a_day)

    async def _counted(self, scope: Scope) -> dict[str, Held]:
        found: dict[str, Held] = defaultdict(Held)
        whole = scope.project == ALL_PROJECTS
        async with self._database.begin(scope, read_only=True, whole_tenant=whole) as tx:
            for name, counts in (await usage.counted(tx, vectors=await vectors.available(tx))).items():
                found[name].counts.update(counts)
            for row in await usage.jobs_queued(tx):
                found[row["project"]].counts["jobs"] += row["jobs"]
            since = self._clock.now() - timedelta(hours=CALLS_OF_H)
            for row in await usage.calls_since(tx, since):
                found[row["project"]].calls[row["status"]] += row["calls"]
        return found
