"""The tools for past versions: file_list_versions, file_read_version, file_restore_version."""

from datetime import datetime
from typing import Final

from pydantic import Field

from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Result, Tool, Version
from memsvc.styles.files.content import Encoding
from memsvc.styles.files.file_models import LOGGED, FileArguments, FilePath
from memsvc.styles.files.history import LIMIT_DEFAULT, LIMIT_MAX, FileHistory
from memsvc.styles.files.precondition import Precondition

_LOGGED: Final = LOGGED | {"history_id", "before_id"}


class ListVersionsArguments(FileArguments):
    path: FilePath
    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="versions at the most")
    before_id: Version | None = Field(None, description="next_cursor of the page before")


class PastVersion(Result):
    id: str = Field(
        description="the version token that the file had then: history_id of the other tools"
    )
    size: int = Field(description="bytes")
    created_at: datetime = Field(description="when this content was written")


class ListVersionsResult(Result):
    versions: list[PastVersion] = Field(
        description="newest first; what the file is now is none of them"
    )
    has_more: bool = Field(description="whether there are more behind the last one")
    next_cursor: str | None = Field(
        None, description="before_id of the next page, when there is one"
    )


class ReadVersionArguments(FileArguments):
    path: FilePath
    history_id: Version = Field(description="id of a version of the file at this path")


class ReadVersionResult(Result):
    history_id: str = Field(description="id of the version")
    content: str = Field(description="all its bytes, as text or as base64")
    content_encoding: Encoding = Field(description="base64 when they are not UTF-8 text")
    size: int = Field(description="bytes")
    created_at: datetime = Field(description="when this content was written")


class RestoreVersionArguments(ReadVersionArguments):
    expected_version: Version | None = Field(
        None, description="restore only if the file is at this version now"
    )
    create_only: bool = Field(False, description="restore only if there is no such file now")


class RestoreVersionResult(Result):
    bytes_written: int = Field(description="bytes of the restored content")
    version: str = Field(description="token of the new state of the file")


class FileHistoryTools:
    """Functions of the version tools."""

    def __init__(self, history: FileHistory) -> None:
        self._history = history

    async def list_versions(self, scope: Scope, args: ListVersionsArguments) -> ListVersionsResult:
        states, has_more = await self._history.list_versions(
            scope, args.path, limit=args.limit, before=args.before_id
        )
        return ListVersionsResult(
            versions=[
                PastVersion(id=state.version, size=state.size_bytes, created_at=state.created_at)
                for state in states
            ],
            has_more=has_more,
            next_cursor=states[-1].version if has_more else None,
        )

    async def read_version(self, scope: Scope, args: ReadVersionArguments) -> ReadVersionResult:
        past = await self._history.read_version(scope, args.path, args.history_id)
        return ReadVersionResult(
            history_id=past.version,
            content=past.content,
            content_encoding=past.encoding,
            size=past.size_bytes,
            created_at=past.created_at,
        )

    async def restore_version(
        self, scope: Scope, args: RestoreVersionArguments
    ) -> RestoreVersionResult:
        when = Precondition(args.expected_version, must_not_exist=args.create_only)
        written = await self._history.restore_version(scope, args.path, args.history_id, when=when)
        return RestoreVersionResult(bytes_written=written.bytes_written, version=written.version)


def history_tools(history: FileHistory) -> list[Tool]:
    """Return the tools for past versions."""
    functions = FileHistoryTools(history)
    return [
        Tool(
            name="file_list_versions",
            title="List past versions",
            description="List what a file was before, newest first, also after it was deleted.",
            arguments=ListVersionsArguments,
            result=ListVersionsResult,
            run=functions.list_versions,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=_LOGGED,
        ),
        Tool(
            name="file_read_version",
            title="Read a past version",
            description="Read all that a file held at a version of its history.",
            arguments=ReadVersionArguments,
            result=ReadVersionResult,
            run=functions.read_version,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=_LOGGED,
        ),
        Tool(
            name="file_restore_version",
            title="Restore a past version",
            description="Make a file what it was at a version of its history; what it is now"
            " becomes a version.",
            arguments=RestoreVersionArguments,
            result=RestoreVersionResult,
            run=functions.restore_version,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=False,
            destructive=True,
            logged=_LOGGED,
        ),
    ]
