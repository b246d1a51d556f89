"""Where a user's memories stand, how they are named, and what is told of them."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from memsvc.store.index import book_of

FOUND_URI: Final = "memsvc://memories/found"
"""What is announced in a project when something was found in a conversation."""
KEY: Final = "memory"
"""The fact id and key of what no rule read; the slot is the memory's own id."""
ALL_USERS: Final = "memories"
"""The lock under which the users of a project are counted; it is the last one that is taken."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Book:
    """A user's book by name and number."""

    name: str
    number: int


def book(user: str) -> Book:
    """The book of a user's memories."""
    name = f"memories/{user}"
    return Book(name, book_of(name))


def new_id(now: datetime) -> str:
    """An id for a new memory: `mem_`, milliseconds since 1970, and nine random characters."""
    return f"mem_{int(now.timestamp() * 1000)}_{''.join(secrets.choice(_DIGITS) for _ in range(9))}"


def hidden_before(now: datetime, decay_days: float) -> datetime | None:
    """The moment before which a memory must not have been made or changed last, or else it is hidden; None where
    nothing is hidden. What was changed exactly then is shown."""
    return now - timedelta(days=decay_days) if decay_days > 0 else None


def same(text: str) -> str:
    """A text as it is compared with others: case, white space and a full stop at its end do not count."""
    return " ".join(text.casefold().split()).rstrip(".")
