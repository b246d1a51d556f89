"""Data owned by a session or a user, as the styles declare it.

All of it goes when that is purged.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from memsvc.core.scope import Scope
from memsvc.store.database import Tx
from memsvc.store.locks import Lock


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table of one project: all, or those with certain values in a column.

    `value` is one value, or many that any of some columns may have. Of recall traces, only those
    from `until` or before. A column may be any expression of the table's columns; it is never made
    of a caller's input.
    """

    table: str
    column: str | tuple[str, ...] = ""
    value: str | int | tuple[str, ...] = ""
    until: datetime | None = None


Step = Callable[[Tx], Awaitable[Counter[str]]]
"""Removes, some at a time, what only the style can find; returns counts by table, nothing when none
is left."""


@dataclass(frozen=True, slots=True)
class PurgeStep:
    """Rows that a style removes from data that stays.

    `count` returns how many rows of which table would go; each call of `step`, in a transaction
    with these locks, is one short step. Steps go on until one has nothing left to do.
    """

    locks: tuple[Lock, ...]
    count: Step
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerData:
    """Data that is purged together and closed to its writers meanwhile, who hold one of `locks`.

    Without locks, nothing is closed.

    `directories` are paths of files that go with all that is in them and with their history, hidden
    from the start. `documents_index` is the index whose documents they are, where they are found by
    their content, and `file_jobs` are the names of jobs about one of them. `jobs` are others that
    wait, by name and subject. `purge_steps` come first, then `index_names` go as a whole, then
    the rows of `owners` (column and value, as `TABLES` declares), then the files; `last` is removed
    in the transaction that opens everything again. The resources at the URIs in `changed` are gone
    from then on.
    """

    locks: tuple[Lock, ...] = ()
    directories: tuple[str, ...] = ()
    documents_index: str = ""
    file_jobs: tuple[str, ...] = ()
    jobs: tuple[tuple[str, str], ...] = ()
    purge_steps: tuple[PurgeStep, ...] = ()
    index_names: tuple[str, ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    last: tuple[PurgeStep, ...] = ()
    changed: tuple[str, ...] = ()


_NOTHING: Final[tuple[OwnerData, ...]] = ()


async def nothing() -> AsyncIterator[OwnerData]:
    """Yield no belongings."""
    for data in _NOTHING:
        yield data


class Ownership(Protocol):
    """Ownership of data by sessions, users and paths, as a style declares it."""

    def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Yield the data of a session of a project."""
        ...

    def of_user(self, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
        """Yield the data of a user in a project."""
        ...

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[OwnerData]:
        """Yield the data at and below a path where callers keep files."""
        ...


Owners = Sequence[Ownership]
