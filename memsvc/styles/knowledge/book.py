"""Index of the blocks of a project, with its lock and its clock."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import sqrt
from typing import Any, Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.likeness import alike
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import activity, jobs, notions, vectors
from memsvc.store.activity import Activity
from memsvc.store.database import Database, Tx
from memsvc.store.index import book_of
from memsvc.store.locks import book_lock
from memsvc.store.notions import Notion
from memsvc.styles.embedding import EMBED_JOB, Embedding
from memsvc.styles.knowledge.hours import now_of
from memsvc.styles.knowledge.options import KnowledgeOptions

BOOK: Final = "knowledge"
NUMBER: Final = book_of(BOOK)
LOCK: Final = book_lock(BOOK)
REVISION_BITS: Final = 48
CONSOLIDATE_JOB: Final = "knowledge.consolidate"


@dataclass(slots=True)
class Writing:
    """Transaction that locks the index, with the index's use as it is to be stored."""

    tx: Tx
    use: Activity
    now: datetime

    def change(self, **values: Any) -> None:
        """Update the use, and invalidate cached identity frames."""
        self.use = replace(self.use, revision=self.use.revision + 1, **values)


class Book:
    """Index of each project's blocks: how it is opened, and what its blocks have in common."""

    def __init__(
        self, database: Database, clock: Clock, options: KnowledgeOptions, embedding: Embedding | None
    ) -> None:
        self._database = database
        self._clock = clock
        self.options = options
        self.embedding = embedding
        self.idle = timedelta(minutes=options.session_idle_minutes)

    @asynccontextmanager
    async def written(self, scope: Scope) -> AsyncIterator[Writing]:
        """Begin a transaction that locks the index, and store its clock with what is written."""
        async with self._database.begin(scope, locks=[LOCK]) as tx:
            now = self._clock.now()
            was = await activity.find(tx, NUMBER)
            use = now_of(was, now, self.idle)
            if was is None:  # no process takes its cache of a purged index for this one's
                use = replace(use, revision=secrets.randbits(REVISION_BITS))
            writing = Writing(tx, use, now)
            yield writing
            await activity.keep(tx, NUMBER, writing.use)

    @asynccontextmanager
    async def read(self, scope: Scope) -> AsyncIterator[tuple[Tx, Activity | None]]:
        """Begin a transaction that writes nothing; yield it with the index's use as stored last."""
        async with self._database.begin(scope, read_only=True) as tx:
            yield tx, await activity.find(tx, NUMBER)

    def now(self) -> datetime:
        """Return the time of the wall clock."""
        return self._clock.now()

    async def embed_later(self, writing: Writing) -> None:
        """Queue the embedding of new entries; to be called last in a transaction."""
        if self.embedding is not None:
            await jobs.enqueue(writing.tx, EMBED_JOB, str(NUMBER), now=writing.now)

    async def archive(
        self, writing: Writing, blocks: Sequence[Notion], reason: notions.Reason, *, by: str | None = None
    ) -> None:
        """Archive blocks, so that neither words nor meaning find them."""
        await notions.archive(writing.tx, NUMBER, blocks, reason, by=by)
        await self.drop_vectors(writing, blocks)

    async def drop_vectors(self, writing: Writing, blocks: Sequence[Notion]) -> None:
        """Delete the vectors of removed entries, of every model, configured or not."""
        if blocks and await vectors.available(writing.tx):
            await vectors.forget(writing.tx, NUMBER, [block.entry for block in blocks])

    async def vectors(self, tx: Tx, blocks: Sequence[Notion]) -> dict[str, list[float]]:
        """Return the vectors of those blocks that have one, by id."""
        if self.embedding is None or not blocks:
            return {}
        found = await vectors.of(tx, NUMBER, self.embedding.model, [block.entry for block in blocks])
        return {block.notion: found[block.entry] for block in blocks if block.entry in found}


def likeness(one: Sequence[float] | None, other: Sequence[float] | None, texts: tuple[str, str]) -> float:
    """Return the similarity of two blocks: the cosine of their vectors, or else by their words."""
    if one is None or other is None or len(one) != len(other):
        return alike(*texts)
    size = sqrt(sum(a * a for a in one) * sum(b * b for b in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / size if size else 0.0


def not_found(block_id: str) -> MemsvcError:
    """Return the error for a block that does not exist, or no longer does."""
    return MemsvcError(
        Code.NOT_FOUND,
        f"Block '{block_id[:8]}…' not found.",
        recovery="Check the block_id is current. Use elfmem_recall() or elfmem_ls() to obtain a fresh block_id.",
    )
