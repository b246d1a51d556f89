"""The tools that read files: file_stat, file_read, file_list."""

from datetime import datetime

from pydantic import Field

from memsvc.core.paths import name_of
from memsvc.core.resources import Resource
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import EntryType, Result, Tool, Version
from memsvc.styles.files.content import Encoding
from memsvc.styles.files.file_entries import FileEntry
from memsvc.styles.files.file_models import INTEGER_MAX, LOGGED, FileArguments, FilePath
from memsvc.styles.files.file_resources import DIRECTORY
from memsvc.styles.files.file_store import FileStore


class FileStatArguments(FileArguments):
    path: FilePath = ""
    content_sha256: bool = Field(
        False, description="compute content_sha256 even if the whole file must be read for it"
    )


class FileStatResult(Result):
    exists: bool = Field(description="whether anything is there")
    type: EntryType | str = Field(description='FILE, DIRECTORY, or "" when nothing is there')
    size: int = Field(description="bytes; 0 for a directory")
    created_at: datetime = Field(description="when the file was made; the year 1 for a directory")
    updated_at: datetime = Field(
        description="when the file, or anything in the directory, was last written"
    )
    version: str | None = Field(
        None, description="token of this state of a stored file, for expected_version"
    )
    content_sha256: str | None = Field(
        None,
        description="SHA-256 of the content in hexadecimal; null for a rendered file, and unless"
        " asked for a file that was appended to",
    )


class FileReadArguments(FileArguments):
    path: FilePath
    offset: int = Field(0, le=INTEGER_MAX, description="first byte")
    length: int = Field(-1, le=INTEGER_MAX, description="bytes; -1 for all the rest")
    expected_version: Version | None = Field(
        None, description="fail unless the file is at this version"
    )


class FileReadResult(Result):
    content: str = Field(description="the bytes asked for, as text or as base64")
    content_encoding: Encoding = Field(description="base64 when the file is not UTF-8 text")
    version: str | None = Field(
        None, description="token of this state of the file; null for a rendered file"
    )
    content_sha256: str | None = Field(
        None, description="SHA-256 of the whole file in hexadecimal, where it is known"
    )


class FileListArguments(FileArguments):
    path: FilePath = ""
    depth: int = Field(1, le=64, description="levels; 0 is the path itself")
    limit: int | None = Field(
        None, description="entries at the most; 256 if not given, 1024 at most"
    )
    cursor: FilePath = Field("", description="next_cursor of the page before")
    summaries: bool = Field(
        False, description="say of each file what it is about; a page has 100 entries at most then"
    )
    directory_times: bool = Field(
        True,
        description="say when anything in each directory was last written, for which all in it is"
        " looked at",
    )


class FileListEntry(Result):
    name: str = Field(description="last segment of the path")
    path: str = Field(description="whole path")
    type: EntryType = Field(description="FILE or DIRECTORY")
    size: int = Field(description="bytes; 0 for a directory")
    created_at: datetime = Field(description="when the file was made; the year 1 for a directory")
    updated_at: datetime = Field(
        description="when the file, or anything in the directory, was last written; the year 1"
        " for a directory whose time was not asked for"
    )
    summary: str | None = Field(
        None,
        description="what the file is about, in a paragraph, where asked for",
        exclude_if=lambda value: value is None,
    )


class FileListResult(Result):
    entries: list[FileListEntry] = Field(description="in byte order of their paths")
    has_more: bool = Field(description="whether there are more behind the last one")
    next_cursor: str | None = Field(None, description="cursor of the next page, when there is one")


class FileReadTools:
    """Functions of the reading tools."""

    def __init__(self, files: FileStore) -> None:
        self._files = files

    async def stat(self, scope: Scope, args: FileStatArguments) -> FileStatResult:
        entry = await self._files.stat(scope, args.path, hashed=args.content_sha256)
        if entry is None:
            never = datetime.fromisoformat("0001-01-01T00:00:00Z")
            return FileStatResult(exists=False, type="", size=0, created_at=never, updated_at=never)
        return FileStatResult(
            exists=True,
            type=entry.type,
            size=entry.size_bytes,
            created_at=entry.created_at,
            updated_at=entry.updated_at,
            version=entry.version,
            content_sha256=entry.sha256.hex() if entry.sha256 else None,
        )

    async def read(self, scope: Scope, args: FileReadArguments) -> FileReadResult:
        read = await self._files.read(
            scope,
            args.path,
            offset=args.offset,
            length=args.length,
            expected_version=args.expected_version,
        )
        return FileReadResult(
            content=read.content,
            content_encoding=read.encoding,
            version=read.version,
            content_sha256=read.sha256.hex() if read.sha256 else None,
        )

    async def listing(self, scope: Scope, args: FileListArguments) -> FileListResult:
        entries, has_more = await self._files.listing(
            scope,
            args.path,
            depth=args.depth,
            limit=args.limit,
            after=args.cursor,
            summaries=args.summaries,
            include_times=args.directory_times,
        )
        return FileListResult(
            entries=[_list_entry(entry) for entry in entries],
            has_more=has_more,
            next_cursor=entries[-1].path if has_more else None,
        )


def _list_entry(entry: FileEntry) -> FileListEntry:
    return FileListEntry(
        name=name_of(entry.path),
        path=entry.path or "/",
        type=entry.type,
        size=entry.size_bytes,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        summary=entry.summary,
    )


def reading_tools(files: FileStore, resource: Resource) -> list[Tool]:
    """Return the reading tools; `resource` serves a file under a URI."""
    functions = FileReadTools(files)
    return [
        Tool(
            name="file_stat",
            title="File status",
            description="Tell whether a file or directory exists, its size in bytes, its times"
            " and its version.",
            arguments=FileStatArguments,
            result=FileStatResult,
            run=functions.stat,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
        Tool(
            name="file_read",
            title="Read a file",
            description="Read a file, or a byte range of it that does not split a character.",
            arguments=FileReadArguments,
            result=FileReadResult,
            resource=resource,
            run=functions.read,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
        Tool(
            name="file_list",
            title="List files",
            description="List files and directories below a path, in order of their paths, a page"
            " at a time.",
            arguments=FileListArguments,
            result=FileListResult,
            resource=DIRECTORY,
            run=functions.listing,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
    ]
