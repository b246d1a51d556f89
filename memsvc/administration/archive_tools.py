"""Archives of a tenant: exported and restored, as tools and as streams of bytes."""

import hashlib
import uuid
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from typing import Annotated, Any, BinaryIO, Final
from uuid import UUID

import anyio.to_thread
from pydantic import Field

from memsvc.administration import archive_format
from memsvc.administration.archive_format import (
    CHECKSUMS_A_MEMBER,
    END,
    FORMAT,
    MANIFEST,
    MEDIA_TYPES,
    ROWS_BYTES,
    ROWS_BYTES_MAX,
    SUFFIXES,
    ArchiveManifest,
    End,
    checksums_name,
    content_name,
    rows_name,
    version_name,
)
from memsvc.administration.archive_restore import ArchiveRestore, FileQuotas, RestoredProject
from memsvc.core import tar
from memsvc.core.archives import ARCHIVE_PATH, EXPORT_TOOL, IMPORT_TOOL, OpenArchive
from memsvc.core.errors import Code, MemsvcError, not_found, payload_too_large
from memsvc.core.frozen import frozen
from memsvc.core.options import Options
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tool_methods import admin_tool
from memsvc.core.tools import Result
from memsvc.package_files import version
from memsvc.store import export
from memsvc.store.database import Database, Row, Tx
from memsvc.store.export import CALLS, JOBS, PLAIN, ExportStream, Table

CHUNK_BYTES: Final = 256 * 1024
GZIP_LEVEL: Final = 4
_GZIP_WINDOW: Final = 31


class ArchiveWriter:
    """Framing of the members of one archive, with the sums that `end.json` states."""

    def __init__(self, made_at_s: int) -> None:
        self._made_at_s = made_at_s
        self._digests: list[bytes] = []
        self._checksums: list[str] = []
        self._members = 0
        self._content_bytes = 0
        self.rows: Counter[str] = Counter()

    def member(self, name: str, content: bytes) -> Iterator[bytes]:
        """Yield a member whose content is complete."""
        yield self.begin(name, len(content), self._made_at_s)
        yield self.content(content)
        yield from self.end()

    def begin(self, name: str, size_bytes: int, modified_at_s: int) -> bytes:
        """Return the header of a member."""
        self._member, self._hash = tar.Member(name, size_bytes), hashlib.sha256()
        return tar.header(self._member, modified_at_s)

    def content(self, content: bytes) -> bytes:
        """Return some of the member's content, added to its checksum."""
        self._hash.update(content)
        return content

    def end(self) -> Iterator[bytes]:
        """Yield the padding of the member, and sometimes a member of checksums after it."""
        yield tar.padding(self._member.size_bytes)
        self._members += 1
        self._content_bytes += self._member.size_bytes
        self._digests.append(f"{self._hash.hexdigest()}  {self._member.name}\n".encode())
        if len(self._digests) == CHECKSUMS_A_MEMBER:
            yield from self._checksums_member()

    def finish(self) -> Iterator[bytes]:
        """Yield what completes the archive."""
        if self._digests:
            yield from self._checksums_member()
        end = End(
            members=self._members,
            content_bytes=self._content_bytes,
            rows=dict(self.rows),
            checksums=self._checksums,
        )
        yield from self._plain_member(END, end.model_dump_json(indent=1).encode())
        yield tar.ENDING

    def _checksums_member(self) -> Iterator[bytes]:
        content = b"".join(self._digests)
        self._digests.clear()
        self._checksums.append(hashlib.sha256(content).hexdigest())
        yield from self._plain_member(checksums_name(len(self._checksums)), content)

    def _plain_member(self, name: str, content: bytes) -> Iterator[bytes]:
        yield tar.header(tar.Member(name, len(content)), self._made_at_s)
        yield content
        yield tar.padding(len(content))


