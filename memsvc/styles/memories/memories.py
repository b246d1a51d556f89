"""A user's memories: searched, listed, and changed one by one by the client."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.facts import Fact, Origin, State
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.secrets import is_secret
from memsvc.store import memories
from memsvc.store.database import Database, Tx
from memsvc.store.locks import book_lock
from memsvc.store.memories import Memory
from memsvc.styles.memories import keeping
from memsvc.styles.memories.book import Book, book, hidden_before
from memsvc.styles.memories.finding import Finding
from memsvc.styles.memories.keeping import Keeping, evidence_of
from memsvc.styles.memories.project_settings import SEARCH_LIMIT_OF_ZERO, ProjectSettings

DELETED_AT_ONCE = 1000
"""Memories deleted in one transaction."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a memory's history: its text before and after, and who found it."""

    event: Literal["ADD", "UPDATE", "DELETE"]
    text: str
    old_text: str | None
    at: datetime
    origin: Origin
    session: str


class Memories:
    """Reads and changes of memories.

    A hidden memory, unchanged for too long, is neither found nor listed, but can be read by its id.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        keeping_: Keeping,
        finding: Finding,
        settings: ProjectSettings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._keeping = keeping_
        self._finding = finding
        self._settings = settings

    async def search(self, scope: Scope, user: str, question: str, limit: int | None) -> list[Memory]:
        """Return the memories that answer a question best, best first.

        Without a limit, as many as the project's setting says.
        """
        meaning = await self._finding.meaning(question)
        async with self._database.begin(scope, read_only=True) as tx:
            wants = await self._settings.read(tx)
            most = (wants.search_limit if limit is None else limit) or SEARCH_LIMIT_OF_ZERO
            since = hidden_before(self._clock.now(), wants.decay_days)
            return await self._finding.find(tx, book(user), question, meaning, since=since, most=most)

    async def listed(self, scope: Scope, user: str, limit: int) -> list[Memory]:
        """Return a user's memories, newest first."""
        async with self._database.begin(scope, read_only=True) as tx:
            since = hidden_before(self._clock.now(), (await self._settings.read(tx)).decay_days)
            return await memories.newest(tx, book(user).number, since=since, most=limit)

    async def get(self, scope: Scope, user: str, memory: str) -> Memory:
        """Return one memory, hidden or not; NOT_FOUND."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await _there(tx, book(user), memory)

    async def change(self, scope: Scope, user: str, memory: str, text: str, metadata: dict[str, Any] | None) -> Memory:
        """Change a memory's text, and its metadata if any is given; NOT_FOUND.

        It counts as changed even when the text is the same.
        """
        now, shelf = self._clock.now(), book(user)
        if is_secret(text, text):
            raise invalid("memory looks like a password, key or number that must not be kept")
        async with self._database.begin(scope, locks=[book_lock(shelf.name)]) as tx:
            old = await _there(tx, shelf, memory)
            evidence = evidence_of(user, "user", metadata if metadata is not None else old.metadata)
            made = [keeping.changed(old, text, evidence)]
            await self._keeping.keep(tx, shelf, made, now, metadata={}, found=False)
            if metadata is not None:
                await memories.describe(tx, shelf.number, memory, metadata)
            return await _there(tx, shelf, memory)

    async def delete(self, scope: Scope, user: str, memory: str) -> None:
        """Delete a memory; NOT_FOUND."""
        now, shelf = self._clock.now(), book(user)
        async with self._database.begin(scope, locks=[book_lock(shelf.name)]) as tx:
            made = [keeping.deleted(await _there(tx, shelf, memory))]
            await self._keeping.keep(tx, shelf, made, now, metadata={}, found=False)

    async def delete_all(self, scope: Scope, user: str) -> int:
        """Delete all memories of a user, hidden ones too; return their number."""
        shelf, total = book(user), 0
        while True:
            async with self._database.begin(scope, locks=[book_lock(shelf.name)]) as tx:
                held = await memories.newest(tx, shelf.number, since=None, most=DELETED_AT_ONCE)
                made = [keeping.deleted(one) for one in held]
                await self._keeping.keep(tx, shelf, made, self._clock.now(), metadata={}, found=False)
            total += len(held)
            if len(held) < DELETED_AT_ONCE:
                return total

    async def history(self, scope: Scope, user: str, memory: str) -> list[Step]:
        """Return a memory's history, oldest first, with its deletion; NOT_FOUND."""
        async with self._database.begin(scope, read_only=True) as tx:
            trail = await memories.trail(tx, book(user).number, memory)
        if not trail:
            raise _not_found()
        return _steps(trail)


async def _there(tx: Tx, shelf: Book, memory: str) -> Memory:
    found = await memories.named(tx, shelf.number, [memory])
    if memory not in found:
        raise _not_found()
    return found[memory]


def _not_found() -> MemsvcError:
    return MemsvcError(Code.NOT_FOUND, "Memory not found")


def _steps(trail: Sequence[Fact]) -> list[Step]:
    steps: list[Step] = []
    before: str | None = None
    for fact in trail:
        said = fact.statement
        event: Literal["ADD", "UPDATE"] = "ADD" if before is None else "UPDATE"
        steps.append(Step(event, said.value, before, fact.valid_from, said.evidence.origin, said.evidence.session))
        before = said.value
    last = trail[-1]
    if last.state is not State.ACTIVE and last.valid_to is not None:
        said = last.statement
        steps.append(Step("DELETE", "", said.value, last.valid_to, said.evidence.origin, said.evidence.session))
    return steps
