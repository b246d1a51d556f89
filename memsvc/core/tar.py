"""Tar format of archives (POSIX.1-2001): headers for any tar tool, and a strict reader.

Archives may come from anyone. So the reader accepts only plain files, no link, device, directory or
sparse file, keeps nothing of a member in memory, and reads once from the front to the end."""

import tarfile
from collections.abc import Callable
from typing import Final, NoReturn

from memsvc.core.errors import invalid_content
from memsvc.core.frozen import frozen

BLOCK_BYTES: Final = 512
ENDING: Final = b"\0" * (2 * BLOCK_BYTES)
"""Bytes after the last member."""
EXTENDED_HEADER_BYTES_MAX: Final = 16 * 1024

_PLAIN, _EXTENDED = b"0", b"x"
_SIGNATURE: Final = b"ustar\x0000"
_BLANK_SUM: Final = 8 * ord(" ")


@frozen
class Member:
    """A file of an archive: its name, and how many bytes follow."""

    name: str
    size_bytes: int


def header(member: Member, modified_at_s: int) -> bytes:
    """Return the header of a plain file; the time is in whole seconds since 1970."""
    written = tarfile.TarInfo(member.name)
    written.size, written.mtime, written.mode = member.size_bytes, max(modified_at_s, 0), 0o644
    return written.tobuf(tarfile.PAX_FORMAT, "ascii", "strict")


def padding(size_bytes: int) -> bytes:
    """Return the padding after a file of this size."""
    return b"\0" * (-size_bytes % BLOCK_BYTES)


class TarReader:
    """Reader of the members of an archive, one after the other.

    `read(n)` gives the next n bytes, fewer only at the end. INVALID_CONTENT for anything that is no
    such archive, or is truncated."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._left_bytes = 0
        self._padding_bytes = 0

    def member(self) -> Member | None:
        """Return the next member, None after the last one.

        The previous one must be read completely first."""
        if self._left_bytes:
            raise ValueError("the previous file in the archive was not read to its end")
        if self._read_exact(self._padding_bytes).strip(b"\0"):
            _fail("unexpected data between two archive members")
        self._padding_bytes = 0
        raw = self._read_exact(BLOCK_BYTES)
        if not raw.strip(b"\0"):
            self._check_ending()
            return None
        kind, name, size_bytes = _parsed(raw)
        if kind == _EXTENDED:
            if size_bytes > EXTENDED_HEADER_BYTES_MAX:
                _fail("an extended header of the archive is too large")
            records = self._read_exact(size_bytes)
            self._read_exact(len(padding(size_bytes)))
            kind, _, size_bytes = _parsed(self._read_exact(BLOCK_BYTES))
            name = _path_of(records)
        if kind != _PLAIN:
            _fail(
                "the archive contains links, devices or directories; only plain files are allowed"
            )
        self._left_bytes, self._padding_bytes = size_bytes, len(padding(size_bytes))
        return Member(name, size_bytes)

    def read_bytes(self, size_bytes: int) -> bytes:
        """Return exactly the next bytes of the member."""
        if size_bytes > self._left_bytes:
            _fail("an archive member is shorter than expected")
        self._left_bytes -= size_bytes
        return self._read_exact(size_bytes)

    @property
    def left_bytes(self) -> int:
        """Return how many bytes of the member are still unread."""
        return self._left_bytes

    def _read_exact(self, size_bytes: int) -> bytes:
        found = self._read(size_bytes) if size_bytes else b""
        if len(found) != size_bytes:
            _fail("the archive is incomplete")
        return found

    def _check_ending(self) -> None:
        if self._read_exact(BLOCK_BYTES).strip(b"\0"):
            _fail("unexpected data after the end of the archive")
        while rest := self._read(64 * 1024):  # tools pad to a record of 10 KiB
            if rest.strip(b"\0"):
                _fail("unexpected data after the end of the archive")


def _parsed(raw: bytes) -> tuple[bytes, str, int]:
    """Return the kind, the name and the size in a header."""
    total = sum(raw) - sum(raw[148:156]) + _BLANK_SUM
    if raw[257:265] != _SIGNATURE or _number(raw[148:156]) != total:
        _fail("this is not a tar archive in the format that memsvc writes")
    parts = [raw[345:500].partition(b"\0")[0], raw[:100].partition(b"\0")[0]]
    return raw[156:157], _name(b"/".join(part for part in parts if part)), _number(raw[124:136])


def _number(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits.isdigit() or digits.strip(b"01234567"):
        _fail("a header of the archive has an invalid number")
    return int(digits, 8)


def _name(raw: bytes) -> str:
    if not raw.isascii():
        _fail("the name of an archive member is not ASCII")
    return raw.decode()


def _path_of(records: bytes) -> str:
    """Return the name in an extended header, which may hold nothing else."""
    size, _, record = records.partition(b" ")
    name, _, path = record.partition(b"=")
    if size != str(len(records)).encode() or name != b"path" or path[-1:] != b"\n" or b"\0" in path:
        _fail("an extended header of the archive must contain a file path and nothing else")
    return _name(path[:-1])


def _fail(message: str) -> NoReturn:
    raise invalid_content(message)
