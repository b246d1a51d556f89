"""Past versions of files: listed, read and restored."""

import base64
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.scope import Scope
from memsvc.store import versions
from memsvc.store.database import Database
from memsvc.store.versions import FileRevision, FileState
from memsvc.styles.files.content import Encoding, is_text
from memsvc.styles.files.file_writer import FileWriter, WriteOutcome, reject_kept_path
from memsvc.styles.files.precondition import ANY_STATE, Precondition

LIMIT_DEFAULT = 50
LIMIT_MAX = 200


@dataclass(frozen=True, slots=True)
class PastContent:
    """The content of a past version, as text, or as base64 where it is not UTF-8."""

    version: str
    content: str
    encoding: Encoding
    size_bytes: int
    created_at: datetime


class FileHistory:
    """History of a path: of the file there now and of files deleted there but not purged.

    A file that is moved takes its history along."""

    def __init__(self, database: Database, writing: FileWriter) -> None:
        self._database = database
        self._writing = writing

    async def list_versions(
        self, scope: Scope, path: str, *, limit: int = LIMIT_DEFAULT, before: str | None = None
    ) -> tuple[list[FileState], bool]:
        """Return past versions, newest first, and whether more follow.

        `before` is the version to start after. The live content is not one of them. INVALID_PATH
        for the root, NOT_FOUND where no file is or was, or where `before` is no version."""
        _check_path(path)
        position = FileRevision.parse(before) if before is not None else None
        async with self._database.begin(scope, read_only=True) as tx:
            unknown = before is not None and position is None
            found = (
                None
                if unknown
                else await versions.history(tx, path, before=position, limit=limit + 1)
            )
            if found is None:
                raise _not_found()
            if not found and before is None and not await versions.is_known(tx, path):
                raise MemsvcError(Code.NOT_FOUND, "file not found")
        return found[:limit], len(found) > limit

    async def read_version(self, scope: Scope, path: str, version: str) -> PastContent:
        """Return the content of a version.

        INVALID_PATH for the root, NOT_FOUND unless it is a version of a file of this path."""
        state, content = await self._read(scope, path, version)
        text = is_text(content)
        return PastContent(
            state.version,
            content.decode() if text else base64.b64encode(content).decode(),
            "utf-8" if text else "base64",
            state.size_bytes,
            state.created_at,
        )

    async def restore_version(
        self, scope: Scope, path: str, version: str, *, when: Precondition = ANY_STATE
    ) -> WriteOutcome:
        """Write the content of a version to its path, with the errors of a TRUNCATE write.

        The current content becomes a version. INVALID_PATH and NOT_FOUND as for `read_version`."""
        _check_path(path)
        reject_kept_path(path)
        when.validate()
        _, content = await self._read(scope, path, version)
        return await self._writing.write(scope, path, content, mode="TRUNCATE", when=when)

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
