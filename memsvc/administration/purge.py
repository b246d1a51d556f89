"""Purge of a tenant, a project, a user, a session or a path, permanently: tenant_purge."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final
from uuid import uuid4

from memsvc.administration.purge_steps import (
    PurgeNames,
    PurgeRun,
    PurgeSteps,
    names_of_path,
    names_of_session,
    names_of_user,
)
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.paths import check_identifier, check_path
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import NamedProjectArguments
from memsvc.store import backlog, projects, tenant_purge, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.ownership import OwnerData, Owners
from memsvc.store.queue import QUEUE
from memsvc.store.tables import TABLES, purge_order
from memsvc.store.tenant_purge import TableRows


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


_ALL_PROJECTS_LEVELS: Final = (PurgeLevel.TENANT, PurgeLevel.USER)
"""Levels that may span all projects."""


@result
class PurgeResult:
    purge_id: Annotated[str, "what this purge is known by"]
    level: Annotated[PurgeLevel, "as asked"]
    project: Annotated[str, "as asked"]
    name: Annotated[str, "what went: confirm has to be the same"]
    dry_run: Annotated[bool, "whether it was only counted"]
    resumed: Annotated[
        bool, "whether a purge of the same was interrupted before, which was finished now"
    ]
    started_at: Annotated[datetime, "when it began"]
    ended_at: Annotated[datetime, "when it ended"]
    counts: Annotated[dict[str, int], "rows by table that went or, in a dry run, would go"]
    complete: Annotated[bool, "whether all of it is gone"]


class Purge:
    """The tool tenant_purge: short transactions, with writers of the same fenced off meanwhile.

    Writes to it meanwhile are refused (RESOURCE_BUSY) or, at a path, purged too; later ones create
    it anew. RESOURCE_BUSY when a writer holds it for too long, or when another purge has taken
    over. An interrupted purge resumes when it is requested once more. `owners` know what belongs to
    a user, to a session, and to a path.
    """

    def __init__(
        self, database: Database, clock: Clock, owners: Owners, *, settle_s: float
    ) -> None:
        """Store the parts; other processes flush their batches of writes within `settle_s`."""
        self._database = database
        self._clock = clock
        self._owners = owners
        self._settle_s = settle_s

    @tool(
        "tenant_purge",
        title="Purge for good",
        needs=Permission.ADMIN,
        toolset="admin",
        base=NamedProjectArguments,
        project="the project; * with level tenant, and with level user for all projects of the"
        " tenant",
        logs=("level",),
        idempotent=True,
        destructive=True,
        spans_projects=True,
        is_admin=True,
    )
    async def purge(
        self,
        scope: Scope,
        level: Annotated[
            PurgeLevel,
            "what goes: the tenant, the project, or of the project a user, session or path",
        ],
        name: Annotated[
            str, "the user, the session or the path of the file or directory that goes"
        ] = "",
        confirm: Annotated[
            str, "the name of what goes, once more; of a tenant, what a dry run calls it"
        ] = "",
        dry_run: Annotated[bool, "only count what would go; needs no confirm"] = False,
    ) -> PurgeResult:
        """Remove a tenant, a project, a user, a session or a path for good.

        All goes that is derived from it and all that it was. Answers with a receipt: how many rows
        of which table went."""
        target = purge_target(scope, level, name)
        if not dry_run and confirm != name_of(scope, target):
            raise invalid(
                "confirm must be the name of what goes",
                recovery="ask with dry_run, which tells the name",
            )
        purge, started_at = uuid4(), self._clock.now()
        purge_run = PurgeRun(self._database, self._clock, purge, dry_run=dry_run)
        match target.level:
            case PurgeLevel.TENANT:
                await self._purge_all(Scope(scope.tenant, ALL_PROJECTS), purge_run)
            case PurgeLevel.PROJECT:
                await self._purge_all(scope, purge_run)
            case _:
                await self._purge_named(scope, target, purge_run)
        return PurgeResult(
            str(purge),
            target.level,
            scope.project,
            name_of(scope, target),
            dry_run,
            purge_run.resumed,
            started_at,
            self._clock.now(),
            dict(sorted((+purge_run.counts).items())),
            not dry_run,
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
        for owner in self._owners[target.level]:
            async for owner_data in owner(scope, target.name):
                yield owner_data

    async def _purge_all(self, scope: Scope, run: PurgeRun) -> None:
        """Purge all of a project, or of the tenant: table by table, as the schema lists them."""
        of_project = scope.project != ALL_PROJECTS
        if not run.dry_run:
            async with self._database.begin_closing(scope) as tx:
                run.resumed = await tenant_purge.close_units(
                    tx, [tenant_purge.WHOLE], run.purge, now=self._clock.now()
                )
        async with self._database.begin(scope, read_only=True) as tx:
            order = purge_order(vectors=await vectors.available(tx))
        for table in order:
            # what was closed is opened at the end
            if table == "purges" or (of_project and not TABLES[table].of_project):
                continue
            if table == "projects" and of_project and not run.dry_run:
                await self._projects_row(scope, run)
                continue
            await run.delete_rows(scope, [TableRows(table)], whole_tenant=not of_project)
            if table == "job_refs":
                await self._jobs(scope, run, of_project=of_project)
        if not run.dry_run:
            async with self._begin(scope, run, of_project=of_project) as tx:
                await tenant_purge.lock_purge(tx, run.purge)
                await tenant_purge.release_all(tx)
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

    async def _projects_row(self, scope: Scope, run: PurgeRun) -> None:
        async with self._database.begin(scope, purging=True) as tx:
            await tenant_purge.lock_purge(tx, run.purge)
            run.counts["projects"] += await tenant_purge.count(tx, TableRows("projects"))
            await tenant_purge.release_usage(tx)

    async def _jobs(self, scope: Scope, run: PurgeRun, *, of_project: bool) -> None:
        async with self._begin(scope, run, of_project=of_project) as tx:
            if run.dry_run:
                run.counts[QUEUE] += await backlog.queued(tx, scope.project if of_project else None)
                return
            await tenant_purge.lock_purge(tx, run.purge)
            forget = backlog.forget_project if of_project else backlog.forget_tenant
            run.counts[QUEUE] += await forget(tx)


def purge_target(scope: Scope, level: PurgeLevel, name: str) -> PurgeTarget:
    """Return what is requested.

    INVALID_ARGUMENT where that makes no sense, PERMISSION_DENIED where it spans more than the key
    may touch.
    """
    all_projects = scope.project == ALL_PROJECTS
    if all_projects and level not in _ALL_PROJECTS_LEVELS:
        raise invalid(f"a {level} is of one project: name it")
    if level is PurgeLevel.TENANT and not all_projects:
        raise invalid("a tenant is all of its projects: project must be *")
    if all_projects and scope.allowed_projects is not None:
        raise MemsvcError(Code.PERMISSION_DENIED, "this key may not touch all projects")
    match level:
        case PurgeLevel.USER | PurgeLevel.SESSION:
            return PurgeTarget(level, check_identifier(name, "name"))
        case PurgeLevel.PATH:
            return PurgeTarget(level, check_path(name.removesuffix("/")))
        case _:
            if name and name != name_of(scope, PurgeTarget(level)):
                raise invalid(
                    f"a {level} is named by the project and the key alone: leave name out"
                )
            return PurgeTarget(level)


def name_of(scope: Scope, target: PurgeTarget) -> str:
    """Return the name of what is purged."""
    match target.level:
        case PurgeLevel.TENANT:
            return scope.tenant.hex()
        case PurgeLevel.PROJECT:
            return scope.project
        case _:
            return target.name
