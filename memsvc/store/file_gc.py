"""Garbage collection of files: deleted files, and past states of files.

Each function is one short step; what a killed step left is found and finished by the next one. What
goes is hidden first, in one statement: its streams get a negative first revision and have no states
from then on. Then their blocks go in batches. Nothing that can be read changes in between.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime

import orjson

from memsvc.core.frozen import frozen, frozen_by_keyword
from memsvc.store.database import Tx, columns_of
from memsvc.store.files import BLOCK_BYTES
from memsvc.store.versions import REVISION_MAX, states_of

SMALL_BLOCKS_MAX = 16
"""Small old blocks that a file may have before a merge is worth its cost."""
MERGE_BLOCKS = 1000
MERGE_BYTES = 16 * BLOCK_BYTES


@frozen_by_keyword
class FileRetention:
    """Retention of files: every state at `cutoff` and later, and some older ones.

    Of callers' files, those are the `past_states` past states, and of a style's as many as
    `style_past_states` has for it as their owner, or none. Files that were deleted before
    `deleted_before` go, and until then keep their last state.
    """

    cutoff: datetime
    past_states: int
    deleted_before: datetime
    style_past_states: Mapping[str, int] = field(default_factory=dict)

    @property
    def past_states_by_owner(self) -> str:
        """Number of newest past states that each owner's files keep, as JSON.

        Callers are the owner "".
        """
        return orjson.dumps({**self.style_past_states, "": self.past_states}).decode()


@frozen
class FileWork:
    """Work on a file: everything must go (`gone`), or some old states or blocks (`prune`).

    `indexed`: it has entries in the index.
    """

    file_id: uuid.UUID
    gone: bool
    prune: bool
    indexed: bool


# The oldest revision of a file `f` that is kept, NULL or no row for all of them; $4 is Keep.cutoff,
# $5 is Keep.newest_by_owner. It is the older one of what was in force at the cutoff (a deleted file
# has nothing after its end) and the last of the newest.
_PAST_STATES = "coalesce(($5::text::jsonb ->> f.owner)::int, 0)"
_KEPT_FROM = f"""
    SELECT CASE WHEN f.deleted_at <= $4 THEN counted.revision
                WHEN dated.revision < counted.revision THEN dated.revision
                WHEN dated.revision IS NOT NULL THEN counted.revision END AS revision
    FROM (
        SELECT CASE WHEN f.deleted_at IS NULL THEN 1 + {_PAST_STATES}
            ELSE greatest({_PAST_STATES}, 1) END AS most
        WHERE f.revision > 1 AND f.created_at <= $4
    ) AS newest LEFT JOIN LATERAL (
        SELECT state.revision FROM (
            SELECT stream, first_revision, created_at FROM streams
            WHERE tenant = $1 AND project = $2 AND incarnation = f.incarnation
                AND first_revision > 0
            ORDER BY first_revision DESC LIMIT newest.most
        ) AS s CROSS JOIN LATERAL ({states_of(str(REVISION_MAX), "newest.most")}) AS state
        ORDER BY state.revision DESC OFFSET newest.most - 1 LIMIT 1
    ) AS counted ON true LEFT JOIN LATERAL (
        SELECT greatest(s.first_revision, (
            SELECT max(revision) FROM blocks
            WHERE tenant = $1 AND project = $2 AND stream = s.stream
                AND created_at <= $4)) AS revision
        FROM streams AS s
        WHERE tenant = $1 AND project = $2 AND incarnation = f.incarnation AND first_revision > 0
            AND coalesce(s.created_at, (
                SELECT created_at FROM blocks
                WHERE tenant = $1 AND project = $2 AND stream = s.stream AND start = 0),
                    f.created_at) <= $4
        ORDER BY first_revision DESC LIMIT 1
    ) AS dated ON true
