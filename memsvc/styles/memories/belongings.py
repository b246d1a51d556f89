"""What belongs to a user: the book of their memories; and to a session: what a client said it was found in."""

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
    """What memories keep of whom."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[Belongings]:
        """What memories said since a call whose metadata names the session (`session_id`). A memory of which nothing
        else is left goes; one that said something else before ended then."""
        async with self._database.begin(scope, read_only=True) as tx:
            learnt = await partings.books_learnt_in(tx, session, _BOOKS)
        for name in learnt:
            yield Belongings(locks=(book_lock(name),), partings=(_found_in(name, session),))

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[Belongings]:
        """The user's memories, and what they were."""
        del scope
        own = book(user)
        yield Belongings(locks=(book_lock(own.name),), books=(own.name,), jobs=((EMBED_JOB, str(own.number)),))

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[Belongings]:
        """Nothing: memories are no files."""
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
