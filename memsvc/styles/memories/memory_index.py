"""Index of a user's memories: names, ids, what is announced of them, and whose they are."""

import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from memsvc.core.frozen import frozen
from memsvc.core.scope import Scope
from memsvc.core.tools import ProjectEvent
from memsvc.store import memories, ownership
from memsvc.store.database import Database
from memsvc.store.index import index_id_of
from memsvc.store.locks import index_lock
from memsvc.store.ownership import OwnerData
from memsvc.styles.embedding import EMBED_JOB

FOUND_URI: Final = "memsvc://memories/found"
"""The resource announced in a project when a conversation yielded memories."""
KEY: Final = "memory"
"""The fact id and key of texts that no rule read; the slot is the memory's id."""
ALL_USERS: Final = "memories"
"""The lock under which the users of a project are counted; always the last lock taken."""
_PREFIX: Final = "memories/"
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@frozen
class MemoryIndex:
    """Name and id of a user's index."""

    name: str
    index_id: int


def index_for(user: str) -> MemoryIndex:
    """Return the index of a user's memories."""
    name = f"{_PREFIX}{user}"
    return MemoryIndex(name, index_id_of(name))


def new_id(now: datetime) -> str:
    """Return a new memory's id: `mem_`, milliseconds since 1970, nine random characters."""
    return f"mem_{int(now.timestamp() * 1000)}_{''.join(secrets.choice(_DIGITS) for _ in range(9))}"


def hidden_before(now: datetime, decay_days: float) -> datetime | None:
    """Return the time before which a memory's last change makes it hidden; None: none is hidden.

    A memory changed exactly then is visible.
    """
    return now - timedelta(days=decay_days) if decay_days > 0 else None


def comparable(text: str) -> str:
    """Return a text for comparison, without case, extra white space and a final full stop."""
    return " ".join(text.casefold().split()).rstrip(".")


@frozen
class MemoryOwners:
    """Owners of memories: users, and sessions that a client named."""

    database: Database

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Yield what memories say since a call whose metadata has this `session_id`.

        A memory with no other text is purged; one that said something else before ended then.
        """
        async with self.database.begin_read(scope) as tx:
            index_names = await ownership.indexes_with_facts(tx, session, _PREFIX)
        for name in index_names:
            yield OwnerData(
                locks=(index_lock(name),),
                purge_steps=(ownership.facts_of_session(name, session),),
            )

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
        """Yield the user's memories and their history."""
        del scope
        user_index = index_for(user)
        yield OwnerData(
            locks=(index_lock(user_index.name),),
            index_names=(user_index.name,),
            jobs=((EMBED_JOB, str(user_index.index_id)),),
        )


KIND: Final = "MemoryExtracted"
EVENTS_MAX: Final = 100


@frozen
class MemoryEvents:
    """`ProjectEventSource` of memories: each call that added or changed some is one event."""

    uri = FOUND_URI
    tool = "memories_get_settings"

    database: Database

    async def latest(self, scope: Scope) -> int:
        async with self.database.begin_read(scope) as tx:
            return await memories.latest_event(tx)

    async def since(self, scope: Scope, number: int) -> Sequence[ProjectEvent]:
        """Return up to 100 events; texts deleted since are left out."""
        async with self.database.begin_read(scope) as tx:
            found = await memories.events_since(tx, number, limit=EVENTS_MAX)
        return [
            ProjectEvent(
                one.number,
                KIND,
                {
                    "event_type": KIND,
                    "facts": one.texts,
                    "count": len(one.texts),
                    "timestamp": one.found_at.isoformat().replace("+00:00", "Z"),
                },
            )
            for one in found
        ]
