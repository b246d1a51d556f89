"""Files as bytes: whole uploads, and downloads in chunks of one fixed version."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Final, cast

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.scope import Scope
from memsvc.core.tools import OpenFile, StoredContent
from memsvc.store import files as store
from memsvc.store import versions
from memsvc.store.database import Database
from memsvc.store.files import File
from memsvc.store.versions import Position
from memsvc.styles.files.files import Files
from memsvc.styles.files.history_tools import ReadVersionArguments
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.preconditions import Precondition, check_version
from memsvc.styles.files.reading_tools import ReadArguments
from memsvc.styles.files.writing import Mode, Writing
from memsvc.styles.files.writing_tools import WriteArguments

PIECE_BYTES_MAX: Final = 1024 * 1024
_FIRST_REVISION: Final = ":1"


class Transfer:
    """File content for surfaces that carry bytes; only the size of a file limits a write."""

    def __init__(self, database: Database, options: FilesOptions, files: Files, writing: Writing) -> None:
        self._database = database
        self._options = options
        self._files = files
        self._writing = writing

    @property
    def bytes_max(self) -> int:
        """Return the size limit of one file."""
        return self._options.file_bytes_max

    async def open(self, scope: Scope, asked: ReadArguments) -> OpenFile:
        """Return the file as it is now. NOT_FOUND, IS_DIRECTORY, VERSION_CONFLICT."""
        entry = await self._files.stat(scope, asked.path)
        if entry is None:
            raise MemsvcError(Code.NOT_FOUND, "file not found")
        if entry.type == "DIRECTORY":
            raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")
        if entry.version is None:
            check_version(None, asked.expected_version)
            read = await self._files.read(scope, asked.path, offset=0, length=-1)
            content = read.content.encode()
            return OpenFile(
                path=asked.path,
                tag=f"sha256-{hashlib.sha256(content).hexdigest()}",
                size_bytes=len(content),
                is_text=True,
                updated_at=entry.updated_at,
                pieces=lambda start, stop: _pieces_of(content, start, stop),
            )
        async with self._database.begin(scope, read_only=True) as tx:
            file = await store.find(tx, asked.path)
        if file is None:
            raise MemsvcError(Code.NOT_FOUND, "file not found")
        check_version(file, asked.expected_version)
        return self._opened(scope, file)

    async def open_version(self, scope: Scope, asked: ReadVersionArguments) -> OpenFile:
        """Return a past version, as bytes, not as text. INVALID_PATH for the root, NOT_FOUND."""
        if asked.path == ROOT:
            raise MemsvcError(Code.INVALID_PATH, "history requires an exact file path")
        position = Position.parse(asked.history_id)
        async with self._database.begin(scope, read_only=True) as tx:
            state = await versions.state(tx, asked.path, position) if position is not None else None
        if state is None:
            raise MemsvcError(Code.NOT_FOUND, "version not found")
        at = state.created_at
        file = File(state.incarnation, asked.path, state.revision, state.stream, state.size_bytes, False, "", at, at)
        return self._opened(scope, file)

    async def put(self, scope: Scope, asked: WriteArguments, content: bytes) -> StoredContent:
        """Write content as `Writing.write` does, with its errors."""
        when = Precondition(asked.expected_version, asked.content_sha256, asked.create_only)
        mode = cast(Mode, asked.mode)  # the arguments model lets no other through
        written = await self._writing.write(scope, asked.path, content, mode=mode, offset=asked.offset, when=when)
        # only the change that creates a file makes its first revision; an empty append is no change
        created = written.version.endswith(_FIRST_REVISION) and (mode != "APPEND" or content != b"")
        return StoredContent(written.bytes_written, written.version, created)

    def _opened(self, scope: Scope, file: File) -> OpenFile:
        return OpenFile(
            path=file.path,
            tag=file.version,
            size_bytes=file.size_bytes,
            is_text=file.is_text,
            updated_at=file.updated_at,
            pieces=lambda start, stop: self._pieces(scope, file, start, stop),
        )

    async def _pieces(self, scope: Scope, file: File, start: int, stop: int) -> AsyncIterator[bytes]:
        """Yield bytes of a file, each chunk from its own transaction: slow readers lock nothing."""
        for low, high in _cut(start, stop):
            async with self._database.begin(scope, read_only=True) as tx:
                piece = await store.read(tx, file, low, high)
            if len(piece) != high - low:
                raise MemsvcError(Code.NOT_FOUND, "this version of the file is no longer kept")
            yield piece


async def _pieces_of(content: bytes, start: int, stop: int) -> AsyncIterator[bytes]:
    for low, high in _cut(start, stop):
        yield content[low:high]


def _cut(start: int, stop: int) -> Sequence[tuple[int, int]]:
    return [(low, min(low + PIECE_BYTES_MAX, stop)) for low in range(start, stop, PIECE_BYTES_MAX)]
