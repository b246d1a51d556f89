"""Export of a tenant, or of one project, as an archive from one snapshot."""

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final

from memsvc.administration import archive_rows
from memsvc.administration.archive_format import (
    FORMAT,
    MANIFEST,
    ROWS_BYTES,
    ROWS_BYTES_MAX,
    Manifest,
    content_name,
    rows_name,
    version_name,
)
from memsvc.administration.packing import Packing, compressed, gathered
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import archived, archived_files
from memsvc.store.archived import CALLS, JOBS, PLAIN, Table
from memsvc.store.archived_files import Stream
from memsvc.store.database import Database, Row, Tx

PAGE_ROWS: Final = 200
PAGE_FILES: Final = 100
CONTENT_BYTES: Final = 1024 * 1024
"""File contents in memory at once, or one block if that is larger."""


class Exporting:
    """Exporter of archives. `version` is that of this package."""

    def __init__(self, database: Database, clock: Clock, version: str) -> None:
        self._database = database
        self._clock = clock
        self._version = version

    async def counted(self, scope: Scope) -> dict[str, dict[str, int]]:
        """Return what an archive would hold: rows of each table and bytes, by project."""
        async with self._database.begin_tenant(scope, read_only=True) as tx:
            names = await self._projects(tx, scope)
            return {name: await archived.counts(tx.within(name)) for name in names}

    @asynccontextmanager
    async def opened(self, scope: Scope, *, gzip: bool, calls: bool) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an archive as chunks, all from one snapshot, which is held until the block ends.

        NOT_FOUND where the project (or the tenant) is empty.
        """
        async with AsyncExitStack() as stack:
            tx = await stack.enter_async_context(self._database.begin_tenant(scope, read_only=True))
            names = await self._projects(tx, scope)
            if not names:
                raise MemsvcError(Code.NOT_FOUND, "there is nothing to export")
            now = self._clock.now()
            manifest = Manifest(
                format=FORMAT,
                memsvc=self._version,
                schema_revision=await archived.revision(tx),
                archive=uuid.uuid4(),
                made_at=now,
                projects=names,
                calls=calls,
            )
            pieces = gathered(_Export(tx, await archived.described(tx), manifest).pieces())
            yield compressed(pieces) if gzip else pieces

    async def _projects(self, tx: Tx, scope: Scope) -> list[str]:
        only = scope.projects
        return await archived.projects(tx, only)


class _Export:
    """One export in progress."""

    def __init__(self, tx: Tx, tables: dict[str, Table], manifest: Manifest) -> None:
        self._tx = tx
        self._tables = tables
        self._manifest = manifest
        self._packing = Packing(int(manifest.made_at.timestamp()))

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield all of it, in order."""
        for piece in self._packing.whole(MANIFEST, self._manifest.model_dump_json(indent=1).encode()):
            yield piece
        plain = (*PLAIN, CALLS) if self._manifest.calls else PLAIN
        for project in self._manifest.projects:
            tx = self._tx.within(project)
            async for piece in self._files(tx):
                yield piece
            for name in plain:
                async for piece in self._rows(tx, self._tables[name]):
                    yield piece
            jobs = [{"name": name, "subject": subject} for name, subject in await archived.waiting(tx)]
            part = _Part(project, JOBS, self._packing)
            for piece in (*(piece for job in jobs for piece in part.add(archive_rows.line(job))), *part.rest()):
                yield piece
        for piece in self._packing.ending():
            yield piece

    async def _rows(self, tx: Tx, table: Table) -> AsyncIterator[bytes]:
        part = _Part(tx.scope.project, table.name, self._packing)
        async for rows in _pages(partial(archived.page, tx, table, most=PAGE_ROWS), PAGE_ROWS):
            for row in rows:
                for piece in part.add(archive_rows.line(dict(row))):
                    yield piece
        for piece in part.rest():
            yield piece

    async def _files(self, tx: Tx) -> AsyncIterator[bytes]:
        """Yield files, page by page: their rows, then their contents."""
        part = _Part(tx.scope.project, "files", self._packing)
        async for rows in _pages(partial(archived.page, tx, self._tables["files"], most=PAGE_FILES), PAGE_FILES):
            streams = await archived_files.streams(tx, [row["incarnation"] for row in rows])
            pending: list[tuple[str, Stream, datetime]] = []
            for row in rows:
                own = streams.get(row["incarnation"], [])
                written = archive_rows.line(dict(row) | {"streams": [_stream(one) for one in own]})
                named = [(_name(tx.scope.project, row, one), one, row["updated_at"]) for one in own]
                closed = list(part.add(written))
                if closed:  # the full part describes the files before this one
                    for piece in closed:
                        yield piece
                    async for piece in self._contents(tx, pending):
                        yield piece
                    pending = []
                pending += named
            for piece in part.rest():
                yield piece
            async for piece in self._contents(tx, pending):
                yield piece

    async def _contents(self, tx: Tx, named: Sequence[tuple[str, Stream, datetime]]) -> AsyncIterator[bytes]:
        """Yield the members of streams, in order; blocks are read in batches."""
        blocks = self._blocks(tx, [stream for _, stream, _ in named])
        for name, stream, modified_at in named:
            self._packing.rows["blocks"] += len(stream.blocks)
            yield self._packing.begin(name, stream.size_bytes, int(modified_at.timestamp()))
            for _ in stream.blocks:
                yield self._packing.holds(await anext(blocks))
            for piece in self._packing.end():
                yield piece

    async def _blocks(self, tx: Tx, streams: Sequence[Stream]) -> AsyncIterator[bytes]:
        wanted: list[tuple[int, int]] = []
        wanted_bytes = 0
        for stream in streams:
            start = 0
            for block in stream.blocks:
                wanted.append((stream.stream, start))
                start += block.size_bytes
                wanted_bytes += block.size_bytes
                if wanted_bytes >= CONTENT_BYTES:
                    for content in await archived_files.contents(tx, wanted):
                        yield content
                    wanted, wanted_bytes = [], 0
        if wanted:
            for content in await archived_files.contents(tx, wanted):
                yield content


