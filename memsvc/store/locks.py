"""Every advisory lock by name, in the order in which they may be taken: a later one never before an earlier one.

Before all of them, every writer shares `tenant` and `project`, which whoever purges one of these takes alone for the
moment of closing it (`closures`).

1. `session`: one writer of a session's memory at a time.
2. `book`: one writer of a book that several sessions share, such as the facts about a user.
3. `outline`: one writer of a tree of documents, such as the notebook of a project, at a time.
4. `tree`: one creator, remover or mover of files in a project at a time. Appends to a file that exists need no lock
   but its row.
5. `keys`: one changer of a tenant's keys at a time. Whoever holds it takes no other.

Row locks come after them: file, book, job, project, usage. Whoever has to wait for a file's row must hold no book.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

from memsvc.core.scope import ALL_PROJECTS, Scope

LockKind = Literal["tenant", "project", "session", "book", "outline", "tree", "keys"]


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock within a scope."""

    kind: LockKind
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
KEYS_LOCK = Lock("keys", "")


def shared_locks(scope: Scope) -> list[int]:
    """The keys that every writer shares with the others: that of the tenant, and that of the project."""
    tenant = Lock("tenant", "").key(Scope(scope.tenant, ALL_PROJECTS))
    return [tenant] if scope.project == ALL_PROJECTS else [tenant, Lock("project", "").key(scope)]


def whole_lock(scope: Scope) -> int:
    """The key that shuts every writer of a project out, or, where the project is `*`, of the tenant."""
    return shared_locks(scope)[-1]
