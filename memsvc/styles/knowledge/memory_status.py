"""Status of a memory, and listings of its blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.scope import Scope
from memsvc.store import block_lists
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge.active_hours import NO_TOKENS, is_open, usage_at
from memsvc.styles.knowledge.block_index import INDEX_ID, BlockIndex
from memsvc.styles.knowledge.health import Health, health


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """Status of a memory; `session_h` is None outside of a session."""

    session_h: float | None
    inbox: int
    threshold: int
    active: int
    archived: int
    active_h: float
    consolidated_at: datetime | None
    health: Health
    suggestion: str
    session_tokens: dict[str, int]
    lifetime_tokens: dict[str, int]


class StatusReader:
    """Reads the status and lists blocks; it writes nothing, and so does not move the clock."""

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    async def status(self, scope: Scope) -> MemoryStatus:
        """Return the present status of a project's memory."""
        async with self._index.read(scope) as (_, usage):
            pass
        now = self._index.now()
        opened = is_open(usage, now, self._index.idle)
        use = usage_at(usage, now, self._index.idle)
        threshold = self._index.options.inbox_threshold
        health_status, suggestion = health(
            use.inbox, threshold, use.active + use.archived + use.inbox
        )
        return MemoryStatus(
            use.active_h - use.session_from_h if opened else None,
            use.inbox,
            threshold,
            use.active,
            use.archived,
            use.active_h,
            use.consolidated_at,
            health_status,
            suggestion,
            NO_TOKENS | (use.session_tokens if opened else {}),
            NO_TOKENS | use.lifetime_tokens,
        )

    async def listing(
        self, scope: Scope, *, tag: str | None, category: str | None, limit: int
    ) -> Sequence[KnowledgeBlock]:
        """Return blocks that are not archived, the surest first."""
        async with self._index.read(scope) as (tx, _):
            return await block_lists.listing(tx, INDEX_ID, tag=tag, category=category, limit=limit)

    async def archived(
        self, scope: Scope, *, category: str | None, limit: int
    ) -> Sequence[KnowledgeBlock]:
        """Return archived blocks, those remembered last first."""
        async with self._index.read(scope) as (tx, _):
            return await block_lists.archived(tx, INDEX_ID, category=category, limit=limit)

    async def inbox(self, scope: Scope, *, limit: int) -> Sequence[KnowledgeBlock]:
        """Return the blocks that wait to be consolidated, the longest waiting first."""
        async with self._index.read(scope) as (tx, _):
            return await block_lists.pending(tx, INDEX_ID, limit=limit)
