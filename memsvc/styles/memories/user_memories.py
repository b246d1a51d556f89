"""A user's memories: searched, listed, and changed one by one by the client."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.facts import Fact, FactState, Origin
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.secrets import is_secret
from memsvc.store import memories
from memsvc.store.database import Database, Tx
from memsvc.store.locks import index_lock
from memsvc.store.memories import Memory
from memsvc.styles.memories import memory_writer
from memsvc.styles.memories.memory_index import MemoryIndex, hidden_before, index_for
from memsvc.styles.memories.memory_search import MemorySearch
from memsvc.styles.memories.memory_writer import MemoryWriter, evidence_of
from memsvc.styles.memories.project_settings import SEARCH_LIMIT_OF_ZERO, ProjectSettings

DELETE_BATCH = 1000
"""Memories deleted in one transaction."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One step of a memory's history: its text before and after, and who found it."""

    event: Literal["ADD", "UPDATE", "DELETE"]
    text: str
    old_text: str | None
    at: datetime
    origin: Origin
    session: str


class UserMemories:
    """Reads and changes of memories.

    A hidden memory, unchanged for too long, is neither found nor listed, but can be read by its id.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        writer: MemoryWriter,
        search: MemorySearch,
        settings: ProjectSettings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._writer = writer
        self._search = search
        self._settings = settings

    async def search(
        self, scope: Scope, user: str, question: str, limit: int | None
    ) -> list[Memory]:
        """Return the memories that answer a question best, best first.

        Without a limit, as many as the project's setting says.
        """
        embedding = await self._search.embed(question)
        async with self._database.begin(scope, read_only=True) as tx:
            effective = await self._settings.read(tx)
            count_max = (effective.search_limit if limit is None else limit) or SEARCH_LIMIT_OF_ZERO
            since = hidden_before(self._clock.now(), effective.decay_days)
            return await self._search.find(
                tx, index_for(user), question, embedding, since=since, limit=count_max
            )

    async def latest(self, scope: Scope, user: str, limit: int) -> list[Memory]:
        """Return a user's memories, newest first."""
        async with self._database.begin(scope, read_only=True) as tx:
            since = hidden_before(self._clock.now(), (await self._settings.read(tx)).decay_days)
            return await memories.list_latest(
                tx, index_for(user).index_id, since=since, limit=limit
            )

    async def get(self, scope: Scope, user: str, memory: str) -> Memory:
        """Return one memory, hidden or not; NOT_FOUND."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await _find(tx, index_for(user), memory)

    async def change(
        self, scope: Scope, user: str, memory: str, text: str, metadata: dict[str, Any] | None
    ) -> Memory:
        """Change a memory's text, and its metadata if any is given; NOT_FOUND.

        It counts as changed even when the text is the same.
        """
        now, user_index = self._clock.now(), index_for(user)
        if is_secret(text, text):
            raise invalid("memory looks like a password, key or number that must not be kept")
        async with self._database.begin(scope, locks=[index_lock(user_index.name)]) as tx:
            old = await _find(tx, user_index, memory)
            evidence = evidence_of(user, "user", metadata if metadata is not None else old.metadata)
            changes = [memory_writer.changed(old, text, evidence)]
            await self._writer.write(tx, user_index, changes, now, metadata={}, found=False)
            if metadata is not None:
                await memories.describe(tx, user_index.index_id, memory, metadata)
            return await _find(tx, user_index, memory)

    async def delete(self, scope: Scope, user: str, memory: str) -> None:
        """Delete a memory; NOT_FOUND."""
        now, user_index = self._clock.now(), index_for(user)
        async with self._database.begin(scope, locks=[index_lock(user_index.name)]) as tx:
            changes = [memory_writer.deleted(await _find(tx, user_index, memory))]
            await self._writer.write(tx, user_index, changes, now, metadata={}, found=False)

    async def delete_all(self, scope: Scope, user: str) -> int:
        """Delete all memories of a user, hidden ones too; return their number."""
        user_index, total = index_for(user), 0
        while True:
            async with self._database.begin(scope, locks=[index_lock(user_index.name)]) as tx:
                existing = await memories.list_latest(
                    tx, user_index.index_id, since=None, limit=DELETE_BATCH
                )
                changes = [memory_writer.deleted(one) for one in existing]
                await self._writer.write(
                    tx, user_index, changes, self._clock.now(), metadata={}, found=False
                )
            total += len(existing)
            if len(existing) < DELETE_BATCH:
                return total

    async def history(self, scope: Scope, user: str, memory: str) -> list[HistoryStep]:
        """Return a memory's history, oldest first, with its deletion; NOT_FOUND."""
        async with self._database.begin(scope, read_only=True) as tx:
            history = await memories.fact_versions(tx, index_for(user).index_id, memory)
        if not history:
            raise _not_found()
        return _steps(history)


async def _find(tx: Tx, user_index: MemoryIndex, memory: str) -> Memory:
    found = await memories.find_by_ids(tx, user_index.index_id, [memory])
    if memory not in found:
        raise _not_found()
    return found[memory]


def _not_found() -> MemsvcError:
    return MemsvcError(Code.NOT_FOUND, "Memory not found")


def _steps(history: Sequence[Fact]) -> list[HistoryStep]:
    steps: list[HistoryStep] = []
    before: str | None = None
    for fact in history:
        statement = fact.statement
        event: Literal["ADD", "UPDATE"] = "ADD" if before is None else "UPDATE"
        steps.append(
            HistoryStep(
                event,
                statement.value,
                before,
                fact.valid_from,
                statement.evidence.origin,
                statement.evidence.session,
            )
        )
        before = statement.value
    last = history[-1]
    if last.state is not FactState.ACTIVE and last.valid_to is not None:
        statement = last.statement
        steps.append(
            HistoryStep(
                "DELETE",
                "",
                statement.value,
                last.valid_to,
                statement.evidence.origin,
                statement.evidence.session,
            )
        )
    return steps
