"""File content as a response body, and conditional and range requests (RFC 9110)."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC
from email.utils import format_datetime
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from memsvc.core.errors import (
    Code,
    MemsvcError,
    invalid,
    invalid_content,
    invalid_offset,
    payload_too_large,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import name_of
from memsvc.core.tools import OpenFile
from memsvc.gateway.call_accounting import Raw
from memsvc.gateway.limits import BodyTimeoutError

ANY: Final = "*"

_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_ONE_TAG = re.compile(_TAG)
_TAGS = re.compile(rf"[ \t]*{_TAG}(?:[ \t]*,[ \t]*{_TAG})*[ \t]*")
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,1000})-([0-9]{0,1000})[ \t]*", re.IGNORECASE)
_NOT_FOR_WRITES = ("content-range", "if-modified-since", "if-unmodified-since")


@frozen
class WriteCondition:
    """Condition of a write: the file has this tag, or the file does not exist."""

    tag: str | None
    absent: bool

    def arguments(self) -> dict[str, str | bool]:
        """Return the condition as arguments of the write tools."""
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
        raise invalid(f"the header {name} must be * or a list of entity tags in quotes")
    return _ONE_TAG.findall(text)


def write_condition(headers: Headers) -> WriteCondition:
    """Return the condition that `If-Match: "tag"` and `If-None-Match: *` set for a write.

    INVALID_ARGUMENT for any other condition, rather than an unintended write.
    """
    for name in _NOT_FOR_WRITES:
        if name in headers:
            raise invalid(f"the header {name} is not supported for writes")
    match, none_match = entity_tags(headers, "if-match"), entity_tags(headers, "if-none-match")
    if none_match is not None and none_match != [ANY]:
        raise invalid(
            "the header if-none-match must be *, which means: write only if the file does not exist"
        )
    if match is not None and (len(match) != 1 or not match[0].startswith('"')):
        raise invalid(
            "the header if-match must contain one strong entity tag in quotes: the ETag"
            " header of the response that returned the file"
        )
    return WriteCondition(match[0][1:-1] if match else None, none_match is not None)


def check_match(headers: Headers, tag: str) -> None:
    """Raise VERSION_CONFLICT if If-Match does not name `tag` (a strong tag, quoted)."""
    match = entity_tags(headers, "if-match")
    if match is not None and match != [ANY] and tag not in match:
        raise MemsvcError(
            Code.VERSION_CONFLICT,
            "the If-Match header does not contain the entity tag of the file's current version",
        )


def is_current(headers: Headers, tag: str) -> bool:
    """Return whether If-None-Match names the version that the client already has."""
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
        raise invalid_offset(
            "the requested byte range is outside the file", details={"size": size_bytes}
        )
    return start, stop


def is_too_large(request: Request, size_max: int) -> bool:
    """Return whether a request declares a larger body than this; the declaration is optional."""
    declared = request.headers.get("content-length", "")
    return declared.isdecimal() and int(declared[:20]) > size_max


async def receive_body(request: Request, raw: Raw, size_max: int, *, within_s: float) -> bytes:
    """Return the whole body.

    Raises PAYLOAD_TOO_LARGE as soon as the body exceeds the limit, and INVALID_CONTENT if it is cut
    off or late."""
    too_large = payload_too_large(f"a file is limited to {size_max} bytes")
    if is_too_large(request, size_max):
        raise too_large
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(within_s):
            async for chunk in request.stream():
                raw.size_bytes += len(chunk)
                if raw.size_bytes > size_max:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise BodyTimeoutError(within_s) from None
    except ClientDisconnect:
        raise invalid_content("the request body ended before it was complete") from None
    return b"".join(chunks)


async def file_response(request: Request, opened: OpenFile) -> Response:
    """Return the response to a download, with the first chunk already read.

    Raises VERSION_CONFLICT or INVALID_OFFSET as the headers require."""
    tag = f'"{opened.tag}"'
    headers = {
        "ETag": tag,
        "Last-Modified": format_datetime(opened.updated_at.astimezone(UTC), usegmt=True),
        "Cache-Control": "private, no-cache",
    }
    check_match(request.headers, tag)
    if is_current(request.headers, tag):
        return Response(status_code=304, headers=headers)
    name = name_of(opened.path)
    headers |= {
        "Content-Type": "text/plain; charset=utf-8"
        if opened.is_text
        else "application/octet-stream",
        "Content-Disposition": f'attachment; filename="{name.replace("%", "_")}";'
        f" filename*=UTF-8''{quote(name)}",
        "Content-Length": str(opened.size_bytes),
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
    }
    if request.method == "HEAD":
        return Response(headers=headers)
    part = byte_range(request.headers, tag, opened.size_bytes)
    start, stop = part or (0, opened.size_bytes)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{opened.size_bytes}"
        headers["Content-Length"] = str(stop - start)
    chunks = opened.chunks(start, stop)
    first = await anext(chunks, b"")
    return StreamingResponse(_join(first, chunks), 206 if part is not None else 200, headers)


async def _join(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk
