"""Maintenance of a project's files: purges expired content and merges small appended blocks."""

import uuid
from collections.abc import Mapping
from datetime import timedelta

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import documents, purge, vectors
from memsvc.store.database import Database
from memsvc.store.index import book_of
from memsvc.styles.files.indexing import BOOK
from memsvc.styles.files.options import FilesOptions

PURGE = "files.purge"
EVERY_S = 6 * 60 * 60
FILES_A_STEP = 200
BLOCKS_A_STEP = 500
PIECES_A_STEP = 128


class Upkeep:
    """Maintenance in short transactions, each of which leaves the files consistent.

    It may be killed and restarted anywhere, and run concurrently with any other call and with
    itself."""

    def __init__(
        self, database: Database, clock: Clock, options: FilesOptions, versions_owned: Mapping[str, int] | None = None
    ) -> None:
        """Set up; `versions_owned` gives by owner how many versions of a style's file are kept."""
        self._database = database
        self._clock = clock
        self._options = options
        self._versions_owned = versions_owned or {}

    async def run(self, scope: Scope, subject: str = "") -> None:
        """Purge what is past its retention; content never changes.

        Files deleted longer ago than `delete_retention_days` go, and past versions that are neither
        among the newest `versions_kept` of a caller's file nor were replaced within
        `versions_days`. A style's own files keep as many of the newest as the style wants, besides
        those of the last `versions_days`. Vectors of removed chunks go too."""
        del subject  # always the whole project
        now = self._clock.now()
        keep = purge.Keep(
            cutoff=now - timedelta(days=self._options.versions_days),
            newest=self._options.versions_kept,
            newest_owned=self._versions_owned,
            gone_before=now - timedelta(days=self._options.delete_retention_days),
        )
        after = uuid.UUID(int=0)
        while True:
            async with self._database.begin(scope, read_only=True) as tx:
                files = await purge.due(tx, keep, after=after, most=FILES_A_STEP)
            for file in files:
                if file.gone:
                    await self._remove(scope, file)
                elif file.prune:
                    await self._prune(scope, file.incarnation, keep)
            if len(files) < FILES_A_STEP:
                break
            after = files[-1].incarnation
        async with self._database.begin(scope) as tx:
            if await vectors.available(tx):  # also where no embedder is configured now
                await vectors.prune(tx, book_of(BOOK))

    async def _remove(self, scope: Scope, file: purge.Due) -> None:
        """Remove a deleted file with all its content."""
        async with self._database.begin(scope) as tx:
            if not await purge.hold(tx, file.incarnation):
                return
            await purge.hide_all(tx, file.incarnation)
        while file.indexed:
            async with self._database.begin(scope) as tx:
                pieces = await documents.pieces(tx, BOOK, file.incarnation.hex, most=PIECES_A_STEP)
                await documents.remove(tx, BOOK, pieces)
                if not pieces:
                    break
        await self._sweep(scope, file.incarnation)
        async with self._database.begin(scope) as tx:
            await purge.forget(tx, file.incarnation)

    async def _prune(self, scope: Scope, incarnation: uuid.UUID, keep: purge.Keep) -> None:
        """Remove a file's expired states, and merge blocks that no remaining state ends between."""
        async with self._database.begin(scope) as tx:
            if await purge.hold(tx, incarnation):
                await purge.hide_old(tx, incarnation, keep)
        await self._sweep(scope, incarnation)
        start: int | None = 0
        while start is not None:
            async with self._database.begin(scope) as tx:
                start = await purge.merge(tx, incarnation, after=start) if await purge.hold(tx, incarnation) else None

    async def _sweep(self, scope: Scope, incarnation: uuid.UUID) -> None:
        """Delete the hidden blocks of a file."""
        swept = False
        while not swept:
            async with self._database.begin(scope) as tx:
                held = await purge.hold(tx, incarnation)
                swept = not held or await purge.sweep(tx, incarnation, most=BLOCKS_A_STEP)


def jobs(upkeep: Upkeep) -> list[Job]:
    """Return the jobs of this style."""
    return [Job(name=PURGE, run=upkeep.run, every_s=EVERY_S)]
