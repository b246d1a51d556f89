"""Status of a memory, and listings of its blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.scope import Scope
from memsvc.store import notion_lists
from memsvc.store.notions import Notion
from memsvc.styles.knowledge.book import NUMBER, Book
from memsvc.styles.knowledge.health import Health, health
from memsvc.styles.knowledge.hours import NO_TOKENS, is_open, now_of


@dataclass(frozen=True, slots=True)
class Standing:
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


class Standings:
    """Reads the status and lists blocks; it writes nothing, and so does not move the clock."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def status(self, scope: Scope) -> Standing:
        """Return the present status of a project's memory."""
        async with self._book.read(scope) as (_, was):
            pass
        now = self._book.now()
        opened = is_open(was, now, self._book.idle)
        use = now_of(was, now, self._book.idle)
        threshold = self._book.options.inbox_threshold
        well, suggestion = health(use.inbox, threshold, use.active + use.archived + use.inbox)
        return Standing(
            use.active_h - use.session_from_h if opened else None,
            use.inbox,
            threshold,
            use.active,
            use.archived,
            use.active_h,
            use.consolidated_at,
            well,
            suggestion,
            NO_TOKENS | (use.session_tokens if opened else {}),
            NO_TOKENS | use.lifetime_tokens,
        )

    async def listing(self, scope: Scope, *, tag: str | None, category: str | None, most: int) -> Sequence[Notion]:
        """Return blocks that are not archived, the surest first."""
        async with self._book.read(scope) as (tx, _):
            return await notion_lists.listing(tx, NUMBER, tag=tag, category=category, most=most)

    async def archived(self, scope: Scope, *, category: str | None, most: int) -> Sequence[Notion]:
        """Return archived blocks, those remembered last first."""
        async with self._book.read(scope) as (tx, _):
            return await notion_lists.archived(tx, NUMBER, category=category, most=most)

    async def inbox(self, scope: Scope, *, most: int) -> Sequence[Notion]:
        """Return the blocks that wait to be consolidated, the longest waiting first."""
        async with self._book.read(scope) as (tx, _):
            return await notion_lists.pending(tx, NUMBER, most=most)
