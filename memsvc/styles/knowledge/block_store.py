"""Storing, editing and forgetting blocks; a remembered block can be recalled at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from memsvc.core.decay import DECAY_PER_H
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.store import edges, jobs, knowledge_blocks
from memsvc.store.knowledge_blocks import KnowledgeBlock, NewKnowledgeBlock
from memsvc.styles.knowledge.block_index import (
    CONSOLIDATION_JOB,
    INDEX_ID,
    INDEX_NAME,
    BlockIndex,
    BlockWrite,
    not_found,
)
from memsvc.styles.knowledge.tiers import tier_of

ID_CHARS: Final = 16
ID_ATTEMPTS_MAX: Final = 1000
"""Times that one text may be remembered and archived again."""


@dataclass(frozen=True, slots=True)
class StoreResult:
    """Result of storing a text: its block, whether it existed, and whether the inbox is full."""

    block_id: str
    status: Literal["created", "duplicate_rejected"]
    pending: bool
    should_dream: bool


class BlockStore:
    """Stores blocks; a text exists once among those that are not archived."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index
        self._options = index.options

    async def remember(
        self, scope: Scope, content: str, *, tags: Sequence[str], keywords: str, category: str
    ) -> StoreResult:
        """Store a text; a job consolidates the inbox when it becomes full."""
        text, digest = content.strip(), digest_of(content)
        async with self._index.written(scope) as writing:
            tx = writing.tx
            existing = await knowledge_blocks.find_live(tx, INDEX_ID, digest)
            if existing is not None:
                return StoreResult(
                    existing[0],
                    "duplicate_rejected",
                    existing[1] == "inbox",
                    self._is_full(writing),
                )
            if writing.use.inbox + writing.use.active >= self._options.blocks_max:
                raise MemsvcError(
                    Code.QUOTA_EXCEEDED,
                    f"a project may hold {self._options.blocks_max} blocks",
                    recovery="forget some blocks",
                )
            tier = tier_of(tags, category)
            block_id = await self._free_id(writing, digest)
            new = NewKnowledgeBlock(
                block_id,
                digest,
                text,
                keywords.strip(),
                tags,
                category,
                tier,
                DECAY_PER_H[tier],
                writing.use.active_h,
            )
            await knowledge_blocks.add(tx, INDEX_NAME, new, writing.now)
            writing.change(inbox=writing.use.inbox + 1)
            full = self._is_full(writing)
            await self._index.embed_later(writing)
            if full:
                await jobs.enqueue(tx, CONSOLIDATION_JOB, "", now=writing.now)
        return StoreResult(block_id, "created", pending=True, should_dream=full)

    def _is_full(self, writing: BlockWrite) -> bool:
        return writing.use.inbox >= self._options.inbox_threshold

    async def _free_id(self, writing: BlockWrite, digest: str) -> str:
        """Return the id made of the text's hash, or the next id that is free."""
        ids = [digest[:ID_CHARS]]
        if await knowledge_blocks.existing_ids(writing.tx, INDEX_ID, ids):
            ids = [
                sha256(f"{digest}:{attempt}".encode()).hexdigest()[:ID_CHARS]
                for attempt in range(ID_ATTEMPTS_MAX)
            ]
            taken = await knowledge_blocks.existing_ids(writing.tx, INDEX_ID, ids)
            ids = [block_id for block_id in ids if block_id not in taken]
        if not ids:
            raise MemsvcError(
                Code.QUOTA_EXCEEDED, "this text was remembered and archived too often"
            )
        return ids[0]

    async def edit(
        self, scope: Scope, block_id: str, content: str | None, keywords: str | None
    ) -> None:
        """Change the text or the cue of a block.

        Its confidence stays; its conflicts are deleted when the text changes.
        """
        if content is None and keywords is None:
            raise invalid(
                "edit() needs content, cue, or both — nothing to change.",
                recovery="Pass content='...' to rewrite the block, or cue='...' to set when it"
                " should be recalled.",
            )
        async with self._index.written(scope) as writing:
            block = await self._live(writing, block_id)
            text = block.text if content is None else content.strip()
            digest = digest_of(text)
            existing = await knowledge_blocks.find_live(writing.tx, INDEX_ID, digest)
            if existing is not None and existing[0] != block_id:
                raise MemsvcError(
                    Code.ALREADY_EXISTS,
                    "another block has this content",
                    recovery="forget one of the two",
                    details={"block_id": existing[0]},
                )
            new_keywords = block.keywords if keywords is None else keywords.strip()
            await knowledge_blocks.set_text(
                writing.tx,
                INDEX_NAME,
                block,
                text=text,
                keywords=new_keywords,
                digest=digest,
                now=writing.now,
            )
            await self._index.drop_vectors(writing, [block])
            if text != block.text:
                await edges.forget_contradictions(writing.tx, INDEX_ID, block_id)
            writing.change()
            await self._index.embed_later(writing)

    async def forget(self, scope: Scope, block_id: str) -> bool:
        """Delete a block's text for good, with the texts that it replaced.

        Return False when it was archived before.
        """
        async with self._index.written(scope) as writing:
            superseded = await knowledge_blocks.superseded_by(writing.tx, INDEX_ID, block_id)
            existing = await knowledge_blocks.read(writing.tx, INDEX_ID, [block_id, *superseded])
            block = existing.get(block_id)
            if block is None:
                raise not_found(block_id)
            await self._index.archive(writing, list(existing.values()), "forgotten")
            if block.status == "archived":
                return False
            count = writing.use.inbox if block.status == "inbox" else writing.use.active
            writing.change(archived=writing.use.archived + 1, **{block.status: count - 1})
        return True

    async def _live(self, writing: BlockWrite, block_id: str) -> KnowledgeBlock:
        block = (await knowledge_blocks.read(writing.tx, INDEX_ID, [block_id])).get(block_id)
        if block is None or block.status == "archived":
            raise not_found(block_id)
        return block


def digest_of(content: str) -> str:
    """Return the hash that equal texts share: case and surrounding white space do not count."""
    return sha256(content.strip().lower().encode()).hexdigest()
