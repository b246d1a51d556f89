"""Writes, deletes and moves of files, each whole or not at all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, assert_never

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import files as store
from memsvc.store.database import Database, Tx
from memsvc.store.locks import TREE_LOCK
from memsvc.styles.files.content import is_utf8
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.preconditions import check_version

Mode = Literal["APPEND", "OVERWRITE", "TRUNCATE"]
KEPT_ROOTS = ("/memory", "/whiteboard", "/notebook")
"""Where the memory itself keeps its files: callers may read there, and write anywhere else."""
_KEPT_TOLD = ", ".join(KEPT_ROOTS)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did."""

    bytes_written: int
    version: str


class Writing:
    """The file store as callers change it."""

    def __init__(self, database: Database, clock: Clock, options: FilesOptions) -> None:
        self._database = database
        self._clock = clock
        self._options = options

    async def write(
        self,
        scope: Scope,
        path: str,
        content: bytes,
        *,
        mode: Mode,
        offset: int = 0,
        expected_version: str | None = None,
        create_only: bool = False,
    ) -> Written:
        """Write a file, whole or not at all. PAYLOAD_TOO_LARGE, QUOTA_EXCEEDED, NOT_DIRECTORY, IS_DIRECTORY,
        INVALID_OFFSET, VERSION_CONFLICT, ALREADY_EXISTS (`create_only`), or PERMISSION_DENIED where the memory itself
        keeps its files."""
        wanted = _Write(path, content, mode, offset, expected_version, create_only)
        self._check_write(wanted)
        async with self._database.begin(scope) as tx:
            file = await store.find(tx, path, for_update=True)
            try:
                version = await self._put(tx, file, wanted)
            except MemsvcError as error:
                if error.code is not Code.ALREADY_EXISTS or create_only:
                    raise
                # made by somebody else meanwhile; whoever tried to make it holds the tree, so there it stays
                version = await self._put(tx, await store.find(tx, path, for_update=True), wanted)
        return Written(len(content), version)

    async def delete(self, scope: Scope, path: str, *, recursive: bool, expected_version: str | None = None) -> int:
        """Delete a file, or a directory with all that is in it; how many files went. NOT_FOUND, NOT_EMPTY for a
        directory without `recursive`, VERSION_CONFLICT unless a file at `expected_version` is there, PERMISSION_DENIED
        for the root and for what the memory itself keeps."""
        if path == ROOT:
            raise MemsvcError(Code.PERMISSION_DENIED, "root directory cannot be deleted")
        _refuse_kept(path)
        async with self._database.begin(scope, locks=[TREE_LOCK]) as tx:
            file = await store.find(tx, path, for_update=True) if expected_version else await store.find(tx, path)
            check_version(file, expected_version)
            now = self._clock.now()
            recursive = recursive and file is None
            deleted, size_bytes = await store.delete(tx, path, recursive=recursive, now=now, keep_owned=True)
            if not deleted and await store.is_directory(tx, path):
                raise MemsvcError(
                    Code.NOT_EMPTY, "the directory is not empty", recovery="set recursive to delete all in it"
                )
            if not deleted:
                raise MemsvcError(Code.NOT_FOUND, "there is no such file or directory")
            await store.spend(tx, -size_bytes, project_bytes_max=self._options.project_bytes_max, now=now)
        return deleted

    async def _put(self, tx: Tx, file: store.File | None, wanted: "_Write") -> str:
        """Check a write against the file that is there, if any, and do it; the new version."""
        _check_preconditions(file, wanted)
        now = self._clock.now()
        size_bytes = file.size_bytes if file else 0
        whole = await _result(tx, file, wanted)
        grown = len(wanted.content) if whole is None else len(whole) - size_bytes
        if size_bytes + grown > self._options.file_bytes_max:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE, f"a file may hold {self._options.file_bytes_max} bytes at the most"
            )
        version = await _store_content(tx, file, wanted, whole, now)
        await store.spend(tx, grown, project_bytes_max=self._options.project_bytes_max, now=now)
        return version

    def _check_write(self, wanted: "_Write") -> None:
        if wanted.path == ROOT:
            raise MemsvcError(Code.INVALID_PATH, "a file needs a path")
        _refuse_kept(wanted.path)
        if len(wanted.content) > self._options.payload_bytes_max:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE, f"one write may hold {self._options.payload_bytes_max} bytes at the most"
            )
        if wanted.offset < 0 or (wanted.mode == "TRUNCATE" and wanted.offset != 0):
            raise MemsvcError(Code.INVALID_OFFSET, "offset must be 0 with TRUNCATE, and never negative")
        if wanted.create_only and wanted.expected_version is not None:
            raise MemsvcError(Code.INVALID_ARGUMENT, "expected_version and create_only exclude each other")


@dataclass(frozen=True, slots=True)
class _Write:
    path: str
    content: bytes
    mode: Mode
    offset: int
    expected_version: str | None
    create_only: bool


async def _result(tx: Tx, file: store.File | None, wanted: _Write) -> bytes | None:
    """The whole new content, or None when the content is simply added to the end of the file."""
    size_bytes = file.size_bytes if file else 0
    match wanted.mode:
        case "APPEND":
            return None
        case "TRUNCATE":
            return wanted.content
        case "OVERWRITE":
            if wanted.offset > size_bytes:
                raise MemsvcError(Code.INVALID_OFFSET, "offset beyond eof")
            if file is None or wanted.offset == size_bytes:
                return None
            old = await store.read(tx, file, 0, size_bytes)
            whole = old[: wanted.offset] + wanted.content + old[wanted.offset + len(wanted.content) :]
            if file.is_text and is_utf8(wanted.content) and not is_utf8(whole):
                raise MemsvcError(Code.INVALID_OFFSET, "the overwritten range would split a character")
            return whole
        case _:
            assert_never(wanted.mode)


async def _store_content(tx: Tx, file: store.File | None, wanted: _Write, whole: bytes | None, now: datetime) -> str:
    if file is None:
        whole = wanted.content if whole is None else whole
        return (await store.create(tx, wanted.path, whole, is_text=is_utf8(whole), owner="", now=now)).version
    if whole is None:
        await store.append(tx, wanted.path, wanted.content, is_text=is_utf8(wanted.content), now=now)
        return f"{file.incarnation.hex}:{file.revision + 1}"
    return (await store.replace(tx, file, whole, is_text=is_utf8(whole), now=now)).version


def _refuse_kept(path: str) -> None:
    if any(path == root or path.startswith(root + "/") for root in KEPT_ROOTS):
        raise MemsvcError(
            Code.PERMISSION_DENIED, "the memory itself keeps its files here", recovery="write outside of " + _KEPT_TOLD
        )


def _check_preconditions(file: store.File | None, wanted: _Write) -> None:
    if file is not None and wanted.create_only:
        raise MemsvcError(Code.ALREADY_EXISTS, "the file exists already")
    check_version(file, wanted.expected_version)
    if file is not None and file.owner:
        raise MemsvcError(Code.PERMISSION_DENIED, "this file is kept by the memory itself")
