"""What belongs to a session or to a user, as the styles tell: all of it goes when that is purged."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from memsvc.core.scope import Scope
from memsvc.store.database import Tx
from memsvc.store.locks import Lock


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table of one project: all, or those that have `value` in a column, or any of many values in any of
    some columns; of recall traces, those from `until` or before alone. A column may be any expression of the table's
    columns; it is never made of what a caller says."""

    table: str
    column: str | tuple[str, ...] = ""
    value: str | int | tuple[str, ...] = ""
    until: datetime | None = None


Step = Callable[[Tx], Awaitable[Counter[str]]]
"""Removes what only the style can tell, some of it; how many rows of which table went, nothing when nothing is left."""


@dataclass(frozen=True, slots=True)
class Parting:
    """What a style takes out of what stays: `count` says how many rows of which table would go; each call of `step`, in
    a transaction with these locks, is one short step of it. Steps go on until one has nothing left to do."""

    locks: tuple[Lock, ...]
    count: Step
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """What goes together, closed to its writers meanwhile: they hold one of `locks`. Without any, nothing is closed.

    `directories` are paths of files that go with all that is in them and with their history, hidden from the first
    moment on. `documents_in` is the book whose documents they are, where they are found by their content, and
    `file_jobs` are the names of jobs about one of them. `jobs` are others that wait, by name and subject. `partings`
    come first, then `books` go as a whole, then `rows`, then the files; `last` is removed in the transaction that opens
    everything again. Nothing stands under the URIs that `changed` names from then on.
    """

    locks: tuple[Lock, ...] = ()
    directories: tuple[str, ...] = ()
    documents_in: str = ""
    file_jobs: tuple[str, ...] = ()
    jobs: tuple[tuple[str, str], ...] = ()
    partings: tuple[Parting, ...] = ()
    books: tuple[str, ...] = ()
    rows: tuple[Rows, ...] = ()
    last: tuple[Parting, ...] = ()
    changed: tuple[str, ...] = ()


_NOTHING: Final[tuple[Belongings, ...]] = ()


async def nothing() -> AsyncIterator[Belongings]:
    """What belongs to nobody."""
    for one in _NOTHING:
        yield one


class Owned(Protocol):
    """How a style tells what belongs to whom."""

    def of_session(self, scope: Scope, session: str) -> AsyncIterator[Belongings]:
        """What belongs to a session of a project."""
        ...

    def of_user(self, scope: Scope, user: str) -> AsyncIterator[Belongings]:
        """What belongs to a user in a project."""
        ...

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[Belongings]:
        """What is at a path where callers keep files, and in it."""
        ...


Owners = Sequence[Owned]
