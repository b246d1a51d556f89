"""Archives of a tenant: exported and restored, as tools and as streams of bytes."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, BinaryIO
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from memsvc.administration.archive_export import ArchiveExport
from memsvc.administration.archive_format import FORMAT, MEDIA_TYPES, SUFFIXES
from memsvc.administration.archive_restore import ArchiveRestore, FileQuotas, RestoredProject
from memsvc.core.archives import ARCHIVE_PATH, EXPORT_TOOL, IMPORT_TOOL, OpenArchive
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import admin_tool
from memsvc.core.tools import Result
from memsvc.package_files import version
from memsvc.store.database import Database


class ArchiveOptions(BaseModel):
    """Limits of archives.

    Each is in the folder for temporary files (TMPDIR) until it is read or sent.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    archive_bytes_max: int = Field(
        4 * 2**30, ge=1024, description="an archive to restore, in bytes as it is sent"
    )
    expanded_bytes_max: int = Field(
        16 * 2**30, ge=1024, description="the same when it is expanded, in bytes"
    )
    export_bytes_max: int = Field(
        16 * 2**30,
        ge=1024,
        description="an archive that is made, in bytes as it is sent; it is on disk until then",
    )
    at_once_max: int = Field(
        2,
        ge=1,
        le=100,
        description="exports and restores at once in one process; one tenant has one less, if not"
        " one",
    )
    idle_s_max: float = Field(
        60.0,
        gt=0,
        description="how long a restore waits for more of its archive, and an export for it to be"
        " taken",
    )


class ExportedProject(Result):
    project: str = Field(description="its name")
    rows: dict[str, int] = Field(
        description="rows by table; content_bytes: what files hold and held, in bytes"
    )


class ArchiveExportResult(Result):
    format: int = Field(description="the version of the format that archives are made in")
    projects: list[ExportedProject] = Field(description="what an archive would hold now")
    path: str = Field(
        description="where to GET the archive with the same arguments, under this server's URL"
    )


class ArchiveImportResult(Result):
    path: str = Field(description="where to POST an archive as the body, under this server's URL")
    format_max: int = Field(description="the newest version of the format that is read here")
    archive_bytes_max: int = Field(description="what such a body may hold, in bytes")
    archive: UUID | None = Field(None, description="the archive's id")
    made_at: str | None = Field(None, description="when it was made")
    checked_only: bool = Field(False, description="whether nothing was to be written")
    projects: list[RestoredProject] = Field([], description="what became of each of its projects")


class ArchiveTransfer:
    """Exports and restores of a tenant's archives.

    `known_jobs` and `sweep_jobs` are those of `ArchiveRestore`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        options: ArchiveOptions,
        allowed: FileQuotas,
        *,
        known_jobs: Collection[str] = (),
        sweep_jobs: Collection[str] = (),
    ) -> None:
        self.options = options
        self._export = ArchiveExport(database, clock, version())
        self._restore = ArchiveRestore(
            database,
            clock,
            allowed,
            expanded_bytes_max=options.expanded_bytes_max,
            known_jobs=known_jobs,
            sweep_jobs=sweep_jobs,
        )
        self._active: Counter[bytes] = Counter()

    @property
    def bytes_max(self) -> int:
        """Size limit of an archive to restore."""
        return self.options.archive_bytes_max

    @property
    def export_bytes_max(self) -> int:
        """Size limit of an export."""
        return self.options.export_bytes_max

    @property
    def idle_s_max(self) -> float:
        """Seconds to wait for more of an archive."""
        return self.options.idle_s_max

    @contextmanager
    def slot(self, tenant: bytes) -> Iterator[None]:
        """Take one of the slots for exports and restores while the block runs.

        RATE_LIMITED when all are taken, or all but one by this tenant.
        """
        limit = self.options.at_once_max
        if self._active.total() >= limit or self._active[tenant] >= max(1, limit - 1):
            raise MemsvcError(
                Code.RATE_LIMITED, "other archives are being made or restored", retry_after_s=10.0
            )
        self._active[tenant] += 1
        try:
            yield
        finally:
            self._active[tenant] -= 1
            if not self._active[tenant]:
                del self._active[tenant]

    @asynccontextmanager
    async def opened(self, scope: Scope, *, gzip: bool, calls: bool) -> AsyncIterator[OpenArchive]:
        """Open an archive of what archive_export would count."""
        name = "memory" if scope.project == ALL_PROJECTS else scope.project.replace(".", "_")
        async with self._export.open(scope, gzip=gzip, calls=calls) as chunks:
            yield OpenArchive(name + SUFFIXES[gzip], MEDIA_TYPES[gzip], chunks)

    async def restored(self, scope: Scope, archive: BinaryIO, *, check: bool) -> Result:
        """Restore an archive and return the result. Errors as `ArchiveRestore.run`."""
        outcome = await self._restore.run(scope, archive, check_only=check)
        return self._import_result().model_copy(
            update={
                "archive": outcome.manifest.archive,
                "made_at": outcome.manifest.made_at.isoformat(),
                "checked_only": check,
                "projects": list(outcome.projects),
            }
        )

    @admin_tool(
        EXPORT_TOOL,
        title="Export an archive",
        needs=Permission.ADMIN,
        read_only=True,
        idempotent=True,
    )
    async def export_summary(
        self,
        scope: Scope,
        gzip: Annotated[bool, "whether the archive is compressed"] = False,
        calls: Annotated[
            bool, "whether the call log of these projects is in it too, to read"
        ] = False,
    ) -> ArchiveExportResult:
        """Say what an archive of a project, or of all of them, would hold.

        The archive itself, a tar file that archive_import takes, comes from GET /api/archive or the
        command memsvc export."""
        del gzip, calls
        counted = await self._export.count(scope)
        projects = [ExportedProject(project=name, rows=rows) for name, rows in counted.items()]
        return ArchiveExportResult(format=FORMAT, projects=projects, path=ARCHIVE_PATH)

    @admin_tool(
        IMPORT_TOOL,
        title="Restore an archive",
        needs=Permission.ADMIN,
        idempotent=True,
        project="where the only project of the archive goes; *: each where it came from",
    )
    async def import_info(
        self,
        scope: Scope,
        check: Annotated[bool, "only say whether the archive could be restored"] = False,
    ) -> ArchiveImportResult:
        """Say where to send an archive that is to be restored.

        As the body of POST /api/archive, or by the command memsvc restore. It goes into projects in
        which nothing is, whole or not at all."""
        del scope, check
        return self._import_result()

    def _import_result(self) -> ArchiveImportResult:
        return ArchiveImportResult(
            path=ARCHIVE_PATH, format_max=FORMAT, archive_bytes_max=self.bytes_max
        )
