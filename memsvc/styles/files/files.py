"""A tenant's files: read, written and listed as on a disk, with the styles' own files standing in the same tree."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import Rendered, Views
from memsvc.store import files as store
from memsvc.store.database import Database, Tx
from memsvc.store.locks import TREE_LOCK
from memsvc.styles.files.content import Encoding, is_utf8, text_range
from memsvc.styles.files.listing import NEVER, Entry, file_entry, page, rendered_entry

Mode = Literal["APPEND", "OVERWRITE", "TRUNCATE"]
KEPT_ROOTS = ("/memory", "/whiteboard", "/notebook")
"""Where the memory itself keeps its files: callers may read there, and write anywhere else."""
_KEPT_TOLD = ", ".join(KEPT_ROOTS)


class FilesOptions(BaseModel):
    """Limits of the file store, in bytes and entries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    payload_bytes_max: int = Field(2_000_000, ge=1, description="content of one write, in bytes")
    file_bytes_max: int = Field(10_000_000, ge=1, le=2**30, description="one file, in bytes")
    project_bytes_max: int = Field(100_000_000, ge=1, description="all files of a project that callers wrote, in bytes")
    list_limit_default: int = Field(256, ge=1, le=1024, description="entries of a listing when no limit is given")
    list_limit_max: int = Field(1024, ge=1, le=10_000, description="entries of a listing at the most")


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a file as text, or as base64 where the file is not UTF-8."""

    content: str
    encoding: Encoding
    version: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did."""

    bytes_written: int
    version: str


class Files:
    """The file store as callers see it. `views` are the rendered files of the styles; they win over stored ones."""

    def __init__(self, database: Database, clock: Clock, options: FilesOptions, views: Sequence[Views]) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._views = views

    async def stat(self, scope: Scope, path: str) -> Entry | None:
        """What stands at a path; None when nothing does. The root is always a directory."""
        rendered = await self._rendered(scope, path)
        if rendered is not None:
            return rendered_entry(rendered)
        async with self._database.begin(scope, read_only=True) as tx:
            file = await store.find(tx, path) if path != ROOT else None
            if file is not None:
                return file_entry(file)
            updated_at = await store.directory_updated_at(tx, path)
        inside = [one.updated_at for view in self._views for one in await view.below(scope, path)]
        if updated_at is None and not inside and path != ROOT:
            return None
        return Entry(path, "DIRECTORY", 0, NEVER, max([updated_at or NEVER, *inside]))

    async def read(
        self, scope: Scope, path: str, *, offset: int, length: int, expected_version: str | None = None
    ) -> Content:
        """`length` bytes from `offset`, -1 for all the rest. NOT_FOUND, IS_DIRECTORY, or INVALID_OFFSET, also where a
        range would split a character; VERSION_CONFLICT when the file is no longer at `expected_version`."""
        if offset < 0 or length < -1:
            raise MemsvcError(Code.INVALID_OFFSET, "offset must be >= 0 and length >= -1")
        rendered = await self._rendered(scope, path)
        if rendered is not None:
            _check_version(None, expected_version)
            stop = len(rendered.content) if length == -1 else min(offset + length, len(rendered.content))
            return Content(text_range(rendered.content, offset, stop), "utf-8", None)
        async with self._database.begin(scope, read_only=True) as tx:
            file = await store.find(tx, path) if path != ROOT else None
            if file is not None:
                _check_version(file, expected_version)
                return await _content(tx, file, offset, length)
        if await self.stat(scope, path) is None:
            raise MemsvcError(Code.NOT_FOUND, "file not found")
        raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")

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
            _check_version(file, expected_version)
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

    async def listing(
        self, scope: Scope, directory: str, *, depth: int, limit: int | None, after: str = ""
    ) -> tuple[list[Entry], bool]:
        """Entries in byte order of their paths, to `depth` levels (0: the path itself), and whether there are more
        behind the last one. NOT_FOUND when nothing stands there, but the root is just empty."""
        if depth < 0:
            raise MemsvcError(Code.INVALID_OFFSET, "depth must be >= 0")
        most = self._options.list_limit_default if limit is None else min(limit, self._options.list_limit_max)
        if most < 1:
            raise MemsvcError(Code.INVALID_ARGUMENT, "limit must be > 0")
        entries: list[Entry] = []
        if depth > 0:
            rendered = [one for view in self._views for one in await view.below(scope, directory)]
            async with self._database.begin(scope, read_only=True) as tx:
                entries = await page(tx, directory, depth=depth, after=after, most=most + 1, rendered=rendered)
        if not entries and not (directory == ROOT and depth > 0):
            here = await self.stat(scope, directory)
            if here is None:
                raise MemsvcError(Code.NOT_FOUND, "there is no such file or directory")
            if (depth == 0 or here.type == "FILE") and (directory > after or directory == ROOT):
                entries = [here]
        return entries[:most], len(entries) > most

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

    async def _rendered(self, scope: Scope, path: str) -> Rendered | None:
        for view in self._views:
            rendered = await view.read(scope, path)
            if rendered is not None:
                return rendered
        return None

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


async def _content(tx: Tx, file: store.File, offset: int, length: int) -> Content:
    stop = file.size_bytes if length == -1 else min(offset + length, file.size_bytes)
    if not file.is_text:
        raw = await store.read(tx, file, offset, stop)
        return Content(base64.b64encode(raw).decode(), "base64", file.version)
    # one byte more than asked tells whether the range ends between two characters
    raw = await store.read(tx, file, offset, min(stop + 1, file.size_bytes))
    return Content(text_range(raw, 0, max(stop - offset, 0)), "utf-8", file.version)


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
    _check_version(file, wanted.expected_version)
    if file is not None and file.owner:
        raise MemsvcError(Code.PERMISSION_DENIED, "this file is kept by the memory itself")


def _check_version(file: store.File | None, expected_version: str | None) -> None:
    if expected_version is not None and (file is None or file.version != expected_version):
        raise MemsvcError(
            Code.VERSION_CONFLICT, "file version changed; re-read the file and recompute the edit before retrying"
        )
