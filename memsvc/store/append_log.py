"""Append logs: files that styles append their lines to, under roots where callers cannot write."""

import secrets
import uuid
from collections.abc import Mapping
from datetime import datetime

from memsvc.core.frozen import frozen
from memsvc.store.database import Tx


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
    paths = sorted(contents)
    rows = await tx.call(
        "append_logs",
        paths,
        [uuid.uuid4() for _ in paths],
        [secrets.randbits(63) for _ in paths],
        [contents[path] for path in paths],
        owner,
        now,
    )
    return {row["log"]: LogPosition(row["log_stream"], row["log_start"]) for row in rows}


async def replace(tx: Tx, contents: Mapping[str, bytes], *, now: datetime) -> None:
    """Replace the texts of several small existing logs. The old ones are their history."""
    paths = sorted(contents)
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
        [secrets.randbits(63) for _ in paths],
        [len(contents[path]) for path in paths],
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
