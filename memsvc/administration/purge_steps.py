"""Purge steps in one project: fenced off and hidden, removed in steps, reopened with the last."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final
from uuid import UUID

from memsvc.administration.purge_names import PurgeNames
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
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
    write_fences,
)
from memsvc.store.database import Database, Tx
from memsvc.store.index import index_id_of
from memsvc.store.locks import TREE_LOCK
from memsvc.store.ownership import OwnerData, TableRows
from memsvc.store.queue import QUEUE
from memsvc.store.tenant_purge import PurgeFile

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
                        await write_fences.lock_purge(tx, self.purge)
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
        await self._run.delete_rows(
            self._scope, [*await self._index_rows(owner_data), *owner_data.rows]
        )
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
            units = write_fences.units_of(tx, owner_data.locks)
            self._run.resumed |= await write_fences.close(tx, units, self._run.purge, now=now)
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
            await write_fences.lock_purge(tx, self._run.purge)
            deleted = await step.step(tx)
        self._counts.update(deleted)
        return deleted.total()

    async def _index_rows(self, owner_data: OwnerData) -> list[TableRows]:
        async with self._database.begin(self._scope, read_only=True) as tx:
            has_vectors = await vectors.available(tx)
        tables = [
            table
            for table in tenant_purge.INDEX_TABLES
            if has_vectors or table != tenant_purge.EMBEDDINGS
        ]
        return [
            TableRows(table, "book", index_id_of(name))
            for name in owner_data.index_names
            for table in tables
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
                await write_fences.lock_purge(tx, self._run.purge)
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
                await write_fences.lock_purge(tx, self._run.purge)
            for step in owner_data.last:
                while (deleted := await step.step(tx)).total():
                    self._counts.update(deleted)
            for uri in owner_data.changed:
                await changes.notify(tx, uri)
            await write_fences.release(tx, self._run.purge)

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
        await self._run.delete_rows(
            self._scope, [*await self._index_rows(owner_data), *owner_data.rows]
        )
