"""Files as rows of metadata over immutable blocks: an append writes only what it appends."""

import hashlib
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.core.errors import Code, MemsvcError, already_exists, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.paths import ancestors, children_range
from memsvc.store.database import Row, Tx
from memsvc.store.locks import TREE_LOCK

BLOCK_BYTES = 256 * 1024


@frozen
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


COLUMNS = (
    "incarnation, path, revision, stream, size_bytes, is_text, owner, created_at,"
    " updated_at, indexed_bytes, sha256"
)


class FileMovedError(MemsvcError):
    """File that was moved or deleted while its row was waited for.

    The transaction locks it nevertheless and must end, as the next mover has the tree and waits for
    that row.
    """

    def __init__(self) -> None:
        super().__init__(
            Code.RESOURCE_BUSY,
            "another call moved or deleted the file at the same time",
            retry_after_s=0.1,
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
        f"SELECT {COLUMNS}, deleted_at IS NULL AS live FROM files WHERE {here}", path
    )
    if row is None:
        return None
    found = {**row}
    if not found.pop("live") or found["path"] != path:
        raise FileMovedError
    return File(**found)


async def versions(tx: Tx, paths: Sequence[str]) -> dict[str, str]:
    """Return the version of each live file at these paths."""
    rows = await tx.fetch(
        f"SELECT {COLUMNS} FROM files WHERE tenant = $1 AND project = $2 AND path = ANY ($3) AND"
        " deleted_at IS NULL",
        paths,
    )
    return {row["path"]: File(**row).version for row in rows}


async def find_by_id(tx: Tx, file_id: uuid.UUID) -> File | None:
    """Return the live file of this incarnation, wherever it is now, locked for the transaction."""
    return await tx.fetchrow_as(
        File,
        f"""
        SELECT {COLUMNS} FROM files
        WHERE tenant = $1 AND project = $2 AND incarnation = $3 AND deleted_at IS NULL FOR UPDATE
        """,
        file_id,
    )


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
    return await tx.fetch_column(
        """
        SELECT incarnation FROM files
        WHERE tenant = $1 AND project = $2 AND deleted_at IS NOT NULL AND indexed_bytes > 0 LIMIT $3
        """,
        limit,
    )


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
    (row,) = await tx.call(
        "create_file",
        *path_check_args(path),
        file.incarnation,
        file.stream,
        file.size_bytes,
        is_text,
        owner,
        now,
        indexed_bytes,
        digest,
        *_split(content, BLOCK_BYTES),
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
        raise MemsvcError(Code.NOT_DIRECTORY, "a parent of this path is a file, not a directory")
    if row["is_directory"]:
        raise MemsvcError(Code.IS_DIRECTORY, "this path is a directory")
    if row["is_file"]:
        raise already_exists("the file already exists")


async def put(
    tx: Tx,
    path: str,
    file: File | None,
    content: bytes,
    *,
    is_text: bool,
    owner: str,
    now: datetime,
    indexed_bytes: int = 0,
) -> File:
    """Make this the whole content of the file at a path: create it, or `rewrite` a locked `file`.

    Errors as `create`."""
    if file is None:
        return await create(
            tx, path, content, is_text=is_text, owner=owner, now=now, indexed_bytes=indexed_bytes
        )
    return await rewrite(tx, file, content, is_text=is_text, now=now, indexed_bytes=indexed_bytes)


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
    await _write(tx, updated, content, file.size_bytes, new_stream=False)
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
    await _write(tx, updated, content, 0, new_stream=True)
    return updated


async def _write(tx: Tx, file: File, content: bytes, start: int, *, new_stream: bool) -> None:
    """Store a file's new state, with blocks from `start` on; `new_stream` if it is new."""
    await tx.call(
        "write_file",
        file.incarnation,
        file.revision,
        file.stream,
        file.size_bytes,
        file.is_text,
        file.updated_at,
        file.indexed_bytes,
        file.sha256,
        new_stream,
        *_split(content, BLOCK_BYTES, start),
    )


def _split(content: bytes, size_bytes: int, offset: int = 0) -> tuple[list[int], list[bytes]]:
    positions = range(0, len(content), size_bytes)
    return [offset + start for start in positions], [
        content[start : start + size_bytes] for start in positions
    ]


async def read(tx: Tx, file: File, start: int = 0, stop: int | None = None) -> bytes:
    """Return the bytes `start <= position < stop` of a file's present content; all by default."""
    stop = file.size_bytes if stop is None else stop
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


async def delete(
    tx: Tx,
    path: str,
    *,
    recursive: bool = True,
    now: datetime,
    keep_style_files: bool,
    index_bytes_max: int = 0,
) -> tuple[int, int]:
    """Soft-delete the file at a path, and with `recursive` all files inside it.

    Return their number, and the bytes of callers' files. The tree must be locked. A file with no
    more than `index_bytes_max` in the index counts as removed from it, which the caller then does.
    PERMISSION_DENIED, and nothing deleted, when `keep_style_files` and a file belongs to a style.
    """
    low, high = children_range(path) if recursive else ("", "")
    rows = await tx.fetch(
        """
        UPDATE files SET deleted_at = $6, updated_at = $6, revision = revision + 1,
                         indexed_bytes = CASE WHEN indexed_bytes <= $7 THEN 0 ELSE indexed_bytes END
        WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL AND (path = $3 OR (path >= $4
            AND path < $5))
        RETURNING owner, size_bytes
        """,
        path,
        low,
        high,
        now,
        index_bytes_max,
    )
    if keep_style_files and any(row["owner"] for row in rows):
        raise permission_denied(
            "files that the server generates from memory cannot be deleted directly"
        )
    return len(rows), sum(row["size_bytes"] for row in rows if not row["owner"])


@frozen
class MoveResult:
    """Number of moved files, the longest new path in bytes, and whether a style keeps any."""

    files: int
    path_bytes: int
    any_owned: bool


async def check_destination(tx: Tx, path: str) -> None:
    """Raise what prevents something new at a path, as `files.create` does.

    The tree must be locked.
    """
    check_path_free(await tx.fetchrow(PATH_CHECK, *path_check_args(path)))


async def move(tx: Tx, source: str, destination: str) -> MoveResult:
    """Move a file or directory with its history to another path.

    Nothing may be there, and the tree must be locked.
    """
    row = await tx.fetchrow(
        """
        WITH moved AS (
            UPDATE files SET path = $6 || substr(path, $7), revision = revision + 1
            WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL AND (path = $3 OR (path >= $4
                AND path < $5))
            RETURNING octet_length(path) AS path_bytes, owner
        )
        SELECT count(*) AS files, coalesce(max(path_bytes), 0) AS path_bytes,
            coalesce(bool_or(owner <> ''), false)
            AS any_owned FROM moved
        """,
        source,
        *children_range(source),
        destination,
        len(source) + 1,
    )
    assert row is not None
    return MoveResult(**row)
