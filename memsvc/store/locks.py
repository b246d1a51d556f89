"""Every advisory lock by name, in the order in which they may be taken: a later one never before an earlier one.

1. `session`: one writer of a session's memory at a time.
2. `book`: one writer of a book that several sessions share, such as the facts about a user.
3. `outline`: one writer of a tree of documents, such as the notebook of a project, at a time.
4. `tree`: one creator, remover or mover of files in a project at a time. Appends to a file that exists need no lock
   but its row.

Row locks come after them: file, book, job, project, usage. Whoever has to wait for a file's row must hold no book.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

from memsvc.core.scope import Scope


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock within a scope."""

    kind: Literal["session", "book", "outline", "tree"]
    name: str

    def key(self, scope: Scope) -> int:
        """The signed 64-bit key of the advisory lock."""
        words = (scope.tenant, scope.project.encode(), self.kind.encode(), self.name.encode())
        whole = b"".join(len(word).to_bytes(4, "big") + word for word in words)
        return int.from_bytes(hashlib.blake2b(whole, digest_size=8).digest(), "big", signed=True)


def session_lock(session: str) -> Lock:
    """Held by whoever writes a session's memory."""
    return Lock("session", session)


def book_lock(name: str) -> Lock:
    """Held by whoever changes the facts of a book."""
    return Lock("book", name)


def outline_lock(book: str) -> Lock:
    """Held by whoever changes the documents of a book that make a tree, or how they link each other."""
    return Lock("outline", book)


TREE_LOCK = Lock("tree", "")
