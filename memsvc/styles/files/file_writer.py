"""Writes, deletes and moves of files, each whole or not at all, and their maintenance."""

import hashlib
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, assert_never, get_args

from pydantic import AfterValidator

from memsvc.core.errors import (
    Code,
    MemsvcError,
    already_exists,
    invalid,
    invalid_offset,
    invalid_path,
    not_found,
    payload_too_large,
    permission_denied,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import KEPT_ROOTS, PATH_BYTES_MAX, ROOT, is_kept
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.secrets import PolicyOptions
from memsvc.core.tool_methods import result
from memsvc.core.tools import Job, Version, Views
from memsvc.store import documents, file_gc, files, tree, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.files import File, FileMovedError
from memsvc.store.index import index_id_of
from memsvc.store.locks import TREE_LOCK
from memsvc.store.ownership import OwnerData
from memsvc.store.usage import add_bytes
from memsvc.styles.files.file_store import (
    ANY_STATE,
    CHANGED,
    LIST_FILES,
    FilePath,
    FileWrite,
    Integer,
    Precondition,
    Sha256,
    content_hash,
    decode,
    file_tool,
    is_text,
)
from memsvc.styles.files.file_summaries import SUMMARISE_JOB
from memsvc.styles.files.indexing import (
    AT_ONCE_BYTES,
    FILE_INDEX,
    INDEX_JOB,
    RENAME_JOB,
    FileChange,
    FileIndex,
)
from memsvc.styles.files.options import FilesOptions


async def write_rendered(
    view: Views, scope: Scope, path: str, content: bytes, *, whole: bool, when: Precondition
) -> None:
    """Pass the new content of a rendered file to the style behind a view.

    INVALID_ARGUMENT unless the write is `whole`, ALREADY_EXISTS or VERSION_CONFLICT (`when`; such a
    file has no versions), or the style's own errors."""
    if not whole:
        raise invalid(
            "this file can only be written as a whole",
            recovery="use mode TRUNCATE",
        )
    if when.any:
        when.validate()
        current = await view.read(scope, path)
        if current is not None and when.must_not_exist:
            raise already_exists("the file already exists")
        same = (
            current is not None
            and hashlib.sha256(current.content).hexdigest() == (when.content_sha256 or "").lower()
        )
        if when.expected_version is not None or (when.content_sha256 is not None and not same):
            raise MemsvcError(Code.VERSION_CONFLICT, CHANGED)
    await view.write(scope, path, content)


Mode = Literal["APPEND", "OVERWRITE", "TRUNCATE"]
MODES: Final[dict[str, Mode]] = {mode: mode for mode in get_args(Mode)}
DEFAULT_POLICY: Final = PolicyOptions()
ATTEMPTS_MAX: Final = 20
"""How often a write is retried because its file was moved or deleted while it waited."""
_KEPT_PATHS = ", ".join(KEPT_ROOTS)


def write_mode(value: str) -> str:
    """Return the mode of a write in capitals; INVALID_OFFSET for another one."""
    mode = value.strip().upper()
    if mode not in MODES:
        raise invalid_offset("mode must be APPEND, OVERWRITE or TRUNCATE")
    return mode


@result
class FileDeletion:
    deleted_count: Annotated[int, "number of files deleted"]


@result
class FileMove:
    moved_count: Annotated[int, "number of files moved; 0 if both paths are the same"]


@frozen
class FileWriter:
    """The file store as callers change it."""

    database: Database
    clock: Clock
    options: FilesOptions
    indexing: FileIndex
    views: Sequence[Views] = ()
    policy: PolicyOptions = DEFAULT_POLICY

    @file_tool("file_write", "Write a file", Permission.WRITE, for_agents=True, for_hosts=True)
    async def write(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        path: FilePath,
        *,
        content: Annotated[str, "text to write"],
        content_encoding: Annotated[str, "utf-8 or base64"] = "utf-8",
        offset: Annotated[Integer, "OVERWRITE starts at this byte"] = 0,
        mode: Annotated[
            str,
            AfterValidator(write_mode),
            "APPEND, OVERWRITE (at offset) or TRUNCATE (replace all)",
        ] = "APPEND",
        expected_version: Annotated[Version | None, "fail unless the file has this version"] = None,
        content_sha256: Annotated[Sha256 | None, "fail unless the file has this SHA-256"] = None,
        create_only: Annotated[bool, "fail if the file exists"] = False,
    ) -> FileWrite:
        """Call this to save text in a file: append, overwrite or replace. Old versions are kept."""
        return await self.put(
            scope,
            path,
            decode(content, content_encoding),
            mode=MODES[mode],
            offset=offset,
            when=Precondition(expected_version, content_sha256, create_only),
        )

    async def put(
        self,
        scope: Scope,
        path: str,
        content: bytes,
        *,
        mode: Mode,
        offset: int = 0,
        when: Precondition = ANY_STATE,
    ) -> FileWrite:
        """Write a file, whole or not at all, and index it.

        PAYLOAD_TOO_LARGE, QUOTA_EXCEEDED, NOT_DIRECTORY, IS_DIRECTORY, INVALID_OFFSET,
        VERSION_CONFLICT or ALREADY_EXISTS (`when`), or PERMISSION_DENIED where the memory keeps its
        own files. A TRUNCATE that requires a content by its hash, but no version, and finds its own
        content already there succeeds and changes nothing, so that it can be retried. Secrets in a
        text are masked, or SECRET_REFUSED, as the project's policy says."""
        if self.policy.of(scope.project) != "keep" and is_text(content):
            content = (await self.policy.applied(scope.project, content.decode())).encode()
        for view in self.views:
            if view.accepts(path):
                await write_rendered(
                    view, scope, path, content, whole=mode == "TRUNCATE", when=when
                )
                return FileWrite(len(content), "")
        request = _Write(path, content, mode, offset, when)
        request.validate(self.options)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                async with self.database.begin(scope) as tx:
                    version = await self._apply(tx, request)
                return FileWrite(len(content), version)
            except MemsvcError as error:
                was_created = error.code is Code.ALREADY_EXISTS and not when.must_not_exist
                is_final = not (was_created or isinstance(error, FileMovedError))
                if is_final or attempt == ATTEMPTS_MAX:
                    raise
        raise AssertionError("the last attempt always returns or raises")

    @file_tool(
        "file_delete",
        "Delete a file",
        Permission.WRITE,
        over_quota=True,
        destructive=True,
    )
    async def delete(
        self,
        scope: Scope,
        path: FilePath = "",
        recursive: Annotated[bool, "required to delete a directory that is not empty"] = False,
        expected_version: Annotated[
            Version | None, "delete only if the file is at this version"
        ] = None,
        content_sha256: Annotated[
            Sha256 | None, "delete only if the file's content has this SHA-256"
        ] = None,
    ) -> FileDeletion:
        """Delete a file, or (with recursive) a directory and everything in it."""
        when = Precondition(expected_version, content_sha256)
        if path == ROOT:
            raise permission_denied("the root directory cannot be deleted")
        reject_kept_path(path)
        async with self.database.begin(scope, locks=[TREE_LOCK]) as tx:
            file = await files.find(tx, path, for_update=True)
            await when.check(tx, file)
            now = self.clock.now()
            deep = recursive and file is None
            at_once = 0 if deep else AT_ONCE_BYTES
            deleted, size_bytes = await files.delete(
                tx, path, recursive=deep, now=now, keep_style_files=True, index_bytes_max=at_once
            )
            if not deleted and await tree.are_directories(tx, [path]):
                raise MemsvcError(
                    Code.NOT_EMPTY,
                    "the directory is not empty",
                    recovery="set recursive to true to delete the directory with everything in it",
                )
            if not deleted:
                raise not_found(f"the file or directory {path} does not exist", recovery=LIST_FILES)
            if file is not None:
                await self.indexing.file_deleted(tx, file)
            else:
                await self.indexing.files_deleted(tx)
            await self._update_usage(tx, -size_bytes, now)
        return FileDeletion(deleted)

    @file_tool(
        "file_rename",
        "Rename or move a file",
        Permission.WRITE,
        over_quota=True,
        destructive=True,
        removes=lambda args: args.overwrite,
    )
    async def rename(
        self,
        scope: Scope,
        from_path: Annotated[FilePath, "the file or directory to move"],
        to_path: Annotated[FilePath, "new path"],
        *,
        overwrite: Annotated[bool, "replace an existing file at to_path"] = False,
        expected_version: Annotated[
            Version | None, "move only if the file is at this version"
        ] = None,
        content_sha256: Annotated[
            Sha256 | None, "move only if the file's content has this SHA-256"
        ] = None,
        expected_destination_version: Annotated[
            Version | None, "move only if the file at to_path is at this version"
        ] = None,
        destination_must_not_exist: Annotated[bool, "move only if to_path does not exist"] = False,
    ) -> FileMove:
        """Rename or move a file, or a directory with everything in it. History moves too."""
        when = Precondition(expected_version, content_sha256)
        destination_when = Precondition(
            expected_destination_version, must_not_exist=destination_must_not_exist
        )
        source, destination = from_path, to_path
        for path in (source, destination):
            if path == ROOT:
                raise invalid_path("the root directory cannot be moved or replaced")
            reject_kept_path(path)
        destination_when.validate()
        async with self.database.begin(scope, locks=[TREE_LOCK]) as tx:
            file = await files.find(tx, source, for_update=True)
            if file is None and not await tree.are_directories(tx, [source]):
                raise not_found(
                    f"the file or directory {source} does not exist", recovery=LIST_FILES
                )
            await when.check(tx, file)
            if source == destination:
                return FileMove(0)
            if file is None and destination.startswith(source + "/"):
                raise invalid_path("a directory cannot be moved into itself")
            replaced = await files.find(tx, destination, for_update=True)
            await destination_when.check(tx, replaced)
            if replaced is not None and file is not None and overwrite:
                await files.delete(
                    tx,
                    destination,
                    recursive=False,
                    now=self.clock.now(),
                    keep_style_files=True,
                    index_bytes_max=AT_ONCE_BYTES,
                )
                await self.indexing.file_deleted(tx, replaced)
            moved = await _move(tx, source, destination)
            await self.indexing.file_moved(
                tx, replace(file, path=destination) if file else destination
            )
            if replaced is not None:
                await self._update_usage(tx, -replaced.size_bytes, self.clock.now())
        return FileMove(moved)

    async def _apply(self, tx: Tx, request: "_Write") -> str:
        """Check a write against the file at its path, if any, and apply it; return the version."""
        file = await files.find(tx, request.path, for_update=True)
        if file is not None and file.owner:
            raise permission_denied(
                "this file is generated from memory and cannot be written directly"
            )
        if file is not None and await _is_applied(tx, file, request):
            return file.version
        await request.when.check(tx, file)
        if file is not None and request.mode == "APPEND" and not request.content:
            return file.version
        now, size_bytes = self.clock.now(), file.size_bytes if file else 0
        whole = await _whole_content(tx, file, request)
        delta_bytes = len(request.content) if whole is None else len(whole) - size_bytes
        if size_bytes + delta_bytes > self.options.file_bytes_max:
            raise payload_too_large(f"a file is limited to {self.options.file_bytes_max} bytes")
        change = FileChange(whole, request.content)
        text_only = is_text(request.content if whole is None else whole)
        if whole is None:
            assert file is not None
            indexed_bytes = change.indexed_bytes(file, is_text=file.is_text and text_only)
            written = await files.append(
                tx, file, request.content, is_text=text_only, now=now, indexed_bytes=indexed_bytes
            )
        else:
            indexed_bytes = change.indexed_bytes(file, is_text=text_only)
            written = await files.put(
                *(tx, request.path, file, whole),
                is_text=text_only,
                owner="",
                now=now,
                indexed_bytes=indexed_bytes,
            )
        await self.indexing.file_written(tx, file, written, change)
        await self._update_usage(tx, delta_bytes, now)
        return written.version

    async def _update_usage(self, tx: Tx, delta_bytes: int, now: datetime) -> None:
        await add_bytes(
            tx,
            delta_bytes,
            project_bytes_max=self.options.project_bytes_max,
            tenant_bytes_max=self.options.tenant_bytes_max,
            now=now,
        )


@frozen
class _Write:
    path: str
    content: bytes
    mode: Mode
    offset: int
    when: Precondition

    def validate(self, options: FilesOptions) -> None:
        """Raise what no state of the file can allow."""
        if self.path == ROOT:
            raise invalid_path("the path must name a file, not the root")
        reject_kept_path(self.path)
        self.when.validate()
        if len(self.content) > options.payload_bytes_max:
            raise payload_too_large(
                f"one write is limited to {options.payload_bytes_max} bytes",
            )
        if self.offset < 0 or (self.mode == "TRUNCATE" and self.offset != 0):
            raise invalid_offset("offset must be 0 with TRUNCATE, and must not be negative")


async def _is_applied(tx: Tx, file: File, request: _Write) -> bool:
    """Return whether a write conditional on content finds its own result there."""
    by_content = request.mode == "TRUNCATE" and request.when.content_sha256 is not None
    if (
        not by_content
        or request.when.expected_version is not None
        or file.size_bytes != len(request.content)
    ):
        return False
    return await content_hash(tx, file) == hashlib.sha256(request.content).digest()


async def _whole_content(tx: Tx, file: File | None, request: _Write) -> bytes | None:
    """Return the whole new content, or None when the content is simply appended."""
    if file is None:
        if request.mode == "OVERWRITE" and request.offset > 0:
            raise invalid_offset("offset is beyond the end of the file")
        return request.content
    match request.mode:
        case "APPEND":
            return None
        case "TRUNCATE":
            return request.content
        case "OVERWRITE":
            if request.offset > file.size_bytes:
                raise invalid_offset("offset is beyond the end of the file")
            if request.offset == file.size_bytes and request.content:
                return None
            old = await files.read(tx, file)
            whole = (
                old[: request.offset]
                + request.content
                + old[request.offset + len(request.content) :]
            )
            if file.is_text and is_text(request.content) and not is_text(whole):
                raise invalid_offset(
                    "this write would overwrite only a part of a multi-byte character; change"
                    " offset or the length of content"
                )
            return whole
        case _:
            assert_never(request.mode)


async def _move(tx: Tx, source: str, destination: str) -> int:
    try:
        await files.check_destination(tx, destination)
    except MemsvcError as error:
        if error.code is not Code.IS_DIRECTORY:
            raise
        raise already_exists("the destination path is an existing directory") from error
    moved = await files.move(tx, source, destination)
    if moved.any_owned:
        raise permission_denied("files that the server generates from memory cannot be moved")
    if moved.path_bytes > PATH_BYTES_MAX:
        raise invalid_path(f"after the move, a path would be longer than {PATH_BYTES_MAX} bytes")
    return moved.files


def reject_kept_path(path: str) -> None:
    """Raise PERMISSION_DENIED where the memory keeps its own files."""
    if is_kept(path):
        raise permission_denied(
            "this path is reserved for files that the server generates from memory",
            recovery="write the file outside of " + _KEPT_PATHS,
        )


PURGE_JOB = "files.purge"
INTERVAL_S = 6 * 60 * 60
FILES_A_STEP = 200
BLOCKS_A_STEP = 500
CHUNKS_A_STEP = 128


@frozen
class FileMaintenance:
    """Maintenance in short transactions, each of which leaves the files consistent.

    It may be killed and restarted anywhere, and run concurrently with any other call and with
    itself. `owner_versions` gives by owner how many versions of a style's file are kept."""

    database: Database
    clock: Clock
    options: FilesOptions
    owner_versions: Mapping[str, int] | None = None

    @property
    def jobs(self) -> list[Job]:
        """Return the jobs of this style."""
        return [Job(PURGE_JOB, self.run, interval_s=INTERVAL_S)]

    async def run(self, scope: Scope, subject: str = "") -> None:
        """Purge what is past its retention; content never changes.

        Files deleted longer ago than `delete_retention_days` go, and past versions that are neither
        among the newest `versions_kept` of a caller's file nor were replaced within
        `versions_days`. A style's own files keep as many of the newest as the style wants, besides
        those of the last `versions_days`. Vectors of removed chunks go too."""
        del subject  # always the whole project
        now = self.clock.now()
        keep = file_gc.FileRetention(
            cutoff=now - timedelta(days=self.options.versions_days),
            past_states=self.options.versions_kept,
            style_past_states=self.owner_versions or {},
            deleted_before=now - timedelta(days=self.options.delete_retention_days),
        )
        after = uuid.UUID(int=0)
        while True:
            async with self.database.begin_read(scope) as tx:
                files = await file_gc.files_to_collect(tx, keep, after=after, limit=FILES_A_STEP)
            for file in files:
                if file.gone:
                    await self._remove(scope, file)
                elif file.prune:
                    await self._prune(scope, file.file_id, keep)
            if len(files) < FILES_A_STEP:
                break
            after = files[-1].file_id
        async with self.database.begin(scope) as tx:
            await vectors.prune(tx, index_id_of(FILE_INDEX))

    async def _remove(self, scope: Scope, file: file_gc.FileWork) -> None:
        """Remove a deleted file with all its content."""
        async with self.database.begin(scope) as tx:
            if not await file_gc.lock_file(tx, file.file_id):
                return
            await file_gc.hide_all(tx, file.file_id)
        while file.indexed:
            async with self.database.begin(scope) as tx:
                chunks = await documents.list_chunks(
                    tx, FILE_INDEX, file.file_id.hex, limit=CHUNKS_A_STEP
                )
                await documents.remove(tx, FILE_INDEX, chunks)
                if not chunks:
                    break
        await self._delete_hidden(scope, file.file_id)
        async with self.database.begin(scope) as tx:
            await file_gc.forget(tx, file.file_id)

    async def _prune(self, scope: Scope, file_id: uuid.UUID, keep: file_gc.FileRetention) -> None:
        """Remove a file's expired states, and merge blocks that no remaining state ends between."""
        async with self.database.begin(scope) as tx:
            if await file_gc.lock_file(tx, file_id):
                await file_gc.hide_old(tx, file_id, keep)
        await self._delete_hidden(scope, file_id)
        start: int | None = 0
        while start is not None:
            async with self.database.begin(scope) as tx:
                start = (
                    await file_gc.merge(tx, file_id, after=start)
                    if await file_gc.lock_file(tx, file_id)
                    else None
                )

    async def _delete_hidden(self, scope: Scope, file_id: uuid.UUID) -> None:
        """Delete the hidden blocks of a file."""
        complete = False
        while not complete:
            async with self.database.begin(scope) as tx:
                locked = await file_gc.lock_file(tx, file_id)
                complete = not locked or await file_gc.sweep(tx, file_id, limit=BLOCKS_A_STEP)


async def files_at(scope: Scope, path: str) -> AsyncIterator[OwnerData]:
    """Yield the file at a path or the files in a directory, live or deleted, with all versions.

    PERMISSION_DENIED for the root, which is a project, and for paths where the memory keeps its
    own files."""
    del scope
    if path == ROOT:
        raise permission_denied(
            "the root directory cannot be purged by its path, because it is the whole"
            " project: purge the project instead"
        )
    reject_kept_path(path)
    yield OwnerData(
        directories=(path,),
        documents_index=FILE_INDEX,
        file_jobs=(INDEX_JOB, SUMMARISE_JOB),
        jobs=((RENAME_JOB, path),),
    )
