"""Ownership of memories: the index of a user, and what a client said a session told."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from memsvc.core.scope import Scope
from memsvc.store import memories, purge_steps
from memsvc.store.database import Database, Tx
from memsvc.store.index import index_id_of
from memsvc.store.locks import index_lock
from memsvc.store.ownership import OwnerData, PurgeStep, nothing
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.memories.memory_index import index_for

FACTS_PER_STEP: Final = 200
_INDEX_PREFIX: Final = "memories/"


class MemoryOwnership:
    """Ownership of memories by session and user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Yield what memories say since a call whose metadata has this `session_id`.

        A memory with no other text is purged; one that said something else before ended then.
        """
        async with self._database.begin(scope, read_only=True) as tx:
            index_names = await purge_steps.indexes_with_facts(tx, session, _INDEX_PREFIX)
        for name in index_names:
            yield OwnerData(
                locks=(index_lock(name),), purge_steps=(_purge_of_session(name, session),)
            )

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
        """Yield the user's memories and their history."""
        del scope
        custom = index_for(user)
        yield OwnerData(
            locks=(index_lock(custom.name),),
            index_names=(custom.name,),
            jobs=((EMBED_JOB, str(custom.index_id)),),
        )

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[OwnerData]:
        """Yield nothing: memories are no files."""
        return nothing()


def _purge_of_session(name: str, session: str) -> PurgeStep:
    index_id = index_id_of(name)

    async def count(tx: Tx) -> Counter[str]:
        facts = await purge_steps.count_facts(tx, index_id, session)
        return Counter(facts=facts, entries=facts)

    async def step(tx: Tx) -> Counter[str]:
        removed = await purge_steps.facts_from_session(tx, index_id, session, limit=FACTS_PER_STEP)
        if not removed:
            return Counter()
        await purge_steps.drop_facts(tx, index_id, removed)
        removed_memories = await memories.delete_without_facts(
            tx, index_id, {fact.statement.record for fact in removed}
        )
        return Counter(facts=len(removed), entries=len(removed), memories=removed_memories)

    return PurgeStep((index_lock(name),), count, step)
