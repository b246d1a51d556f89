"""Files as bytes: whole uploads, and downloads in chunks of one fixed version."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.scope import Scope
from memsvc.core.tools import OpenFile, StoredContent
from memsvc.store import files as store
from memsvc.store import versions
from memsvc.store.database import Database
from memsvc.store.files import File
from memsvc.store.versions import FileRevision
from memsvc.styles.files.file_store import FileStore
from memsvc.styles.files.file_writer import MODES, FileWriter
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.precondition import Precondition, check_version

CHUNK_BYTES_MAX: Final = 1024 * 1024
_FIRST_REVISION: Final = ":1"


class Transfer:
    """File content for surfaces that carry bytes; only the size of a file limits a write.

    `args` are the arguments of file_read, file_read_version and file_write."""

    def __init__(
        self, database: Database, options: FilesOptions, files: FileStore, writing: FileWriter
    ) -> None:
        self._database = database
        self._options = options
        self._files = files
        self._writing = writing

    @property
    def bytes_max(self) -> int:
        """Return the size limit of one file."""
        return self._options.file_bytes_max

    async def open(self, scope: Scope, args: Any) -> OpenFile:
        """Return the file as it is now. NOT_FOUND, IS_DIRECTORY, VERSION_CONFLICT."""
        entry = await self._files.entry(scope, args.path)
        if entry is None:
            raise MemsvcError(Code.NOT_FOUND, "file not found")
        if entry.type == "DIRECTORY":
            raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")
        if entry.version is None:
            check_version(None, args.expected_version)
            read = await self._files.read(scope, args.path)
            content = read.content.encode()
            return OpenFile(
                path=args.path,
                tag=f"sha256-{hashlib.sha256(content).hexdigest()}",
                size_bytes=len(content),
                is_text=True,
                updated_at=entry.updated_at,
                chunks=lambda start, stop: _split_content(content, start, stop),
            )
        async with self._database.begin(scope, read_only=True) as tx:
            file = await store.find(tx, args.path)
        if file is None:
            raise MemsvcError(Code.NOT_FOUND, "file not found")
        check_version(file, args.expected_version)
        return self._open_file(scope, file)

    async def open_version(self, scope: Scope, args: Any) -> OpenFile:
        """Return a past version, as bytes, not as text. INVALID_PATH for the root, NOT_FOUND."""
        if args.path == ROOT:
            raise MemsvcError(Code.INVALID_PATH, "history requires an exact file path")
        position = FileRevision.parse(args.history_id)
        async with self._database.begin(scope, read_only=True) as tx:
            state = await versions.state(tx, args.path, position) if position is not None else None
        if state is None:
            raise MemsvcError(Code.NOT_FOUND, "version not found")
        at = state.created_at
        file = File(
            state.incarnation,
            args.path,
            state.revision,
            state.stream,
            state.size_bytes,
            False,
            "",
            at,
            at,
        )
        return self._open_file(scope, file)

    async def put(self, scope: Scope, args: Any, content: bytes) -> StoredContent:
        """Write content as `FileWriter.put` does, with its errors."""
        when = Precondition(args.expected_version, args.content_sha256, args.create_only)
        mode = MODES[args.mode]
        written = await self._writing.put(
            scope, args.path, content, mode=mode, offset=args.offset, when=when
        )
        # only the change that creates a file makes its first revision; an empty append is no change
        created = written.version.endswith(_FIRST_REVISION) and (mode != "APPEND" or content != b"")
        return StoredContent(written.bytes_written, written.version, created)

    def _open_file(self, scope: Scope, file: File) -> OpenFile:
        return OpenFile(
            path=file.path,
            tag=file.version,
            size_bytes=file.size_bytes,
            is_text=file.is_text,
            updated_at=file.updated_at,
            chunks=lambda start, stop: self._read_chunks(scope, file, start, stop),
        )

    async def _read_chunks(
        self, scope: Scope, file: File, start: int, stop: int
    ) -> AsyncIterator[bytes]:
        """Yield bytes of a file, each chunk from its own transaction: slow readers lock nothing."""
        for low, high in _chunk_ranges(start, stop):
            async with self._database.begin(scope, read_only=True) as tx:
                chunk = await store.read(tx, file, low, high)
            if len(chunk) != high - low:
                raise MemsvcError(Code.NOT_FOUND, "this version of the file is no longer kept")
            yield chunk


async def _split_content(content: bytes, start: int, stop: int) -> AsyncIterator[bytes]:
    for low, high in _chunk_ranges(start, stop):
        yield content[low:high]


def _chunk_ranges(start: int, stop: int) -> Sequence[tuple[int, int]]:
    return [(low, min(low + CHUNK_BYTES_MAX, stop)) for low in range(start, stop, CHUNK_BYTES_MAX)]
