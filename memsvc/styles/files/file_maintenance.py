"""Maintenance of a project's files: purges expired content and merges small appended blocks."""

import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

from memsvc.core.errors import permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.paths import ROOT
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import documents, file_gc, vectors
from memsvc.store.database import Database
from memsvc.store.index import index_id_of
from memsvc.store.ownership import OwnerData
from memsvc.styles.files.file_summaries import SUMMARISE_JOB
from memsvc.styles.files.file_writer import reject_kept_path
from memsvc.styles.files.indexing import FILE_INDEX, INDEX_JOB, RENAME_JOB
from memsvc.styles.files.options import FilesOptions

PURGE_JOB = "files.purge"
INTERVAL_S = 6 * 60 * 60
FILES_A_STEP = 200
BLOCKS_A_STEP = 500
CHUNKS_A_STEP = 128


@frozen
class FileMaintenance:
    """Maintenance in short transactions, each of which leaves the files consistent.

    It may be killed and restarted anywhere, and run concurrently with any other call and with
    itself. `owner_versions` gives by owner how many versions of a style's file are kept."""

    database: Database
    clock: Clock
    options: FilesOptions
    owner_versions: Mapping[str, int] | None = None

    @property
    def jobs(self) -> list[Job]:
        """Return the jobs of this style."""
        return [Job(PURGE_JOB, self.run, interval_s=INTERVAL_S)]

    async def run(self, scope: Scope, subject: str = "") -> None:
        """Purge what is past its retention; content never changes.

        Files deleted longer ago than `delete_retention_days` go, and past versions that are neither
        among the newest `versions_kept` of a caller's file nor were replaced within
        `versions_days`. A style's own files keep as many of the newest as the style wants, besides
        those of the last `versions_days`. Vectors of removed chunks go too."""
        del subject  # always the whole project
        now = self.clock.now()
        keep = file_gc.FileRetention(
            cutoff=now - timedelta(days=self.options.versions_days),
            past_states=self.options.versions_kept,
            style_past_states=self.owner_versions or {},
            deleted_before=now - timedelta(days=self.options.delete_retention_days),
        )
        after = uuid.UUID(int=0)
        while True:
            async with self.database.begin_read(scope) as tx:
                files = await file_gc.files_to_collect(tx, keep, after=after, limit=FILES_A_STEP)
            for file in files:
                if file.gone:
                    await self._remove(scope, file)
                elif file.prune:
                    await self._prune(scope, file.file_id, keep)
            if len(files) < FILES_A_STEP:
                break
            after = files[-1].file_id
        async with self.database.begin(scope) as tx:
            await vectors.prune(tx, index_id_of(FILE_INDEX))

    async def _remove(self, scope: Scope, file: file_gc.FileWork) -> None:
        """Remove a deleted file with all its content."""
        async with self.database.begin(scope) as tx:
            if not await file_gc.lock_file(tx, file.file_id):
                return
            await file_gc.hide_all(tx, file.file_id)
        while file.indexed:
            async with self.database.begin(scope) as tx:
                chunks = await documents.list_chunks(
                    tx, FILE_INDEX, file.file_id.hex, limit=CHUNKS_A_STEP
                )
                await documents.remove(tx, FILE_INDEX, chunks)
                if not chunks:
                    break
        await self._delete_hidden(scope, file.file_id)
        async with self.database.begin(scope) as tx:
            await file_gc.forget(tx, file.file_id)

    async def _prune(self, scope: Scope, file_id: uuid.UUID, keep: file_gc.FileRetention) -> None:
        """Remove a file's expired states, and merge blocks that no remaining state ends between."""
        async with self.database.begin(scope) as tx:
            if await file_gc.lock_file(tx, file_id):
                await file_gc.hide_old(tx, file_id, keep)
        await self._delete_hidden(scope, file_id)
        start: int | None = 0
        while start is not None:
            async with self.database.begin(scope) as tx:
                start = (
                    await file_gc.merge(tx, file_id, after=start)
                    if await file_gc.lock_file(tx, file_id)
                    else None
                )

    async def _delete_hidden(self, scope: Scope, file_id: uuid.UUID) -> None:
        """Delete the hidden blocks of a file."""
        complete = False
        while not complete:
            async with self.database.begin(scope) as tx:
                locked = await file_gc.lock_file(tx, file_id)
                complete = not locked or await file_gc.sweep(tx, file_id, limit=BLOCKS_A_STEP)


async def files_at(scope: Scope, path: str) -> AsyncIterator[OwnerData]:
    """Yield the file at a path or the files in a directory, live or deleted, with all versions.

    PERMISSION_DENIED for the root, which is a project, and for paths where the memory keeps its
    own files."""
    del scope
    if path == ROOT:
        raise permission_denied(
            "the root directory cannot be purged by its path, because it is the whole"
            " project: purge the project instead"
        )
    reject_kept_path(path)
    yield OwnerData(
        directories=(path,),
        documents_index=FILE_INDEX,
        file_jobs=(INDEX_JOB, SUMMARISE_JOB),
        jobs=((RENAME_JOB, path),),
    )
