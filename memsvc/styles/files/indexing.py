"""Index of callers' files: the start of a write is indexed at once, the rest by a job."""

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from memsvc.core.chunks import chunks
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.core.underway import step_done
from memsvc.store import documents, files, jobs, summaries, tree
from memsvc.store.database import Database, Tx
from memsvc.store.documents import Piece
from memsvc.store.files import File, GoneMeanwhileError
from memsvc.store.index import book_of
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.files.summarising import SETTLE_S, SUMMARISE_JOB, SUMMARISED_BYTES_MIN

BOOK: Final = "files"
AT_ONCE_BYTES: Final = 128 * 1024
"""Bytes that a write indexes in its own transaction: about 0.2 s of work."""
PIECES_AT_ONCE: Final = 512
"""More chunks than AT_ONCE_BYTES can make, overlaps included."""
INDEX_JOB: Final = "files.index"
FORGET_JOB: Final = "files.forget"
RETITLE_JOB: Final = "files.retitle"
FILES_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Change:
    """One write to a file: `whole` is its new content, or None where `added` is appended."""

    whole: bytes | None
    added: bytes

    def indexed_bytes(self, before: File | None, *, is_text: bool) -> int:
        """Return how much of the file is indexed once `Indexing.follow` has handled this change."""
        if not is_text:
            return 0
        if self.whole is not None:
            return whole_characters(self.whole, AT_ONCE_BYTES)
        assert before is not None
        if before.indexed_bytes < before.size_bytes:
            return before.indexed_bytes
        return before.size_bytes + whole_characters(self.added, AT_ONCE_BYTES)


