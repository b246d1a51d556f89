"""Advisory locks by name, in the order in which they may be taken, never the other way round.

Before all of them, every writer shares `tenant` and `project`; a purge takes one of these
exclusively for the time of closing it (`tenant_purge`).

1. `session`: one writer of a session's memory at a time.
2. `book`: one writer of an index that several sessions share, such as the facts about a user.
3. `outline`: one writer of a tree of documents, such as the notebook of a project, at a time.
4. `tree`: one creator, remover or mover of files in a project at a time. Appends to a file that
   exists need no lock but its row.
5. `keys`: one changer of a tenant's keys at a time, who takes no other lock.

Row locks come after them: file, index, job, project, usage. A writer that has to wait for a file's
row must hold no index.
"""

from typing import Literal

from memsvc.core.frozen import frozen
from memsvc.core.scope import ALL_PROJECTS, Scope

LockKind = Literal["tenant", "project", "session", "book", "outline", "tree", "keys"]


@frozen
class Lock:
    """Lock within a scope."""

    kind: LockKind
    name: str

    def key(self, scope: Scope) -> int:
        """Return the signed 64-bit key of the advisory lock."""
        return int.from_bytes(scope.digest(self.kind, self.name, size=8), "big", signed=True)


def session_lock(session: str) -> Lock:
    """Return the lock for writing a session's memory."""
    return Lock("session", session)


def index_lock(name: str) -> Lock:
    """Return the lock for changing the facts of an index."""
    return Lock("book", name)


def document_tree_lock(index_name: str) -> Lock:
    """Return the lock for changing an index's tree of documents, or the links between these."""
    return Lock("outline", index_name)


TREE_LOCK = Lock("tree", "")
KEYS_LOCK = Lock("keys", "")


def shared_locks(scope: Scope) -> list[int]:
    """Return the keys that every writer shares with the others: the tenant's, and the project's."""
    tenant = Lock("tenant", "").key(Scope(scope.tenant, ALL_PROJECTS))
    return [tenant] if scope.project == ALL_PROJECTS else [tenant, Lock("project", "").key(scope)]


def whole_lock(scope: Scope) -> int:
    """Return the key that excludes every writer of a project, or of the tenant for `*`."""
    return shared_locks(scope)[-1]
