"""Types that the file tools take and return, and reads and listings of a project's files.

Files that the styles render are in the same tree.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, Literal

from anyio import to_thread
from pydantic import AfterValidator, Field

from memsvc.core.errors import (
    Code,
    MemsvcError,
    already_exists,
    invalid,
    invalid_content,
    invalid_offset,
    invalid_query,
    not_found,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import ROOT, ancestors, check_path, name_of
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import OMIT_NONE, result, tool
from memsvc.core.tools import Arguments, EntryType, NextCursor, RenderedFile, Version, Views
from memsvc.store import files, summaries, tree
from memsvc.store import files as store
from memsvc.store.database import Database, Tx
from memsvc.store.files import File
from memsvc.store.summaries import ContentDescription
from memsvc.styles.files.file_summaries import summary_of
from memsvc.styles.files.options import FilesOptions

Encoding = Literal["utf-8", "base64"]


def is_text(content: bytes) -> bool:
    """Return whether the bytes are valid UTF-8 text."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def decode(content: str, encoding: str) -> bytes:
    """Return the bytes that a caller sent as text or as base64.

    INVALID_QUERY for another encoding, INVALID_CONTENT for invalid Unicode text or invalid
    base64."""
    match encoding.strip().lower():
        case "utf-8":
            try:
                return content.encode("utf-8")
            except UnicodeEncodeError as error:
                raise invalid_content("content is not valid Unicode text") from error
        case "base64":
            try:
                return base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError) as error:
                raise invalid_content("content is not valid base64") from error
        case _:
            raise invalid_query("content_encoding must be utf-8 or base64")


def text_range(raw: bytes, start: int, stop: int) -> str:
    """Return the text of a byte range; INVALID_OFFSET if an end falls inside a character."""
    if any(0 <= at < len(raw) and raw[at] & 0xC0 == 0x80 for at in (start, stop)):
        raise invalid_offset(
            "the range would split a multi-byte character; move its start or end by one or"
            " more bytes"
        )
    return raw[start:stop].decode("utf-8")


NO_FILE: Final = "the file does not exist"
LIST_FILES: Final = "list the existing files with file_list"
CHANGED = "file version changed; re-read the file and recompute the edit before retrying"


@frozen
class Precondition:
    """Required state of the file at a path: at a version, with this content, or absent."""

    expected_version: str | None = None
    content_sha256: str | None = None
    must_not_exist: bool = False

    @property
    def any(self) -> bool:
        """Return whether any condition is set."""
        return (
            self.must_not_exist
            or self.expected_version is not None
            or self.content_sha256 is not None
        )

    def validate(self) -> None:
        """Raise INVALID_ARGUMENT for conditions that exclude each other."""
        if self.must_not_exist and (
            self.expected_version is not None or self.content_sha256 is not None
        ):
            raise invalid(
                "a file that must not exist cannot have an expected version or content_sha256;"
                " remove one of these conditions",
            )

    async def check(self, tx: Tx, file: File | None) -> None:
        """Raise ALREADY_EXISTS or VERSION_CONFLICT where the file does not meet the conditions."""
        if file is not None and self.must_not_exist:
            raise already_exists("the file already exists")
        check_version(file, self.expected_version)
        if self.content_sha256 is not None and (
            file is None or (await content_hash(tx, file)).hex() != self.content_sha256.lower()
        ):
            raise MemsvcError(Code.VERSION_CONFLICT, CHANGED)


ANY_STATE = Precondition()


async def content_hash(tx: Tx, file: File) -> bytes:
    """Return the SHA-256 of a file's content, computed where the last write did not store it."""
    if file.sha256 is not None:
        return file.sha256
    return hashlib.sha256(await files.read(tx, file)).digest()


def check_version(file: File | None, expected_version: str | None) -> None:
    """Raise VERSION_CONFLICT unless the file is at the expected version, if one is set."""
    if expected_version is not None and (file is None or file.version != expected_version):
        raise MemsvcError(Code.VERSION_CONFLICT, CHANGED)


