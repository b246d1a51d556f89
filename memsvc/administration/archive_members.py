"""Reader of an archive's members, expanded and checked against their checksums."""

import gzip
import hashlib
import zlib
from collections.abc import Callable
from typing import BinaryIO, Final

from memsvc.administration.archive_format import (
    CHECKSUMS_A_MEMBER,
    END,
    HEAD_BYTES_MAX,
    End,
    checksums_name,
    end_of,
)
from memsvc.administration.archive_rows import wrong
from memsvc.core import tar
from memsvc.core.errors import Code, MemsvcError

_GZIP_PREFIX: Final = b"\x1f\x8b"


def expand(archive: BinaryIO, bytes_max: int) -> Callable[[int], bytes]:
    """Return a function that reads an archive from its beginning, compressed or not.

    It raises PAYLOAD_TOO_LARGE when the archive expands to more than this, however small it is, and
    INVALID_CONTENT when it cannot be expanded.
    """
    archive.seek(0)
    is_gzip = archive.read(len(_GZIP_PREFIX)) == _GZIP_PREFIX
    archive.seek(0)
    source: BinaryIO | gzip.GzipFile = (
        gzip.GzipFile(fileobj=archive, mode="rb") if is_gzip else archive
    )
    left_bytes = bytes_max

    def read(size_bytes: int) -> bytes:
        nonlocal left_bytes
        try:
            found = source.read(size_bytes)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise MemsvcError(
                Code.INVALID_CONTENT, "the archive cannot be expanded, or ends too early"
            ) from error
        left_bytes -= len(found)
        if left_bytes < 0:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE,
                f"an archive may hold {bytes_max} bytes when it is expanded",
                recovery="raise archives.expanded_bytes_max, or export project by project",
            )
        return found

    return read


class ArchiveMembers:
    """Members of an archive in order, without those that hold checksums.

    Read a member's content before the next member.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._reader = tar.TarReader(read)
        self._name: str | None = None
        self._digests: list[bytes] = []
        self._checksums: list[str] = []
        self._members = 0
        self._content_bytes = 0
        self.end: End | None = None
        """The last member's content, once `next` reached it."""

    def next(self) -> tar.Member | None:
        """Return the next member; None once all were read and matched the checksums."""
        if self._name is not None:
            self._close()
        member = self._member()
        if len(self._digests) == CHECKSUMS_A_MEMBER or (
            self._digests and member.name == checksums_name(self._parts + 1)
        ):
            self._check(member)
            member = self._member()
        if member.name == END:
            self._check_end(member)
            return None
        self._name, self._hash = member.name, hashlib.sha256()
        self._content_bytes += member.size_bytes
        return member

    def content(self, member: tar.Member, bytes_max: int) -> bytes:
        """Return the content of a member. PAYLOAD_TOO_LARGE if it exceeds the limit of its kind."""
        if member.size_bytes > bytes_max:
            raise MemsvcError(Code.PAYLOAD_TOO_LARGE, f"{member.name} may hold {bytes_max} bytes")
        return self.read(member.size_bytes)

    def read(self, size_bytes: int) -> bytes:
        """Return the next bytes of the member."""
        content = self._reader.read_bytes(size_bytes)
        self._hash.update(content)
        return content

    @property
    def _parts(self) -> int:
        return len(self._checksums)

    def _close(self) -> None:
        if self._reader.left_bytes:
            raise wrong(str(self._name), "holds more than it should")
        self._digests.append(f"{self._hash.hexdigest()}  {self._name}\n".encode())
        self._members += 1

    def _member(self) -> tar.Member:
        member = self._reader.member()
        if member is None:
            raise MemsvcError(
                Code.INVALID_CONTENT, f"the archive ends without {END}: it is not whole"
            )
        return member

    def _check(self, member: tar.Member) -> None:
        """Check that this member holds the sums of the members so far."""
        content = b"".join(self._digests)
        if member.name != checksums_name(self._parts + 1) or member.size_bytes != len(content):
            raise wrong(member.name, "stands where the checksums of the members before it belong")
        if self._reader.read_bytes(member.size_bytes) != content:
            raise wrong(
                member.name, "a member before it is not what it was when the archive was made"
            )
        self._checksums.append(hashlib.sha256(content).hexdigest())
        self._digests.clear()

    def _check_end(self, member: tar.Member) -> None:
        if self._digests:
            raise wrong(END, "stands before the checksums of all members")
        if member.size_bytes > HEAD_BYTES_MAX:
            raise wrong(END, "is too large")
        self.end = end_of(self._reader.read_bytes(member.size_bytes))
        expected = (self.end.members, self.end.content_bytes, self.end.checksums)
        if expected != (self._members, self._content_bytes, self._checksums):
            raise wrong(END, "tells of other members than there are")
        if self._reader.member() is not None:
            raise wrong(END, "is not the last member")
