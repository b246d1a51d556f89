"""Status of a memory, and listings of its blocks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from memsvc.core.errors import invalid
from memsvc.core.scope import Permission, Scope
from memsvc.store import block_lists
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.active_hours import NO_TOKENS, is_open, usage_at
from memsvc.styles.knowledge.block_index import INDEX_ID, BlockIndex
from memsvc.styles.knowledge.guide import guide
from memsvc.styles.knowledge.health import health
from memsvc.styles.knowledge.knowledge_models import (
    LISTED_MAX,
    BlockList,
    GuideText,
    ListedBlock,
    MemoryStatus,
    TokenUsage,
    Words,
    knowledge_tool,
)


class StatusReader:
    """Reads the status and lists blocks; it writes nothing, and so does not move the clock."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    @knowledge_tool("elfmem_status", title="Status of the memory", needs=Permission.READ)
    async def status(self, scope: Scope) -> MemoryStatus:
        """Tell how the memory stands; its suggestion says what to do."""
        async with self._index.read(scope) as (_, usage):
            pass
        now = self._index.now()
        opened = is_open(usage, now, self._index.idle)
        use = usage_at(usage, now, self._index.idle)
        threshold = self._index.options.inbox_threshold
        health_status, suggestion = health(
            use.inbox, threshold, use.active + use.archived + use.inbox
        )
        status = MemoryStatus(
            "",
            opened,
            use.active_h - use.session_from_h if opened else None,
            use.inbox,
            threshold,
            use.active,
            use.archived,
            use.active_h,
            use.consolidated_at.isoformat() if use.consolidated_at is not None else "never",
            health_status,
            suggestion,
            TokenUsage(**NO_TOKENS | (use.session_tokens if opened else {})),
            TokenUsage(**NO_TOKENS | use.lifetime_tokens),
        )
        return replace(status, summary=texts.status(status))

    @knowledge_tool("elfmem_ls", title="List blocks", needs=Permission.READ)
    async def listing(
        self,
        scope: Scope,
        tag: Annotated[
            Words | None, "a tag; % stands for any characters, _ for one, as in self/%"
        ] = None,
        category: Annotated[Words | None, "a category"] = None,
        limit: Annotated[int, Field(ge=1, le=LISTED_MAX), "blocks at the most"] = 50,
        archived: Annotated[
            bool,
            "those that are recalled no more instead, remembered last first; they have no tags",
        ] = False,
    ) -> BlockList:
        """List blocks by tag or category, the surest first.

        Those of the inbox are among them; or archived ones."""
        if archived and tag is not None:
            raise invalid("archived blocks have no tags: ask for them without one")
        async with self._index.read(scope) as (tx, _):
            if archived:
                blocks = await block_lists.archived(tx, INDEX_ID, category=category, limit=limit)
            else:
                blocks = await block_lists.listing(
                    tx, INDEX_ID, tag=tag, category=category, limit=limit
                )
        return _list(blocks, f"No {'archived' if archived else 'active'} blocks match.")

    @knowledge_tool("elfmem_inbox", title="List the inbox", needs=Permission.READ)
    async def inbox(
        self,
        scope: Scope,
        max_count: Annotated[
            int | None, Field(ge=1, le=LISTED_MAX), "blocks at the most; if not given 1000"
        ] = None,
    ) -> BlockList:
        """List blocks that wait to be consolidated, the longest waiting first.

        They can be recalled already."""
        async with self._index.read(scope) as (tx, _):
            blocks = await block_lists.pending(tx, INDEX_ID, limit=max_count or LISTED_MAX)
        return _list(blocks, "Inbox empty.")

    @knowledge_tool("elfmem_guide", title="Guide", needs=Permission.READ, text_member="text")
    async def guide(
        self,
        scope: Scope,
        method: Annotated[
            Words | None, "an operation such as remember; nothing: an overview"
        ] = None,
    ) -> GuideText:
        """Show the documentation of one operation, or an overview."""
        del scope
        return GuideText(guide(method))


def _list(blocks: Sequence[KnowledgeBlock], nothing: str) -> BlockList:
    return BlockList(
        texts.listed([block.block_id for block in blocks], nothing=nothing),
        [
            ListedBlock(
                block.block_id,
                block.text,
                block.category,
                list(block.tags),
                block.created_at.isoformat(),
                block.reinforcements,
                block.confidence,
                block.status,
                block.archive_reason,
            )
            for block in blocks
        ],
    )
