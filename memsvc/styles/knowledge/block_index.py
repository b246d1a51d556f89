"""Index of the blocks of a project, and the tools that write it: remembered, edited, forgotten."""

import secrets
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, Final

from pydantic import Field

from memsvc.core.analysis import query_terms
from memsvc.core.decay import DECAY_PER_H, DecayTier
from memsvc.core.errors import Code, MemsvcError, already_exists, invalid, quota_exceeded
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.ranking import Candidate
from memsvc.core.scope import Permission, Scope
from memsvc.core.vectors import cosine
from memsvc.core.word_similarity import may_both_hold, word_similarity
from memsvc.store import edges, jobs, knowledge_blocks, search, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.knowledge_blocks import (
    INDEX_ID,
    INDEX_NAME,
    KnowledgeBlock,
    NewKnowledgeBlock,
    UsageClock,
)
from memsvc.store.locks import index_lock
from memsvc.store.search import IndexQuery, QueryEmbedding
from memsvc.styles.embedding import Embedding, queue_embedding
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.knowledge_models import (
    CUE,
    TAGS_MAX,
    BlockEdit,
    BlockId,
    BlockRemoval,
    Content,
    Cue,
    Keywords,
    Name,
    StoreResult,
    StoreStatus,
    knowledge_tool,
)
from memsvc.styles.knowledge.options import KnowledgeOptions

NO_TOKENS: Final = {
    "llm_input_tokens": 0,
    "llm_output_tokens": 0,
    "embedding_tokens": 0,
    "llm_calls": 0,
    "embedding_calls": 0,
}

ID_CHARS: Final = 16
ID_ATTEMPTS_MAX: Final = 1000
"""Times that one text may be remembered and archived again."""


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


@frozen
class BlockIndex:
    """Index of each project's blocks: how it is opened, and what its blocks have in common."""

    database: Database
    clock: Clock
    options: KnowledgeOptions
    embedding: Embedding | None

    @property
    def idle(self) -> timedelta:
        """Return how long a session lasts without a call."""
        return timedelta(minutes=self.options.session_idle_minutes)

    @asynccontextmanager
    async def written(self, scope: Scope) -> AsyncIterator[BlockWrite]:
        """Begin a transaction that locks the index, and store its clock with what is written."""
        async with self.database.begin(scope, locks=[INDEX_LOCK]) as tx:
            now = self.clock.now()
            was = await knowledge_blocks.find(tx)
            use = usage_at(was, now, self.idle)
            if was is None:  # no process takes its cache of a purged index for this one's
                use = replace(use, revision=secrets.randbits(REVISION_BITS))
            writing = BlockWrite(tx, use, now)
            yield writing
            await knowledge_blocks.save(tx, writing.use)

    @asynccontextmanager
    async def read(self, scope: Scope) -> AsyncIterator[tuple[Tx, UsageClock | None]]:
        """Begin a transaction that writes nothing; yield it with the index's use as stored last."""
        async with self.database.begin_read(scope) as tx:
            yield tx, await knowledge_blocks.find(tx)

    def now(self) -> datetime:
        """Return the time of the wall clock."""
        return self.clock.now()

    async def embed_later(self, writing: BlockWrite) -> None:
        """Queue the embedding of entries without vectors; to be called last in a transaction."""
        await queue_embedding(writing.tx, writing.now)

    async def archive(
        self,
        writing: BlockWrite,
        blocks: Sequence[KnowledgeBlock],
        reason: knowledge_blocks.Reason,
        *,
        by: str | None = None,
    ) -> None:
        """Archive blocks, so that neither words nor meaning find them."""
        await knowledge_blocks.archive(writing.tx, blocks, reason, by=by)
        await self.drop_vectors(writing, blocks)

    async def drop_vectors(self, writing: BlockWrite, blocks: Sequence[KnowledgeBlock]) -> None:
        """Delete the vectors of removed entries, of every model, configured or not."""
        if blocks:
            await vectors.forget(writing.tx, INDEX_ID, [block.entry for block in blocks])

    async def vectors(self, tx: Tx, blocks: Sequence[KnowledgeBlock]) -> dict[str, list[float]]:
        """Return the vectors of those blocks that have one, by id."""
        if self.embedding is None or not blocks:
            return {}
        found = await vectors.of(
            tx, INDEX_ID, self.embedding.model, [block.entry for block in blocks]
        )
        return {block.block_id: found[block.entry] for block in blocks if block.entry in found}


