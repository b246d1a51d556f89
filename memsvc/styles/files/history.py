"""Past versions of files: listed, read and restored."""

import base64
from datetime import datetime
from functools import partial
from typing import Annotated

from pydantic import Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.core.tools import Version
from memsvc.store import versions
from memsvc.store.database import Database
from memsvc.store.versions import FileRevision, FileState
from memsvc.styles.files.content import Encoding, is_text
from memsvc.styles.files.file_models import FilePath, FileWrite, file_tool
from memsvc.styles.files.file_writer import FileWriter, reject_kept_path
from memsvc.styles.files.precondition import Precondition

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
