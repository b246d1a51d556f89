"""The tools that change files: file_write, file_delete, file_rename."""

from typing import Final

from pydantic import Field, field_validator

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Result, Tool, Version
from memsvc.styles.files.content import decode
from memsvc.styles.files.file_models import INTEGER_MAX, LOGGED, FileArguments, FilePath, Sha256
from memsvc.styles.files.file_writer import FileWriter, Mode
from memsvc.styles.files.precondition import Precondition

_MODES: Final[dict[str, Mode]] = {
    "APPEND": "APPEND",
    "OVERWRITE": "OVERWRITE",
    "TRUNCATE": "TRUNCATE",
}


class FileWriteArguments(FileArguments):
    path: FilePath
    content: str = Field(description="what to write, in the given encoding")
    content_encoding: str = Field("utf-8", description="utf-8 or base64")
    offset: int = Field(0, le=INTEGER_MAX, description="byte to write at, with OVERWRITE")
    mode: str = Field(
        "APPEND", description="APPEND, OVERWRITE (at offset) or TRUNCATE (replace all)"
    )
    expected_version: Version | None = Field(
        None, description="write only if the file is at this version"
    )
    content_sha256: Sha256 | None = Field(
        None, description="write only if the file holds content of this SHA-256"
    )
    create_only: bool = Field(False, description="write only if there is no such file yet")

    @field_validator("mode")
    @classmethod
    def _mode(cls, value: str) -> str:
        mode = value.strip().upper()
        if mode not in _MODES:
            raise MemsvcError(
                Code.INVALID_OFFSET, "invalid write mode: APPEND, OVERWRITE or TRUNCATE"
            )
        return mode


class FileWriteResult(Result):
    bytes_written: int = Field(description="bytes of the content that was given")
    version: str = Field(
        description="token of the new state of the file; empty where it keeps no versions"
    )


class FileDeleteArguments(FileArguments):
    path: FilePath = ""
    recursive: bool = Field(
        False, description="needed to delete a directory with all that is in it"
    )
    expected_version: Version | None = Field(
        None, description="delete only if a file is there at this version"
    )
    content_sha256: Sha256 | None = Field(
        None, description="delete only if a file with content of this SHA-256 is there"
    )


class FileDeleteResult(Result):
    deleted_count: int = Field(description="how many files went")


class FileRenameArguments(FileArguments):
    from_path: FilePath = Field(description="the file or directory to move")
    to_path: FilePath = Field(description="where it goes; its history goes with it")
    overwrite: bool = Field(
        False, description="let a file take the place of a file, which is deleted"
    )
    expected_version: Version | None = Field(
        None, description="move only if a file is there at this version"
    )
    content_sha256: Sha256 | None = Field(
        None, description="move only if a file of this SHA-256 is there"
    )
    expected_destination_version: Version | None = Field(
        None, description="move only if a file is at to_path at this version"
    )
    destination_must_not_exist: bool = Field(
        False, description="move only if nothing is at to_path"
    )


class FileRenameResult(Result):
    moved_count: int = Field(description="how many files moved; 0 when both paths are the same")


class FileWriteTools:
    """Functions of the writing tools."""

    def __init__(self, writing: FileWriter) -> None:
        self._writing = writing

    async def write(self, scope: Scope, args: FileWriteArguments) -> FileWriteResult:
        written = await self._writing.write(
            scope,
            args.path,
            decode(args.content, args.content_encoding),
            mode=_MODES[args.mode],
            offset=args.offset,
            when=Precondition(args.expected_version, args.content_sha256, args.create_only),
        )
        return FileWriteResult(bytes_written=written.bytes_written, version=written.version)

    async def delete(self, scope: Scope, args: FileDeleteArguments) -> FileDeleteResult:
        when = Precondition(args.expected_version, args.content_sha256)
        deleted = await self._writing.delete(scope, args.path, recursive=args.recursive, when=when)
        return FileDeleteResult(deleted_count=deleted)

    async def rename(self, scope: Scope, args: FileRenameArguments) -> FileRenameResult:
        moved = await self._writing.rename(
            scope,
            args.from_path,
            args.to_path,
            overwrite=args.overwrite,
            when=Precondition(args.expected_version, args.content_sha256),
            destination_when=Precondition(
                args.expected_destination_version, must_not_exist=args.destination_must_not_exist
            ),
        )
        return FileRenameResult(moved_count=moved)


def writing_tools(writing: FileWriter) -> list[Tool]:
    """Return the writing tools."""
    functions = FileWriteTools(writing)
    return [
        Tool(
            name="file_write",
            title="Write a file",
            description="Append to a file, overwrite bytes of it, or replace it. Earlier versions"
            " are kept.",
            arguments=FileWriteArguments,
            result=FileWriteResult,
            run=functions.write,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=False,
            logged=LOGGED,
        ),
        Tool(
            name="file_delete",
            title="Delete a file",
            description="Delete a file, or with recursive a directory and all that is in it.",
            arguments=FileDeleteArguments,
            result=FileDeleteResult,
            run=functions.delete,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=False,
            destructive=True,
            logged=LOGGED,
        ),
        Tool(
            name="file_rename",
            title="Rename or move a file",
            description="Rename or move a file, or a directory with all that is in it, together"
            " with its history.",
            arguments=FileRenameArguments,
            result=FileRenameResult,
            run=functions.rename,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=False,
            destructive=True,
            logged=LOGGED,
        ),
    ]
