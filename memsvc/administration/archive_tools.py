"""Archives of a tenant: exported and restored, as tools and as streams of bytes."""

import hashlib
import uuid
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
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
    rows_name,
    stream_name,
)
from memsvc.administration.archive_restore import ArchiveRestore, FileQuotas, RestoredProject
from memsvc.core import tar
from memsvc.core.archives import ARCHIVE_PATH, EXPORT_TOOL, IMPORT_TOOL, OpenArchive
from memsvc.core.errors import Code, MemsvcError, not_found, payload_too_large
from memsvc.core.frozen import frozen
from memsvc.core.options import Options, Positive
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
    """Framing of the members of one archive, with the sums that `end.json` states.

    What is written waits to be taken.
    """

    def __init__(self, made_at_s: int) -> None:
        self._made_at_s = made_at_s
        self._digests: list[bytes] = []
        self._checksums: list[str] = []
        self._members = 0
        self._content_bytes = 0
        self._waiting: list[bytes] = []
        self.waiting_bytes = 0
        self.rows: Counter[str] = Counter()

    def pop(self) -> bytes:
        """Return what was written since the last time."""
        waiting = b"".join(self._waiting)
        self._waiting.clear()
        self.waiting_bytes = 0
        return waiting

    def member(self, name: str, content: bytes) -> None:
        """Write a member whose content is complete."""
        self.begin(name, len(content), self._made_at_s)
        self.content(content)
        self.end()

    def begin(self, name: str, size_bytes: int, modified_at_s: int) -> None:
        """Write the header of a member."""
        self._member, self._hash = tar.Member(name, size_bytes), hashlib.sha256()
        self._write(tar.header(self._member, modified_at_s))

    def content(self, content: bytes) -> None:
        """Write some of the member's content, added to its checksum."""
        self._hash.update(content)
        self._write(content)

    def end(self) -> None:
        """Write the padding of the member, and sometimes a member of checksums after it."""
        self._write(tar.padding(self._member.size_bytes))
        self._members += 1
        self._content_bytes += self._member.size_bytes
        self._digests.append(f"{self._hash.hexdigest()}  {self._member.name}\n".encode())
        if len(self._digests) == CHECKSUMS_A_MEMBER:
            self._write_checksums()

    def finish(self) -> None:
        """Write what completes the archive."""
        if self._digests:
            self._write_checksums()
        end = End(
            members=self._members,
            content_bytes=self._content_bytes,
            rows=dict(self.rows),
            checksums=self._checksums,
        )
        self._write_plain(END, end.model_dump_json(indent=1).encode())
        self._write(tar.ENDING)

    def _write_checksums(self) -> None:
        content = b"".join(self._digests)
        self._digests.clear()
        self._checksums.append(hashlib.sha256(content).hexdigest())
        self._write_plain(checksums_name(len(self._checksums)), content)

    def _write_plain(self, name: str, content: bytes) -> None:
        self._write(tar.header(tar.Member(name, len(content)), self._made_at_s))
        self._write(content)
        self._write(tar.padding(len(content)))

    def _write(self, content: bytes) -> None:
        self._waiting.append(content)
        self.waiting_bytes += len(content)


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