FilePath = Annotated[
    str,
    AfterValidator(check_path),
    Field(description="path such as /a/b.md; empty: root"),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
INTEGER_MAX: Final = 2**53
Integer = Annotated[int, Field(le=INTEGER_MAX)]


class FileArguments(Arguments):
    """Arguments that every file tool takes."""

    project: str = Field(description="project name")


file_tool = partial(
    tool,
    toolset="files",
    base=FileArguments,
    logs=(
        "path",
        "from_path",
        "to_path",
        "path_prefix",
        "mode",
        "content_encoding",
        "expected_version",
        "expected_destination_version",
        "content_sha256",
    ),
)


@result
class FileWrite:
    bytes_written: Annotated[int, "size of the written content, in bytes"]
    version: Annotated[
        str, "version token of the file after the call; empty if the file keeps no versions"
    ]


NEVER = datetime(1, 1, 1, tzinfo=UTC)
HEAD_BYTES: Final = 2048
"""Bytes from the start of a file that its summary is made from when no model made one."""


@result
class FileStat:
    exists: Annotated[bool, "whether the path exists"]
    type: Annotated[EntryType | str, 'FILE, DIRECTORY, or "" if the path does not exist']
    size: Annotated[int, "size in bytes; 0 for a directory"]
    created_at: Annotated[
        datetime, "creation time of the file; for a directory, a placeholder in the year 1"
    ]
    updated_at: Annotated[
        datetime, "time of the last write to the file, or to anything in the directory"
    ]
    version: Annotated[
        str | None, "version token of a stored file, to pass as expected_version"
    ] = None
    content_sha256: Annotated[
        str | None,
        "SHA-256 of the content in hexadecimal; null for a generated file; null after an"
        " append unless requested",
    ] = None


@result
class FileText:
    content: Annotated[str, "the requested bytes, as text or as base64"]
    content_encoding: Annotated[Encoding, "utf-8 for text, else base64"]
    version: Annotated[str | None, "version token of the file; null for a generated file"] = None
    content_sha256: Annotated[
        str | None, "SHA-256 of the whole file in hexadecimal, if it is known"
    ] = None


@result
class ListedFile:
    name: Annotated[str, "last part of the path"]
    path: Annotated[str, "full path"]
    type: Annotated[EntryType, "FILE or DIRECTORY"]
    size: Annotated[int, "size in bytes; 0 for a directory"]
    created_at: Annotated[
        datetime, "creation time of the file; for a directory, a placeholder in the year 1"
    ]
    updated_at: Annotated[
        datetime,
        "time of the last write to the file or in the directory; for a directory without"
        " directory_times, a placeholder in the year 1",
    ]
    summary: Annotated[
        str | None,
        OMIT_NONE,
        "one-paragraph summary of the file, if requested",
    ] = None


@result
class FileList:
    entries: Annotated[list[ListedFile], "entries, sorted by the bytes of their paths"]
    has_more: Annotated[bool, "whether more entries follow after this page"]
    next_cursor: NextCursor = None


@frozen
class PageRequest:
    """The page of a directory to return: levels, the path to start after, and the limit.

    `include_times` asks when anything in each directory was last written, for which all of it is
    read."""

    depth: int
    after: str
    limit: int
    include_times: bool


async def page(
    tx: Tx, directory: str, request: PageRequest, rendered: Sequence[RenderedFile]
) -> list[ListedFile]:
    """Return the first entries after `after`: stored and rendered files, and their directories."""
    depth, after, limit = request.depth, request.after, request.limit
    level = directory.count("/") + depth
    # each directory up to `after` may have later files, which add no entry that was not listed
    # before
    row_limit = limit + len(_possible_directories(after)) + 1
    rows = await tree.walk(tx, directory, depth=depth, after=after, limit=row_limit)
    found = {
        row["path"]: _listed(
            row["path"], "FILE", row["size_bytes"], row["created_at"], row["updated_at"]
        )
        for row in rows
    }
    found |= {
        file.path: _listed(file.path, "FILE", len(file.content), file.updated_at, file.updated_at)
        for file in rendered
    }
    directories = {
        path for path in found for path in _possible_directories(path) if path.count("/") <= level
    }
    inside = [path for path in directories if path.startswith(directory + "/") and path > after]
    written = {}
    if inside and request.include_times:
        written = await tree.directories(tx, inside)
    elif inside:
        written = dict.fromkeys(await tree.are_directories(tx, inside), NEVER)
    for file in rendered:
        for path in ancestors(file.path):
            if path in inside:
                written[path] = (
                    max(written.get(path, NEVER), file.updated_at)
                    if request.include_times
                    else NEVER
                )
    entries = [entry for path, entry in found.items() if path.count("/") <= level and path > after]
    entries += [
        _listed(path, "DIRECTORY", 0, NEVER, updated_at) for path, updated_at in written.items()
    ]
    # nothing is known yet after the last file of a full page
    last = rows[-1]["path"] if len(rows) == row_limit else None
    entries = [entry for entry in entries if last is None or entry.path <= last]
    return sorted(entries, key=lambda entry: entry.path)[:limit]


async def with_summaries(
    tx: Tx, entries: Sequence[ListedFile], rendered: Mapping[str, RenderedFile]
) -> list[ListedFile]:
    """Return the same entries, files with their summaries: a model's where it is current."""
    stored = [
        entry.path for entry in entries if entry.type == "FILE" and entry.path not in rendered
    ]
    found = await summaries.describe_paths(tx, stored, head_bytes=HEAD_BYTES) if stored else {}
    for path, file in rendered.items():
        found[path] = ContentDescription(len(file.content), True, None, file.content[:HEAD_BYTES])
    # for a full page this takes too long to block the event loop
    texts = await to_thread.run_sync(
        lambda: {path: summary_of(source) for path, source in found.items()}
    )
    return [replace(entry, summary=texts.get(entry.path)) for entry in entries]


def _possible_directories(path: str) -> list[str]:
    """Return the directories above a path and those that sort just before it.

    `/a` sorts before `/a.txt` and `/a/b`."""
    candidates = ancestors(path)
    for ancestor in [*ancestors(path), path]:
        start = ancestor.rfind("/") + 2
        candidates += [ancestor[:at] for at in range(start, len(ancestor)) if ancestor[at] < "/"]
    return candidates


SUMMARY_ENTRIES_MAX: Final = 100
"""Largest page with summaries, which are a paragraph each."""


@frozen
class FileStore:
    """The file store as callers read it.

    `views` are the rendered files of the styles; they win over stored ones."""

    database: Database
    clock: Clock
    options: FilesOptions
    views: Sequence[Views]

    @file_tool("file_stat", "File status", Permission.READ)
    async def stat(
        self,
        scope: Scope,
        path: FilePath = "",
        content_sha256: Annotated[
            bool, "compute content_sha256 even if this means reading the whole file"
        ] = False,
    ) -> FileStat:
        """Return whether a file or directory exists, with its size in bytes, times and version."""
        return await self.entry(scope, path, hashed=content_sha256)

    async def entry(self, scope: Scope, path: str, *, hashed: bool = False) -> FileStat:
        """Return what is at a path, if anything; the root is always a directory.

        `hashed` asks for the hash of the content, even if all of it must be read."""
        rendered = await self._rendered(scope, path)
        if rendered is not None:
            at = rendered.updated_at
            return FileStat(True, "FILE", len(rendered.content), at, at)
        async with self.database.begin_read(scope) as tx:
            file = await store.find(tx, path) if path != ROOT else None
            if file is not None:
                sha256 = await content_hash(tx, file) if hashed else file.sha256
                return FileStat(
                    True,
                    "FILE",
                    file.size_bytes,
                    file.created_at,
                    file.updated_at,
                    file.version,
                    sha256.hex() if sha256 else None,
                )
            updated_at = (await tree.directories(tx, [path])).get(path)
        inside = [
            child.updated_at
            for view in self.views
            for child in await view.list_directory(scope, path)
        ]
        if updated_at is None and not inside and path != ROOT:
            return FileStat(False, "", 0, NEVER, NEVER)
        return FileStat(True, "DIRECTORY", 0, NEVER, max([updated_at or NEVER, *inside]))

    @file_tool("file_read", "Read a file", Permission.READ, for_agents=True, for_hosts=True)
    async def read(
        self,
        scope: Scope,
        path: FilePath,
        offset: Annotated[Integer, "first byte to read"] = 0,
        length: Annotated[Integer, "number of bytes; -1: to the end"] = -1,
        expected_version: Annotated[Version | None, "fail unless the file has this version"] = None,
    ) -> FileText:
        """Call this to read a file or a range of bytes."""
        if offset < 0 or length < -1:
            raise invalid_offset("offset must be >= 0 and length >= -1")
        rendered = await self._rendered(scope, path)
        if rendered is not None:
            check_version(None, expected_version)
            stop = (
                len(rendered.content)
                if length == -1
                else min(offset + length, len(rendered.content))
            )
            return FileText(text_range(rendered.content, offset, stop), "utf-8")
        async with self.database.begin_read(scope) as tx:
            file = await store.find(tx, path) if path != ROOT else None
            if file is not None:
                check_version(file, expected_version)
                return await _content(tx, file, offset, length)
        if not (await self.entry(scope, path)).exists:
            raise not_found(NO_FILE, recovery=LIST_FILES)
        raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")

    @file_tool("file_list", "List files", Permission.READ, for_agents=True)
    async def listing(
        self,
        scope: Scope,
        path: FilePath = "",
        *,
        depth: Annotated[int, Field(le=64), "levels to list; 0 for the path itself"] = 1,
        limit: Annotated[int | None, "maximum number of entries; default 256, at most 1024"] = None,
        cursor: Annotated[FilePath, "next_cursor of the previous page"] = "",
        summaries: Annotated[
            bool,
            "include file summaries; caps limit at 100",
        ] = False,
        directory_times: Annotated[
            bool,
            "include times of directories; slower",
        ] = True,
    ) -> FileList:
        """Call this to list the files and directories below a path, in pages."""
        if depth < 0:
            raise invalid_offset("depth must be >= 0")
        max_entries = (
            self.options.list_limit_default
            if limit is None
            else min(limit, self.options.list_limit_max)
        )
        if max_entries < 1:
            raise invalid("limit must be > 0")
        max_entries = min(max_entries, SUMMARY_ENTRIES_MAX) if summaries else max_entries
        entries = []
        rendered = []
        if depth > 0:
            rendered = [
                file for view in self.views for file in await view.list_directory(scope, path)
            ]
            async with self.database.begin_read(scope) as tx:
                entries = await page(
                    tx,
                    path,
                    PageRequest(depth, cursor, max_entries + 1, directory_times),
                    rendered,
                )
        if not entries and not (path == ROOT and depth > 0):
            current = await self.entry(scope, path)
            if not current.exists:
                raise not_found(
                    f"the file or directory {path} does not exist",
                    recovery="list the parent directory with file_list",
                )
            kind: EntryType = "FILE" if current.type == "FILE" else "DIRECTORY"
            if (depth == 0 or kind == "FILE") and (path > cursor or path == ROOT):
                entries = [
                    _listed(path, kind, current.size, current.created_at, current.updated_at)
                ]
            if summaries and (file := await self._rendered(scope, path)) is not None:
                rendered = [file]
        shown, has_more = entries[:max_entries], len(entries) > max_entries
        if summaries:
            paths = {entry.path for entry in shown}
            async with self.database.begin_read(scope) as tx:
                shown = await with_summaries(
                    tx, shown, {file.path: file for file in rendered if file.path in paths}
                )
        return FileList(shown, has_more, shown[-1].path if has_more else None)

    async def _rendered(self, scope: Scope, path: str) -> RenderedFile | None:
        for view in self.views:
            rendered = await view.read(scope, path)
            if rendered is not None:
                return rendered
        return None


async def _content(tx: Tx, file: store.File, offset: int, length: int) -> FileText:
    stop = file.size_bytes if length == -1 else min(offset + length, file.size_bytes)
    # one byte more than requested shows whether the range ends between two characters
    raw = await store.read(
        tx, file, offset, min(stop + 1, file.size_bytes) if file.is_text else stop
    )
    sha256 = file.sha256
    if sha256 is None and offset == 0 and stop == file.size_bytes:
        sha256 = hashlib.sha256(raw).digest()
    known = sha256.hex() if sha256 else None
    if not file.is_text:
        return FileText(base64.b64encode(raw).decode(), "base64", file.version, known)
    return FileText(text_range(raw, 0, max(stop - offset, 0)), "utf-8", file.version, known)


def _listed(
    path: str, kind: EntryType, size_bytes: int, created_at: datetime, updated_at: datetime
) -> ListedFile:
    return ListedFile(name_of(path), path or "/", kind, size_bytes, created_at, updated_at)
