"""Writes of a user's memories: one transaction under the lock of the index, all or nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.facts import Evidence, Merge, Origin, Statement, Tier
from memsvc.store import changes, facts, index, jobs, memories, memory_settings
from memsvc.store.database import Tx
from memsvc.store.facts import Dated
from memsvc.store.locks import book_lock
from memsvc.store.memories import Memory
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.memories.book import ALL_USERS, FOUND_URI, KEY, Book
from memsvc.styles.memories.categories import kinds_of

CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a memory: `statement` is its new text, `old` what it was."""

    event: Literal["ADD", "UPDATE", "DELETE"]
    memory: str
    statement: Statement | None = None
    old: Memory | None = None

    @property
    def text(self) -> str:
        """Return the memory's new text; "" once it is deleted."""
        return self.statement.value if self.statement is not None else ""


def added(memory: str, text: str, evidence: Evidence) -> Change:
    """Return the addition of a memory of this text."""
    said = Statement(memories.record_of(memory, 1), KEY, KEY, memory, text, Tier.L0, CONFIDENCE, "", evidence)
    return Change("ADD", memory, _findable(said))


def read(memory: str, statement: Statement) -> Change:
    """Return the addition of a memory that a rule read, with the identity of the rule."""
    return Change("ADD", memory, _findable(replace(statement, record=memories.record_of(memory, 1))))


def changed(old: Memory, text: str, evidence: Evidence, *, cues: str = "") -> Change:
    """Return a memory's change to a new text; `cues` are keywords that find it besides its own."""
    before = old.fact.statement
    record = memories.record_of(old.memory, memories.version_of(before.record) + 1)
    said = replace(before, record=record, value=text, cues=cues, evidence=evidence, ends=())
    return Change("UPDATE", old.memory, _findable(said), old)


def deleted(old: Memory) -> Change:
    """Return the deletion of a memory."""
    return Change("DELETE", old.memory, None, old)


def evidence_of(user: str, origin: Origin, metadata: dict[str, Any]) -> Evidence:
    """Return who found something, and in which session if the client names one."""
    session = metadata.get("session_id")
    return Evidence(session[:128] if isinstance(session, str) else "", "", "", user, origin)


def _findable(statement: Statement) -> Statement:
    cues = dict.fromkeys(f"{statement.cues} {kinds_of(statement.value)}".split())
    return replace(statement, cues=" ".join(cues))


class Keeping:
    """Writer of changes that were decided within the same transaction."""

    def __init__(self, *, per_user_max: int, users_max: int, embeds: bool) -> None:
        self._per_user_max = per_user_max
        self._users_max = users_max
        self._embeds = embeds

    async def keep(
        self, tx: Tx, book: Book, made: Sequence[Change], now: datetime, *, metadata: dict[str, Any], found: bool
    ) -> None:
        """Write changes of different memories of an index whose lock is held.

        `metadata` is stored with what is added. What was `found` in a conversation becomes an
        event. QUOTA_EXCEEDED when there would be too many.
        """
        new = [one for one in made if one.event == "ADD"]
        if new:
            await self._check_users(tx, book)
            ends = sum(one.event == "DELETE" for one in made)
            await self._check_room(tx, book, len(new) - ends)
        dated = [Dated(one.statement, None) for one in made if one.statement is not None]
        merge = Merge(
            kept=tuple(one.statement for one in dated),
            replaced=tuple(
                (one.old.fact, one.statement.record)
                for one in made
                if one.old is not None and one.statement is not None
            ),
            repeated=0,
            deleted=tuple(one.old.fact for one in made if one.old is not None and one.statement is None),
        )
        firsts = await index.add(tx, {book.name: facts.entries(dated, now)}) if dated else {}
        first = firsts.get(book.name, 0)
        await facts.apply(tx, book.number, first, merge, dated, now)
        if new:
            identities = [(one.memory, one.statement.identity) for one in new if one.statement is not None]
            await memories.remember(tx, book.number, identities, metadata, now)
        if dated and self._embeds:
            await jobs.enqueue(tx, EMBED_JOB, str(book.number), now=now)
        if dated and found:
            await changes.announce(tx, FOUND_URI)
            await memory_settings.found(tx, book.number, first, len(dated), now)

    async def _check_room(self, tx: Tx, book: Book, more: int) -> None:
        if more > 0 and await memories.holding(tx, book.number) + more > self._per_user_max:
            raise MemsvcError(
                Code.QUOTA_EXCEEDED,
                f"a user may have {self._per_user_max} memories",
                recovery="delete some, or raise memories.per_user_max",
            )

    async def _check_users(self, tx: Tx, book: Book) -> None:
        """Raise QUOTA_EXCEEDED for one user too many.

        Checked when a user's first memory is stored, one user at a time.
        """
        if await memories.any_of(tx, book.number):
            return
        await tx.lock(book_lock(ALL_USERS))
        if await memories.users(tx, most=self._users_max) >= self._users_max:
            raise MemsvcError(
                Code.QUOTA_EXCEEDED,
                f"a project may have memories of {self._users_max} users",
                recovery="purge users who are gone, or raise memories.users_max",
            )
