"""Past versions of files, listed, read and restored; and a file's bytes, up or down in chunks."""

import base64
import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.core.tools import OpenFile, StoredContent, Version
from memsvc.store import files as store
from memsvc.store import versions
from memsvc.store.database import Database
from memsvc.store.files import File
from memsvc.store.versions import FileRevision, FileState
from memsvc.styles.files.file_models import (
    Encoding,
    FilePath,
    FileWrite,
    Precondition,
    check_version,
    file_tool,
    is_text,
)
from memsvc.styles.files.file_store import FileStore
from memsvc.styles.files.file_writer import MODES, FileWriter, reject_kept_path
from memsvc.styles.files.options import FilesOptions

LIMIT_DEFAULT = 50
LIMIT_MAX = 200


@result
class PastVersion:
    id: Annotated[str, "the version token that the file had then: history_id of the other tools"]
    size: Annotated[int, "bytes"]
    created_at: Annotated[datetime, "when this content was written"]


@result
class PastVersions:
    versions: Annotated[list[PastVersion], "newest first; what the file is now is none of them"]
    has_more: Annotated[bool, "whether there are more behind the last one"]
    next_cursor: Annotated[str | None, "before_id of the next page, when there is one"] = None


@result
class PastContent:
    history_id: Annotated[str, "id of the version"]
    content: Annotated[str, "all its bytes, as text or as base64"]
    content_encoding: Annotated[Encoding, "base64 when they are not UTF-8 text"]
    size: Annotated[int, "bytes"]
    created_at: Annotated[datetime, "when this content was written"]


VersionId = Annotated[Version, "id of a version of the file at this path"]
history_tool = partial(file_tool, logs=("path", "expected_version", "history_id", "before_id"))


class FileHistory:
    """History of a path: of the file there now and of files deleted there but not purged.

    A file that is moved takes its history along."""

    def __init__(self, database: Database, writing: FileWriter) -> None:
        self._database = database
        self._writing = writing

    @history_tool("file_list_versions", title="List past versions", needs=Permission.READ)
    async def list_versions(
        self,
        scope: Scope,
        path: FilePath,
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "versions at the most"] = LIMIT_DEFAULT,
        before_id: Annotated[Version | None, "next_cursor of the page before"] = None,
    ) -> PastVersions:
        """List what a file was before, newest first, also after it was deleted."""
        _check_path(path)
        position = FileRevision.parse(before_id) if before_id is not None else None
        async with self._database.begin(scope, read_only=True) as tx:
            unknown = before_id is not None and position is None
            found = (
                None
                if unknown
                else await versions.history(tx, path, before=position, limit=limit + 1)
            )
            if found is None:
                raise _not_found()
            if not found and before_id is None and not await versions.is_known(tx, path):
                raise MemsvcError(Code.NOT_FOUND, "file not found")
        has_more = len(found) > limit
        return PastVersions(
            [PastVersion(one.version, one.size_bytes, one.created_at) for one in found[:limit]],
            has_more,
            found[limit - 1].version if has_more else None,
        )

    @history_tool("file_read_version", title="Read a past version", needs=Permission.READ)
    async def read_version(
        self, scope: Scope, path: FilePath, history_id: VersionId
    ) -> PastContent:
        """Read all that a file held at a version of its history."""
        state, content = await self._read(scope, path, history_id)
        text = is_text(content)
        return PastContent(
            state.version,
            content.decode() if text else base64.b64encode(content).decode(),
            "utf-8" if text else "base64",
            state.size_bytes,
            state.created_at,
        )

    @history_tool(
        "file_restore_version",
        title="Restore a past version",
        needs=Permission.WRITE,
        destructive=True,
    )
    async def restore_version(
        self,
        scope: Scope,
        path: FilePath,
        history_id: VersionId,
        expected_version: Annotated[
            Version | None, "restore only if the file is at this version now"
        ] = None,
        create_only: Annotated[bool, "restore only if there is no such file now"] = False,
    ) -> FileWrite:
        """Make a file what it was at a version of its history; what it is now becomes a version."""
        when = Precondition(expected_version, must_not_exist=create_only)
        _check_path(path)
        reject_kept_path(path)
        when.validate()
        _, content = await self._read(scope, path, history_id)
        return await self._writing.put(scope, path, content, mode="TRUNCATE", when=when)

    async def _read(self, scope: Scope, path: str, version: str) -> tuple[FileState, bytes]:
        _check_path(path)
        position = FileRevision.parse(version)
        async with self._database.begin(scope, read_only=True) as tx:
            state = await versions.state(tx, path, position) if position is not None else None
            if state is None:
                raise _not_found()
            return state, await versions.content(tx, state)


def _check_path(path: str) -> None:
    if path == ROOT:
        raise MemsvcError(Code.INVALID_PATH, "history requires an exact file path")


def _not_found() -> MemsvcError:
    return MemsvcError(
        Code.NOT_FOUND, "version not found", recovery="list the versions of the file that are kept"
    )


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
