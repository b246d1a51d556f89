"""The file tools: what they take and what they answer."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import check_path, name_of
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Arguments, EntryType, Result, Tool
from memsvc.styles.files.content import Encoding, decode
from memsvc.styles.files.files import Files
from memsvc.styles.files.listing import Entry
from memsvc.styles.files.writing import Mode, Writing

FilePath = Annotated[
    str, AfterValidator(check_path), Field(description="absolute path such as /notes/todo.md; empty for the root")
]
Version = Annotated[str, Field(pattern=r"^[0-9a-f]{32}:[1-9][0-9]{0,18}$", max_length=64)]
INTEGER_MAX = 2**53
_MODES: dict[str, Mode] = {"APPEND": "APPEND", "OVERWRITE": "OVERWRITE", "TRUNCATE": "TRUNCATE"}


class FileArguments(Arguments):
    """What every file tool takes."""

    project: str = Field(description="the project that the file is in")


class StatArguments(FileArguments):
    path: FilePath = ""


class StatResult(Result):
    exists: bool = Field(description="whether anything is there")
    type: EntryType | str = Field(description='FILE, DIRECTORY, or "" when nothing is there')
    size: int = Field(description="bytes; 0 for a directory")
    created_at: datetime = Field(description="when the file was made; the year 1 for a directory")
    updated_at: datetime = Field(description="when the file, or anything in the directory, was last written")
    version: str | None = Field(None, description="token of this state of a stored file, for expected_version")


class ReadArguments(FileArguments):
    path: FilePath
    offset: int = Field(0, le=INTEGER_MAX, description="first byte")
    length: int = Field(-1, le=INTEGER_MAX, description="bytes; -1 for all the rest")
    expected_version: Version | None = Field(None, description="fail unless the file is at this version")


class ReadResult(Result):
    content: str = Field(description="the bytes asked for, as text or as base64")
    content_encoding: Encoding = Field(description="base64 when the file is not UTF-8 text")
    version: str | None = Field(None, description="token of this state of the file; null for a rendered file")


class WriteArguments(FileArguments):
    path: FilePath
    content: str = Field(description="what to write, in the given encoding")
    content_encoding: str = Field("utf-8", description="utf-8 or base64")
    offset: int = Field(0, le=INTEGER_MAX, description="byte to write at, with OVERWRITE")
    mode: str = Field("APPEND", description="APPEND, OVERWRITE (at offset) or TRUNCATE (replace all)")
    expected_version: Version | None = Field(None, description="write only if the file is at this version")
    create_only: bool = Field(False, description="write only if there is no such file yet")

    @field_validator("mode")
    @classmethod
    def _mode(cls, value: str) -> str:
        mode = value.strip().upper()
        if mode not in _MODES:
            raise MemsvcError(Code.INVALID_OFFSET, "invalid write mode: APPEND, OVERWRITE or TRUNCATE")
        return mode


class WriteResult(Result):
    bytes_written: int = Field(description="bytes of the content that was given")
    version: str = Field(description="token of the new state of the file")


class DeleteArguments(FileArguments):
    path: FilePath = ""
    recursive: bool = Field(False, description="needed to delete a directory with all that is in it")
    expected_version: Version | None = Field(None, description="delete only if a file is there at this version")


class DeleteResult(Result):
    deleted_count: int = Field(description="how many files went")


class ListArguments(FileArguments):
    path: FilePath = ""
    depth: int = Field(1, le=64, description="levels; 0 is the path itself")
    limit: int | None = Field(None, description="entries at the most; 256 if not given, 1024 at most")
    cursor: FilePath = Field("", description="next_cursor of the page before")


class ListEntry(Result):
    name: str = Field(description="last segment of the path")
    path: str = Field(description="whole path")
    type: EntryType = Field(description="FILE or DIRECTORY")
    size: int = Field(description="bytes; 0 for a directory")
    created_at: datetime = Field(description="when the file was made; the year 1 for a directory")
    updated_at: datetime = Field(description="when the file, or anything in the directory, was last written")


class ListResult(Result):
    entries: list[ListEntry] = Field(description="in byte order of their paths")
    has_more: bool = Field(description="whether there are more behind the last one")
    next_cursor: str | None = Field(None, description="cursor of the next page, when there is one")


class FileTools:
    """The functions behind the file tools."""

    def __init__(self, files: Files, writing: Writing) -> None:
        self._files = files
        self._writing = writing

    async def stat(self, scope: Scope, asked: StatArguments) -> StatResult:
        entry = await self._files.stat(scope, asked.path)
        if entry is None:
            never = datetime.fromisoformat("0001-01-01T00:00:00Z")
            return StatResult(exists=False, type="", size=0, created_at=never, updated_at=never)
        return StatResult(
            exists=True,
            type=entry.type,
            size=entry.size_bytes,
            created_at=entry.created_at,
            updated_at=entry.updated_at,
            version=entry.version,
        )

    async def read(self, scope: Scope, asked: ReadArguments) -> ReadResult:
        read = await self._files.read(
            scope, asked.path, offset=asked.offset, length=asked.length, expected_version=asked.expected_version
        )
        return ReadResult(content=read.content, content_encoding=read.encoding, version=read.version)

    async def write(self, scope: Scope, asked: WriteArguments) -> WriteResult:
        written = await self._writing.write(
            scope,
            asked.path,
            decode(asked.content, asked.content_encoding),
            mode=_MODES[asked.mode],
            offset=asked.offset,
            expected_version=asked.expected_version,
            create_only=asked.create_only,
        )
        return WriteResult(bytes_written=written.bytes_written, version=written.version)

    async def delete(self, scope: Scope, asked: DeleteArguments) -> DeleteResult:
        deleted = await self._writing.delete(
            scope, asked.path, recursive=asked.recursive, expected_version=asked.expected_version
        )
        return DeleteResult(deleted_count=deleted)

    async def listing(self, scope: Scope, asked: ListArguments) -> ListResult:
        entries, has_more = await self._files.listing(
            scope, asked.path, depth=asked.depth, limit=asked.limit, after=asked.cursor
        )
        return ListResult(
            entries=[_listed(entry) for entry in entries],
            has_more=has_more,
            next_cursor=entries[-1].path if has_more else None,
        )


def _listed(entry: Entry) -> ListEntry:
    return ListEntry(
        name=name_of(entry.path),
        path=entry.path or "/",
        type=entry.type,
        size=entry.size_bytes,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
    )


def tools(files: Files, writing: Writing) -> list[Tool]:
    """The catalogue of this style."""
    functions = FileTools(files, writing)
    logged = frozenset({"project", "path", "mode", "content_encoding", "cursor", "expected_version"})
    return [
        Tool(
            name="file_stat",
            title="File status",
            description="Tell whether a file or directory exists, its size in bytes, its times and its version.",
            arguments=StatArguments,
            result=StatResult,
            run=functions.stat,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
        ),
        Tool(
            name="file_read",
            title="Read a file",
            description="Read a file, or a byte range of it that does not split a character.",
            arguments=ReadArguments,
            result=ReadResult,
            run=functions.read,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
        ),
        Tool(
            name="file_write",
            title="Write a file",
            description="Append to a file, overwrite bytes of it, or replace it. Earlier versions are kept.",
            arguments=WriteArguments,
            result=WriteResult,
            run=functions.write,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=False,
            logged=logged,
        ),
        Tool(
            name="file_delete",
            title="Delete a file",
            description="Delete a file, or with recursive a directory and all that is in it.",
            arguments=DeleteArguments,
            result=DeleteResult,
            run=functions.delete,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=False,
            destructive=True,
            logged=logged,
        ),
        Tool(
            name="file_list",
            title="List files",
            description="List files and directories below a path, in order of their paths, a page at a time.",
            arguments=ListArguments,
            result=ListResult,
            run=functions.listing,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
        ),
    ]
