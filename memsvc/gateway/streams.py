"""Content of files as the body of a request or response."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC
from email.utils import format_datetime
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import name_of
from memsvc.core.tools import OpenFile
from memsvc.gateway.call_accounting import Raw
from memsvc.gateway.conditional_requests import byte_range, check_match, is_current
from memsvc.gateway.limits import BodyTimeoutError


def is_too_large(request: Request, size_max: int) -> bool:
    """Return whether a request declares a larger body than this; the declaration is optional."""
    declared = request.headers.get("content-length", "")
    return declared.isdecimal() and int(declared[:20]) > size_max


async def receive_body(request: Request, raw: Raw, size_max: int, *, within_s: float) -> bytes:
    """Return the whole body.

    PAYLOAD_TOO_LARGE as soon as it is known to exceed the limit, INVALID_CONTENT if it is cut off
    or late.
    """
    too_large = MemsvcError(Code.PAYLOAD_TOO_LARGE, f"a file may hold {size_max} bytes at the most")
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
        raise MemsvcError(Code.INVALID_CONTENT, "the body ended before it was whole") from None
    return b"".join(chunks)


async def file_response(request: Request, opened: OpenFile) -> Response:
    """Return the response to a download, with its first chunk read.

    VERSION_CONFLICT, INVALID_OFFSET as the headers require.
    """
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
