"""Files of an archive: every state that can be read of them, and their bytes in blocks."""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memsvc.store.database import Tx
from memsvc.store.export_tables import Table, put


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of a stream, as a revision added them."""

    size_bytes: int
    revision: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ExportStream:
    """Stream of a file from its first readable revision on, with its blocks in order."""

    stream: int
    first_revision: int
    created_at: datetime | None
    blocks: Sequence[Block] = field(default=())

    @property
    def size_bytes(self) -> int:
        """Size of all its blocks."""
        return sum(block.size_bytes for block in self.blocks)


@dataclass(frozen=True, slots=True)
class ExportBlock:
    """Block to be written into the database."""

    stream: int
    start: int
    revision: int
    created_at: datetime
    content: bytes


async def streams(tx: Tx, file_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[ExportStream]]:
    """Return the readable streams of files, by incarnation, oldest first."""
    rows = await tx.fetch(
        """
        SELECT incarnation, first_revision, stream, created_at FROM streams
        WHERE tenant = $1 AND project = $2 AND incarnation = ANY ($3) AND first_revision > 0
        ORDER BY incarnation, first_revision
        """,
        list(file_ids),
    )
    blocks = await _blocks(tx, [row["stream"] for row in rows])
    found: dict[uuid.UUID, list[ExportStream]] = defaultdict(list)
    for row in rows:
        stream_blocks = blocks.get(row["stream"], [])
        found[row["incarnation"]].append(
            ExportStream(row["stream"], row["first_revision"], row["created_at"], stream_blocks)
        )
    return found


async def _blocks(tx: Tx, of: Sequence[int]) -> dict[int, list[Block]]:
    rows = await tx.fetch(
        """
        SELECT stream, octet_length(content) AS size_bytes, revision, created_at FROM blocks
        WHERE tenant = $1 AND project = $2 AND stream = ANY ($3) ORDER BY stream, start
        """,
        list(of),
    )
    found: dict[int, list[Block]] = defaultdict(list)
    for row in rows:
        found[row["stream"]].append(Block(row["size_bytes"], row["revision"], row["created_at"]))
    return found


async def contents(tx: Tx, places: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return the blocks that start at these places (stream, start), in this order."""
    rows = await tx.fetch(
        """
        SELECT b.content FROM unnest($3::int8[], $4::int8[]) WITH ORDINALITY AS p (stream, start,
            at)
        CROSS JOIN LATERAL (
            SELECT content FROM blocks
            WHERE tenant = $1 AND project = $2 AND stream = p.stream
                AND start = p.start OFFSET 0) AS b
        ORDER BY p.at
        """,
        [stream for stream, _ in places],
        [start for _, start in places],
    )
    return [row["content"] for row in rows]


async def put_streams(tx: Tx, table: Table, of: Sequence[tuple[uuid.UUID, ExportStream]]) -> None:
    """Add streams of files. Errors as `export_tables.put`."""
    rows = [
        (file_id, file_stream.first_revision, file_stream.stream, file_stream.created_at)
        for file_id, file_stream in of
    ]
    if rows:
        await put(tx, table, ("incarnation", "first_revision", "stream", "created_at"), rows)


async def put_blocks(tx: Tx, table: Table, blocks: Sequence[ExportBlock]) -> None:
    """Add blocks. Errors as `export_tables.put`."""
    rows = [
        (block.stream, block.start, block.revision, block.created_at, block.content)
        for block in blocks
    ]
    await put(tx, table, ("stream", "start", "revision", "created_at", "content"), rows)
