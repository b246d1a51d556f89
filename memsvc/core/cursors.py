"""Cursors: the position at which a page of a list ended, opaque to callers."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any, Final
from uuid import UUID

import orjson

from memsvc.core.errors import MemsvcError, invalid


def encode_cursor(*position: datetime | UUID | int | str) -> str:
    """Return a position encoded as a cursor."""
    return urlsafe_b64encode(orjson.dumps(position, default=str)).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """Return the position that `encode_cursor` encoded, each part of its type.

    INVALID_ARGUMENT for anything else."""
    try:
        parts = orjson.loads(
            b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        )
        if not isinstance(parts, list):
            raise ValueError
        return tuple(_PARSE_BY_TYPE[kind](part) for kind, part in zip(kinds, parts, strict=True))
    except ValueError:
        raise invalid_cursor() from None


def invalid_cursor() -> MemsvcError:
    """Return the error for a cursor that no page ended with."""
    return invalid(
        "cursor must be the next_cursor of an earlier answer",
        recovery="omit cursor to start with the first page",
    )


def _parse_timestamp(part: Any) -> datetime:
    timestamp = datetime.fromisoformat(_parse_text(part))
    if (
        timestamp.tzinfo is None or not MINYEAR < timestamp.year < MAXYEAR
    ):  # else it may be out of range in another zone
        raise ValueError
    return timestamp


def _parse_int(part: Any) -> int:
    if type(part) is not int:
        raise ValueError
    return part


def _parse_text(part: Any) -> str:
    if not isinstance(part, str) or "\0" in part:  # the database cannot store it
        raise ValueError
    return part


_PARSE_BY_TYPE: Final[Mapping[type, Callable[[Any], Any]]] = {
    datetime: _parse_timestamp,
    UUID: lambda part: UUID(_parse_text(part)),
    int: _parse_int,
    str: _parse_text,
}
