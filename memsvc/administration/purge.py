"""Purge of a tenant, a project, a user, a session or a path, permanently: tenant_purge."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID, uuid4

from pydantic import StrictBool

from memsvc.core.errors import invalid, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.paths import (
    SESSIONS_ROOT,
    USERS_ROOT,
    check_identifier,
    check_path,
    encode_segment,
)
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import Accepted, NamedProjectArguments
from memsvc.core.validation_messages import LOGGED_CHARS_MAX, safe_text
from memsvc.store import (
    backlog,
    changes,
    documents,
    index,
    ownership,
    projects,
    recalls,
    tenant_purge,
    usage,
    vectors,
)
from memsvc.store.database import Database, Tx
from memsvc.store.index import index_id_of
from memsvc.store.locks import TREE_LOCK, Lock
from memsvc.store.ownership import OwnerData, Owners
from memsvc.store.queue import QUEUE
from memsvc.store.tables import TABLES, purge_order
from memsvc.store.tenant_purge import PurgeFile, TableRows

_PATHS: Final = ("path", "path_prefix", "from_path", "to_path", "old_path", "new_path")
"""The logged arguments that name a path."""
_ROOT: Final = "substring(arguments ->> '{0}' FROM '^/[^/]+/[^/]+')"
"""The directory of a session or a user that a path is at or in."""


@frozen
class PurgeNames:
    """Names of what is purged: sessions, rows of the call log, the path of files, the user.

    `sessions` are unencoded.
    """

    sessions: Sequence[str]
    calls: TableRows
    path: str
    user: str = ""

    def recalls(self, until: datetime) -> list[TableRows]:
        """Return the recall traces of these sessions and of this user."""
        named = {"session": tuple(self.sessions), "user_id": (self.user,) if self.user else ()}
        return [
            TableRows("recalls", (column,), names, until)
            for column, names in named.items()
            if names
        ]


async def names_of_user(database: Database, scope: Scope, user: str) -> PurgeNames:
    """Return the names of a user, of sessions of this user alone, their files, and boards."""
    found = await ownership.sessions_of(database, scope, user, shared=False)
    boards = f"{USERS_ROOT}/{encode_segment(user)}"
    names = [f"user:{_as_logged(user)}", f"path:{_as_logged(boards)}", *_session_names(found)]
    return PurgeNames(found, _calls(names), boards, user)


def names_of_session(session: str) -> PurgeNames:
    """Return the names of a session and of its files."""
    return PurgeNames([session], _calls(_session_names([session])), "")


def names_of_path(path: str) -> PurgeNames:
    """Return the names of a path and of all paths below it.

    The log truncates long paths: of a truncated one, all that begin alike are purged.
    """
    end = len(path) + 1
    columns = [
        one
        for name in _PATHS
        for one in (f"arguments ->> '{name}'", f"left(arguments ->> '{name}', {end})")
    ]
    names = [_as_logged(path)] if end > LOGGED_CHARS_MAX else [path, f"{path}/"]
    return PurgeNames([], TableRows("calls", tuple(columns), tuple(names)), path)


def _calls(names: Sequence[str]) -> TableRows:
    paths = [f"'path:' || {_ROOT.format(name)}" for name in _PATHS]
    called = [
        f"'{name}:' || normalize(btrim(arguments ->> '{name}_id'))" for name in ("session", "user")
    ]
    return TableRows("calls", (*called, *paths), tuple(names))


def _session_names(sessions: Sequence[str]) -> list[str]:
    names = [f"session:{_as_logged(session)}" for session in sessions]
    return names + [
        f"path:{_as_logged(f'{SESSIONS_ROOT}/{encode_segment(session)}')}" for session in sessions
    ]


def _as_logged(name: str) -> str:
    """Return a name as the call log holds it."""
    return safe_text(name, LOGGED_CHARS_MAX)


ROWS_PER_STEP: Final = 2000
FILES_PER_STEP: Final = 100
BLOCKS_PER_STEP: Final = 500
CHUNKS_PER_STEP: Final = 128


@dataclass(slots=True)
class PurgeRun:
    """One purge in progress: deletes rows and counts them, or with `dry_run` only counts them."""

    database: Database
    purge: UUID
    dry_run: bool
    counts: Counter[str] = field(default_factory=Counter)
    kept_sessions: dict[str, list[str]] = field(default_factory=dict)
    resumed: bool = False

    @asynccontextmanager
    async def begin(
        self, scope: Scope, locks: Sequence[Lock] = (), *, closed: bool = True, whole: bool = False
    ) -> AsyncIterator[Tx]:
        """Begin a transaction of this purge; `closed`: nobody else writes, and no other purge.

        It spans the tenant where that goes as a `whole`.
        """
        async with self.database.begin(
            scope, locks=locks, purging=closed, whole_tenant=whole
        ) as tx:
            if closed:
                await tenant_purge.lock_purge(tx, self.purge)
            yield tx

    async def delete_rows(
        self,
        scope: Scope,
        row_sets: Sequence[TableRows],
        *,
        closed: bool = True,
        whole: bool = False,
    ) -> None:
        """Delete rows, some thousand per transaction; `closed`: nobody else writes them."""
        for rows in row_sets:
            if self.dry_run:
                async with self.database.begin(scope, read_only=True, whole_tenant=whole) as tx:
                    self.counts[rows.table] += await tenant_purge.count(tx, rows)
                continue
            after: tenant_purge.RowKey | None = None
            while True:
                async with self.begin(scope, closed=closed, whole=whole) as tx:
                    deleted, after = await tenant_purge.erase(
                        tx, rows, after=after, limit=ROWS_PER_STEP
                    )
                self.counts[rows.table] += deleted
                if after is None:
                    break


@frozen
class PurgeSteps:
    """Removal of what an owner has in one project."""

    database: Database
    clock: Clock
    scope: Scope
    run: PurgeRun

    async def purge(self, owner_data: OwnerData) -> None:
        """Remove all of it; or, in a dry run, count it."""
        if self.run.dry_run:
            await self._count(owner_data)
            return
        if owner_data.locks:
            await self._close(owner_data)
        for step in owner_data.purge_steps:
            while await self._step(step):
                pass
        await self.run.delete_rows(self.scope, await self._rows(owner_data))
        for directory in owner_data.directories:
            await self._files(owner_data, directory)
        await self._open(owner_data)

    async def names(self, names: PurgeNames, *, until: datetime | None = None) -> None:
        """Remove what logs and traces say of the purged names.

        Their rows in the call log, mentions in recall traces of others and, where these were
        written late, their own traces from `until` or before.
        """
        traces = names.recalls(until) if until is not None else []
        await self.run.delete_rows(self.scope, [names.calls, *traces], closed=False)
        sessions, path = frozenset(names.sessions), names.path
        if self.run.dry_run:
            return
        while True:
            async with self.database.begin(self.scope) as tx:
                if (
                    await recalls.remove_candidates(tx, sessions, path, limit=ROWS_PER_STEP)
                    < ROWS_PER_STEP
                ):
                    return

    async def _close(self, owner_data: OwnerData) -> None:
        now = self.clock.now()
        async with self.database.begin(self.scope, locks=owner_data.locks, purging=True) as tx:
            units = tenant_purge.units_of(tx, owner_data.locks)
            self.run.resumed |= await tenant_purge.close_units(tx, units, self.run.purge, now=now)
            for directory in owner_data.directories:
                while (
                    len(await tenant_purge.hide_files(tx, directory, now=now, limit=FILES_PER_STEP))
                    == FILES_PER_STEP
                ):
                    pass
            refs, queued = await backlog.forget_jobs(tx, owner_data.jobs)
        self.run.counts.update({"job_refs": refs, QUEUE: queued})

    async def _step(self, step: ownership.PurgeStep) -> int:
        async with self.run.begin(self.scope, step.locks) as tx:
            deleted = await step.step(tx)
        self.run.counts.update(deleted)
        return deleted.total()

    async def _rows(self, owner_data: OwnerData) -> list[TableRows]:
        owners: list[tuple[str, str | int]] = [
            *(("book", index_id_of(name)) for name in owner_data.index_names),
            *owner_data.owners,
        ]
        return [
            TableRows(table, column, value)
            for column, value in owners
            for table in purge_order(column)
        ]

    async def _files(self, owner_data: OwnerData, path: str) -> None:
        """Remove the files at a path and below it.

        Where nothing is fenced off, callers are at work there: the tree is locked for each step,
        and their quota is returned with it.
        """
        while not owner_data.locks:
            async with self.database.begin(self.scope, locks=[TREE_LOCK]) as tx:
                hidden = await tenant_purge.hide_files(
                    tx, path, now=self.clock.now(), limit=FILES_PER_STEP
                )
                size_bytes = sum(file.size_bytes for file in hidden)
                await usage.add_bytes(tx, -size_bytes, project_bytes_max=0, now=self.clock.now())
            if len(hidden) < FILES_PER_STEP:
                break
        while True:
            async with self.database.begin_read(self.scope) as tx:
                files = await tenant_purge.deleted_files(tx, path, limit=FILES_PER_STEP)
            if not files:
                return
            await self._delete_files(owner_data, files)

    async def _delete_files(self, owner_data: OwnerData, files: Sequence[PurgeFile]) -> None:
        if owner_data.documents_index:
            for file in files:
                while await self._delete_chunks(owner_data.documents_index, file):
                    pass
        closed, file_ids = bool(owner_data.locks), [file.incarnation for file in files]
        while True:
            async with self.run.begin(self.scope, closed=closed) as tx:
                blocks = await tenant_purge.erase_blocks(tx, file_ids, limit=BLOCKS_PER_STEP)
            self.run.counts["blocks"] += blocks
            if blocks < BLOCKS_PER_STEP:
                break
        async with self.run.begin(self.scope, closed=closed) as tx:
            job_keys = [
                (name, file_id.hex) for name in owner_data.file_jobs for file_id in file_ids
            ]
            refs, queued = await backlog.forget_jobs(tx, job_keys)
            deleted = dict(await tenant_purge.erase_files(tx, file_ids))
        self.run.counts.update(deleted | {"job_refs": refs, QUEUE: queued})

    async def _delete_chunks(self, index_name: str, file: PurgeFile) -> int:
        async with self.database.begin(self.scope, purging=True) as tx:
            await index.hold(tx, index_id_of(index_name))
            chunks = await documents.list_chunks(
                tx, index_name, file.incarnation.hex, limit=CHUNKS_PER_STEP
            )
            await documents.remove(tx, index_name, chunks)
            if chunks:
                await vectors.forget(tx, index_id_of(index_name), [chunk.entry for chunk in chunks])
        self.run.counts["entries"] += len(chunks)
        return len(chunks)

    async def _open(self, owner_data: OwnerData) -> None:
        """Run the last steps and let writers in again."""
        locks = [lock for step in owner_data.last for lock in step.locks]
        async with self.database.begin(self.scope, locks=locks, purging=True) as tx:
            if owner_data.locks:
                await tenant_purge.lock_purge(tx, self.run.purge)
            for step in owner_data.last:
                while (deleted := await step.step(tx)).total():
                    self.run.counts.update(deleted)
            for uri in owner_data.changed:
                await changes.notify(tx, uri)
            await tenant_purge.release(tx, self.run.purge)

    async def _count(self, owner_data: OwnerData) -> None:
        async with self.database.begin_read(self.scope) as tx:
            for step in (*owner_data.purge_steps, *owner_data.last):
                self.run.counts.update(await step.count(tx))
            for directory in owner_data.directories:
                name = owner_data.documents_index
                index_id = index_id_of(name) if name else None
                self.run.counts.update(
                    await tenant_purge.count_files(tx, directory, index_id=index_id)
                )
            refs, queued = await backlog.forget_jobs(tx, owner_data.jobs, dry_run=True)
            self.run.counts.update({"job_refs": refs, QUEUE: queued})
        await self.run.delete_rows(self.scope, await self._rows(owner_data))


class PurgeLevel(StrEnum):
    """Level of a purge."""

    TENANT = "tenant"
    PROJECT = "project"
    USER = "user"
    SESSION = "session"
    PATH = "path"


_ALL_PROJECTS_LEVELS: Final = (PurgeLevel.TENANT, PurgeLevel.USER)
"""Levels that may span all projects."""


@result
class PurgeResult:
    purge_id: Annotated[str, "id of the purge"]
    level: Annotated[PurgeLevel, "what to delete, as requested"]
    project: Annotated[str, "requested project"]
    name: Annotated[str, "name of the deleted object, which `confirm` must repeat"]
    dry_run: Annotated[bool, "true if the call only counted the data and deleted nothing"]
    resumed: Annotated[bool, "true if this call finished an earlier, interrupted purge"]
    started_at: Annotated[datetime, "start time"]
    ended_at: Annotated[datetime, "end time"]
    counts: Annotated[
        dict[str, int],
        "number of deleted rows of each table; in a dry run, the number that would be deleted",
    ]
    found: Annotated[
        bool, "false if nothing of this name is stored, apart from its calls in the call log"
    ]
    kept_sessions: Annotated[
        dict[str, list[str]],
        "sessions by project that remain because other users spoke in them too; they still contain"
        " what the purged user said",
    ]
    complete: Annotated[bool, "true once everything has been deleted"]


@frozen
class Purge:
    """The tool tenant_purge: short transactions, with writers of the same fenced off meanwhile.

    Writes to it meanwhile are refused (RESOURCE_BUSY) or, at a path, purged too; later ones create
    it anew. RESOURCE_BUSY when a writer holds it for too long, or when another purge has taken
    over. An interrupted purge resumes when it is requested once more. `owners` know what belongs to
    a user, to a session, and to a path; other processes flush their batches of writes within
    `settle_s`.
    """

    database: Database
    clock: Clock
    owners: Owners
    settle_s: float

    @tool(
        "tenant_purge",
        title="Purge data",
        needs=Permission.ADMIN,
        toolset="admin",
        base=NamedProjectArguments,
        project="the project, or * for all projects; level tenant requires *, level user allows it",
        logs=("level",),
        idempotent=True,
        destructive=True,
        removes=lambda args: not args.dry_run,
        shown=frozenset({"name"}),
        spans_projects=True,
        is_admin=True,
    )
    async def purge(
        self,
        scope: Scope,
        accepted: Accepted,
        level: Annotated[
            PurgeLevel,
            "what to delete: the tenant, a project, or a user, session or path in the project",
        ],
        name: Annotated[str, "name of the user or session, or path of the file or directory"] = "",
        confirm: Annotated[
            str, "repeat the name of what will be deleted; a dry run returns it as `name`"
        ] = "",
        dry_run: Annotated[
            StrictBool, "only count what would be deleted; confirm is not needed"
        ] = False,
    ) -> PurgeResult:
        """Delete a tenant, a project, a user, a session or a path for good.

        All derived data and past versions are deleted too. Returns a receipt with the number of
        deleted rows of each table."""
        name = _checked_name(scope, level, name)
        if not (dry_run or accepted or confirm == name):
            raise invalid(
                "confirm must repeat the name of what will be deleted",
                recovery="call with dry_run to get the name",
            )
        purge, started_at = uuid4(), self.clock.now()
        purge_run = PurgeRun(self.database, purge, dry_run)
        match level:
            case PurgeLevel.TENANT:
                await self._purge_all(Scope(scope.tenant, ALL_PROJECTS), purge_run)
            case PurgeLevel.PROJECT:
                await self._purge_all(scope, purge_run)
            case _:
                await self._purge_named(scope, level, name, purge_run)
        counts, kept_sessions = +purge_run.counts, purge_run.kept_sessions
        return PurgeResult(
            str(purge),
            level,
            scope.project,
            name,
            dry_run,
            purge_run.resumed,
            started_at,
            self.clock.now(),
            dict(sorted(counts.items())),
            bool(counts.keys() - {"calls"} or kept_sessions or purge_run.resumed),
            kept_sessions,
            not dry_run,
        )

    async def _purge_named(self, scope: Scope, level: PurgeLevel, name: str, run: PurgeRun) -> None:
        """Purge what belongs to a user, a session or a path.

        Their names are purged from the call log first, while they are still known, and again at the
        end, when pending log records that name them have been written.
        """
        finished: list[tuple[PurgeSteps, PurgeNames]] = []
        async for project in self._projects(scope):
            steps = PurgeSteps(self.database, self.clock, project, run)
            match level:
                case PurgeLevel.USER:
                    names = await names_of_user(self.database, project, name)
                case PurgeLevel.SESSION:
                    names = names_of_session(name)
                case _:
                    names = names_of_path(name)
            await steps.names(names)
            for owner in self.owners[level]:
                async for owner_data in owner(project, name):
                    await steps.purge(owner_data)
                    if owner_data.kept_sessions:
                        run.kept_sessions[project.project] = [*owner_data.kept_sessions]
            finished.append((steps, names))
        if not run.dry_run:
            ended_at = await self._flush_pending()
            for steps, names in finished:
                await steps.names(names, until=ended_at)

    async def _flush_pending(self) -> datetime:
        """Wait until all pending batches of writes are written; return when the wait began."""
        started_at = self.clock.now()
        await asyncio.sleep(self.settle_s)
        for flush in [*self.database.flush_callbacks]:
            await flush()
        return started_at

    async def _projects(self, scope: Scope) -> AsyncIterator[Scope]:
        """Yield the project, or every project of the tenant."""
        if scope.project != ALL_PROJECTS:
            yield scope
            return
        after = ""
        while True:
            async with self.database.begin_tenant(scope, read_only=True) as tx:
                found = await projects.next_project(tx, after)
            if found is None:
                return
            yield Scope(scope.tenant, after := found)

    async def _purge_all(self, scope: Scope, run: PurgeRun) -> None:
        """Purge all of a project, or of the tenant: table by table, as the schema lists them."""
        whole = scope.project == ALL_PROJECTS
        if not run.dry_run:
            async with self.database.begin_closing(scope) as tx:
                run.resumed = await tenant_purge.close_units(
                    tx, [tenant_purge.WHOLE], run.purge, now=self.clock.now()
                )
        for table in purge_order():
            # what was closed is opened at the end
            if table == "purges" or not (whole or TABLES[table].of_project):
                continue
            if table == "projects" and not (whole or run.dry_run):
                async with run.begin(scope) as tx:
                    run.counts["projects"] += await tenant_purge.count(tx, TableRows("projects"))
                    await tenant_purge.release_usage(tx)
                continue
            await run.delete_rows(scope, [TableRows(table)], whole=whole)
            if table == "job_refs":
                await self._jobs(scope, run, whole=whole)
        if not run.dry_run:
            async with run.begin(scope, whole=whole) as tx:
                await tenant_purge.release_all(tx)
            late = [TableRows("recalls", until=await self._flush_pending()), TableRows("calls")]
            await run.delete_rows(scope, late, closed=False, whole=whole)

    async def _jobs(self, scope: Scope, run: PurgeRun, *, whole: bool) -> None:
        if run.dry_run:
            async with self.database.begin(scope, read_only=True, whole_tenant=whole) as tx:
                run.counts[QUEUE] += await backlog.queued(tx)
            return
        async with run.begin(scope, whole=whole) as tx:
            run.counts[QUEUE] += await backlog.forget_all(tx)


def _checked_name(scope: Scope, level: PurgeLevel, name: str) -> str:
    """Return the name of what is purged; a tenant and a project are named by the scope.

    INVALID_ARGUMENT where that makes no sense, PERMISSION_DENIED where it spans more than the key
    may touch.
    """
    all_projects = scope.project == ALL_PROJECTS
    if all_projects and level not in _ALL_PROJECTS_LEVELS:
        raise invalid(f"level {level} needs a single project: name it in `project`")
    if level is PurgeLevel.TENANT and not all_projects:
        raise invalid("level tenant covers all projects: set project to *")
    if all_projects and scope.allowed_projects is not None:
        raise permission_denied("this key does not have access to all projects")
    match level:
        case PurgeLevel.USER | PurgeLevel.SESSION:
            return check_identifier(name, "name")
        case PurgeLevel.PATH:
            return check_path(name.removesuffix("/"))
        case _:
            named = scope.tenant.hex() if level is PurgeLevel.TENANT else scope.project
            if name and name != named:
                raise invalid(
                    f"omit name for level {level}: `project` and your key determine what is deleted"
                )
            return named