"""


async def files_to_collect(
    tx: Tx, keep: FileRetention, *, after: uuid.UUID, limit: int
) -> list[FileWork]:
    """Return the next files after `after`, by incarnation, and what is to be done about each.

    Fewer than `limit` when there are no more after them.
    """
    return await tx.fetch_as(
        FileWork,
        f"""
        SELECT f.incarnation AS file_id, coalesce(f.deleted_at < $6, false) AS gone,
            f.indexed_bytes > 0 AS indexed, (
            EXISTS (SELECT FROM streams WHERE tenant = $1 AND project = $2
                AND incarnation = f.incarnation
                    AND first_revision < kept_from.revision)
            OR EXISTS (SELECT FROM streams WHERE tenant = $1 AND project = $2
                AND incarnation = f.incarnation
                       AND first_revision < 0)
            OR f.deleted_at IS NULL AND coalesce((
                SELECT revision FROM blocks WHERE tenant = $1 AND project = $2 AND stream = f.stream
                ORDER BY start OFFSET {SMALL_BLOCKS_MAX} + 2 * f.size_bytes / {BLOCK_BYTES}
                    LIMIT 1) <= (
                SELECT max(first_revision) FROM streams
                WHERE tenant = $1 AND project = $2 AND incarnation = f.incarnation),
                    false)) AS prune
        FROM (SELECT * FROM files WHERE tenant = $1 AND project = $2 AND incarnation > $3
              ORDER BY incarnation LIMIT $7) AS f
        LEFT JOIN LATERAL ({_KEPT_FROM}) AS kept_from ON true
        ORDER BY f.incarnation
        """,
        after,
        keep.cutoff,
        keep.past_states_by_owner,
        keep.deleted_before,
        limit,
    )


async def lock_file(tx: Tx, file_id: uuid.UUID) -> bool:
    """Lock a file, live or deleted, until the transaction ends; return False when it is gone."""
    return await tx.fetch_bool(
        "SELECT true FROM files WHERE tenant = $1 AND project = $2 AND incarnation = $3 FOR UPDATE",
        file_id,
    )


async def hide_all(tx: Tx, file_id: uuid.UUID) -> None:
    """Hide all states of a deleted file (locked by `lock_file`)."""
    await tx.execute(
        """
        UPDATE streams SET first_revision = -first_revision
        WHERE tenant = $1 AND project = $2 AND incarnation = $3 AND first_revision > 0
        """,
        file_id,
    )


async def hide_old(tx: Tx, file_id: uuid.UUID, keep: FileRetention) -> None:
    """Hide the states of a file (locked by `lock_file`) that are not kept."""
    await tx.execute(
        f"""
        WITH kept AS (
            SELECT s.first_revision, s.stream, kept_from.revision
            FROM files AS f CROSS JOIN LATERAL ({_KEPT_FROM}) AS kept_from CROSS JOIN LATERAL (
                SELECT first_revision, stream FROM streams
                WHERE tenant = $1 AND project = $2 AND incarnation = f.incarnation
                    AND first_revision BETWEEN 1 AND kept_from.revision
                ORDER BY first_revision DESC LIMIT 1) AS s
            WHERE f.tenant = $1 AND f.project = $2 AND f.incarnation = $3
        ), shortened AS (
            SELECT kept.*, (SELECT max(created_at) FROM blocks WHERE tenant = $1 AND project = $2
                            AND stream = kept.stream
                                AND blocks.revision = kept.revision) AS created_at
            FROM kept WHERE kept.first_revision < kept.revision
        ), begun AS (
            UPDATE streams AS s SET first_revision = shortened.revision,
                created_at = shortened.created_at
            FROM shortened WHERE s.tenant = $1 AND s.project = $2 AND s.incarnation = $3
                AND s.first_revision = shortened.first_revision
        )
        UPDATE streams AS s SET first_revision = -s.first_revision FROM kept
        WHERE s.tenant = $1 AND s.project = $2 AND s.incarnation = $3
            AND s.first_revision > 0 AND s.first_revision < kept.first_revision
        """,
        file_id,
        keep.cutoff,
        keep.past_states_by_owner,
    )


async def sweep(tx: Tx, file_id: uuid.UUID, *, limit: int) -> bool:
    """Delete up to `limit` hidden blocks of a locked file, and then the empty streams.

    Return True when all of it is gone.
    """
    deleted = await tx.execute(
        """
        WITH doomed AS (
            SELECT b.stream, b.start FROM streams AS s JOIN blocks AS b
                ON b.tenant = $1 AND b.project = $2 AND b.stream = s.stream
            WHERE s.tenant = $1 AND s.project = $2 AND s.incarnation = $3 AND s.first_revision < 0
                LIMIT $4
        )
        DELETE FROM blocks AS b USING doomed
        WHERE b.tenant = $1 AND b.project = $2 AND b.stream = doomed.stream
            AND b.start = doomed.start
        """,
        file_id,
        limit,
    )
    if deleted == limit:
        return False
    await tx.execute(
        """
        DELETE FROM streams AS s WHERE tenant = $1 AND project = $2 AND incarnation = $3
            AND first_revision < 0
            AND NOT EXISTS (SELECT FROM blocks WHERE tenant = $1 AND project = $2
                AND stream = s.stream)
        """,
        file_id,
    )
    return True


async def forget(tx: Tx, file_id: uuid.UUID) -> None:
    """Delete the row of a file of which nothing else is left, and its summary if there is one."""
    await tx.execute(
        """
        WITH gone AS (
            DELETE FROM files AS f WHERE tenant = $1 AND project = $2 AND incarnation = $3
                AND deleted_at IS NOT NULL
                AND NOT EXISTS (SELECT FROM streams WHERE tenant = $1 AND project = $2
                    AND incarnation = $3)
            RETURNING incarnation
        )
        DELETE FROM summaries AS s USING gone
        WHERE s.tenant = $1 AND s.project = $2 AND s.incarnation = gone.incarnation
        """,
        file_id,
    )


async def merge(tx: Tx, file_id: uuid.UUID, *, after: int) -> int | None:
    """Merge some old blocks of a live file (locked by `lock_file`), up to BLOCK_BYTES each.

    It begins at byte `after` of the present stream; return the byte to go on at, None when no more
    are to be merged. No state changes: these blocks all belong to the oldest one.
    """
    blocks = await tx.fetch(
        """
        SELECT b.stream, b.start, b.size_bytes
        FROM files AS f CROSS JOIN LATERAL (
            SELECT max(first_revision) AS first_revision FROM streams
            WHERE tenant = $1 AND project = $2 AND incarnation = $3) AS s CROSS JOIN LATERAL (
            SELECT stream, start, revision, octet_length(content) AS size_bytes FROM blocks
            WHERE tenant = $1 AND project = $2 AND stream = f.stream AND start >= $4 ORDER BY start
                LIMIT $5) AS b
        WHERE f.tenant = $1 AND f.project = $2 AND f.incarnation = $3 AND f.deleted_at IS NULL
            AND b.revision <= s.first_revision
        ORDER BY b.start
        """,
        file_id,
        after,
        MERGE_BLOCKS,
    )
    groups = _block_groups([(block["start"], block["size_bytes"]) for block in blocks])
    merged, next_start = _first_groups(groups, full=len(blocks) == MERGE_BLOCKS)
    if merged:
        await _merge(tx, blocks[0]["stream"], merged)
    return next_start


BlockGroup = tuple[int, int, int]
"""First and last start of adjacent blocks, and their bytes."""


def _block_groups(blocks: Sequence[tuple[int, int]]) -> list[BlockGroup]:
    """Return adjacent blocks (start, size) joined up to BLOCK_BYTES, as long as possible."""
    groups: list[BlockGroup] = []
    for start, size_bytes in blocks:
        if groups and groups[-1][2] + size_bytes <= BLOCK_BYTES:
            groups[-1] = (groups[-1][0], start, groups[-1][2] + size_bytes)
        else:
            groups.append((start, start, size_bytes))
    return groups


def _first_groups(
    groups: Sequence[BlockGroup], *, full: bool
) -> tuple[list[BlockGroup], int | None]:
    """Return the first runs of several blocks, up to MERGE_BYTES, and where to go on, or None."""
    merged: list[BlockGroup] = []
    for group in groups:
        if group[0] == group[1]:
            continue
        if merged and sum(size_bytes for _, _, size_bytes in merged) + group[2] > MERGE_BYTES:
            return merged, group[0]
        merged.append(group)
    return merged, groups[-1][0] if full else None


async def _merge(tx: Tx, stream: int, groups: Sequence[BlockGroup]) -> None:
    await tx.execute(
        """
        WITH run AS (SELECT * FROM unnest($4::int8[], $5::int8[]) AS run (low, high)),
            merged AS MATERIALIZED (
            SELECT run.low, string_agg(b.content, ''::bytea ORDER BY b.start) AS content,
                   max(b.revision) AS revision, max(b.created_at) AS created_at
            FROM run JOIN blocks AS b ON b.tenant = $1 AND b.project = $2 AND b.stream = $3
                AND b.start BETWEEN run.low AND run.high
            GROUP BY run.low
        ), gone AS (
            DELETE FROM blocks AS b USING run WHERE b.tenant = $1 AND b.project = $2
                AND b.stream = $3
                AND b.start > run.low AND b.start <= run.high
        )
        UPDATE blocks AS b SET content = merged.content, revision = merged.revision,
            created_at = merged.created_at
        FROM merged WHERE b.tenant = $1 AND b.project = $2 AND b.stream = $3
            AND b.start = merged.low
        """,
        stream,
        *columns_of(groups, 3)[:2],
    )
