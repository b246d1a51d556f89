"""Ownership of callers' files: a path owns the files at it, live or deleted, with all versions."""

from collections.abc import AsyncIterator
from typing import Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.scope import Scope
from memsvc.store.ownership import OwnerData, nothing
from memsvc.styles.files.file_summaries import SUMMARISE_JOB
from memsvc.styles.files.file_writer import reject_kept_path
from memsvc.styles.files.indexing import FILE_INDEX, INDEX_JOB, RENAME_JOB

_JOBS: Final = (INDEX_JOB, SUMMARISE_JOB)


class FileOwnership:
    """Callers' files, which belong to a path alone, not to a user or a session."""

    def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Yield nothing."""
        return nothing()

    def of_user(self, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
        """Yield nothing."""
        return nothing()

    async def of_path(self, scope: Scope, path: str) -> AsyncIterator[OwnerData]:
        """Yield the file at a path, or the files in a directory.

        PERMISSION_DENIED for the root, which is a project, and for paths where the memory keeps its
        own files."""
        del scope
        if path == ROOT:
            raise MemsvcError(Code.PERMISSION_DENIED, "the root is a project: purge that")
        reject_kept_path(path)
        yield OwnerData(
            directories=(path,),
            documents_index=FILE_INDEX,
            file_jobs=_JOBS,
            jobs=((RENAME_JOB, path),),
        )
