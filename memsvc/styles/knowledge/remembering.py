"""Storing, editing and forgetting blocks; a remembered block can be recalled at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from memsvc.core.decay import DECAY_PER_H
from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.scope import Scope
from memsvc.store import edges, jobs, notions
from memsvc.store.notions import NewNotion, Notion
from memsvc.styles.knowledge.book import BOOK, CONSOLIDATE_JOB, NUMBER, Book, Writing, not_found
from memsvc.styles.knowledge.tiers import tier_of

ID_CHARS: Final = 16
LIVES_MAX: Final = 1000
"""Times that one text may be remembered and archived again."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Result of storing a text: its block, whether it existed, and whether the inbox is full."""

    block_id: str
    status: Literal["created", "duplicate_rejected"]
    pending: bool
    should_dream: bool


class Remembering:
    """Stores blocks; a text exists once among those that are not archived."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._options = book.options

    async def remember(self, scope: Scope, content: str, *, tags: Sequence[str], cue: str, category: str) -> Remembered:
        """Store a text; a job consolidates the inbox when it becomes full."""
        text, digest = content.strip(), digest_of(content)
        async with self._book.written(scope) as writing:
            tx = writing.tx
            there = await notions.live_with(tx, NUMBER, digest)
            if there is not None:
                return Remembered(there[0], "duplicate_rejected", there[1] == "inbox", self._is_full(writing))
            if writing.use.inbox + writing.use.active >= self._options.blocks_max:
                raise MemsvcError(
                    Code.QUOTA_EXCEEDED,
                    f"a project may hold {self._options.blocks_max} blocks",
                    recovery="forget some blocks",
                )
            tier = tier_of(tags, category)
            block_id = await self._free_id(writing, digest)
            new = NewNotion(
                block_id, digest, text, cue.strip(), tags, category, tier, DECAY_PER_H[tier], writing.use.active_h
            )
            await notions.add(tx, BOOK, new, writing.now)
            writing.change(inbox=writing.use.inbox + 1)
            full = self._is_full(writing)
            await self._book.embed_later(writing)
            if full:
                await jobs.enqueue(tx, CONSOLIDATE_JOB, "", now=writing.now)
        return Remembered(block_id, "created", pending=True, should_dream=full)

    def _is_full(self, writing: Writing) -> bool:
        return writing.use.inbox >= self._options.inbox_threshold

    async def _free_id(self, writing: Writing, digest: str) -> str:
        """Return the id made of the text's hash, or the next id that is free."""
        ids = [digest[:ID_CHARS]]
        if await notions.taken(writing.tx, NUMBER, ids):
            ids = [sha256(f"{digest}:{life}".encode()).hexdigest()[:ID_CHARS] for life in range(LIVES_MAX)]
            taken = await notions.taken(writing.tx, NUMBER, ids)
            ids = [one for one in ids if one not in taken]
        if not ids:
            raise MemsvcError(Code.QUOTA_EXCEEDED, "this text was remembered and archived too often")
        return ids[0]

    async def edit(self, scope: Scope, block_id: str, content: str | None, cue: str | None) -> None:
        """Change the text or the cue of a block.

        Its confidence stays; its conflicts are deleted when the text changes.
        """
        if content is None and cue is None:
            raise invalid(
                "edit() needs content, cue, or both — nothing to change.",
                recovery="Pass content='...' to rewrite the block, or cue='...' to set when it should be recalled.",
            )
        async with self._book.written(scope) as writing:
            was = await self._live(writing, block_id)
            text = was.text if content is None else content.strip()
            digest = digest_of(text)
            there = await notions.live_with(writing.tx, NUMBER, digest)
            if there is not None and there[0] != block_id:
                raise MemsvcError(
                    Code.ALREADY_EXISTS,
                    "another block has this content",
                    recovery="forget one of the two",
                    details={"block_id": there[0]},
                )
            new_cue = was.cue if cue is None else cue.strip()
            await notions.reword(writing.tx, BOOK, was, text=text, cue=new_cue, digest=digest, now=writing.now)
            await self._book.drop_vectors(writing, [was])
            if text != was.text:
                await edges.forget_contradictions(writing.tx, NUMBER, block_id)
            writing.change()
            await self._book.embed_later(writing)

    async def forget(self, scope: Scope, block_id: str) -> bool:
        """Delete a block's text for good, with the texts that it replaced.

        Return False when it was archived before.
        """
        async with self._book.written(scope) as writing:
            older = await notions.superseded_by(writing.tx, NUMBER, block_id)
            there = await notions.read(writing.tx, NUMBER, [block_id, *older])
            was = there.get(block_id)
            if was is None:
                raise not_found(block_id)
            await self._book.archive(writing, list(there.values()), "forgotten")
            if was.status == "archived":
                return False
            count = writing.use.inbox if was.status == "inbox" else writing.use.active
            writing.change(archived=writing.use.archived + 1, **{was.status: count - 1})
        return True

    async def _live(self, writing: Writing, block_id: str) -> Notion:
        was = (await notions.read(writing.tx, NUMBER, [block_id])).get(block_id)
        if was is None or was.status == "archived":
            raise not_found(block_id)
        return was


def digest_of(content: str) -> str:
    """Return the hash that equal texts share: case and surrounding white space do not count."""
    return sha256(content.strip().lower().encode()).hexdigest()
