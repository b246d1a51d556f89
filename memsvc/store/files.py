"""Files as rows of metadata over immutable blocks: an append writes only what it appends."""

import hashlib
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import ancestors, children_range
from memsvc.store.database import Row, Tx
from memsvc.store.locks import TREE_LOCK

BLOCK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """Live file.

    `owner` names the style that keeps it, "" for callers. Entries of the index cover its first
    `indexed_bytes`; `sha256` is None where only part of the content was at hand when it was last
    written.
    """

    incarnation: uuid.UUID
    path: str
    revision: int
    stream: int
    size_bytes: int
    is_text: bool
    owner: str
    created_at: datetime
    updated_at: datetime
    indexed_bytes: int = 0
    sha256: bytes | None = None

    @property
    def version(self) -> str:
        """Opaque token of this state of the file: `file_id:revision`."""
        return f"{self.incarnation.hex}:{self.revision}"


_COLUMNS = (
    "incarnation, path, revision, stream, size_bytes, is_text, owner, created_at,"
    " updated_at, indexed_bytes, sha256"
)


def _file(row: Row) -> File:
    return File(**dict(row))


class FileMovedError(MemsvcError):
    """File that was moved or deleted while its row was waited for.

    The transaction locks it nevertheless and must end, as the next mover has the tree and waits for
    that row.
    """

    def __init__(self) -> None:
        super().__init__(
            Code.RESOURCE_BUSY, "the file was moved or deleted just now", retry_after_s=0.1
        )


async def find(tx: Tx, path: str, *, for_update: bool = False) -> File | None:
    """Return the live file at a path, or None.

    `for_update` locks its row until the transaction ends, or raises GoneMeanwhileError.
    """
    here = "tenant = $1 AND project = $2 AND path = $3 AND deleted_at IS NULL"
    if for_update:  # by the id, which never changes, to tell a row that no longer matches from none
        here = (
            "tenant = $1 AND project = $2 AND incarnation = (SELECT incarnation FROM files"
            f" WHERE {here}) FOR UPDATE"
        )
    row = await tx.fetchrow(
        f"SELECT {_COLUMNS}, deleted_at IS NULL AS live FROM files WHERE {here}", path
    )
    if row is None:
        return None
    found = {**row}
    if not found.pop("live") or found["path"] != path:
        raise FileMovedError
    return _file(found)


async def versions(tx: Tx, paths: Sequence[str]) -> dict[str, str]:
    """Return the version of each live file at these paths."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS} FROM files WHERE tenant = $1 AND project = $2 AND path = ANY ($3) AND"
        " deleted_at IS NULL",
        paths,
    )
    return {row["path"]: _file(row).version for row in rows}


async def find_by_id(tx: Tx, file_id: uuid.UUID) -> File | None:
    """Return the live file of this incarnation, wherever it is now, locked for the transaction."""
    row = await tx.fetchrow(
        f"""
        SELECT {_COLUMNS} FROM files
        WHERE tenant = $1 AND project = $2 AND incarnation = $3 AND deleted_at IS NULL FOR UPDATE
        """,
        file_id,
    )
    return _file(row) if row else None


async def set_indexed(tx: Tx, file_id: uuid.UUID, indexed_bytes: int) -> None:
    """Store how many bytes of a file the entries of the index cover."""
    await tx.execute(
        "UPDATE files SET indexed_bytes = $4 WHERE tenant = $1 AND project = $2 AND incarnation ="
        " $3",
        file_id,
        indexed_bytes,
    )


async def deleted_with_entries(tx: Tx, *, limit: int) -> list[uuid.UUID]:
    """Return some deleted files that still have entries in the index."""
    rows = await tx.fetch(
        """
        SELECT incarnation FROM files
        WHERE tenant = $1 AND project = $2 AND deleted_at IS NOT NULL AND indexed_bytes > 0 LIMIT $3
        """,
        limit,
    )
    return [row["incarnation"] for row in rows]


async def create(
    tx: Tx,
    path: str,
    content: bytes,
    *,
    is_text: bool,
    owner: str,
    now: datetime,
    indexed_bytes: int = 0,
) -> File:
    """Create a file.

    NOT_DIRECTORY when a file stands where a parent must be, IS_DIRECTORY when files are inside
    `path`, ALREADY_EXISTS when somebody else made it meanwhile.
    """
    await tx.lock(TREE_LOCK)
    stream, digest = _new_stream(), hashlib.sha256(content).digest()
    file = File(
        uuid.uuid4(), path, 1, stream, len(content), is_text, owner, now, now, indexed_bytes, digest
    )
    row = await tx.fetchrow(
        f"""
        WITH place AS ({PATH_CHECK}), free AS (
            SELECT true FROM place WHERE NOT (below_a_file OR is_directory OR is_file)
        ), made AS (
            INSERT INTO files (tenant, project, {_COLUMNS})
            SELECT $1, $2, $7, $6, 1, $8, $9, $10, $11, $12, $12, $16, $15 FROM free RETURNING 1
        ), begun AS (
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
            SELECT $1, $2, $7, 1, $8, $12 FROM free RETURNING 1
        ), filled AS (
            INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
            SELECT $1, $2, $8, piece.start, 1, $12, piece.content
            FROM free, unnest($13::int8[], $14::bytea[]) AS piece (start, content) RETURNING 1
        )
        SELECT * FROM place
        """,
        *path_check_args(path),
        file.incarnation,
        file.stream,
        file.size_bytes,
        is_text,
        owner,
        now,
        *_split(content, BLOCK_BYTES),
        digest,
        indexed_bytes,
    )
    check_path_free(row)
    return file


# What stands where a file is to be: $3 its parents, $4 and $5 the range inside it, $6 its path.
PATH_CHECK = """
    SELECT EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = ANY($3::text[])
                   AND deleted_at IS NULL) AS below_a_file,
           EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path >= $4 AND path < $5
                   AND deleted_at IS NULL) AS is_directory,
           EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = $6
                   AND deleted_at IS NULL) AS is_file
