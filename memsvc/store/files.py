"""Files as rows of metadata over immutable blocks: what an append costs is what it appends, history included."""

import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ancestors, below
from memsvc.store.database import Row, Tx
from memsvc.store.locks import TREE_LOCK

BLOCK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """A live file. `owner` names the style that keeps it, "" when callers do."""

    incarnation: uuid.UUID
    path: str
    revision: int
    stream: int
    size_bytes: int
    is_text: bool
    owner: str
    created_at: datetime
    updated_at: datetime

    @property
    def version(self) -> str:
        """The opaque token of this state of the file: `incarnation:revision`."""
        return f"{self.incarnation.hex}:{self.revision}"


_COLUMNS = "incarnation, path, revision, stream, size_bytes, is_text, owner, created_at, updated_at"


def _file(row: Row) -> File:
    return File(**dict(row))


async def find(tx: Tx, path: str, *, for_update: bool = False) -> File | None:
    """The live file at a path; `for_update` holds its row until the transaction ends."""
    row = await tx.fetchrow(
        f"""
        SELECT {_COLUMNS} FROM files
        WHERE tenant = $1 AND project = $2 AND path = $3 AND deleted_at IS NULL {"FOR UPDATE" if for_update else ""}
        """,
        path,
    )
    return _file(row) if row else None


async def directory_updated_at(tx: Tx, directory: str) -> datetime | None:
    """When anything inside a directory was last written; None when nothing is inside, so that it does not exist."""
    updated_at: datetime | None = await tx.fetchval(
        """
        SELECT max(updated_at) FROM files
        WHERE tenant = $1 AND project = $2 AND path >= $3 AND path < $4 AND deleted_at IS NULL
        """,
        *below(directory),
    )
    return updated_at


async def create(tx: Tx, path: str, content: bytes, *, is_text: bool, owner: str, now: datetime) -> File:
    """A new file. NOT_DIRECTORY when a file stands where a parent must be, IS_DIRECTORY when files are inside `path`,
    ALREADY_EXISTS when somebody else made it meanwhile."""
    await tx.lock(TREE_LOCK)
    low, high = below(path)
    file = File(uuid.uuid4(), path, 1, _new_stream(), len(content), is_text, owner, now, now)
    row = await tx.fetchrow(
        f"""
        WITH place AS (
            SELECT EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = ANY($3::text[])
                           AND deleted_at IS NULL) AS below_a_file,
                   EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path >= $4 AND path < $5
                           AND deleted_at IS NULL) AS is_directory,
                   EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = $6
                           AND deleted_at IS NULL) AS is_file
        ), free AS (
            SELECT FROM place WHERE NOT (below_a_file OR is_directory OR is_file)
        ), made AS (
            INSERT INTO files (tenant, project, {_COLUMNS})
            SELECT $1, $2, $7, $6, 1, $8, $9, $10, $11, $12, $12 FROM free
        ), begun AS (
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream)
            SELECT $1, $2, $7, 1, $8 FROM free
        ), filled AS (
            INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
            SELECT $1, $2, $8, piece.start, 1, $12, piece.content
            FROM free, unnest($13::int8[], $14::bytea[]) AS piece (start, content)
        )
        SELECT * FROM place
        """,
        ancestors(path),
        low,
        high,
        path,
        file.incarnation,
        file.stream,
        file.size_bytes,
        is_text,
        owner,
        now,
        *_pieces(content, BLOCK_BYTES),
    )
    assert row is not None
    if row["below_a_file"]:
        raise MemsvcError(Code.NOT_DIRECTORY, "a parent of this path is a file")
    if row["is_directory"]:
        raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")
    if row["is_file"]:
        raise MemsvcError(Code.ALREADY_EXISTS, "the file exists already")
    return file


async def append(tx: Tx, path: str, content: bytes, *, is_text: bool, now: datetime) -> bool:
    """Add bytes to the end of the live file at a path in one round trip; False when there is no such file."""
    added = await tx.execute(
        """
        WITH file AS (
            UPDATE files SET revision = revision + 1, size_bytes = size_bytes + $4, updated_at = $5,
                             is_text = is_text AND $7
            WHERE tenant = $1 AND project = $2 AND path = $3 AND deleted_at IS NULL
            RETURNING stream, revision, size_bytes - $4 AS start
        )
        INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        SELECT $1, $2, file.stream, file.start, file.revision, $5, $6 FROM file
        """,
        path,
        len(content),
        now,
        content,
        is_text,
    )
    return added > 0


