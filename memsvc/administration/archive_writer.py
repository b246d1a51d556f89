"""Writer of archives: members framed as tar, with checksums, and optionally compressed."""

import hashlib
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

import anyio.to_thread

from memsvc.administration.archive_format import CHECKSUMS_A_MEMBER, END, End, checksums_name
from memsvc.core import tar

CHUNK_BYTES: Final = 256 * 1024
GZIP_LEVEL: Final = 4
_GZIP_WINDOW: Final = 31


class ArchiveWriter:
    """Framing of the members of one archive, with the sums that `end.json` states."""

    def __init__(self, made_at_s: int) -> None:
        self._made_at_s = made_at_s
        self._digests: list[bytes] = []
        self._checksums: list[str] = []
        self._members = 0
        self._content_bytes = 0
        self.rows: Counter[str] = Counter()

    def member(self, name: str, content: bytes) -> Iterator[bytes]:
        """Yield a member whose content is complete."""
        yield self.begin(name, len(content), self._made_at_s)
        yield self.content(content)
        yield from self.end()

    def begin(self, name: str, size_bytes: int, modified_at_s: int) -> bytes:
        """Return the header of a member."""
        self._member, self._hash = tar.Member(name, size_bytes), hashlib.sha256()
        return tar.header(self._member, modified_at_s)

    def content(self, content: bytes) -> bytes:
        """Return some of the member's content, added to its checksum."""
        self._hash.update(content)
        return content

    def end(self) -> Iterator[bytes]:
        """Yield the padding of the member, and sometimes a member of checksums after it."""
        yield tar.padding(self._member.size_bytes)
        self._members += 1
        self._content_bytes += self._member.size_bytes
        self._digests.append(f"{self._hash.hexdigest()}  {self._member.name}\n".encode())
        if len(self._digests) == CHECKSUMS_A_MEMBER:
            yield from self._checksums_member()

    def finish(self) -> Iterator[bytes]:
        """Yield what completes the archive."""
        if self._digests:
            yield from self._checksums_member()
        end = End(
            members=self._members,
            content_bytes=self._content_bytes,
            rows=dict(self.rows),
            checksums=self._checksums,
        )
        yield from self._plain_member(END, end.model_dump_json(indent=1).encode())
        yield tar.ENDING

    def _checksums_member(self) -> Iterator[bytes]:
        content = b"".join(self._digests)
        self._digests.clear()
        self._checksums.append(hashlib.sha256(content).hexdigest())
        yield from self._plain_member(checksums_name(len(self._checksums)), content)

    def _plain_member(self, name: str, content: bytes) -> Iterator[bytes]:
        yield tar.header(tar.Member(name, len(content)), self._made_at_s)
        yield content
        yield tar.padding(len(content))


async def in_chunks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the same bytes in chunks that are worth sending."""
    pending: list[bytes] = []
    size_bytes = 0
    async for chunk in chunks:
        pending.append(chunk)
        size_bytes += len(chunk)
        if size_bytes >= CHUNK_BYTES:
            yield b"".join(pending)
            pending.clear()
            size_bytes = 0
    if pending:
        yield b"".join(pending)


async def compress(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield these bytes in gzip, compressed in a thread."""
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WINDOW)
    async for chunk in chunks:
        if output := await anyio.to_thread.run_sync(compressor.compress, chunk):
            yield output
    yield compressor.flush()
