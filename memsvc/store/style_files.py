"""Files that styles keep under roots where callers cannot write, several in one round trip.

Small texts are found, written and deleted whole; to logs a style appends its own lines. No tree
lock is needed: nobody else makes or removes files under a style's root. A style writes its files
under a lock of its own.
"""

import hashlib
import secrets
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime

from memsvc.core.frozen import frozen
from memsvc.store.database import Tx
from memsvc.store.files import COLUMNS, File


def _sorted(contents: Mapping[str, bytes]) -> tuple[list[str], list[bytes]]:
    """Return paths and texts, in the order in which everybody takes them."""
    paths = sorted(contents)
    return paths, [contents[path] for path in paths]


def _new_ids(paths: Collection[str]) -> tuple[list[uuid.UUID], list[int]]:
    """Return ids of new files, and of their contents."""
    return [uuid.uuid4() for _ in paths], [secrets.randbits(63) for _ in paths]


async def find(tx: Tx, paths: Collection[str]) -> dict[str, File]:
    """Return the live files at these paths."""
    rows = await tx.fetch(
        f"""
        SELECT f.* FROM unnest($3::text[]) AS asked (path) CROSS JOIN LATERAL (
            SELECT {COLUMNS} FROM files
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
    paths, texts = _sorted(contents)
    digests = [hashlib.sha256(text).digest() for text in texts]
    rows = await tx.call("put_style_files", paths, *_new_ids(paths), texts, digests, owner, now)
    return {row["path"]: File(**{name: row[name] for name in COLUMNS.split(", ")}) for row in rows}


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


@frozen
class LogPosition:
    """Position of written bytes: a stream and an offset in it."""

    stream: int
    start: int


async def append(
    tx: Tx, contents: Mapping[str, bytes], *, owner: str, now: datetime
) -> dict[str, LogPosition]:
    """Append text to several logs, creating missing ones; return where each text was put.

    One round trip and one block a log, however long log and text are. No tree lock is needed:
    nobody else makes or removes files under a style's root.
    """
    paths, texts = _sorted(contents)
    rows = await tx.call("append_logs", paths, *_new_ids(paths), texts, owner, now)
    return {row["log"]: LogPosition(row["log_stream"], row["log_start"]) for row in rows}


async def overwrite(tx: Tx, file: File, changes: Mapping[int, bytes]) -> None:
    """Replace bytes of a file, by where they start, in every version of it that has its stream.

    The bytes at one start are all of one append, of which nothing is left but the length. What is
    known of the whole content is known no more."""
    for start, content in changes.items():
        await tx.execute(
            """
            UPDATE blocks SET content = substring(content FROM 1 FOR $4::int4 - start::int4)
                || $5::bytea || substring(content FROM $4::int4 - start::int4 + length($5) + 1)
            WHERE tenant = $1 AND project = $2 AND stream = $3 AND start = (
                SELECT max(start) FROM blocks WHERE tenant = $1 AND project = $2 AND stream = $3
                    AND start <= $4)
            """,
            file.stream,
            start,
            content,
        )
    await tx.execute(
        """
        UPDATE files SET sha256 = NULL
        WHERE tenant = $1 AND project = $2 AND path = $3 AND deleted_at IS NULL
        """,
        file.path,
    )


async def replace(tx: Tx, contents: Mapping[str, bytes], *, now: datetime) -> None:
    """Replace the texts of several small existing logs. The old ones are their history."""
    paths, texts = _sorted(contents)
    rows = await tx.fetch(
        """
        UPDATE files AS f SET revision = f.revision + 1, stream = asked.stream,
            size_bytes = asked.size_bytes, updated_at = $6, is_text = true, indexed_bytes = 0,
            sha256 = NULL
        FROM unnest($3::text[], $4::int8[], $5::int8[]) AS asked (path, stream, size_bytes)
        WHERE f.tenant = $1 AND f.project = $2 AND f.path = asked.path AND f.deleted_at IS NULL
        RETURNING f.path, f.incarnation, f.revision, f.stream
        """,
        paths,
        _new_ids(paths)[1],
        list(map(len, texts)),
        now,
    )
    await tx.execute_each(
        """
        INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        """,
        [(row["incarnation"], row["revision"], row["stream"], now) for row in rows],
    )
    await tx.execute_each(
        """
        INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        VALUES ($1, $2, $3, 0, $4, $5, $6)
        """,
        [(row["stream"], row["revision"], now, contents[row["path"]]) for row in rows],
    )
