"""Append logs: files that styles append their lines to, under roots where callers cannot write."""

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from memsvc.store.database import Tx


@dataclass(frozen=True, slots=True)
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
    rows = await tx.fetch(
        """
        WITH asked AS (
            SELECT * FROM unnest($3::text[], $4::uuid[], $5::int8[], $6::bytea[])
                AS a (path, incarnation, stream, content)
        ), written AS (
            INSERT INTO files AS f (tenant, project, incarnation, path, revision, stream,
                size_bytes, is_text, owner,
                                    created_at, updated_at)
            SELECT $1, $2, incarnation, path, 1, stream, length(content), true, $7, $8, $8
                FROM asked ORDER BY path
            ON CONFLICT (tenant, project, path) WHERE deleted_at IS NULL DO UPDATE SET
                revision = f.revision + 1, size_bytes = f.size_bytes + EXCLUDED.size_bytes,
                updated_at = EXCLUDED.updated_at
            RETURNING f.path, f.incarnation, f.stream, f.revision, f.size_bytes
        ), begun AS (
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
            SELECT $1, $2, incarnation, 1, stream, $8 FROM written WHERE revision = 1 RETURNING 1
        ), filled AS (
            INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
            SELECT $1, $2, w.stream, w.size_bytes - length(a.content), w.revision, $8, a.content
            FROM written AS w JOIN asked AS a USING (path) RETURNING stream, start
        )
        SELECT written.path, filled.stream, filled.start FROM written JOIN filled USING (stream)
        """,
        paths,
        [uuid.uuid4() for _ in paths],
        [secrets.randbits(63) for _ in paths],
        [contents[path] for path in paths],
        owner,
        now,
    )
    return {row["path"]: LogPosition(row["stream"], row["start"]) for row in rows}


async def replace(tx: Tx, contents: Mapping[str, bytes], *, now: datetime) -> None:
    """Replace the texts of several small existing logs, in one round trip.

    The old ones are their history.
    """
    paths = sorted(contents)
    await tx.execute(
        """
        WITH asked AS (
            SELECT * FROM unnest($3::text[], $4::int8[], $5::bytea[]) AS a (path, stream, content)
        ), written AS (
            UPDATE files AS f SET revision = f.revision + 1, stream = asked.stream,
                size_bytes = length(asked.content),
                   updated_at = $6, is_text = true, indexed_bytes = 0, sha256 = NULL
            FROM asked WHERE f.tenant = $1 AND f.project = $2 AND f.path = asked.path
                AND f.deleted_at IS NULL
            RETURNING f.incarnation, f.revision, f.stream, asked.content
        ), begun AS (
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
            SELECT $1, $2, incarnation, revision, stream, $6 FROM written RETURNING 1
        )
        INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        SELECT $1, $2, stream, 0, revision, $6, content FROM written RETURNING 1
        """,
        paths,
        [secrets.randbits(63) for _ in paths],
        [contents[path] for path in paths],
        now,
    )