class _ExportRun:
    """One export in progress."""

    def __init__(self, tx: Tx, tables: dict[str, Table], manifest: ArchiveManifest) -> None:
        self._tx = tx
        self._tables = tables
        self._manifest = manifest
        self._writer = ArchiveWriter(int(manifest.made_at.timestamp()))

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield all of it, in order, in chunks that are worth sending."""
        async for _ in self._steps():
            if self._writer.waiting_bytes >= CHUNK_BYTES:
                yield self._writer.pop()
        yield self._writer.pop()

    async def _steps(self) -> AsyncIterator[None]:
        """Write all of it; yield wherever what waits may be taken."""
        self._writer.member(MANIFEST, self._manifest.model_dump_json(indent=1).encode())
        plain = (*PLAIN, CALLS) if self._manifest.calls else PLAIN
        for project in self._manifest.projects:
            tx = self._tx.within(project)
            async for _ in self._files(tx):
                yield
            for name in plain:
                part = _RowsBuffer(project, name, self._writer)
                async for rows in _iterate(tx, self._tables[name], PAGE_ROWS):
                    for row in rows:
                        if part.add(dict(row)):
                            yield
                part.flush()
                yield
            part = _RowsBuffer(project, JOBS, self._writer)
            for name, subject in await export.pending_jobs(tx):
                part.add({"name": name, "subject": subject})
            part.flush()
        self._writer.finish()

    async def _files(self, tx: Tx) -> AsyncIterator[None]:
        """Write files, page by page: their rows, then their contents."""
        part = _RowsBuffer(tx.scope.project, "files", self._writer)
        async for rows in _iterate(tx, self._tables["files"], PAGE_FILES):
            streams = await export.streams(tx, [row["incarnation"] for row in rows])
            pending: list[tuple[str, ExportStream, datetime]] = []
            for row in rows:
                of_file = streams.get(row["incarnation"], [])
                # the full part describes the files before this one
                if part.add(dict(row) | {"streams": [_stream(stream) for stream in of_file]}):
                    async for _ in self._contents(tx, pending):
                        yield
                    pending = []
                pending += [
                    (stream_name(tx.scope.project, row, stream), stream, row["updated_at"])
                    for stream in of_file
                ]
            part.flush()
            async for _ in self._contents(tx, pending):
                yield

    async def _contents(
        self, tx: Tx, named: Sequence[tuple[str, ExportStream, datetime]]
    ) -> AsyncIterator[None]:
        """Write the members of streams, in order; blocks are read in batches."""
        blocks = self._blocks(tx, [stream for _, stream, _ in named])
        for name, stream, modified_at in named:
            self._writer.rows["blocks"] += len(stream.blocks)
            self._writer.begin(name, stream.size_bytes, int(modified_at.timestamp()))
            for _ in stream.blocks:
                self._writer.content(await anext(blocks))
                yield
            self._writer.end()
            yield

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


@dataclass(slots=True)
class _RowsBuffer:
    """Buffer of a table's lines that become members."""

    project: str
    table: str
    writer: ArchiveWriter
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    part: int = 0

    def add(self, row: dict[str, Any]) -> bool:
        """Add a row; return whether the member before it was full, and so was written."""
        line = archive_format.line(row)
        if len(line) > ROWS_BYTES_MAX:
            raise payload_too_large(
                f"a row of the table {self.table} is larger than 64 MiB, which is the limit"
                " for a row in an archive"
            )
        is_full = bool(self.lines) and self.size_bytes + len(line) > ROWS_BYTES
        if is_full:
            self.flush()
        self.lines.append(line)
        self.size_bytes += len(line)
        return is_full

    def flush(self) -> None:
        """Write the member of buffered lines, if there are any."""
        if not self.lines:
            return
        self.part += 1
        self.writer.rows[self.table] += len(self.lines)
        self.writer.member(rows_name(self.project, self.table, self.part), b"".join(self.lines))
        self.lines, self.size_bytes = [], 0


async def _iterate(tx: Tx, table: Table, limit: int) -> AsyncIterator[list[Row]]:
    """Yield the rows of a table, page by page."""
    last: Row | None = None
    while True:
        rows = await export.page(tx, table, last, limit=limit)
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


class ArchiveOptions(Options):
    """Limits of archives.

    Each archive is stored in the folder for temporary files (TMPDIR) until it is read or sent."""

    archive_bytes_max: int = Field(
        4 * 2**30,
        ge=1024,
        description="maximum size of an uploaded archive, in bytes; a larger one is refused",
    )
    expanded_bytes_max: int = Field(
        16 * 2**30,
        ge=1024,
        description="maximum size of an uploaded archive after decompression, in bytes; a larger"
        " one is refused",
    )
    export_bytes_max: int = Field(
        16 * 2**30,
        ge=1024,
        description="maximum size of a created archive, in bytes; a larger export is refused. The"
        " archive is stored on disk until it has been sent",
    )
    at_once_max: int = Field(
        2,
        ge=1,
        le=100,
        description="maximum number of exports and restores that one process runs at once; a single"
        " tenant can run one fewer, but at least one. Further exports and restores are refused",
    )
    idle_s_max: Positive = Field(
        60.0,
        description="how long a transfer waits for the client to send the next part of an upload or"
        " to read the next part of a download; after that, the transfer is aborted",
    )


class ExportedProject(Result):
    project: str = Field(description="name of the project")
    rows: dict[str, int] = Field(
        description="number of rows of each table; content_bytes: size of all current and past file"
        " contents, in bytes"
    )


class ArchiveExportResult(Result):
    format: int = Field(description="format version in which this server writes archives")
    projects: list[ExportedProject] = Field(description="what an archive written now would contain")
    path: str = Field(
        description="path on this server; GET it with the same arguments to download the archive"
    )


