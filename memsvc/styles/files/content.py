"""File content as bytes and as it goes over the wire: UTF-8 text or base64."""

import base64
import binascii
from typing import Literal

from memsvc.core.errors import Code, MemsvcError

Encoding = Literal["utf-8", "base64"]


def is_text(content: bytes) -> bool:
    """Return whether the bytes are valid UTF-8 text."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def decode(content: str, encoding: str) -> bytes:
    """Return the bytes that a caller sent as text or as base64.

    INVALID_QUERY for another encoding, INVALID_CONTENT for invalid Unicode text or invalid
    base64."""
    match encoding.strip().lower():
        case "utf-8":
            try:
                return content.encode("utf-8")
            except UnicodeEncodeError as error:
                raise MemsvcError(
                    Code.INVALID_CONTENT, "content is not valid Unicode text"
                ) from error
        case "base64":
            try:
                return base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError) as error:
                raise MemsvcError(Code.INVALID_CONTENT, "content is not valid base64") from error
        case _:
            raise MemsvcError(Code.INVALID_QUERY, "content_encoding must be utf-8 or base64")


def text_range(raw: bytes, start: int, stop: int) -> str:
    """Return the text of a byte range; INVALID_OFFSET if an end falls inside a character."""
    if any(0 <= at < len(raw) and raw[at] & 0xC0 == 0x80 for at in (start, stop)):
        raise MemsvcError(
            Code.INVALID_OFFSET, "the range would split a character; move it by a byte or more"
        )
    return raw[start:stop].decode("utf-8")