async def replace(tx: Tx, file: File, content: bytes, *, is_text: bool, now: datetime) -> File:
    """Give a file (held by `find(for_update=True)`) new content in a new stream; the old one stays as its history."""
    renewed = File(
        file.incarnation,
        file.path,
        file.revision + 1,
        _new_stream(),
        len(content),
        is_text,
        file.owner,
        file.created_at,
        now,
    )
    await tx.execute(
        """
        UPDATE files SET revision = $4, stream = $5, size_bytes = $6, is_text = $7, updated_at = $8
        WHERE tenant = $1 AND project = $2 AND incarnation = $3
        """,
        file.incarnation,
        renewed.revision,
        renewed.stream,
        renewed.size_bytes,
        is_text,
        now,
    )
    await _start_stream(tx, renewed, content, now)
    return renewed


async def _start_stream(tx: Tx, file: File, content: bytes, now: datetime) -> None:
    await tx.execute(
        """
        WITH begun AS (
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream) VALUES ($1, $2, $3, $4, $5)
        )
        INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        SELECT $1, $2, $5, piece.start, $4, $6, piece.content
        FROM unnest($7::int8[], $8::bytea[]) AS piece (start, content)
        """,
        file.incarnation,
        file.revision,
        file.stream,
        now,
        *_pieces(content, BLOCK_BYTES),
    )


def _pieces(content: bytes, size_bytes: int) -> tuple[list[int], list[bytes]]:
    starts = list(range(0, len(content), size_bytes))
    return starts, [content[start : start + size_bytes] for start in starts]


async def read(tx: Tx, file: File, start: int, stop: int) -> bytes:
    """The bytes `start <= position < stop` of a file's present content."""
    if stop <= start:
        return b""
    rows = await tx.fetch(
        """
        SELECT start, content FROM blocks
        WHERE tenant = $1 AND project = $2 AND stream = $3 AND start < $5 AND start >= (
            SELECT max(start) FROM blocks WHERE tenant = $1 AND project = $2 AND stream = $3 AND start <= $4)
        ORDER BY start
        """,
        file.stream,
        start,
        stop,
    )
    if not rows:
        return b""
    first = rows[0]["start"]
    return b"".join(row["content"] for row in rows)[start - first : stop - first]


async def is_directory(tx: Tx, path: str) -> bool:
    """Whether any file is inside this path."""
    inside: bool = await tx.fetchval(
        """
        SELECT EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path >= $3 AND path < $4
                       AND deleted_at IS NULL)
        """,
        *below(path),
    )
    return inside


async def delete(tx: Tx, path: str, *, recursive: bool = True, now: datetime, keep_owned: bool) -> tuple[int, int]:
    """Soft-delete the file at a path, and with `recursive` all files inside it; how many, and how many bytes of
    callers' files.

    PERMISSION_DENIED, and nothing deleted, when `keep_owned` and a file belongs to a style.
    """
    await tx.lock(TREE_LOCK)
    low, high = below(path) if recursive else ("", "")
    rows = await tx.fetch(
        """
        UPDATE files SET deleted_at = $6, updated_at = $6, revision = revision + 1
        WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL AND (path = $3 OR (path >= $4 AND path < $5))
        RETURNING owner, size_bytes
        """,
        path,
        low,
        high,
        now,
    )
    if keep_owned and any(row["owner"] for row in rows):
        raise MemsvcError(Code.PERMISSION_DENIED, "files of the memory itself cannot be deleted as files")
    return len(rows), sum(row["size_bytes"] for row in rows if not row["owner"])


async def spend(tx: Tx, delta_bytes: int, *, project_bytes_max: int, now: datetime) -> None:
    """Count bytes of callers' files against the project, exactly; QUOTA_EXCEEDED when they would not fit."""
    size_bytes = await tx.fetchval(
        """
        INSERT INTO projects AS p (tenant, project, size_bytes, created_at) VALUES ($1, $2, greatest($3, 0), $4)
        ON CONFLICT (tenant, project) DO UPDATE SET size_bytes = greatest(p.size_bytes + $3, 0)
        RETURNING size_bytes
        """,
        delta_bytes,
        now,
    )
    if delta_bytes > 0 and size_bytes > project_bytes_max:
        raise MemsvcError(
            Code.QUOTA_EXCEEDED, f"the project's files may hold {project_bytes_max} bytes; delete or shorten some"
        )


def _new_stream() -> int:
    return secrets.randbits(63)
