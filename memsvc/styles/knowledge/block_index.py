"""Index of the blocks of a project: its lock, its clock of active hours, and their tiers."""

import secrets
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import sqrt
from typing import Any, Final

from memsvc.core.decay import DecayTier
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.word_similarity import word_similarity
from memsvc.store import jobs, knowledge_blocks, usage_clock, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.index import index_id_of
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.store.locks import index_lock
from memsvc.store.usage_clock import UsageClock
from memsvc.styles.embedding import EMBED_JOB, Embedding
from memsvc.styles.knowledge.options import KnowledgeOptions

NO_TOKENS: Final = {
    "llm_input_tokens": 0,
    "llm_output_tokens": 0,
    "embedding_tokens": 0,
    "llm_calls": 0,
    "embedding_calls": 0,
}


def usage_at(was: UsageClock | None, now: datetime, idle: timedelta) -> UsageClock:
    """Return the use of a memory at `now`.

    The time since its last use counts as active if it is not longer than `idle`; otherwise a new
    session has begun, and the time between does not count.
    """
    if was is None:
        return UsageClock(0.0, now, 0.0)
    passed = now - was.seen_at
    if passed <= idle:
        return replace(
            was,
            active_h=was.active_h + max(0.0, passed / timedelta(hours=1)),
            seen_at=max(now, was.seen_at),
        )
    return replace(was, seen_at=now, session_from_h=was.active_h, session_tokens={})


def is_open(was: UsageClock | None, now: datetime, idle: timedelta) -> bool:
    """Return whether a session is open."""
    return was is not None and now - was.seen_at <= idle


def add_token_usage(was: UsageClock, token_usage: dict[str, int]) -> UsageClock:
    """Return the use with the token usage of models added."""
    if not any(token_usage.values()):
        return was
    return replace(
        was,
        session_tokens=_sum(was.session_tokens, token_usage),
        lifetime_tokens=_sum(was.lifetime_tokens, token_usage),
    )


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in NO_TOKENS}


SELF: Final = "self/"
"""Prefix of the tags of identity."""
CONSTITUTIONAL: Final = "self/constitutional"
GOAL: Final = "self/goal"
DURABLE_TAGS: Final = frozenset({"self/value", "self/constraint", GOAL})
INFERRED_TAGS: Final = ("self/constraint", "self/value", "self/style", GOAL, "self/context")
"""Tags that a model may infer. Only the caller can call a block constitutional, and so always
included with the identity: a text that an agent read could talk a model into it."""
MIND: Final = "mind"
OBSERVATION: Final = "observation"
KNOWLEDGE: Final = "knowledge"
"""Category of a block without a given one."""


def tier_of(tags: Collection[str], category: str) -> DecayTier:
    """Return the tier of a block."""
    if CONSTITUTIONAL in tags:
        return DecayTier.PERMANENT
    if not DURABLE_TAGS.isdisjoint(tags) or category == MIND:
        return DecayTier.DURABLE
    return DecayTier.EPHEMERAL if category == OBSERVATION else DecayTier.STANDARD


def is_self(tags: Collection[str]) -> bool:
    """Return whether a block belongs to the agent's identity."""
    return any(tag.startswith(SELF) for tag in tags)


INDEX_NAME: Final = "knowledge"
INDEX_ID: Final = index_id_of(INDEX_NAME)
INDEX_LOCK: Final = index_lock(INDEX_NAME)
REVISION_BITS: Final = 48
CONSOLIDATION_JOB: Final = "knowledge.consolidate"


@dataclass(slots=True)
class BlockWrite:
    """Transaction that locks the index, with the index's use as it is to be stored."""

    tx: Tx
    use: UsageClock
    now: datetime

    def change(self, **values: Any) -> None:
        """Update the use, and invalidate cached identity frames."""
        self.use = replace(self.use, revision=self.use.revision + 1, **values)


class BlockIndex:
    """Index of each project's blocks: how it is opened, and what its blocks have in common."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        options: KnowledgeOptions,
        embedding: Embedding | None,
    ) -> None:
        self._database = database
        self._clock = clock
        self.options = options
        self.embedding = embedding
        self.idle = timedelta(minutes=options.session_idle_minutes)

    @asynccontextmanager
    async def written(self, scope: Scope) -> AsyncIterator[BlockWrite]:
        """Begin a transaction that locks the index, and store its clock with what is written."""
        async with self._database.begin(scope, locks=[INDEX_LOCK]) as tx:
            now = self._clock.now()
            was = await usage_clock.find(tx, INDEX_ID)
            use = usage_at(was, now, self.idle)
            if was is None:  # no process takes its cache of a purged index for this one's
                use = replace(use, revision=secrets.randbits(REVISION_BITS))
            writing = BlockWrite(tx, use, now)
            yield writing
            await usage_clock.save(tx, INDEX_ID, writing.use)

    @asynccontextmanager
    async def read(self, scope: Scope) -> AsyncIterator[tuple[Tx, UsageClock | None]]:
        """Begin a transaction that writes nothing; yield it with the index's use as stored last."""
        async with self._database.begin(scope, read_only=True) as tx:
            yield tx, await usage_clock.find(tx, INDEX_ID)

    def now(self) -> datetime:
        """Return the time of the wall clock."""
        return self._clock.now()

    async def embed_later(self, writing: BlockWrite) -> None:
        """Queue the embedding of new entries; to be called last in a transaction."""
        if self.embedding is not None:
            await jobs.enqueue(writing.tx, EMBED_JOB, str(INDEX_ID), now=writing.now)

    async def archive(
        self,
        writing: BlockWrite,
        blocks: Sequence[KnowledgeBlock],
        reason: knowledge_blocks.Reason,
        *,
        by: str | None = None,
    ) -> None:
        """Archive blocks, so that neither words nor meaning find them."""
        await knowledge_blocks.archive(writing.tx, INDEX_ID, blocks, reason, by=by)
        await self.drop_vectors(writing, blocks)

    async def drop_vectors(self, writing: BlockWrite, blocks: Sequence[KnowledgeBlock]) -> None:
        """Delete the vectors of removed entries, of every model, configured or not."""
        if blocks and await vectors.available(writing.tx):
            await vectors.forget(writing.tx, INDEX_ID, [block.entry for block in blocks])

    async def vectors(self, tx: Tx, blocks: Sequence[KnowledgeBlock]) -> dict[str, list[float]]:
        """Return the vectors of those blocks that have one, by id."""
        if self.embedding is None or not blocks:
            return {}
        found = await vectors.of(
            tx, INDEX_ID, self.embedding.model, [block.entry for block in blocks]
        )
        return {block.block_id: found[block.entry] for block in blocks if block.entry in found}


def similarity(
    first: Sequence[float] | None, second: Sequence[float] | None, texts: tuple[str, str]
) -> float:
    """Return the similarity of two blocks: the cosine of their vectors, or else by their words."""
    if first is None or second is None or len(first) != len(second):
        return word_similarity(*texts)
    size = sqrt(sum(a * a for a in first) * sum(b * b for b in second))
    return sum(a * b for a, b in zip(first, second, strict=True)) / size if size else 0.0


def not_found(block_id: str) -> MemsvcError:
    """Return the error for a block that does not exist, or no longer does."""
    return MemsvcError(
        Code.NOT_FOUND,
        f"Block '{block_id[:8]}…' not found.",
        recovery="Check the block_id is current. Use elfmem_recall() or elfmem_ls() to obtain a"
        " fresh block_id.",
    )
