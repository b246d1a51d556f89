"""Purge steps in one project: fenced off and hidden, removed in steps, reopened with the last."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final
from uuid import UUID

from memsvc.administration.naming import Names
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import backlog, belongings, changes, closures, documents, erasing, index, quotas, recalls, vectors
from memsvc.store.belongings import Belongings, Rows
from memsvc.store.database import Database, Tx
from memsvc.store.erasing import Doomed
from memsvc.store.index import book_of
from memsvc.store.locks import TREE_LOCK
from memsvc.store.queue import QUEUE

ROWS_A_STEP: Final = 2000
FILES_A_STEP: Final = 100
BLOCKS_A_STEP: Final = 500
PIECES_A_STEP: Final = 128


class Erasing:
    """One purge in progress: deletes rows and counts them, or with `dry_run` only counts them."""

    def __init__(self, database: Database, clock: Clock, purge: UUID, *, dry_run: bool) -> None:
        self._database = database
        self._clock = clock
        self.purge = purge
        self.dry_run = dry_run
        self.counts: Counter[str] = Counter()
        self.resumed = False

    async def rows(
        self, scope: Scope, among: Sequence[Rows], *, closed: bool = True, whole_tenant: bool = False
    ) -> None:
        """Delete rows, some thousand per transaction; `closed`: nobody else writes them."""
        for rows in among:
            if self.dry_run:
                async with self._database.begin(scope, read_only=True, whole_tenant=whole_tenant) as tx:
                    self.counts[rows.table] += await erasing.count(tx, rows)
                continue
            after: erasing.Place | None = None
            while True:
                async with self._database.begin(scope, purging=closed, whole_tenant=whole_tenant) as tx:
                    if closed:
                        await closures.hold(tx, self.purge)
                    gone, after = await erasing.erase(tx, rows, after=after, most=ROWS_A_STEP)
                self.counts[rows.table] += gone
                if after is None:
                    break


class Removing:
    """Removal of what an owner has in one project."""

    def __init__(self, database: Database, clock: Clock, scope: Scope, erasing_: Erasing) -> None:
        self._database = database
        self._clock = clock
        self._scope = scope
        self._erasing = erasing_
        self._counts = erasing_.counts

    async def run(self, of: Belongings) -> None:
        """Remove all of it; or, in a dry run, count it."""
        if self._erasing.dry_run:
            await self._count(of)
            return
        if of.locks:
            await self._close(of)
        for parting in of.partings:
            while await self._step(parting):
                pass
        await self._erasing.rows(self._scope, [*await self._of_books(of), *of.rows])
        for directory in of.directories:
            await self._files(of, directory)
        await self._open(of)

    async def names(self, names: Names, *, until: datetime | None = None) -> None:
        """Remove what logs and traces say of the purged names.

        Their rows in the call log, mentions in recall traces of others and, where these were
        written late, their own traces from `until` or before.
        """
        own = names.recalls(until) if until is not None else []
        await self._erasing.rows(self._scope, [names.calls, *own], closed=False)
        sessions, path = frozenset(names.sessions), names.path
        if self._erasing.dry_run:
            return
        while True:
            async with self._database.begin(self._scope) as tx:
                if await recalls.withdraw(tx, sessions, path, limit=ROWS_A_STEP) < ROWS_A_STEP:
                    return

    async def _close(self, of: Belongings) -> None:
        now = self._clock.now()
        async with self._database.begin(self._scope, locks=of.locks, purging=True) as tx:
            units = closures.units_of(tx, of.locks)
            self._erasing.resumed |= await closures.close(tx, units, self._erasing.purge, now=now)
            for directory in of.directories:
                while len(await erasing.hide_files(tx, directory, now=now, most=FILES_A_STEP)) == FILES_A_STEP:
                    pass
            noted, queued = await backlog.forget_jobs(tx, of.jobs)
        self._counts.update({"job_refs": noted, QUEUE: queued})

    async def _step(self, parting: belongings.Parting) -> int:
        async with self._database.begin(self._scope, locks=parting.locks, purging=True) as tx:
            await closures.hold(tx, self._erasing.purge)
            gone = await parting.step(tx)
        self._counts.update(gone)
        return gone.total()

    async def _of_books(self, of: Belongings) -> list[Rows]:
        async with self._database.begin(self._scope, read_only=True) as tx:
            there = await vectors.available(tx)
        tables = [table for table in erasing.OF_BOOK if there or table != erasing.EMBEDDINGS]
        return [Rows(table, "book", book_of(name)) for name in of.books for table in tables]

    async def _files(self, of: Belongings, path: str) -> None:
        """Remove the files at a path and below it.

        Where nothing is fenced off, callers are at work there: the tree is locked for each step,
        and their quota is returned with it.
        """
        while not of.locks:
            async with self._database.begin(self._scope, locks=[TREE_LOCK]) as tx:
                hidden = await erasing.hide_files(tx, path, now=self._clock.now(), most=FILES_A_STEP)
                held_bytes = sum(file.size_bytes for file in hidden)
                await quotas.spend(tx, -held_bytes, project_bytes_max=0, now=self._clock.now())
            if len(hidden) < FILES_A_STEP:
                break
        while True:
            async with self._database.begin(self._scope, read_only=True) as tx:
                doomed = await erasing.deleted_files(tx, path, most=FILES_A_STEP)
            if not doomed:
                return
            await self._erase_files(of, doomed)

    async def _erase_files(self, of: Belongings, doomed: Sequence[Doomed]) -> None:
        if of.documents_in:
            for file in doomed:
                while await self._erase_pieces(of.documents_in, file):
                    pass
        incarnations = [file.incarnation for file in doomed]
        while True:
            async with self._begin(of) as tx:
                blocks = await erasing.erase_blocks(tx, incarnations, most=BLOCKS_A_STEP)
            self._counts["blocks"] += blocks
            if blocks < BLOCKS_A_STEP:
                break
        async with self._begin(of) as tx:
            if of.locks:
                await closures.hold(tx, self._erasing.purge)
            about = [(name, one.hex) for name in of.file_jobs for one in incarnations]
            noted, queued = await backlog.forget_jobs(tx, about)
            gone = dict(await erasing.erase_files(tx, incarnations))
        self._counts.update(gone | {"job_refs": noted, QUEUE: queued})

    async def _erase_pieces(self, book: str, file: Doomed) -> int:
        async with self._database.begin(self._scope, purging=True) as tx:
            await index.hold(tx, book_of(book))
            pieces = await documents.pieces(tx, book, file.incarnation.hex, most=PIECES_A_STEP)
            await documents.remove(tx, book, pieces)
            if pieces and await vectors.available(tx):
                await vectors.forget(tx, book_of(book), [piece.entry for piece in pieces])
        self._counts["entries"] += len(pieces)
        return len(pieces)

    async def _open(self, of: Belongings) -> None:
        """Run the last steps and let writers in again."""
        locks = [lock for parting in of.last for lock in parting.locks]
        async with self._database.begin(self._scope, locks=locks, purging=True) as tx:
            if of.locks:
                await closures.hold(tx, self._erasing.purge)
            for parting in of.last:
                while (gone := await parting.step(tx)).total():
                    self._counts.update(gone)
            for uri in of.changed:
                await changes.announce(tx, uri)
            await closures.reopen(tx, self._erasing.purge)

    def _begin(self, of: Belongings) -> AbstractAsyncContextManager[Tx]:
        return self._database.begin(self._scope, purging=bool(of.locks))

    async def _count(self, of: Belongings) -> None:
        async with self._database.begin(self._scope, read_only=True) as tx:
            for parting in (*of.partings, *of.last):
                self._counts.update(await parting.count(tx))
            for directory in of.directories:
                book = book_of(of.documents_in) if of.documents_in else None
                self._counts.update(await erasing.count_files(tx, directory, book=book))
            noted, queued = await backlog.forget_jobs(tx, of.jobs, dry_run=True)
            self._counts.update({"job_refs": noted, QUEUE: queued})
        await self._erasing.rows(self._scope, [*await self._of_books(of), *of.rows])
