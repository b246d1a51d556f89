"""Purge of a tenant, a project, a user, a session or a path, permanently and counted by table."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from memsvc.administration.naming import Names, names_of_path, names_of_session, names_of_user
from memsvc.administration.removing import Erasing, Removing
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.store import backlog, closures, erasing, projects, vectors
from memsvc.store.belongings import Belongings, Owners, Rows
from memsvc.store.database import Database, Tx
from memsvc.store.queue import QUEUE


class Level(StrEnum):
    """Level of a purge."""

    TENANT = "tenant"
    PROJECT = "project"
    USER = "user"
    SESSION = "session"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Asked:
    """Target of a purge: what has this name at this level, in the scope's project or in all (`*`).

    A tenant and a project are named by the scope itself.
    """

    level: Level
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Rows by table that were purged, or with `dry_run` would be.

    `resumed` means that an earlier purge of the same was interrupted, so that some of it was gone
    already.
    """

    purge: UUID
    dry_run: bool
    resumed: bool
    started_at: datetime
    ended_at: datetime
    counts: dict[str, int]


class Purging:
    """Purges in short transactions, with writers of the same fenced off meanwhile.

    An interrupted purge resumes when it is requested once more. `owners` know what belongs to a
    user, to a session, and to a path.
    """

    def __init__(self, database: Database, clock: Clock, owners: Owners, *, settle_s: float) -> None:
        """Store the parts; other processes flush their batches of writes within `settle_s`."""
        self._database = database
        self._clock = clock
        self._owners = owners
        self._settle_s = settle_s

    async def run(self, scope: Scope, asked: Asked, *, dry_run: bool = False) -> Receipt:
        """Purge, to the end.

        Writes to it meanwhile are refused (RESOURCE_BUSY) or, at a path, purged too; later ones
        create it anew. RESOURCE_BUSY when a writer holds it for too long, or when another purge has
        taken over.
        """
        purge, started_at = uuid4(), self._clock.now()
        erasing_ = Erasing(self._database, self._clock, purge, dry_run=dry_run)
        match asked.level:
            case Level.TENANT:
                await self._whole(Scope(scope.tenant, ALL_PROJECTS), erasing_)
            case Level.PROJECT:
                await self._whole(scope, erasing_)
            case _:
                await self._named(scope, asked, erasing_)
        counts = dict(sorted((+erasing_.counts).items()))
        return Receipt(
            purge=purge,
            dry_run=dry_run,
            resumed=erasing_.resumed,
            started_at=started_at,
            ended_at=self._clock.now(),
            counts=counts,
        )

    async def _named(self, scope: Scope, asked: Asked, erasing_: Erasing) -> None:
        """Purge what belongs to a user, a session or a path.

        Their names are purged from the call log first, while they are still known, and again at the
        end, when pending log records that name them have been written.
        """
        gone: list[tuple[Removing, Names]] = []
        async for place in self._places(scope):
            removing, names = Removing(self._database, self._clock, place, erasing_), await self._names(place, asked)
            await removing.names(names)
            async for belongings in self._belongings(place, asked):
                await removing.run(belongings)
            gone.append((removing, names))
        if not erasing_.dry_run:
            ended_at = await self._settled()
            for removing, names in gone:
                await removing.names(names, until=ended_at)

    async def _settled(self) -> datetime:
        """Wait until all pending batches of writes are written; return when the wait began."""
        until = self._clock.now()
        await asyncio.sleep(self._settle_s)
        for flush in [*self._database.writing_behind]:
            await flush()
        return until

    async def _names(self, scope: Scope, asked: Asked) -> Names:
        match asked.level:
            case Level.USER:
                return await names_of_user(self._database, scope, asked.name)
            case Level.SESSION:
                return names_of_session(asked.name)
            case _:
                return names_of_path(asked.name)

    async def _places(self, scope: Scope) -> AsyncIterator[Scope]:
        """Yield the project, or every project of the tenant."""
        if scope.project != ALL_PROJECTS:
            yield scope
            return
        after = ""
        while True:
            async with self._database.begin_tenant(scope, read_only=True) as tx:
                found = await projects.next_known(tx, after)
            if found is None:
                return
            yield Scope(scope.tenant, after := found)

    async def _belongings(self, scope: Scope, asked: Asked) -> AsyncIterator[Belongings]:
        for owner in self._owners:
            match asked.level:
                case Level.USER:
                    found = owner.of_user(scope, asked.name)
                case Level.SESSION:
                    found = owner.of_session(scope, asked.name)
                case _:
                    found = owner.of_path(scope, asked.name)
            async for one in found:
                yield one

    async def _whole(self, scope: Scope, erasing_: Erasing) -> None:
        """Purge all of a project, or of the tenant: table by table, as the schema lists them."""
        of_project = scope.project != ALL_PROJECTS
        if not erasing_.dry_run:
            async with self._database.begin_closing(scope) as tx:
                erasing_.resumed = await closures.close(tx, [closures.WHOLE], erasing_.purge, now=self._clock.now())
        for table in await self._tables(scope, of_project=of_project):
            if table == "projects" and of_project and not erasing_.dry_run:
                await self._projects_row(scope, erasing_)
                continue
            await erasing_.rows(scope, [Rows(table)], whole_tenant=not of_project)
            if table == "job_refs":
                await self._jobs(scope, erasing_, of_project=of_project)
        if not erasing_.dry_run:
            async with self._begin(scope, erasing_, of_project=of_project) as tx:
                await closures.hold(tx, erasing_.purge)
                await closures.reopen_all(tx)
            late = [Rows("recalls", until=await self._settled()), Rows("calls")]
            await erasing_.rows(scope, late, closed=False, whole_tenant=not of_project)

    def _begin(self, scope: Scope, erasing_: Erasing, *, of_project: bool) -> AbstractAsyncContextManager[Tx]:
        return self._database.begin(
            scope,
            read_only=erasing_.dry_run,
            purging=not erasing_.dry_run,
            whole_tenant=not of_project,
        )

    async def _tables(self, scope: Scope, *, of_project: bool) -> Sequence[str]:
        async with self._database.begin(scope, read_only=True) as tx:
            return erasing.tables(of_project=of_project, vectors=await vectors.available(tx))

    async def _projects_row(self, scope: Scope, erasing_: Erasing) -> None:
        async with self._database.begin(scope, purging=True) as tx:
            await closures.hold(tx, erasing_.purge)
            erasing_.counts["projects"] += await erasing.count(tx, Rows("projects"))
            await erasing.give_back(tx)

    async def _jobs(self, scope: Scope, erasing_: Erasing, *, of_project: bool) -> None:
        async with self._begin(scope, erasing_, of_project=of_project) as tx:
            if erasing_.dry_run:
                erasing_.counts[QUEUE] += await backlog.queued(tx, scope.project if of_project else None)
                return
            await closures.hold(tx, erasing_.purge)
            forget = backlog.forget_project if of_project else backlog.forget_tenant
            erasing_.counts[QUEUE] += await forget(tx)
