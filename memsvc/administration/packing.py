"""Writer of archives: members framed as tar, with checksums, and optionally compressed."""

import hashlib
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

import anyio.to_thread

from memsvc.administration.archive_format import CHECKSUMS_A_MEMBER, END, End, checksums_name
from memsvc.core import tar

GATHERED_BYTES: Final = 256 * 1024
GZIP_LEVEL: Final = 4
_GZIP_WINDOW: Final = 31


class Packing:
    """Framing of the members of one archive, with the sums that `end.json` states."""

    def __init__(self, made_at_s: int) -> None:
        self._made_at_s = made_at_s
        self._sums: list[bytes] = []
        self._checksums: list[str] = []
        self._members = 0
        self._content_bytes = 0
        self.rows: Counter[str] = Counter()

    def whole(self, name: str, content: bytes) -> Iterator[bytes]:
        """Yield a member whose content is complete."""
        yield self.begin(name, len(content), self._made_at_s)
        yield self.holds(content)
        yield from self.end()

    def begin(self, name: str, size_bytes: int, modified_at_s: int) -> bytes:
        """Return the header of a member."""
        self._member, self._sum = tar.Member(name, size_bytes), hashlib.sha256()
        return tar.header(self._member, modified_at_s)

    def holds(self, content: bytes) -> bytes:
        """Return some of the member's content, added to its checksum."""
        self._sum.update(content)
        return content

    def end(self) -> Iterator[bytes]:
        """Yield the padding of the member, and sometimes a member of checksums after it."""
        yield tar.padding(self._member.size_bytes)
        self._members += 1
        self._content_bytes += self._member.size_bytes
        self._sums.append(f"{self._sum.hexdigest()}  {self._member.name}\n".encode())
        if len(self._sums) == CHECKSUMS_A_MEMBER:
            yield from self._told()

    def ending(self) -> Iterator[bytes]:
        """Yield what completes the archive."""
        if self._sums:
            yield from self._told()
        end = End(
            members=self._members,
            content_bytes=self._content_bytes,
            rows=dict(self.rows),
            checksums=self._checksums,
        )
        yield from self._unsummed(END, end.model_dump_json(indent=1).encode())
        yield tar.ENDING

    def _told(self) -> Iterator[bytes]:
        content = b"".join(self._sums)
        self._sums.clear()
        self._checksums.append(hashlib.sha256(content).hexdigest())
        yield from self._unsummed(checksums_name(len(self._checksums)), content)

    def _unsummed(self, name: str, content: bytes) -> Iterator[bytes]:
        yield tar.header(tar.Member(name, len(content)), self._made_at_s)
        yield content
        yield tar.padding(len(content))


async def gathered(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the same bytes in chunks that are worth sending."""
    waiting: list[bytes] = []
    size_bytes = 0
    async for piece in pieces:
        waiting.append(piece)
        size_bytes += len(piece)
        if size_bytes >= GATHERED_BYTES:
            yield b"".join(waiting)
            waiting.clear()
            size_bytes = 0
    if waiting:
        yield b"".join(waiting)


async def compressed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield these bytes in gzip, compressed in a thread."""
    packer = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WINDOW)
    async for piece in pieces:
        if packed := await anyio.to_thread.run_sync(packer.compress, piece):
            yield packed
    yield packer.flush()