"""


def path_check_args(path: str) -> tuple[list[str], str, str, str]:
    """Return the arguments of PLACE for a path."""
    return ancestors(path), *children_range(path), path


def check_path_free(row: Row | None) -> None:
    """Raise the conflict that PLACE found for a new file."""
    assert row is not None
    if row["below_a_file"]:
        raise MemsvcError(Code.NOT_DIRECTORY, "a parent of this path is a file")
    if row["is_directory"]:
        raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")
    if row["is_file"]:
        raise MemsvcError(Code.ALREADY_EXISTS, "the file exists already")


async def append(
    tx: Tx, file: File, content: bytes, *, is_text: bool, now: datetime, indexed_bytes: int = 0
) -> File:
    """Append bytes (some) to a file that `find(for_update=True)` locked, in one round trip."""
    updated = replace(
        file,
        revision=file.revision + 1,
        size_bytes=file.size_bytes + len(content),
        is_text=file.is_text and is_text,
        updated_at=now,
        indexed_bytes=indexed_bytes,
        sha256=None,
    )
    await tx.execute(
        """
        WITH file AS (
            UPDATE files SET revision = $4, size_bytes = $5, updated_at = $6, is_text = $7,
                indexed_bytes = $11,
                             sha256 = NULL
            WHERE tenant = $1 AND project = $2 AND incarnation = $3
        )
        INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        SELECT $1, $2, $8, piece.start, $4, $6, piece.content
        FROM unnest($9::int8[], $10::bytea[]) AS piece (start, content) RETURNING 1
        """,
        file.incarnation,
        updated.revision,
        updated.size_bytes,
        now,
        updated.is_text,
        file.stream,
        *_split(content, BLOCK_BYTES, file.size_bytes),
        indexed_bytes,
    )
    return updated


async def rewrite(
    tx: Tx, file: File, content: bytes, *, is_text: bool, now: datetime, indexed_bytes: int = 0
) -> File:
    """Replace the content of a file locked by `find(for_update=True)`.

    The old stream is its history.
    """
    updated = replace(
        file,
        revision=file.revision + 1,
        stream=_new_stream(),
        size_bytes=len(content),
        is_text=is_text,
        updated_at=now,
        indexed_bytes=indexed_bytes,
        sha256=hashlib.sha256(content).digest(),
    )
    await tx.execute(
        """
        WITH file AS (
            UPDATE files SET revision = $4, stream = $5, size_bytes = $6, is_text = $7,
                updated_at = $8,
                             indexed_bytes = $12, sha256 = $9
            WHERE tenant = $1 AND project = $2 AND incarnation = $3
        ), begun AS (
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
            VALUES ($1, $2, $3, $4, $5, $8)
        )
        INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        SELECT $1, $2, $5, piece.start, $4, $8, piece.content
        FROM unnest($10::int8[], $11::bytea[]) AS piece (start, content) RETURNING 1
        """,
        file.incarnation,
        updated.revision,
        updated.stream,
        updated.size_bytes,
        is_text,
        now,
        updated.sha256,
        *_split(content, BLOCK_BYTES),
        indexed_bytes,
    )
    return updated


def _split(content: bytes, size_bytes: int, offset: int = 0) -> tuple[list[int], list[bytes]]:
    positions = range(0, len(content), size_bytes)
    return [offset + start for start in positions], [
        content[start : start + size_bytes] for start in positions
    ]


async def read(tx: Tx, file: File, start: int, stop: int) -> bytes:
    """Return the bytes `start <= position < stop` of a file's present content."""
    if stop <= start:
        return b""
    rows = await tx.fetch(
        """
        SELECT start, content FROM blocks
        WHERE tenant = $1 AND project = $2 AND stream = $3 AND start < $5 AND start >= (
            SELECT max(start) FROM blocks WHERE tenant = $1 AND project = $2 AND stream = $3
                AND start <= $4)
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


def _new_stream() -> int:
    return secrets.randbits(63)
