"""Types of what the file tools take and return: content as text or base64, and preconditions."""

import base64
import binascii
import hashlib
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from memsvc.core.errors import (
    Code,
    MemsvcError,
    already_exists,
    invalid,
    invalid_content,
    invalid_offset,
    invalid_query,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_path
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import Arguments
from memsvc.store import files
from memsvc.store.database import Tx
from memsvc.store.files import File

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
                raise invalid_content("content is not valid Unicode text") from error
        case "base64":
            try:
                return base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError) as error:
                raise invalid_content("content is not valid base64") from error
        case _:
            raise invalid_query("content_encoding must be utf-8 or base64")


def text_range(raw: bytes, start: int, stop: int) -> str:
    """Return the text of a byte range; INVALID_OFFSET if an end falls inside a character."""
    if any(0 <= at < len(raw) and raw[at] & 0xC0 == 0x80 for at in (start, stop)):
        raise invalid_offset(
            "the range would split a multi-byte character; move its start or end by one or"
            " more bytes"
        )
    return raw[start:stop].decode("utf-8")


NO_FILE: Final = "the file does not exist"
LIST_FILES: Final = "list the existing files with file_list"
CHANGED = "file version changed; re-read the file and recompute the edit before retrying"


@frozen
class Precondition:
    """Required state of the file at a path: at a version, with this content, or absent."""

    expected_version: str | None = None
    content_sha256: str | None = None
    must_not_exist: bool = False

    @property
    def any(self) -> bool:
        """Return whether any condition is set."""
        return (
            self.must_not_exist
            or self.expected_version is not None
            or self.content_sha256 is not None
        )

    def validate(self) -> None:
        """Raise INVALID_ARGUMENT for conditions that exclude each other."""
        if self.must_not_exist and (
            self.expected_version is not None or self.content_sha256 is not None
        ):
            raise invalid(
                "a file that must not exist cannot have an expected version or content_sha256;"
                " remove one of these conditions",
            )

    async def check(self, tx: Tx, file: File | None) -> None:
        """Raise ALREADY_EXISTS or VERSION_CONFLICT where the file does not meet the conditions."""
        if file is not None and self.must_not_exist:
            raise already_exists("the file already exists")
        check_version(file, self.expected_version)
        if self.content_sha256 is not None and (
            file is None or (await content_hash(tx, file)).hex() != self.content_sha256.lower()
        ):
            raise MemsvcError(Code.VERSION_CONFLICT, CHANGED)


ANY_STATE = Precondition()


async def content_hash(tx: Tx, file: File) -> bytes:
    """Return the SHA-256 of a file's content, computed where the last write did not store it."""
    if file.sha256 is not None:
        return file.sha256
    return hashlib.sha256(await files.read(tx, file)).digest()


def check_version(file: File | None, expected_version: str | None) -> None:
    """Raise VERSION_CONFLICT unless the file is at the expected version, if one is set."""
    if expected_version is not None and (file is None or file.version != expected_version):
        raise MemsvcError(Code.VERSION_CONFLICT, CHANGED)


FilePath = Annotated[
    str,
    AfterValidator(check_path),
    Field(description="path such as /a/b.md; empty: root"),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
INTEGER_MAX: Final = 2**53
Integer = Annotated[int, Field(le=INTEGER_MAX)]


class FileArguments(Arguments):
    """Arguments that every file tool takes."""

    project: str = Field(description="project name")


file_tool = partial(
    tool,
    toolset="files",
    base=FileArguments,
    logs=(
        "path",
        "from_path",
        "to_path",
        "path_prefix",
        "mode",
        "content_encoding",
        "expected_version",
        "expected_destination_version",
        "content_sha256",
    ),
)


@result
class FileWrite:
    bytes_written: Annotated[int, "size of the written content, in bytes"]
    version: Annotated[
        str, "version token of the file after the call; empty if the file keeps no versions"
    ]
