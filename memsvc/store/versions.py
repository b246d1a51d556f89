"""Past states of files: each revision that changed the content, as blocks of a stream.

A stream's first revision is the oldest that can still be read of it: older blocks belong to that
state. It may have none, which is empty content. A stream with a negative first revision is being
deleted and has no states.
"""

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

from memsvc.core.frozen import frozen
from memsvc.store.database import Row, Tx

REVISION_MAX = 2**63 - 1


@frozen
class FileState:
    """State of a file from `created_at` on: the first `size_bytes` bytes of a stream."""

    incarnation: uuid.UUID
    revision: int
    stream: int
    size_bytes: int
    created_at: datetime

    @property
    def version(self) -> str:
        """Token that the file had then: `file_id:revision`."""
        return f"{self.incarnation.hex}:{self.revision}"


def _parse(version: str) -> tuple[uuid.UUID, int] | None:
    """Return the file and revision of a version token; None when no file can have had it."""
    file_id, _, revision = version.partition(":")
    number = int(revision)
    return (uuid.UUID(hex=file_id), number) if number <= REVISION_MAX else None


def states_of(start_max: str, limit: str) -> str:
    """Return the SQL of the newest states of a stream `s` of a file `f`.

    They are of blocks that start at `start_max` or before: `limit` of them and the empty one. A
    step a state, and no content is read: the lengths are enough.
    """
    last = """
        SELECT start, greatest(revision, s.first_revision) AS revision,
            start + octet_length(content) AS size_bytes,
               created_at
        FROM blocks WHERE tenant = $1 AND project = $2 AND stream = s.stream
    """
    return f"""
        (WITH RECURSIVE walk AS (
            ({last} AND start <= {start_max} ORDER BY start DESC LIMIT 1)
            UNION ALL
            SELECT earlier.* FROM walk CROSS JOIN LATERAL (
                {last} AND start < walk.start AND revision < walk.revision ORDER BY start DESC
                    LIMIT 1) AS earlier
            WHERE walk.revision > s.first_revision
        ) SELECT revision, size_bytes, created_at FROM walk LIMIT {limit})
        UNION ALL
        SELECT s.first_revision, 0, coalesce(s.created_at, f.created_at) WHERE NOT EXISTS (
            SELECT FROM blocks
            WHERE tenant = $1 AND project = $2 AND stream = s.stream AND start = 0
                AND revision <= s.first_revision)
    """


async def is_known(tx: Tx, path: str) -> bool:
    """Return whether a file exists at a path, or existed there and has not been purged."""
    return await tx.fetch_bool(
        """
        SELECT EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = $3
            AND deleted_at IS NULL)
            OR EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = $3
                AND deleted_at IS NOT NULL)
        """,
        path,
    )


