"""Ownership of memories: the index of a user, and what a client said a session told."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from memsvc.core.scope import Scope
from memsvc.store import memories, partings
from memsvc.store.belongings import Belongings, Parting, nothing
from memsvc.store.database import Database, Tx
from memsvc.store.index import book_of
from memsvc.store.locks import book_lock
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.memories.book import book

STEP: Final = 200
_BOOKS: Final = "memories/"


class MemoryBelongings:
    """Ownership of memories by session and user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[Belongings]:
        """Yield what memories say since a call whose metadata has this `session_id`.

        A memory with no other text is purged; one that said something else before ended then.
        """
        async with self._database.begin(scope, read_only=True) as tx:
            learnt = await partings.books_learnt_in(tx, session, _BOOKS)
        for name in learnt:
            yield Belongings(locks=(book_lock(name),), partings=(_found_in(name, session),))

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[Belongings]:
        """Yield the user's memories and their history."""
        del scope
        own = book(user)
        yield Belongings(locks=(book_lock(own.name),), books=(own.name,), jobs=((EMBED_JOB, str(own.number)),))

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[Belongings]:
        """Yield nothing: memories are no files."""
        return nothing()


def _found_in(name: str, session: str) -> Parting:
    number = book_of(name)

    async def count(tx: Tx) -> Counter[str]:
        facts = await partings.count_facts(tx, number, session)
        return Counter(facts=facts, entries=facts)

    async def step(tx: Tx) -> Counter[str]:
        gone = await partings.facts_learnt_in(tx, number, session, most=STEP)
        if not gone:
            return Counter()
        await partings.drop_facts(tx, number, gone)
        unknown = await memories.forget_untold(tx, number, {fact.statement.record for fact in gone})
        return Counter(facts=len(gone), entries=len(gone), memories=unknown)

    return Parting((book_lock(name),), count, step)
