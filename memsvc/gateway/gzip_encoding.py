"""Content codings: JSON responses are compressed for gzip clients; no compressed body is accepted.

Nothing here is exposed to BREACH: a page cannot make a browser send a key, and the console, which
has a cookie, is served outside of this.
"""

import asyncio
import gzip
import re
from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.core.errors import Code, MemsvcError
from memsvc.gateway.rest import error_response

GZIP_BYTES_MIN: Final = 16_384
"""A smaller response goes in one packet anyway."""
THREAD_BYTES_MIN: Final = 64 * 1024
"""A larger response is compressed outside of the event loop."""
LEVEL: Final = 1
"""Other levels make JSON hardly smaller and take up to five times as long."""
UNSUPPORTED_STATUS: Final = 415
Header = tuple[bytes, bytes]
VARY: Final[Header] = (b"vary", b"Accept-Encoding")
GZIP_HEADER: Final[Header] = (b"content-encoding", b"gzip")
_TAKES_GZIP: Final = re.compile(rb"(?<![\w-])gzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
_UNCHANGED_HEADERS: Final = frozenset({b"etag", b"content-encoding", b"content-range"})
"""Headers of responses that must not be changed: encoded already, partial, or with a strong entity
tag."""


def takes_gzip(scope: Scope) -> bool:
    """Return whether a client accepts a compressed response."""
    accepted = dict(scope["headers"]).get(b"accept-encoding", b"")
    return scope["method"] != "HEAD" and _TAKES_GZIP.search(accepted.lower()) is not None


class GzipEncoding:
    """ASGI: compresses JSON responses of one message, and answers 415 to encoded request bodies."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"identity", b""):
            error = MemsvcError(
                Code.INVALID_CONTENT,
                "an encoded request body is not taken",
                recovery="send it without Content-Encoding",
            )
            await error_response(error, scope, status=UNSUPPORTED_STATUS)(scope, receive, send)
            return
        use_gzip = takes_gzip(scope)
        pending: list[Message] = []

        async def send_encoded(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_json(message):
                pending.append(message)
                return
            if pending:
                start = pending.pop()
                body = message.get("body", b"")
                if not message.get("more_body", False) and len(body) >= GZIP_BYTES_MIN:
                    start, message = await _encoded(start, message, use_gzip=use_gzip)
                await send(start)
            await send(message)

        await self.app(scope, receive, send_encoded)


def _is_json(start: Message) -> bool:
    headers = dict(start.get("headers", ()))
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
    return not _UNCHANGED_HEADERS & headers.keys() and (
        media_type == b"application/json" or media_type.endswith(b"+json")
    )


async def _encoded(start: Message, message: Message, *, use_gzip: bool) -> tuple[Message, Message]:
    headers = [*start["headers"], VARY]
    if not use_gzip:
        return {**start, "headers": headers}, message
    body: bytes = message["body"]
    if len(body) >= THREAD_BYTES_MIN:
        body = await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
    else:
        body = gzip.compress(body, LEVEL, mtime=0)
    return {**start, "headers": with_length(headers, body, GZIP_HEADER)}, {**message, "body": body}


def with_length(headers: Sequence[Header], body: bytes, *more: Header) -> list[Header]:
    """Return the headers of a response with a changed body, and more."""
    headers_ = [header for header in headers if header[0] != b"content-length"]
    return [*headers_, (b"content-length", str(len(body)).encode()), *more]