async def find_matches(
    tx: Tx, text: str, embedding: QueryEmbedding | None, limit: int
) -> Sequence[Candidate]:
    """Return the blocks that match a text best: so many by its words, and by its meaning."""
    terms = query_terms(text)
    if not terms and embedding is None:
        return []
    query = IndexQuery(INDEX_ID, limit, best_by_embedding=limit)
    found = (await search.search(tx, [query], terms, embedding)).get(INDEX_ID)
    return found.candidates if found is not None else []


def similarity(
    first: Sequence[float] | None, second: Sequence[float] | None, texts: tuple[str, str]
) -> float:
    """Return the similarity of two blocks: the cosine of their vectors, or else by their words.

    Of what is said of two persons or things words alone tell: to a model "Team A owns billing" and
    "Team B owns billing" are almost the same."""
    if first is None or second is None or len(first) != len(second) or may_both_hold(*texts):
        return word_similarity(*texts)
    return cosine(first, second)


def not_found(block_id: str) -> MemsvcError:
    """Return the error for a block that does not exist, or no longer does."""
    return MemsvcError(
        Code.NOT_FOUND,
        f"Block '{block_id[:8]}…' not found.",
        recovery="Check the block_id is current. Use elfmem_recall() or elfmem_ls() to obtain a"
        " fresh block_id.",
    )


