"""Reads and listings of a tenant's files, with the styles' rendered files in the same tree."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import RenderedFile, Views
from memsvc.store import files as store
from memsvc.store import tree
from memsvc.store.database import Database, Tx
from memsvc.styles.files.content import Encoding, text_range
from memsvc.styles.files.file_entries import (
    NEVER,
    FileEntry,
    PageRequest,
    file_entry,
    page,
    rendered_entry,
    with_summaries,
)
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.precondition import check_version, content_hash

SUMMARY_ENTRIES_MAX: Final = 100
"""Largest page with summaries, which are a paragraph each."""


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a file as text, or as base64 where the file is not UTF-8."""

    content: str
    encoding: Encoding
    version: str | None
    sha256: bytes | None


class FileStore:
    """The file store as callers read it.

    `views` are the rendered files of the styles; they win over stored ones."""

    def __init__(
        self, database: Database, clock: Clock, options: FilesOptions, views: Sequence[Views]
    ) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._views = views

    async def stat(self, scope: Scope, path: str, *, hashed: bool = False) -> FileEntry | None:
        """Return the entry at a path, None when nothing is there; the root is always a directory.

        `hashed` asks for the hash of the content, even if all of it must be read."""
        rendered = await self._rendered(scope, path)
        if rendered is not None:
            return rendered_entry(rendered)
        async with self._database.begin(scope, read_only=True) as tx:
            file = await store.find(tx, path) if path != ROOT else None
            if file is not None:
                return file_entry(
                    replace(file, sha256=await content_hash(tx, file)) if hashed else file
                )
            updated_at = await tree.directory_updated_at(tx, path)
        inside = [
            child.updated_at
            for view in self._views
            for child in await view.list_directory(scope, path)
        ]
        if updated_at is None and not inside and path != ROOT:
            return None
        return FileEntry(path, "DIRECTORY", 0, NEVER, max([updated_at or NEVER, *inside]))

    async def read(
        self,
        scope: Scope,
        path: str,
        *,
        offset: int,
        length: int,
        expected_version: str | None = None,
    ) -> Content:
        """Return `length` bytes from `offset` on; -1 stands for all the rest.

        NOT_FOUND, IS_DIRECTORY, or INVALID_OFFSET, also where a range would split a character;
        VERSION_CONFLICT when the file is no longer at `expected_version`."""
        if offset < 0 or length < -1:
            raise MemsvcError(Code.INVALID_OFFSET, "offset must be >= 0 and length >= -1")
        rendered = await self._rendered(scope, path)
        if rendered is not None:
            check_version(None, expected_version)
            stop = (
                len(rendered.content)
                if length == -1
                else min(offset + length, len(rendered.content))
            )
            return Content(text_range(rendered.content, offset, stop), "utf-8", None, None)
        async with self._database.begin(scope, read_only=True) as tx:
            file = await store.find(tx, path) if path != ROOT else None
            if file is not None:
                check_version(file, expected_version)
                return await _content(tx, file, offset, length)
        if await self.stat(scope, path) is None:
            raise MemsvcError(Code.NOT_FOUND, "file not found")
        raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")

    async def listing(
        self,
        scope: Scope,
        directory: str,
        *,
        depth: int,
        limit: int | None,
        after: str = "",
        summaries: bool = False,
        include_times: bool = True,
    ) -> tuple[list[FileEntry], bool]:
        """Return entries in byte order of their paths, and whether more follow.

        `depth` counts levels (0: the path itself). With `summaries`, a page has at most
        SUMMARISED_MAX entries, each file with its summary. Without `include_times`, directories
        have no time, and nothing is read to find it. NOT_FOUND when nothing is at the path; the
        root is just empty."""
        if depth < 0:
            raise MemsvcError(Code.INVALID_OFFSET, "depth must be >= 0")
        max_entries = (
            self._options.list_limit_default
            if limit is None
            else min(limit, self._options.list_limit_max)
        )
        if max_entries < 1:
            raise MemsvcError(Code.INVALID_ARGUMENT, "limit must be > 0")
        max_entries = min(max_entries, SUMMARY_ENTRIES_MAX) if summaries else max_entries
        entries: list[FileEntry] = []
        rendered: list[RenderedFile] = []
        if depth > 0:
            rendered = [
                file for view in self._views for file in await view.list_directory(scope, directory)
            ]
            async with self._database.begin(scope, read_only=True) as tx:
                entries = await page(
                    tx,
                    directory,
                    PageRequest(depth, after, max_entries + 1, include_times),
                    rendered,
                )
        if not entries and not (directory == ROOT and depth > 0):
            current = await self.stat(scope, directory)
            if current is None:
                raise MemsvcError(Code.NOT_FOUND, f"there is no file or directory {directory}")
            if (depth == 0 or current.type == "FILE") and (directory > after or directory == ROOT):
                entries = [current]
            if summaries and (file := await self._rendered(scope, directory)) is not None:
                rendered = [file]
        return (
            await self._with_summaries(scope, entries[:max_entries], rendered)
            if summaries
            else entries[:max_entries]
        ), len(entries) > max_entries

    async def _with_summaries(
        self, scope: Scope, entries: list[FileEntry], rendered: Sequence[RenderedFile]
    ) -> list[FileEntry]:
        paths = {entry.path for entry in entries}
        async with self._database.begin(scope, read_only=True) as tx:
            return await with_summaries(
                tx, entries, {file.path: file for file in rendered if file.path in paths}
            )

    async def _rendered(self, scope: Scope, path: str) -> RenderedFile | None:
        for view in self._views:
            rendered = await view.read(scope, path)
            if rendered is not None:
                return rendered
        return None


async def _content(tx: Tx, file: store.File, offset: int, length: int) -> Content:
    stop = file.size_bytes if length == -1 else min(offset + length, file.size_bytes)
    # one byte more than requested shows whether the range ends between two characters
    raw = await store.read(
        tx, file, offset, min(stop + 1, file.size_bytes) if file.is_text else stop
    )
    sha256 = file.sha256
    if sha256 is None and offset == 0 and stop == file.size_bytes:
        sha256 = hashlib.sha256(raw).digest()
    if not file.is_text:
        return Content(base64.b64encode(raw).decode(), "base64", file.version, sha256)
    return Content(text_range(raw, 0, max(stop - offset, 0)), "utf-8", file.version, sha256)
