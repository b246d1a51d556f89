"""Ownership of callers' files: a path owns the files at it, live or deleted, with all versions."""

from collections.abc import AsyncIterator
from typing import Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ROOT
from memsvc.core.scope import Scope
from memsvc.store.belongings import Belongings, nothing
from memsvc.styles.files.indexing import BOOK, INDEX_JOB, RETITLE_JOB
from memsvc.styles.files.summarising import SUMMARISE_JOB
from memsvc.styles.files.writing import refuse_kept

_JOBS: Final = (INDEX_JOB, SUMMARISE_JOB)


class FileBelongings:
    """Callers' files, which belong to a path alone, not to a user or a session."""

    def of_session(self, scope: Scope, session: str) -> AsyncIterator[Belongings]:
        """Yield nothing."""
        return nothing()

    def of_user(self, scope: Scope, user: str) -> AsyncIterator[Belongings]:
        """Yield nothing."""
        return nothing()

    async def of_path(self, scope: Scope, path: str) -> AsyncIterator[Belongings]:
        """Yield the file at a path, or the files in a directory.

        PERMISSION_DENIED for the root, which is a project, and for paths where the memory keeps its
        own files."""
        del scope
        if path == ROOT:
            raise MemsvcError(Code.PERMISSION_DENIED, "the root is a project: purge that")
        refuse_kept(path)
        yield Belongings(directories=(path,), documents_in=BOOK, file_jobs=_JOBS, jobs=((RETITLE_JOB, path),))