async def in_chunks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the same bytes in chunks that are worth sending."""
    pending: list[bytes] = []
    size_bytes = 0
    async for chunk in chunks:
        pending.append(chunk)
        size_bytes += len(chunk)
        if size_bytes >= CHUNK_BYTES:
            yield b"".join(pending)
            pending.clear()
            size_bytes = 0
    if pending:
        yield b"".join(pending)


async def compress(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield these bytes in gzip, compressed in a thread."""
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WINDOW)
    async for chunk in chunks:
        if output := await anyio.to_thread.run_sync(compressor.compress, chunk):
            yield output
    yield compressor.flush()


PAGE_ROWS: Final = 200
PAGE_FILES: Final = 100
CONTENT_BYTES: Final = 1024 * 1024
"""File contents in memory at once, or one block if that is larger."""


@frozen
class ArchiveExport:
    """Exporter of archives. `version` is that of this package."""

    database: Database
    clock: Clock
    version: str

    async def count(self, scope: Scope) -> dict[str, dict[str, int]]:
        """Return what an archive would hold: rows of each table and bytes, by project."""
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            names = await self._projects(tx, scope)
            return {name: await export.counts(tx.within(name)) for name in names}

    @asynccontextmanager
    async def open(
        self, scope: Scope, *, gzip: bool, calls: bool
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an archive as chunks, all from one snapshot, which is held until the block ends.

        NOT_FOUND where the project (or the tenant) is empty.
        """
        async with AsyncExitStack() as stack:
            tx = await stack.enter_async_context(self.database.begin_tenant(scope, read_only=True))
            names = await self._projects(tx, scope)
            if not names:
                raise not_found("there is nothing to export")
            now = self.clock.now()
            manifest = ArchiveManifest(
                format=FORMAT,
                memsvc=self.version,
                schema_revision=await export.revision(tx),
                archive=uuid.uuid4(),
                made_at=now,
                projects=names,
                calls=calls,
            )
            chunks = in_chunks(_ExportRun(tx, await export.describe_tables(tx), manifest).chunks())
            yield compress(chunks) if gzip else chunks

    async def _projects(self, tx: Tx, scope: Scope) -> list[str]:
        only = scope.projects
        return await export.projects(tx, only)


class _ExportRun:
    """One export in progress."""

    def __init__(self, tx: Tx, tables: dict[str, Table], manifest: ArchiveManifest) -> None:
        self._tx = tx
        self._tables = tables
        self._manifest = manifest
        self._writer = ArchiveWriter(int(manifest.made_at.timestamp()))

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield all of it, in order."""
        for chunk in self._writer.member(
            MANIFEST, self._manifest.model_dump_json(indent=1).encode()
        ):
            yield chunk
        plain = (*PLAIN, CALLS) if self._manifest.calls else PLAIN
        for project in self._manifest.projects:
            tx = self._tx.within(project)
            async for chunk in self._files(tx):
                yield chunk
            for name in plain:
                async for chunk in self._rows(tx, self._tables[name]):
                    yield chunk
            jobs = [
                {"name": name, "subject": subject}
                for name, subject in await export.pending_jobs(tx)
            ]
            part = _RowsBuffer(project, JOBS, self._writer)
            for chunk in (
                *(chunk for job in jobs for chunk in part.add(archive_format.line(job))),
                *part.flush(),
            ):
                yield chunk
        for chunk in self._writer.finish():
            yield chunk

    async def _rows(self, tx: Tx, table: Table) -> AsyncIterator[bytes]:
        part = _RowsBuffer(tx.scope.project, table.name, self._writer)
        async for rows in _iterate(partial(export.page, tx, table, limit=PAGE_ROWS), PAGE_ROWS):
            for row in rows:
                for chunk in part.add(archive_format.line(dict(row))):
                    yield chunk
        for chunk in part.flush():
            yield chunk

    async def _files(self, tx: Tx) -> AsyncIterator[bytes]:
        """Yield files, page by page: their rows, then their contents."""
        part = _RowsBuffer(tx.scope.project, "files", self._writer)
        async for rows in _iterate(
            partial(export.page, tx, self._tables["files"], limit=PAGE_FILES), PAGE_FILES
        ):
            streams = await export.streams(tx, [row["incarnation"] for row in rows])
            pending: list[tuple[str, ExportStream, datetime]] = []
            for row in rows:
                streams_ = streams.get(row["incarnation"], [])
                written = archive_format.line(
                    dict(row) | {"streams": [_stream(stream) for stream in streams_]}
                )
                named = [
                    (_name(tx.scope.project, row, stream), stream, row["updated_at"])
                    for stream in streams_
                ]
                closed = list(part.add(written))
                if closed:  # the full part describes the files before this one
                    for chunk in closed:
                        yield chunk
                    async for chunk in self._contents(tx, pending):
                        yield chunk
                    pending = []
                pending += named
            for chunk in part.flush():
                yield chunk
            async for chunk in self._contents(tx, pending):
                yield chunk

    async def _contents(
        self, tx: Tx, named: Sequence[tuple[str, ExportStream, datetime]]
    ) -> AsyncIterator[bytes]:
        """Yield the members of streams, in order; blocks are read in batches."""
        blocks = self._blocks(tx, [stream for _, stream, _ in named])
        for name, stream, modified_at in named:
            self._writer.rows["blocks"] += len(stream.blocks)
            yield self._writer.begin(name, stream.size_bytes, int(modified_at.timestamp()))
            for _ in stream.blocks:
                yield self._writer.content(await anext(blocks))
            for chunk in self._writer.end():
                yield chunk

    async def _blocks(self, tx: Tx, streams: Sequence[ExportStream]) -> AsyncIterator[bytes]:
        block_ids: list[tuple[int, int]] = []
        size_bytes = 0
        for stream in streams:
            start = 0
            for block in stream.blocks:
                block_ids.append((stream.stream, start))
                start += block.size_bytes
                size_bytes += block.size_bytes
                if size_bytes >= CONTENT_BYTES:
                    for content in await export.contents(tx, block_ids):
                        yield content
                    block_ids, size_bytes = [], 0
        if block_ids:
            for content in await export.contents(tx, block_ids):
                yield content


class _RowsBuffer:
    """Buffer of a table's lines that become members."""

    def __init__(self, project: str, table: str, writer: ArchiveWriter) -> None:
        self._project = project
        self._table = table
        self._writer = writer
        self._lines: list[bytes] = []
        self._size_bytes = 0
        self._part = 0

    def add(self, line: bytes) -> Sequence[bytes]:
        """Add a line; return the chunks of the previous member once that is full."""
        if len(line) > ROWS_BYTES_MAX:
            raise payload_too_large(f"a row of {self._table} is too large for an archive")
        closed = self.flush() if self._lines and self._size_bytes + len(line) > ROWS_BYTES else ()
        self._lines.append(line)
        self._size_bytes += len(line)
        return closed

    def flush(self) -> Sequence[bytes]:
        """Return the chunks of the member of buffered lines, if there are any."""
        if not self._lines:
            return ()
        self._part += 1
        content = b"".join(self._lines)
        self._writer.rows[self._table] += len(self._lines)
        self._lines, self._size_bytes = [], 0
        return list(self._writer.member(rows_name(self._project, self._table, self._part), content))


async def _iterate(page: Callable[[Row | None], Any], limit: int) -> AsyncIterator[list[Row]]:
    """Yield the rows of a table, page by page."""
    last: Row | None = None
    while True:
        rows: list[Row] = await page(last)
        if rows:
            yield rows
        if len(rows) < limit:
            return
        last = rows[-1]


def _stream(stream: ExportStream) -> dict[str, Any]:
    blocks = [[block.size_bytes, block.revision, block.created_at] for block in stream.blocks]
    return {
        "stream": stream.stream,
        "first_revision": stream.first_revision,
        "created_at": stream.created_at,
        "blocks": blocks,
    }


def _name(project: str, file: Row, stream: ExportStream) -> str:
    if file["deleted_at"] is None and file["stream"] == stream.stream:
        return content_name(project, file["path"])
    return version_name(project, file["path"], file["incarnation"], stream.first_revision)


class ArchiveOptions(Options):
    """Limits of archives.

    Each is in the folder for temporary files (TMPDIR) until it is read or sent.
    """

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