class Indexing:
    """The search index of files, updated with every change of a file.

    Searches check the file itself: a file that is binary, deleted or has a new stream is not found
    by its old chunks from that transaction on. Removing them can therefore wait."""

    def __init__(self, database: Database, clock: Clock, *, embeds: bool, summarises: bool = False) -> None:
        self._database = database
        self._clock = clock
        self._embeds = embeds
        self._summarises = summarises
        self.jobs = [
            Job(name=INDEX_JOB, run=self.index),
            Job(name=FORGET_JOB, run=self.forget),
            Job(name=RETITLE_JOB, run=self.retitle),
        ]

    async def follow(self, tx: Tx, before: File | None, after: File, change: Change) -> None:
        """Index what was written, in the writer's transaction."""
        later = after.is_text and after.indexed_bytes < after.size_bytes
        if change.whole is not None:
            old: list[Piece] = []
            if before is not None and before.indexed_bytes:
                if before.indexed_bytes <= AT_ONCE_BYTES:
                    old = await documents.pieces(tx, BOOK, before.incarnation.hex, most=PIECES_AT_ONCE)
                else:
                    later = True
            text = change.whole[: after.indexed_bytes].decode() if after.is_text else ""
            await self._change(tx, after, old, text, 0, "")
        elif before is not None and after.indexed_bytes > before.indexed_bytes:
            await self._grow(
                tx, after, before.indexed_bytes, change.added[: after.indexed_bytes - before.indexed_bytes]
            )
        elif before is not None and before.indexed_bytes and not after.is_text:
            later = True
        if later:
            await jobs.enqueue(tx, INDEX_JOB, after.incarnation.hex, now=self._clock.now())
        if self._summarises and max(after.size_bytes, before.size_bytes if before else 0) >= SUMMARISED_BYTES_MIN:
            await jobs.enqueue(tx, SUMMARISE_JOB, after.incarnation.hex, now=self._clock.now(), delay_s=SETTLE_S)

    async def gone(self, tx: Tx, file: File) -> None:
        """Remove the chunks of a file that was just deleted; many are left to a job."""
        if file.size_bytes >= SUMMARISED_BYTES_MIN:
            await summaries.remove(tx, file.incarnation)
        if 0 < file.indexed_bytes <= AT_ONCE_BYTES:
            old = await documents.pieces(tx, BOOK, file.incarnation.hex, most=PIECES_AT_ONCE)
            await documents.remove(tx, BOOK, old)
            await self._embed(tx)  # this removes the vectors of deleted chunks as well
        elif file.indexed_bytes:
            await jobs.enqueue(tx, INDEX_JOB, file.incarnation.hex, now=self._clock.now())

    async def many_gone(self, tx: Tx) -> None:
        """Leave the chunks of all deleted files to a job."""
        await jobs.enqueue(tx, FORGET_JOB, "", now=self._clock.now())

    async def moved(self, tx: Tx, what: File | str) -> None:
        """Index a file, or all files below a path, under new names; many or long ones by a job."""
        if isinstance(what, File) and what.indexed_bytes <= AT_ONCE_BYTES:
            await self._retitle(tx, what)
        else:
            path = what.path if isinstance(what, File) else what
            await jobs.enqueue(tx, RETITLE_JOB, path, now=self._clock.now())

    async def index(self, scope: Scope, incarnation: str) -> None:
        """Job: remove stale chunks of a file, then index the rest, a part at a time."""
        while await self._index_part(scope, uuid.UUID(incarnation)):
            step_done()

    async def _index_part(self, scope: Scope, incarnation: uuid.UUID) -> bool:
        async with self._database.begin(scope) as tx:
            file = await files.find_incarnation(tx, incarnation)
            standing = file.stream if file is not None and file.is_text else None
            stale = await documents.pieces(tx, BOOK, incarnation.hex, most=PIECES_AT_ONCE // 4, not_of=standing)
            if stale:
                await documents.remove(tx, BOOK, stale)
                await self._embed(tx)
                return True
            if file is None or not file.is_text:
                await files.set_indexed(tx, incarnation, 0)
                await summaries.remove(tx, incarnation)
                return False
            part = await files.read(tx, file, file.indexed_bytes, file.indexed_bytes + AT_ONCE_BYTES)
            part = part[: whole_characters(part, len(part))]
            if not part:
                return False
            await files.set_indexed(tx, incarnation, file.indexed_bytes + len(part))
            await self._grow(tx, file, file.indexed_bytes, part)
            return True

    async def forget(self, scope: Scope, _: str) -> None:
        """Job: remove the chunks of deleted files."""
        while True:
            async with self._database.begin(scope, read_only=True) as tx:
                deleted = await files.deleted_but_indexed(tx, most=FILES_AT_ONCE)
            for incarnation in deleted:
                await self.index(scope, incarnation.hex)
            if not deleted:
                return

    async def retitle(self, scope: Scope, path: str) -> None:
        """Job: index the files at and below a path under the names that they have now."""
        after = ""
        while True:
            async with self._database.begin(scope, read_only=True) as tx:
                found = await tree.files_at(tx, path, after=after, most=FILES_AT_ONCE)
            for name in found:
                # one at a time: a holder of the index lock must not wait for the file of a writer
                # waiting for it
                with suppress(GoneMeanwhileError):  # the call that moved it updates its name
                    async with self._database.begin(scope) as tx:
                        file = await files.find(tx, name, for_update=True)
                        if file is not None:
                            await self._retitle(tx, file)
            if not found:
                return
            after = found[-1]

    async def _retitle(self, tx: Tx, file: File) -> None:
        if await documents.retitle(tx, BOOK, file.incarnation.hex, file.stream, title=file.path, now=self._clock.now()):
            await self._embed(tx)

    async def _grow(self, tx: Tx, file: File, indexed_bytes: int, added: bytes) -> None:
        """Index `added`, which follows the first `indexed_bytes`; the last chunk is redone."""
        last = await documents.last_piece(tx, BOOK, file.incarnation.hex, file.stream)
        start = last.start if last else 0
        tail = last.text.encode() if last else b""
        if len(tail) != indexed_bytes - start:  # whitespace at the end belongs to no chunk
            tail = await files.read(tx, file, start, indexed_bytes)
        old = [last] if last else []
        await self._change(tx, file, old, (tail + added).decode(), start, last.context if last else "")

    async def _change(self, tx: Tx, file: File, old: list[Piece], text: str, start: int, context: str) -> None:
        # stored text holds no NUL; chunks without it can be compared with stored ones
        new = chunks(text.replace("\x00", " "), start=start, context=context)
        now = self._clock.now()
        changed = await documents.change(
            tx, BOOK, file.incarnation.hex, file.stream, title=file.path, old=old, new=new, now=now
        )
        if changed:
            await self._embed(tx)

    async def _embed(self, tx: Tx) -> None:
        if self._embeds:
            await jobs.enqueue(tx, EMBED_JOB, str(book_of(BOOK)), now=self._clock.now())


def whole_characters(content: bytes, most: int) -> int:
    """Return how many of the first `most` bytes of UTF-8 text form whole characters."""
    return len(content[:most].decode("utf-8", "ignore").encode())
