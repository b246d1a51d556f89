"""Journals: the files that styles append their own lines to, under roots where callers cannot write."""

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from memsvc.store.database import Tx


@dataclass(frozen=True, slots=True)
class Span:
    """Where bytes were put: a stream and an offset in it."""

    stream: int
    start: int


async def append(tx: Tx, contents: Mapping[str, bytes], *, owner: str, now: datetime) -> dict[str, Span]:
    """Add text to the end of several journals, making those that are missing; where each text was put.

    One round trip and one block a journal, however long journal and text are. No tree lock is needed: nobody else
    makes or removes files under a style's root.
    """
    paths = sorted(contents)
    rows = await tx.fetch(
        """
        WITH asked AS (
            SELECT * FROM unnest($3::text[], $4::uuid[], $5::int8[], $6::bytea[])
                AS a (path, incarnation, stream, content)
        ), written AS (
            INSERT INTO files AS f (tenant, project, incarnation, path, revision, stream, size_bytes, is_text, owner,
                                    created_at, updated_at)
            SELECT $1, $2, incarnation, path, 1, stream, length(content), true, $7, $8, $8 FROM asked ORDER BY path
            ON CONFLICT (tenant, project, path) WHERE deleted_at IS NULL DO UPDATE SET
                revision = f.revision + 1, size_bytes = f.size_bytes + EXCLUDED.size_bytes, updated_at = $8
            RETURNING f.path, f.incarnation, f.stream, f.revision, f.size_bytes
        ), begun AS (
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
            SELECT $1, $2, incarnation, 1, stream, $8 FROM written WHERE revision = 1
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
    return {row["path"]: Span(row["stream"], row["start"]) for row in rows}