class ArchiveImportResult(Result):
    path: str = Field(description="path on this server; POST the archive to it as the request body")
    format_max: int = Field(description="newest format version that this server can read")
    archive_bytes_max: int = Field(description="maximum size of the uploaded archive, in bytes")
    archive: UUID | None = Field(None, description="id of the archive")
    made_at: str | None = Field(None, description="creation time of the archive")
    checked_only: bool = Field(
        False, description="true if this was only a check, so that nothing was written"
    )
    projects: list[RestoredProject] = Field(
        [], description="result of the restore for each project of the archive"
    )


@frozen
class ArchiveTransfer:
    """Exports and restores of a tenant's archives.

    `known_jobs` and `sweep_jobs` are those of `ArchiveRestore`.
    """

    database: Database
    clock: Clock
    options: ArchiveOptions
    allowed: FileQuotas
    known_jobs: Collection[str] = ()
    sweep_jobs: Collection[str] = ()
    active: list[bytes] = field(default_factory=list)

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
        if len(self.active) >= limit or self.active.count(tenant) >= max(1, limit - 1):
            raise MemsvcError(
                Code.RATE_LIMITED,
                "too many archives are being exported or restored at the moment",
                retry_after_s=10.0,
            )
        self.active.append(tenant)
        try:
            yield
        finally:
            self.active.remove(tenant)

    @asynccontextmanager
    async def opened(self, scope: Scope, *, gzip: bool, calls: bool) -> AsyncIterator[OpenArchive]:
        """Open an archive of what archive_export would count, as chunks, all from one snapshot.

        It is held until the block ends. NOT_FOUND where the project (or the tenant) is empty.
        """
        name = "memory" if scope.project == ALL_PROJECTS else scope.project.replace(".", "_")
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            names = await export.projects(tx, scope.projects)
            if not names:
                raise not_found("there is no data to export")
            manifest = ArchiveManifest(
                format=FORMAT,
                memsvc=version(),
                schema_revision=await export.revision(tx),
                archive=uuid.uuid4(),
                made_at=self.clock.now(),
                projects=names,
                calls=calls,
            )
            chunks = _ExportRun(tx, await export.describe_tables(tx), manifest).chunks()
            content = compress(chunks) if gzip else chunks
            yield OpenArchive(name + SUFFIXES[gzip], MEDIA_TYPES[gzip], content)

    async def restored(self, scope: Scope, archive: BinaryIO, *, check: bool) -> Result:
        """Restore an archive and return the result. Errors as `ArchiveRestore.run`."""
        restore = ArchiveRestore(
            self.database,
            self.clock,
            self.allowed,
            self.options.expanded_bytes_max,
            self.known_jobs,
            self.sweep_jobs,
        )
        manifest, projects = await restore.run(scope, archive, check_only=check)
        return self._import_result().model_copy(
            update={
                "archive": manifest.archive,
                "made_at": manifest.made_at.isoformat(),
                "checked_only": check,
                "projects": projects,
            }
        )

    @admin_tool(
        EXPORT_TOOL,
        "Export an archive",
        Permission.ADMIN,
        read_only=True,
        idempotent=True,
    )
    async def export_summary(
        self,
        scope: Scope,
        gzip: Annotated[bool, "compress the archive"] = False,
        calls: Annotated[
            bool, "include the call log of these projects; a restore ignores the call log"
        ] = False,
    ) -> ArchiveExportResult:
        """Report what an archive of one project, or of all projects, would contain.

        Download the archive, a tar file that archive_import accepts, from GET /api/archive or with
        the command `memsvc export`."""
        del gzip, calls
        async with self.database.begin_tenant(scope, read_only=True) as tx:
            projects = [
                ExportedProject(project=name, rows=await export.counts(tx.within(name)))
                for name in await export.projects(tx, scope.projects)
            ]
        return ArchiveExportResult(format=FORMAT, projects=projects, path=ARCHIVE_PATH)

    @admin_tool(
        IMPORT_TOOL,
        "Restore an archive",
        Permission.ADMIN,
        idempotent=True,
        project="target project, if the archive contains one project; *: restore each project"
        " under its own name",
    )
    async def import_info(
        self,
        scope: Scope,
        check: Annotated[bool, "only report whether the archive could be restored"] = False,
    ) -> ArchiveImportResult:
        """Report where to upload an archive to restore it.

        Send it as the body of POST /api/archive, or with the command `memsvc restore`. It is
        restored into empty projects, completely or not at all."""
        del scope, check
        return self._import_result()

    def _import_result(self) -> ArchiveImportResult:
        return ArchiveImportResult(
            path=ARCHIVE_PATH, format_max=FORMAT, archive_bytes_max=self.bytes_max
        )