async def history(tx: Tx, path: str, *, before: str | None, limit: int) -> list[FileState] | None:
    """Return past states of the files at a path, live or deleted there, newest first.

    With `before`, from there on. The present state of the live file is no past one. None when no
    file of that path was ever at `before`.
    """
    position = _parse(before) if before is not None else None
    here = await _locate(tx, path, position[0], position[1] - 1) if position else None
    if before is not None and here is None:
        return None
    return await tx.fetch_as(
        FileState,
        f"""
        SELECT s.incarnation, state.revision, s.stream, state.size_bytes, state.created_at
        FROM (
            SELECT f.incarnation, f.created_at AS file_created_at, f.gone_at, f.present,
                f.present_bytes,
                   s.stream, s.first_revision, s.created_at
            FROM (
                (SELECT incarnation, created_at, 'infinity'::timestamptz AS gone_at,
                    stream AS present,
                        size_bytes AS present_bytes
                 FROM files
                 WHERE tenant = $1 AND project = $2 AND path = $3 AND deleted_at IS NULL
                     AND $4::timestamptz IS NULL)
                UNION ALL
                (SELECT incarnation, created_at, deleted_at, NULL, NULL FROM files
                 WHERE tenant = $1 AND project = $2 AND path = $3 AND deleted_at IS NOT NULL
                   AND deleted_at <= coalesce($4, 'infinity')
                   AND (deleted_at, incarnation) <= (coalesce($4, 'infinity'), $5::uuid)
                 ORDER BY deleted_at DESC, incarnation DESC LIMIT $9)
            ) AS f CROSS JOIN LATERAL (
                SELECT stream, first_revision, created_at FROM streams
                WHERE tenant = $1 AND project = $2 AND incarnation = f.incarnation
                    AND first_revision BETWEEN 1
                    AND CASE WHEN f.incarnation = $5 THEN $6 ELSE {REVISION_MAX} END
                ORDER BY first_revision DESC LIMIT $9
            ) AS s
            ORDER BY f.gone_at DESC, f.incarnation DESC, s.first_revision DESC LIMIT $9
        ) AS s CROSS JOIN LATERAL (SELECT s.file_created_at AS created_at) AS f CROSS JOIN LATERAL (
            {states_of(f"CASE WHEN s.stream = $7 THEN $8 ELSE {REVISION_MAX} END", "$9")}
        ) AS state
        WHERE s.stream IS DISTINCT FROM s.present OR state.size_bytes <> s.present_bytes
        ORDER BY s.gone_at DESC, s.incarnation DESC, state.revision DESC LIMIT $10
        """,
        path,
        here["deleted_at"] if here else None,
        position[0] if position else None,
        position[1] - 1 if position else 0,
        here["stream"] if here else None,
        # where no block of the stream is as old as that, only its empty state can be
        None if here is None else -1 if here["start"] is None else here["start"],
        limit + 1,
        limit,
    )


async def state(tx: Tx, path: str, version: str) -> FileState | None:
    """Return the state of a file of this path, live or deleted, at the version of this token.

    None when it never was there, or no longer can be read there.
    """
    position = _parse(version)
    if position is None:
        return None
    file_id, revision = position
    row = await _locate(tx, path, file_id, revision)
    if row is None or row["stream"] is None or revision > row["latest"]:
        return None
    if row["start"] is None:
        return FileState(file_id, row["first_revision"], row["stream"], 0, row["begun_at"])
    return FileState(
        file_id,
        max(row["revision"], row["first_revision"]),
        row["stream"],
        row["size_bytes"],
        row["created_at"],
    )


async def replaced_at(tx: Tx, of: FileState) -> datetime | None:
    """Return when a state was replaced or its file deleted; None for the state of a live file."""
    at: datetime | None = await tx.fetchval(
        """
        SELECT coalesce((
            SELECT created_at FROM streams
            WHERE tenant = $1 AND project = $2 AND incarnation = $3 AND first_revision > $4
            ORDER BY first_revision LIMIT 1
        ), (SELECT deleted_at FROM files WHERE tenant = $1 AND project = $2 AND incarnation = $3))
        """,
        of.incarnation,
        of.revision,
    )
    return at


async def deleted_at_moment(
    tx: Tx, paths: Collection[str], moment: datetime
) -> dict[str, tuple[str, FileState]]:
    """Return the owners and states that deleted files at these paths had at a moment, by path.

    For small files, each state of which is a stream of its own."""
    rows = await tx.fetch(
        """
        SELECT asked.path, state.* FROM unnest($3::text[]) AS asked (path) CROSS JOIN LATERAL (
            SELECT f.owner, f.incarnation, s.first_revision AS revision, s.stream, (
                SELECT coalesce(sum(octet_length(content)), 0)::int8 FROM blocks
                WHERE tenant = $1 AND project = $2 AND stream = s.stream) AS size_bytes,
                s.created_at
            FROM files AS f CROSS JOIN LATERAL (
                SELECT stream, first_revision, coalesce(created_at, f.created_at) AS created_at
                FROM streams
                WHERE tenant = $1 AND project = $2 AND incarnation = f.incarnation
                    AND first_revision >= 1 AND coalesce(created_at, f.created_at) <= $4
                ORDER BY first_revision DESC LIMIT 1) AS s
            WHERE f.tenant = $1 AND f.project = $2 AND f.path = asked.path COLLATE "C"
                AND f.deleted_at IS NOT NULL
            ORDER BY s.created_at DESC, f.deleted_at DESC LIMIT 1) AS state
        """,
        list(paths),
        moment,
    )
    return {row["path"]: (row["owner"], FileState(*list(row.values())[2:])) for row in rows}


