"""Purge of a tenant, a project, a user, a session or a path, permanently and counted by table."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from memsvc.administration.purge_names import (
    PurgeNames,
    names_of_path,
    names_of_session,
    names_of_user,
)
from memsvc.administration.purge_steps import PurgeRun, PurgeSteps
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.store import backlog, projects, tenant_purge, vectors, write_fences
from memsvc.store.database import Database, Tx
from memsvc.store.ownership import OwnerData, Owners, TableRows
from memsvc.store.queue import QUEUE


class PurgeLevel(StrEnum):
    """Level of a purge."""

    TENANT = "tenant"
    PROJECT = "project"
    USER = "user"
    SESSION = "session"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class PurgeTarget:
    """Target of a purge: what has this name at this level, in the scope's project or in all (`*`).

    A tenant and a project are named by the scope itself.
    """

    level: PurgeLevel
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReceipt:
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


class Purge:
    """Purges in short transactions, with writers of the same fenced off meanwhile.

    An interrupted purge resumes when it is requested once more. `owners` know what belongs to a
    user, to a session, and to a path.
    """

    def __init__(
        self, database: Database, clock: Clock, owners: Owners, *, settle_s: float
    ) -> None:
        """Store the parts; other processes flush their batches of writes within `settle_s`."""
        self._database = database
        self._clock = clock
        self._owners = owners
        self._settle_s = settle_s

    async def run(
        self, scope: Scope, target: PurgeTarget, *, dry_run: bool = False
    ) -> PurgeReceipt:
        """Purge, to the end.

        Writes to it meanwhile are refused (RESOURCE_BUSY) or, at a path, purged too; later ones
        create it anew. RESOURCE_BUSY when a writer holds it for too long, or when another purge has
        taken over.
        """
        purge, started_at = uuid4(), self._clock.now()
        purge_run = PurgeRun(self._database, self._clock, purge, dry_run=dry_run)
        match target.level:
            case PurgeLevel.TENANT:
                await self._purge_all(Scope(scope.tenant, ALL_PROJECTS), purge_run)
            case PurgeLevel.PROJECT:
                await self._purge_all(scope, purge_run)
            case _:
                await self._purge_named(scope, target, purge_run)
        counts = dict(sorted((+purge_run.counts).items()))
        return PurgeReceipt(
            purge=purge,
            dry_run=dry_run,
            resumed=purge_run.resumed,
            started_at=started_at,
            ended_at=self._clock.now(),
            counts=counts,
        )

    async def _purge_named(self, scope: Scope, target: PurgeTarget, run: PurgeRun) -> None:
        """Purge what belongs to a user, a session or a path.

        Their names are purged from the call log first, while they are still known, and again at the
        end, when pending log records that name them have been written.
        """
        finished: list[tuple[PurgeSteps, PurgeNames]] = []
        async for project in self._projects(scope):
            steps, names = (
                PurgeSteps(self._database, self._clock, project, run),
                await self._names(project, target),
            )
            await steps.names(names)
            async for owner_data in self._ownership(project, target):
                await steps.run(owner_data)
            finished.append((steps, names))
        if not run.dry_run:
            ended_at = await self._flush_pending()
            for steps, names in finished:
                await steps.names(names, until=ended_at)

    async def _flush_pending(self) -> datetime:
        """Wait until all pending batches of writes are written; return when the wait began."""
        started_at = self._clock.now()
        await asyncio.sleep(self._settle_s)
        for flush in [*self._database.flush_callbacks]:
            await flush()
        return started_at

    async def _names(self, scope: Scope, target: PurgeTarget) -> PurgeNames:
        match target.level:
            case PurgeLevel.USER:
                return await names_of_user(self._database, scope, target.name)
            case PurgeLevel.SESSION:
                return names_of_session(target.name)
            case _:
                return names_of_path(target.name)

    async def _projects(self, scope: Scope) -> AsyncIterator[Scope]:
        """Yield the project, or every project of the tenant."""
        if scope.project != ALL_PROJECTS:
            yield scope
            return
        after = ""
        while True:
            async with self._database.begin_tenant(scope, read_only=True) as tx:
                found = await projects.next_project(tx, after)
            if found is None:
                return
            yield Scope(scope.tenant, after := found)

    async def _ownership(self, scope: Scope, target: PurgeTarget) -> AsyncIterator[OwnerData]:
        for owner in self._owners:
            match target.level:
                case PurgeLevel.USER:
                    found = owner.of_user(scope, target.name)
                case PurgeLevel.SESSION:
                    found = owner.of_session(scope, target.name)
                case _:
                    found = owner.of_path(scope, target.name)
            async for owner_data in found:
                yield owner_data

    async def _purge_all(self, scope: Scope, run: PurgeRun) -> None:
        """Purge all of a project, or of the tenant: table by table, as the schema lists them."""
        of_project = scope.project != ALL_PROJECTS
        if not run.dry_run:
            async with self._database.begin_closing(scope) as tx:
                run.resumed = await write_fences.close(
                    tx, [write_fences.WHOLE], run.purge, now=self._clock.now()
                )
        for table in await self._tables(scope, of_project=of_project):
            if table == "projects" and of_project and not run.dry_run:
                await self._projects_row(scope, run)
                continue
            await run.delete_rows(scope, [TableRows(table)], whole_tenant=not of_project)
            if table == "job_refs":
                await self._jobs(scope, run, of_project=of_project)
        if not run.dry_run:
            async with self._begin(scope, run, of_project=of_project) as tx:
                await write_fences.lock_purge(tx, run.purge)
                await write_fences.release_all(tx)
            late = [TableRows("recalls", until=await self._flush_pending()), TableRows("calls")]
            await run.delete_rows(scope, late, closed=False, whole_tenant=not of_project)

    def _begin(
        self, scope: Scope, run: PurgeRun, *, of_project: bool
    ) -> AbstractAsyncContextManager[Tx]:
        return self._database.begin(
            scope,
            read_only=run.dry_run,
            purging=not run.dry_run,
            whole_tenant=not of_project,
        )

    async def _tables(self, scope: Scope, *, of_project: bool) -> Sequence[str]:
        async with self._database.begin(scope, read_only=True) as tx:
            return tenant_purge.tables(of_project=of_project, vectors=await vectors.available(tx))

    async def _projects_row(self, scope: Scope, run: PurgeRun) -> None:
        async with self._database.begin(scope, purging=True) as tx:
            await write_fences.lock_purge(tx, run.purge)
            run.counts["projects"] += await tenant_purge.count(tx, TableRows("projects"))
            await tenant_purge.release_usage(tx)

    async def _jobs(self, scope: Scope, run: PurgeRun, *, of_project: bool) -> None:
        async with self._begin(scope, run, of_project=of_project) as tx:
            if run.dry_run:
                run.counts[QUEUE] += await backlog.queued(tx, scope.project if of_project else None)
                return
            await write_fences.lock_purge(tx, run.purge)
            forget = backlog.forget_project if of_project else backlog.forget_tenant
            run.counts[QUEUE] += await forget(tx)