class _Part:
    """Buffer of a table's lines that become members."""

    def __init__(self, project: str, table: str, packing: Packing) -> None:
        self._project = project
        self._table = table
        self._packing = packing
        self._lines: list[bytes] = []
        self._size_bytes = 0
        self._number = 0

    def add(self, line: bytes) -> Sequence[bytes]:
        """Add a line; return the chunks of the previous member once that is full."""
        if len(line) > ROWS_BYTES_MAX:
            raise MemsvcError(Code.PAYLOAD_TOO_LARGE, f"a row of {self._table} is too large for an archive")
        closed = self.rest() if self._lines and self._size_bytes + len(line) > ROWS_BYTES else ()
        self._lines.append(line)
        self._size_bytes += len(line)
        return closed

    def rest(self) -> Sequence[bytes]:
        """Return the chunks of the member of buffered lines, if there are any."""
        if not self._lines:
            return ()
        self._number += 1
        content = b"".join(self._lines)
        self._packing.rows[self._table] += len(self._lines)
        self._lines, self._size_bytes = [], 0
        return list(self._packing.whole(rows_name(self._project, self._table, self._number), content))


async def _pages(page: Callable[[Row | None], Any], most: int) -> AsyncIterator[list[Row]]:
    """Yield the rows of a table, page by page."""
    last: Row | None = None
    while True:
        rows: list[Row] = await page(last)
        if rows:
            yield rows
        if len(rows) < most:
            return
        last = rows[-1]


def _stream(of: Stream) -> dict[str, Any]:
    blocks = [[block.size_bytes, block.revision, block.created_at] for block in of.blocks]
    return {
        "stream": of.stream,
        "first_revision": of.first_revision,
        "created_at": of.created_at,
        "blocks": blocks,
    }


def _name(project: str, file: Row, of: Stream) -> str:
    if file["deleted_at"] is None and file["stream"] == of.stream:
        return content_name(project, file["path"])
    return version_name(project, file["path"], file["incarnation"], of.first_revision)
