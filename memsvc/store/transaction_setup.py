"""Setup of a transaction: one message of plain SQL that sets its tenant and takes its locks.

It has no arguments. A writer passes `admit_writer` in it, which `write_fences` explains.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memsvc.core.scope import Scope
from memsvc.store.locks import Lock, shared_locks, whole_lock

WRITES_S_MAX: Final = 120
"""How long a writing transaction may hold its locks, unless it is `lasting`."""


@dataclass(frozen=True, slots=True)
class TransactionSetup:
    """Needs of a transaction: locks in their order, and how long to wait for them.

    One that is `purging` writes what is closed to others; one that is `exclusive` begins when
    nobody else is writing the project or, where that is `*`, the tenant.

    One that is `has_timeout` is ended by PostgreSQL after WRITES_S_MAX. No other timeout ends one
    whose client vanished between the messages of one statement, which the driver sends apart when
    it prepares it: neither idle nor running, it would keep its locks. Needs PostgreSQL 17.
    """

    locks: Sequence[Lock]
    lock_timeout_ms: int
    purging: bool = False
    exclusive: bool = False
    has_timeout: bool = False

    def read_statement(self, scope: Scope) -> str:
        """Return the SQL that begins a read-only transaction with one snapshot."""
        timeout_ms = self.lock_timeout_ms if self.locks else 0
        return (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ"
            f" ONLY;{_settings(scope, timeout_ms)}{self._lock_statements(scope)}"
        )

    def write_statement(self, scope: Scope) -> str:
        """Return the SQL that begins a writing transaction."""
        timeout_s = WRITES_S_MAX if self.has_timeout else 0
        head = f"BEGIN;{_settings(scope, self.lock_timeout_ms, timeout_s)}"
        if self.purging:
            return head + self._lock_statements(scope)
        lock_keys = [lock.key(scope) for lock in self.locks]
        return (
            head + f"SELECT admit_writer({_text(scope.project)}, {_keys(shared_locks(scope))},"
            f" {_keys(lock_keys)});"
        )

    def _lock_statements(self, scope: Scope) -> str:
        keys = [whole_lock(scope)] * self.exclusive + [lock.key(scope) for lock in self.locks]
        return "".join(f"SELECT pg_advisory_xact_lock({key});" for key in keys)


def _settings(scope: Scope, lock_timeout_ms: int, transaction_timeout_s: int = 0) -> str:
    """Return the SQL of what holds in the transaction alone.

    A function sets it, as Citus repeats the whole message of a SET on nodes.

    Rows are looked up by index: a plan is made once and kept, and one made while a table had a page
    would later read all of the grown table for each row.
    """
    set_tenant_call = (
        f"set_tenant('\\x{scope.tenant.hex()}', {lock_timeout_ms}, {transaction_timeout_s})"
    )
    return f"SELECT {set_tenant_call}, set_config('enable_seqscan', 'off', true);"


def _text(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _keys(keys: Sequence[int]) -> str:
    """Return keys of locks as an SQL array."""
    return "'{" + ",".join(map(str, keys)) + "}'"
