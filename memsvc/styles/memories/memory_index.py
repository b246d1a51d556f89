"""Index of a user's memories: names, ids, and what is announced of them."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from memsvc.store.index import index_id_of

FOUND_URI: Final = "memsvc://memories/found"
"""The resource announced in a project when a conversation yielded memories."""
KEY: Final = "memory"
"""The fact id and key of texts that no rule read; the slot is the memory's id."""
ALL_USERS: Final = "memories"
"""The lock under which the users of a project are counted; always the last lock taken."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class MemoryIndex:
    """Name and id of a user's index."""

    name: str
    index_id: int


def index_for(user: str) -> MemoryIndex:
    """Return the index of a user's memories."""
    name = f"memories/{user}"
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
