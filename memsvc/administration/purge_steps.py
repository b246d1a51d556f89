"""Steps of a purge, each a short transaction, and the names that it leaves in no log."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from memsvc.core.paths import SESSIONS_ROOT, USERS_ROOT, encode_segment
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.validation_messages import LOGGED_CHARS_MAX, safe_text
from memsvc.store import (
    backlog,
    changes,
    documents,
    index,
    ownership,
    quotas,
    recalls,
    tenant_purge,
    vectors,
)
from memsvc.store.database import Database, Tx
from memsvc.store.index import index_id_of
from memsvc.store.locks import TREE_LOCK
from memsvc.store.ownership import OwnerData
from memsvc.store.queue import QUEUE
from memsvc.store.tables import purge_order
from memsvc.store.tenant_purge import PurgeFile, TableRows

_PATHS: Final = ("path", "path_prefix", "from_path", "to_path", "old_path", "new_path")
"""The logged arguments that name a path."""
_ROOT: Final = "substring(arguments ->> '{0}' FROM '^/[^/]+/[^/]+')"
"""The directory of a session or a user that a path is at or in."""


@dataclass(frozen=True, slots=True)
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
    names = [
        f"user:{_as_logged(user)}",
        f"path:{_as_logged(boards)}",
        *_session_names(found),
    ]
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


class PurgeRun:
    """One purge in progress: deletes rows and counts them, or with `dry_run` only counts them."""

    def __init__(self, database: Database, clock: Clock, purge: UUID, *, dry_run: bool) -> None:
        self._database = database
        self._clock = clock
        self.purge = purge
        self.dry_run = dry_run
        self.counts: Counter[str] = Counter()
        self.resumed = False

    async def delete_rows(
        self,
        scope: Scope,
        row_sets: Sequence[TableRows],
        *,
        closed: bool = True,
        whole_tenant: bool = False,
    ) -> None:
        """Delete rows, some thousand per transaction; `closed`: nobody else writes them."""
        for rows in row_sets:
            if self.dry_run:
                async with self._database.begin(
                    scope, read_only=True, whole_tenant=whole_tenant
                ) as tx:
                    self.counts[rows.table] += await tenant_purge.count(tx, rows)
                continue
            after: tenant_purge.RowKey | None = None
            while True:
                async with self._database.begin(
                    scope, purging=closed, whole_tenant=whole_tenant
                ) as tx:
                    if closed:
                        await tenant_purge.lock_purge(tx, self.purge)
                    deleted, after = await tenant_purge.erase(
                        tx, rows, after=after, limit=ROWS_PER_STEP
                    )
                self.counts[rows.table] += deleted
                if after is None:
                    break


class PurgeSteps:
    """Removal of what an owner has in one project."""

    def __init__(self, database: Database, clock: Clock, scope: Scope, run: PurgeRun) -> None:
        self._database = database
        self._clock = clock
        self._scope = scope
        self._run = run
        self._counts = run.counts

    async def run(self, owner_data: OwnerData) -> None:
        """Remove all of it; or, in a dry run, count it."""
        if self._run.dry_run:
            await self._count(owner_data)
            return
        if owner_data.locks:
            await self._close(owner_data)
        for step in owner_data.purge_steps:
            while await self._step(step):
                pass
        await self._run.delete_rows(self._scope, await self._rows(owner_data))
        for directory in owner_data.directories:
            await self._files(owner_data, directory)
        await self._open(owner_data)

    async def names(self, names: PurgeNames, *, until: datetime | None = None) -> None:
        """Remove what logs and traces say of the purged names.

        Their rows in the call log, mentions in recall traces of others and, where these were
        written late, their own traces from `until` or before.
        """
        traces = names.recalls(until) if until is not None else []
        await self._run.delete_rows(self._scope, [names.calls, *traces], closed=False)
        sessions, path = frozenset(names.sessions), names.path
        if self._run.dry_run:
            return
        while True:
            async with self._database.begin(self._scope) as tx:
                if (
                    await recalls.remove_candidates(tx, sessions, path, limit=ROWS_PER_STEP)
                    < ROWS_PER_STEP
                ):
                    return

    async def _close(self, owner_data: OwnerData) -> None:
        now = self._clock.now()
        async with self._database.begin(self._scope, locks=owner_data.locks, purging=True) as tx:
            units = tenant_purge.units_of(tx, owner_data.locks)
            self._run.resumed |= await tenant_purge.close_units(tx, units, self._run.purge, now=now)
            for directory in owner_data.directories:
                while (
                    len(await tenant_purge.hide_files(tx, directory, now=now, limit=FILES_PER_STEP))
                    == FILES_PER_STEP
                ):
                    pass
            refs, queued = await backlog.forget_jobs(tx, owner_data.jobs)
        self._counts.update({"job_refs": refs, QUEUE: queued})

    async def _step(self, step: ownership.PurgeStep) -> int:
        async with self._database.begin(self._scope, locks=step.locks, purging=True) as tx:
            await tenant_purge.lock_purge(tx, self._run.purge)
            deleted = await step.step(tx)
        self._counts.update(deleted)
        return deleted.total()

    async def _rows(self, owner_data: OwnerData) -> list[TableRows]:
        async with self._database.begin(self._scope, read_only=True) as tx:
            has_vectors = await vectors.available(tx)
        owners: list[tuple[str, str | int]] = [
            *(("book", index_id_of(name)) for name in owner_data.index_names),
            *owner_data.owners,
        ]
        return [
            TableRows(table, column, value)
            for column, value in owners
            for table in purge_order(owner=column, vectors=has_vectors)
        ]

    async def _files(self, owner_data: OwnerData, path: str) -> None:
        """Remove the files at a path and below it.

        Where nothing is fenced off, callers are at work there: the tree is locked for each step,
        and their quota is returned with it.
        """
        while not owner_data.locks:
            async with self._database.begin(self._scope, locks=[TREE_LOCK]) as tx:
                hidden = await tenant_purge.hide_files(
                    tx, path, now=self._clock.now(), limit=FILES_PER_STEP
                )
                size_bytes = sum(file.size_bytes for file in hidden)
                await quotas.add_bytes(tx, -size_bytes, project_bytes_max=0, now=self._clock.now())
            if len(hidden) < FILES_PER_STEP:
                break
        while True:
            async with self._database.begin(self._scope, read_only=True) as tx:
                files = await tenant_purge.deleted_files(tx, path, limit=FILES_PER_STEP)
            if not files:
                return
            await self._delete_files(owner_data, files)

    async def _delete_files(self, owner_data: OwnerData, files: Sequence[PurgeFile]) -> None:
        if owner_data.documents_index:
            for file in files:
                while await self._delete_chunks(owner_data.documents_index, file):
                    pass
        file_ids = [file.incarnation for file in files]
        while True:
            async with self._begin(owner_data) as tx:
                blocks = await tenant_purge.erase_blocks(tx, file_ids, limit=BLOCKS_PER_STEP)
            self._counts["blocks"] += blocks
            if blocks < BLOCKS_PER_STEP:
                break
        async with self._begin(owner_data) as tx:
            if owner_data.locks:
                await tenant_purge.lock_purge(tx, self._run.purge)
            job_keys = [
                (name, file_id.hex) for name in owner_data.file_jobs for file_id in file_ids
            ]
            refs, queued = await backlog.forget_jobs(tx, job_keys)
            deleted = dict(await tenant_purge.erase_files(tx, file_ids))
        self._counts.update(deleted | {"job_refs": refs, QUEUE: queued})

    async def _delete_chunks(self, index_name: str, file: PurgeFile) -> int:
        async with self._database.begin(self._scope, purging=True) as tx:
            await index.hold(tx, index_id_of(index_name))
            chunks = await documents.list_chunks(
                tx, index_name, file.incarnation.hex, limit=CHUNKS_PER_STEP
            )
            await documents.remove(tx, index_name, chunks)
            if chunks and await vectors.available(tx):
                await vectors.forget(tx, index_id_of(index_name), [chunk.entry for chunk in chunks])
        self._counts["entries"] += len(chunks)
        return len(chunks)

    async def _open(self, owner_data: OwnerData) -> None:
        """Run the last steps and let writers in again."""
        locks = [lock for step in owner_data.last for lock in step.locks]
        async with self._database.begin(self._scope, locks=locks, purging=True) as tx:
            if owner_data.locks:
                await tenant_purge.lock_purge(tx, self._run.purge)
            for step in owner_data.last:
                while (deleted := await step.step(tx)).total():
                    self._counts.update(deleted)
            for uri in owner_data.changed:
                await changes.notify(tx, uri)
            await tenant_purge.release(tx, self._run.purge)

    def _begin(self, owner_data: OwnerData) -> AbstractAsyncContextManager[Tx]:
        return self._database.begin(self._scope, purging=bool(owner_data.locks))

    async def _count(self, owner_data: OwnerData) -> None:
        async with self._database.begin(self._scope, read_only=True) as tx:
            for step in (*owner_data.purge_steps, *owner_data.last):
                self._counts.update(await step.count(tx))
            for directory in owner_data.directories:
                index_id = (
                    index_id_of(owner_data.documents_index) if owner_data.documents_index else None
                )
                self._counts.update(
                    await tenant_purge.count_files(tx, directory, index_id=index_id)
                )
            refs, queued = await backlog.forget_jobs(tx, owner_data.jobs, dry_run=True)
            self._counts.update({"job_refs": refs, QUEUE: queued})
        await self._run.delete_rows(self._scope, await self._rows(owner_data))
