"""Removal of files from their path: soft deletion, or a move with their whole history."""

from dataclasses import dataclass
from datetime import datetime

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import children_range
from memsvc.store.database import Tx
from memsvc.store.files import PATH_CHECK, check_path_free, path_check_args


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
        raise MemsvcError(
            Code.PERMISSION_DENIED, "files of the memory itself cannot be deleted as files"
        )
    return len(rows), sum(row["size_bytes"] for row in rows if not row["owner"])


@dataclass(frozen=True, slots=True)
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
