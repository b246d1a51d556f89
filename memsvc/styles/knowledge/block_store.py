"""Storing, editing and forgetting blocks; a remembered block can be recalled at once."""

from hashlib import sha256
from typing import Annotated, Final

from pydantic import Field

from memsvc.core.decay import DECAY_PER_H
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Permission, Scope
from memsvc.store import edges, jobs, knowledge_blocks
from memsvc.store.knowledge_blocks import KnowledgeBlock, NewKnowledgeBlock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_index import (
    CONSOLIDATION_JOB,
    INDEX_ID,
    INDEX_NAME,
    KNOWLEDGE,
    BlockIndex,
    BlockWrite,
    not_found,
    tier_of,
)
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

ID_CHARS: Final = 16
ID_ATTEMPTS_MAX: Final = 1000
"""Times that one text may be remembered and archived again."""


class BlockStore:
    """Stores blocks; a text exists once among those that are not archived."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index
        self._options = index.options

    @knowledge_tool("elfmem_remember", title="Remember", needs=Permission.WRITE, idempotent=True)
    async def remember(
        self,
        scope: Scope,
        content: Annotated[Content, "a fact, preference, decision or observation worth keeping"],
        tags: Annotated[
            list[Name],
            Field(max_length=TAGS_MAX),
            "tags such as python, or self/goal, self/value, self/constitutional",
        ] = [],  # noqa: B006 - never changed
        cue: Cue = "",
        category: Annotated[
            Name, "knowledge, observation (fades fast), mind, decision, ..."
        ] = KNOWLEDGE,
    ) -> StoreResult:
        """Store a fact, preference, decision or observation worth keeping across sessions.

        It can be recalled at once."""
        text, digest = content.strip(), digest_of(content)
        async with self._index.written(scope) as writing:
            tx = writing.tx
            existing = await knowledge_blocks.find_live(tx, INDEX_ID, digest)
            if existing is not None:
                return _stored(
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
                cue.strip(),
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
        return _stored(block_id, "created", True, full)

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

    @knowledge_tool("elfmem_edit", title="Edit a block", needs=Permission.WRITE, idempotent=True)
    async def edit(
        self,
        scope: Scope,
        block_id: Annotated[BlockId, "the block"],
        content: Annotated[Content | None, "what it says from now on"] = None,
        cue: Annotated[Keywords | None, CUE] = None,
    ) -> BlockEdit:
        """Change what a block says, or the cue by which it is found.

        What is thought of it stays."""
        if content is None and cue is None:
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
            new_keywords = block.keywords if cue is None else cue.strip()
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
        return BlockEdit(f"Edited block {block_id[:8]}.", block_id)

    @knowledge_tool(
        "elfmem_forget",
        title="Forget a block",
        needs=Permission.WRITE,
        over_quota=True,
        idempotent=True,
        destructive=True,
    )
    async def forget(self, scope: Scope, block_id: Annotated[BlockId, "the block"]) -> BlockRemoval:
        """Give a block up for good: its text is removed."""
        short = block_id[:8]
        async with self._index.written(scope) as writing:
            superseded = await knowledge_blocks.superseded_by(writing.tx, INDEX_ID, block_id)
            existing = await knowledge_blocks.read(writing.tx, INDEX_ID, [block_id, *superseded])
            block = existing.get(block_id)
            if block is None:
                raise not_found(block_id)
            # with the texts that it replaced
            await self._index.archive(writing, list(existing.values()), "forgotten")
            if block.status == "archived":
                return BlockRemoval(
                    f"Block {short} was already archived.", block_id, "already_archived"
                )
            count = writing.use.inbox if block.status == "inbox" else writing.use.active
            writing.change(archived=writing.use.archived + 1, **{block.status: count - 1})
        return BlockRemoval(f"Forgot block {short}.", block_id, "forgotten")

    async def _live(self, writing: BlockWrite, block_id: str) -> KnowledgeBlock:
        block = (await knowledge_blocks.read(writing.tx, INDEX_ID, [block_id])).get(block_id)
        if block is None or block.status == "archived":
            raise not_found(block_id)
        return block


def _stored(block_id: str, status: StoreStatus, pending: bool, full: bool) -> StoreResult:
    return StoreResult(texts.remembered(block_id, status), block_id, status, pending, True, full)


def digest_of(content: str) -> str:
    """Return the hash that equal texts share: case and surrounding white space do not count."""
    return sha256(content.strip().lower().encode()).hexdigest()