@frozen
class BlockStore:
    """Stores blocks; a text exists once among those that are not archived."""

    index: BlockIndex

    @knowledge_tool(
        "elfmem_remember",
        "Remember",
        Permission.WRITE,
        idempotent=True,
        stores=("content", "cue"),
    )
    async def remember(
        self,
        scope: Scope,
        content: Annotated[Content, "the statement to store"],
        tags: Annotated[
            list[Name],
            Field(max_length=TAGS_MAX),
            "tags, such as python; for identity: self/goal, self/value, self/constitutional",
        ] = [],  # noqa: B006 - never changed
        cue: Cue = "",
        category: Annotated[
            Name, "category, such as knowledge, observation (fades fast), mind or decision"
        ] = KNOWLEDGE,
    ) -> StoreResult:
        """Store a fact, preference, decision or observation worth keeping across sessions.

        It can be recalled at once."""
        text, digest = content.strip(), digest_of(content)
        async with self.index.written(scope) as writing:
            tx = writing.tx
            existing = await knowledge_blocks.find_live(tx, digest)
            if existing is not None:
                return _stored(
                    existing[0],
                    "duplicate_rejected",
                    existing[1] == "inbox",
                    self._is_full(writing),
                )
            if writing.use.inbox + writing.use.active >= self.index.options.blocks_max:
                raise quota_exceeded(
                    f"the project already has the maximum of {self.index.options.blocks_max}"
                    " knowledge blocks; archived blocks do not count",
                    recovery="forget knowledge blocks that are no longer needed",
                )
            tier = tier_of(tags, category)
            block_id = await self._free_id(writing, digest)
            new = NewKnowledgeBlock(
                block_id,
                digest,
                text,
                cue.strip(),
                tags,
                category,
                tier,
                DECAY_PER_H[tier],
                writing.use.active_h,
            )
            await knowledge_blocks.add(tx, new, writing.now)
            writing.change(inbox=writing.use.inbox + 1)
            full = self._is_full(writing)
            await self.index.embed_later(writing)
            if full:
                await jobs.enqueue(tx, CONSOLIDATION_JOB, "", now=writing.now)
        return _stored(block_id, "created", True, full)

    def _is_full(self, writing: BlockWrite) -> bool:
        return writing.use.inbox >= self.index.options.inbox_threshold

    async def _free_id(self, writing: BlockWrite, digest: str) -> str:
        """Return the id made of the text's hash, or the next id that is free."""
        ids = [digest[:ID_CHARS]]
        if await knowledge_blocks.existing_ids(writing.tx, ids):
            ids = [
                sha256(f"{digest}:{attempt}".encode()).hexdigest()[:ID_CHARS]
                for attempt in range(ID_ATTEMPTS_MAX)
            ]
            taken = await knowledge_blocks.existing_ids(writing.tx, ids)
            ids = [block_id for block_id in ids if block_id not in taken]
        if not ids:
            raise quota_exceeded(
                "this text was already remembered and archived too many times; to remember it"
                " again, change its wording"
            )
        return ids[0]

    @knowledge_tool(
        "elfmem_edit",
        "Edit a knowledge block",
        Permission.WRITE,
        idempotent=True,
        stores=("content", "cue"),
    )
    async def edit(
        self,
        scope: Scope,
        block_id: Annotated[BlockId, "id of the block"],
        content: Annotated[Content | None, "new text"] = None,
        cue: Annotated[Keywords | None, CUE] = None,
    ) -> BlockEdit:
        """Change the text of a block, or the cue by which it is found.

        The block keeps its confidence and edges."""
        if content is None and cue is None:
            raise invalid(
                "edit() needs content, cue, or both — nothing to change.",
                recovery="Pass content='...' to rewrite the block, or cue='...' to set when it"
                " should be recalled.",
            )
        async with self.index.written(scope) as writing:
            block = (await knowledge_blocks.read(writing.tx, [block_id])).get(block_id)
            if block is None or block.status == "archived":
                raise not_found(block_id)
            text = block.text if content is None else content.strip()
            digest = digest_of(text)
            existing = await knowledge_blocks.find_live(writing.tx, digest)
            if existing is not None and existing[0] != block_id:
                raise already_exists(
                    "another block already has this content",
                    recovery="forget one of the two blocks",
                    details={"block_id": existing[0]},
                )
            new_keywords = block.keywords if cue is None else cue.strip()
            await knowledge_blocks.set_text(
                writing.tx,
                block,
                text=text,
                keywords=new_keywords,
                digest=digest,
                now=writing.now,
            )
            await self.index.drop_vectors(writing, [block])
            if text != block.text:
                await edges.forget_contradictions(writing.tx, block_id)
            writing.change()
            await self.index.embed_later(writing)
        return BlockEdit(f"Edited block {block_id[:8]}.", block_id)

    @knowledge_tool(
        "elfmem_forget",
        "Forget a knowledge block",
        Permission.WRITE,
        over_quota=True,
        idempotent=True,
        destructive=True,
    )
    async def forget(
        self, scope: Scope, block_id: Annotated[BlockId, "id of the block"]
    ) -> BlockRemoval:
        """Forget a block for good: its text is deleted."""
        short = block_id[:8]
        async with self.index.written(scope) as writing:
            superseded = await knowledge_blocks.superseded_by(writing.tx, block_id)
            existing = await knowledge_blocks.read(writing.tx, [block_id, *superseded])
            block = existing.get(block_id)
            if block is None:
                raise not_found(block_id)
            # with the texts that it replaced
            await self.index.archive(writing, list(existing.values()), "forgotten")
            if block.status == "archived":
                return BlockRemoval(
                    f"Block {short} was already archived.", block_id, "already_archived"
                )
            count = writing.use.inbox if block.status == "inbox" else writing.use.active
            writing.change(archived=writing.use.archived + 1, **{block.status: count - 1})
        return BlockRemoval(f"Forgot block {short}.", block_id, "forgotten")


def _stored(block_id: str, status: StoreStatus, pending: bool, full: bool) -> StoreResult:
    return StoreResult(texts.remembered(block_id, status), block_id, status, pending, True, full)


def digest_of(content: str) -> str:
    """Return the hash that equal texts share: case and surrounding white space do not count."""
    return sha256(content.strip().lower().encode()).hexdigest()
