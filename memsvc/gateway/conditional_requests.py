"""Conditional and range requests of RFC 9110: entity tags, preconditions and one byte range."""

import re
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers

from memsvc.core.errors import Code, MemsvcError, invalid

ANY: Final = "*"

_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_ONE_TAG = re.compile(_TAG)
_TAGS = re.compile(rf"[ \t]*{_TAG}(?:[ \t]*,[ \t]*{_TAG})*[ \t]*")
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,1000})-([0-9]{0,1000})[ \t]*", re.IGNORECASE)
_NOT_FOR_WRITES = ("content-range", "if-modified-since", "if-unmodified-since")


@dataclass(frozen=True, slots=True)
class WriteCondition:
    """Condition of a write: that the file has this tag, or that there is no file."""

    tag: str | None
    absent: bool

    def arguments(self) -> dict[str, str | bool]:
        """Return the condition as arguments of the tools that write."""
        args: dict[str, str | bool] = {} if self.tag is None else {"expected_version": self.tag}
        return args | ({"create_only": True} if self.absent else {})


def entity_tags(headers: Headers, name: str) -> list[str] | None:
    """Return the entity tags of a header, with quotes; `["*"]` for any, None without one.

    INVALID_ARGUMENT for a malformed header.
    """
    lines = headers.getlist(name)
    if not lines:
        return None
    text = ", ".join(lines)
    if text.strip() == ANY:
        return [ANY]
    if not _TAGS.fullmatch(text):
        raise invalid(f"{name} must be * or entity tags in quotes")
    return _ONE_TAG.findall(text)


def write_condition(headers: Headers) -> WriteCondition:
    """Return the condition that `If-Match: "tag"` and `If-None-Match: *` set for a write.

    INVALID_ARGUMENT for any other condition, rather than an unintended write.
    """
    for name in _NOT_FOR_WRITES:
        if name in headers:
            raise invalid(f"{name} is not understood here")
    match, none_match = entity_tags(headers, "if-match"), entity_tags(headers, "if-none-match")
    if none_match is not None and none_match != [ANY]:
        raise invalid("if-none-match must be * to write only what is not there yet")
    if match is not None and (len(match) != 1 or not match[0].startswith('"')):
        raise invalid(
            "if-match must be the one strong entity tag that the file had when it was read"
        )
    return WriteCondition(match[0][1:-1] if match else None, none_match is not None)


def check_match(headers: Headers, tag: str) -> None:
    """Raise VERSION_CONFLICT where If-Match names other tags than `tag` (quoted, strong)."""
    match = entity_tags(headers, "if-match")
    if match is not None and match != [ANY] and tag not in match:
        raise MemsvcError(Code.VERSION_CONFLICT, "the file is at none of these versions")


def is_current(headers: Headers, tag: str) -> bool:
    """Return whether If-None-Match says that the client has this version already."""
    tags = entity_tags(headers, "if-none-match")
    return tags is not None and (tags == [ANY] or tag in [tag_.removeprefix("W/") for tag_ in tags])


def byte_range(headers: Headers, tag: str, size_bytes: int) -> tuple[int, int] | None:
    """Return the requested half-open range; None for the whole file.

    None without Range, for several ranges, for a Range that is no range of bytes, or an If-Range
    that names another version. INVALID_OFFSET for a range outside of the file.
    """
    requested = (
        _RANGE.fullmatch(headers.get("range", "")) if len(headers.getlist("range")) == 1 else None
    )
    if requested is None or headers.get("if-range", tag) != tag:
        return None
    first, last = requested.groups()
    if not first:
        if not last or (size_bytes == 0 and int(last) > 0):
            return None
        start, stop = max(0, size_bytes - int(last)), size_bytes
    else:
        if last and int(last) < int(first):
            return None
        start, stop = int(first), min(int(last) + 1, size_bytes) if last else size_bytes
    if start >= size_bytes:
        raise MemsvcError(
            Code.INVALID_OFFSET, "the range has no byte of the file", details={"size": size_bytes}
        )
    return start, stop
