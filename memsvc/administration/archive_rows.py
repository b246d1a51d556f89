"""Rows as lines of JSON: bytes in base64, times in ISO 8601, the rest as plain JSON."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any, Final
from uuid import UUID

import orjson

from memsvc.administration.archive_shapes import fits
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.facts import State, Tier
from memsvc.store.archived import Column, Table

_INTEGERS: Final = {"smallint": 15, "integer": 30, "bigint": 63}
"""Bits of a number beside its sign. One less for an integer: these are counters, which go on
counting."""
_ENTRY_NUMBERS: Final = frozenset(
    {
        *("entry", "next_entry", "first_entry", "folded_entry", "context_start"),
        *("consolidated_entry", "digested_entry", "extracted_entry"),
    }
)
"""Columns that hold the number of an entry, which is never negative."""
_CLOSED: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("facts", "state"): frozenset(State),
    ("facts", "tier"): frozenset(Tier),
}
"""Words to which a column is limited."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table, with the columns that each has a value for."""

    table: Table
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def line(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line."""
    return orjson.dumps(row, default=_told, option=orjson.OPT_APPEND_NEWLINE)


def _told(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)  # a UUID of the driver


def lines(content: bytes, member: str) -> list[dict[str, Any]]:
    """Return the objects of a member, one per line. INVALID_CONTENT names the line."""
    if not content.endswith(b"\n"):
        raise wrong(member, "does not end with a line")
    found = []
    for number, one in enumerate(content[:-1].split(b"\n"), 1):
        try:
            value = orjson.loads(one)
        except orjson.JSONDecodeError as error:
            raise wrong(member, f"line {number} is no JSON") from error
        if not isinstance(value, dict):
            raise wrong(member, f"line {number} is no object")
        found.append(value)
    return found


def rows(table: Table, objects: Sequence[Mapping[str, Any]], member: str) -> Rows:
    """Return objects as rows of a table.

    INVALID_CONTENT if one has other columns than the table, optional columns apart, or a value that
    is not of the column's type.
    """
    known = {column.name: column for column in table.columns}
    names = tuple(objects[0])
    if not known.keys() >= set(names) or any(one.required and one.name not in names for one in table.columns):
        raise wrong(member, f"its lines do not have the columns of {table.name}")
    readers = [(name, _reader(table.name, known[name])) for name in names]
    found = []
    for number, given in enumerate(objects, 1):
        if given.keys() != set(names):
            raise wrong(member, f"line {number} has other columns than the first")
        try:
            found.append(tuple(reads(given[name]) for name, reads in readers))
        except UnfitError as error:
            raise wrong(member, f"line {number} holds no {error}") from None
    return Rows(table, names, found)


def wrong(member: str, what: str) -> MemsvcError:
    """Return the error for an invalid archive."""
    return MemsvcError(Code.INVALID_CONTENT, f"{member}: {what}")


class UnfitError(Exception):
    """A value is not of its column's type."""


def _reader(table: str, column: Column) -> Callable[[Any], Any]:
    reads = _of_type(column.type, _CLOSED.get((table, column.name)))
    least = 0 if column.name in _ENTRY_NUMBERS else None

    def checked(value: Any) -> Any:
        if value is None:
            if column.nullable:
                return None
            raise UnfitError(f"value for {column.name}")
        try:
            found = reads(value)
        except UnfitError:
            raise UnfitError(f"{column.type} that can be kept for {column.name}") from None
        if column.type == "jsonb" and not fits(table, column.name, found):
            raise UnfitError(f"JSON of the shape that {column.name} has")
        if least is not None and found < least:
            raise UnfitError(f"number of an entry for {column.name}")
        return found

    return checked


def _of_type(kind: str, words: frozenset[str] | None) -> Callable[[Any], Any]:
    if kind in _INTEGERS:
        return lambda value: integer(value, _INTEGERS[kind])
    if kind.endswith("[]"):
        member = _of_type(kind[:-2], None)
        return lambda value: [member(one) for one in _fit(value, list)]
    if kind.startswith("character varying("):
        most = int(kind.removeprefix("character varying(").rstrip(")"))
        return lambda value: _text(value, words, most)
    readers: dict[str, Callable[[Any], Any]] = {
        "text": lambda value: _text(value, words),
        "boolean": lambda value: _fit(value, bool),
        "real": _real,
        "double precision": _real,
        "bytea": _bytes,
        "uuid": uuid,
        "timestamp with time zone": moment,
        "jsonb": lambda value: value,
    }
    return readers[kind]


def _fit(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise UnfitError
    return value


def integer(value: Any, bits: int) -> int:
    """Return a number that fits a column of so many bits beside its sign."""
    if type(value) is not int or not -(2**bits) <= value < 2**bits:
        raise UnfitError
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise UnfitError
    return float(value)


def _text(value: Any, words: frozenset[str] | None, most: int | None = None) -> str:
    text: str = _fit(value, str)
    if "\0" in text or (words is not None and text not in words) or (most is not None and len(text) > most):
        raise UnfitError
    return text


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_fit(value, str), validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnfitError from error


def uuid(value: Any) -> UUID:
    """Return a UUID."""
    try:
        return UUID(_fit(value, str))
    except ValueError as error:
        raise UnfitError from error


def moment(value: Any) -> datetime:
    """Return a timestamp with a time zone."""
    try:
        found = datetime.fromisoformat(_fit(value, str))
    except ValueError as error:
        raise UnfitError from error
    if found.tzinfo is None:
        raise UnfitError
    return found
