"""Preconditions that a caller may set on a file before it is read or changed."""

import hashlib
from dataclasses import dataclass

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import files
from memsvc.store.database import Tx
from memsvc.store.files import File

CHANGED = "file version changed; re-read the file and recompute the edit before retrying"


@dataclass(frozen=True, slots=True)
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
            raise MemsvcError(
                Code.INVALID_ARGUMENT,
                "a file that must not exist yet can have no expected version or content",
            )

    async def check(self, tx: Tx, file: File | None) -> None:
        """Raise ALREADY_EXISTS or VERSION_CONFLICT where the file does not meet the conditions."""
        if file is not None and self.must_not_exist:
            raise MemsvcError(Code.ALREADY_EXISTS, "the file exists already")
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
    return hashlib.sha256(await files.read(tx, file, 0, file.size_bytes)).digest()


def check_version(file: File | None, expected_version: str | None) -> None:
    """Raise VERSION_CONFLICT unless the file is at the expected version, if one is set."""
    if expected_version is not None and (file is None or file.version != expected_version):
        raise MemsvcError(Code.VERSION_CONFLICT, CHANGED)
