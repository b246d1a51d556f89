"""Small texts that a style keeps as files: several found, written or deleted in one round trip.

No tree lock is needed: nobody else makes or removes files under a style's root. A style writes its
files under a lock of its own.
"""

import hashlib
import secrets
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime

from memsvc.store.database import Tx
from memsvc.store.files import File

_COLUMNS = (
    "incarnation, path, revision, stream, size_bytes, is_text, owner, created_at,"
    " updated_at, indexed_bytes, sha256"
)


async def find(tx: Tx, paths: Collection[str]) -> dict[str, File]:
    """Return the live files at these paths."""
    rows = await tx.fetch(
        f"""
        SELECT f.* FROM unnest($3::text[]) AS asked (path) CROSS JOIN LATERAL (
            SELECT {_COLUMNS} FROM files
            WHERE tenant = $1 AND project = $2 AND path = asked.path COLLATE "C"
                AND deleted_at IS NULL OFFSET 0) AS f
        """,
        list(paths),
    )
    return {row["path"]: File(**row) for row in rows}


async def put(
    tx: Tx, contents: Mapping[str, bytes], *, owner: str, now: datetime
) -> dict[str, File]:
    """Store these texts as the files at these paths, each of one block.

    Missing files are made; what others held stays as their history.
    """
    paths = sorted(contents)
    rows = await tx.call(
        "put_style_files",
        paths,
        [uuid.uuid4() for _ in paths],
        [secrets.randbits(63) for _ in paths],
        [contents[path] for path in paths],
        [hashlib.sha256(contents[path]).digest() for path in paths],
        owner,
        now,
    )
    return {row["path"]: File(**{name: row[name] for name in _COLUMNS.split(", ")}) for row in rows}


async def delete(tx: Tx, paths: Collection[str], *, now: datetime) -> list[uuid.UUID]:
    """Soft-delete the files at these paths; return their ids.

    Their content stays until it is purged.
    """
    return await tx.fetch_column(
        """
        UPDATE files SET deleted_at = $4, updated_at = $4, revision = revision + 1
        WHERE tenant = $1 AND project = $2 AND incarnation = ANY(ARRAY(
            SELECT f.incarnation FROM unnest($3::text[]) AS asked (path) CROSS JOIN LATERAL (
                SELECT incarnation FROM files
                WHERE tenant = $1 AND project = $2 AND path = asked.path COLLATE "C"
                    AND deleted_at IS NULL OFFSET 0
            ) AS f))
        RETURNING incarnation
        """,
        list(paths),
        now,
    )