async def content(tx: Tx, of: FileState) -> bytes:
    """Return the whole content of a state."""
    rows = await tx.fetch(
        """
        SELECT content FROM blocks WHERE tenant = $1 AND project = $2 AND stream = $3 AND start < $4
            ORDER BY start
        """,
        of.stream,
        of.size_bytes,
    )
    return b"".join(row["content"] for row in rows)[: of.size_bytes]


async def contents(tx: Tx, of: Sequence[FileState]) -> list[bytes]:
    """Return the whole contents of several states of small files."""
    rows = await tx.fetch(
        """
        SELECT stream, content FROM blocks
        WHERE tenant = $1 AND project = $2 AND stream = ANY($3::int8[]) ORDER BY stream, start
        """,
        {state.stream for state in of},
    )
    whole: dict[int, bytes] = {}
    for row in rows:
        whole[row["stream"]] = whole.get(row["stream"], b"") + row["content"]
    return [whole.get(state.stream, b"")[: state.size_bytes] for state in of]


async def _locate(tx: Tx, path: str, file_id: uuid.UUID, revision: int) -> Row | None:
    """Return the file of a path at a position, with its stream and that stream's last block then.

    Bisects the stream, whose revisions rise with its bytes: no index of them is needed.
    """
    return await tx.fetchrow(
        """
        WITH RECURSIVE place AS (
            SELECT f.deleted_at, f.revision - (f.deleted_at IS NOT NULL)::int AS latest, s.stream,
                s.first_revision,
                   coalesce(s.created_at, f.created_at) AS begun_at
            FROM files AS f LEFT JOIN LATERAL (
                SELECT stream, first_revision, created_at FROM streams
                WHERE tenant = $1 AND project = $2 AND incarnation = $4 AND first_revision BETWEEN 1
                    AND $5
                ORDER BY first_revision DESC LIMIT 1) AS s ON true
            WHERE f.tenant = $1 AND f.project = $2 AND f.incarnation = $4 AND f.path = $3
        ), halves (stream, low, high) AS (
            SELECT stream, 0::int8, (
                SELECT max(start) FROM blocks WHERE tenant = $1 AND project = $2
                    AND stream = place.stream)
            FROM place
            UNION ALL
            SELECT halves.stream, CASE WHEN probe.revision <= $5 THEN middle ELSE low END,
                   CASE WHEN probe.revision <= $5 THEN high ELSE probe.start - 1 END
            FROM halves CROSS JOIN LATERAL (SELECT (low + high + 1) / 2 AS middle) AS half CROSS
                JOIN LATERAL (
                SELECT start, revision FROM blocks
                WHERE tenant = $1 AND project = $2 AND stream = halves.stream AND start <= middle
                ORDER BY start DESC LIMIT 1) AS probe
            WHERE low < high
        )
        SELECT place.*, last.start, last.revision, last.size_bytes, last.created_at
        FROM place LEFT JOIN (halves CROSS JOIN LATERAL (
            SELECT start, revision, start + octet_length(content) AS size_bytes, created_at
                FROM blocks
            WHERE tenant = $1 AND project = $2 AND stream = halves.stream AND start <= low
            ORDER BY start DESC LIMIT 1) AS last) ON low >= high AND last.revision <= $5
        """,
        path,
        file_id,
        revision,
    )
