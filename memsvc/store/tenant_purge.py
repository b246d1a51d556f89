"""Permanent deletion of rows, counted, a bounded number in a transaction.

`tables.purge_order` lists the tables. Every function is one short step. What a killed step left is
found by the next purge of the same.

What is being purged is fenced: closed to writers until it is open again. Every transaction that
writes passes `admit_writer` as it begins (`Database.begin`), in the round trip that it needs
anyway: it shares the locks of its project and tenant, takes its own locks, and is refused when one
of them is closed. Closing waits for those who hold it, so that nobody is in the middle of a write
from then on. It outlives a process that is killed; whoever purges the same once more takes it over,
and the previous purge is stopped at its next step.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from memsvc.core.errors import resource_busy
from memsvc.core.frozen import frozen
from memsvc.core.paths import children_range
from memsvc.store.database import Row, Tx
from memsvc.store.locks import Lock
from memsvc.store.tables import key_of


@frozen
class TableRows:
    """Rows of a table of one project: all, or those with certain values in a column.

    `value` is one value, or many that any of some columns may have. Of recall traces, only those
    from `until` or before. A column may be any expression of the table's columns; it is never made
    of a caller's input.
    """

    table: str
    column: str | tuple[str, ...] = ""
    value: str | int | tuple[str, ...] = ""
    until: datetime | None = None


@frozen
class _Where:
    """Condition for rows, as SQL over the key of their table, with its arguments.

    The arguments follow tenant and project. The rows are among those in `range`, which an index
    finds, and which takes the same arguments.
    """

    table: str
    condition: str
    range: str
    key: tuple[str, ...]
    arguments: tuple[Any, ...]


def _where(tx: Tx, rows: TableRows) -> _Where:
    bound = tx.bound
    scoped = ("tenant", "project")[:bound]
    within = " AND ".join(f"{name} = ${number}" for number, name in enumerate(scoped, 1))
    arguments: tuple[Any, ...] = ()
    if rows.until is not None:
        arguments = (rows.until,)
        within += f" AND recalled_at <= ${bound + 1}"
    condition, parameter = within, f"${bound + len(arguments) + 1}"
    if rows.column:
        arguments += (rows.value,)
    if isinstance(rows.column, tuple):
        # a hash table of the values, which an array would be searched through for each row
        condition_list = " OR ".join(
            f"{column} IN (SELECT unnest({parameter}::text[]))" for column in rows.column
        )
        condition, within = (
            f"{within} AND ({condition_list})",
            f"{within} AND {parameter}::text[] IS NOT NULL",
        )
    elif rows.column:
        condition = within = f"{within} AND {rows.column} = {parameter}"
    # a column that is the same in all rows must not be compared as part of their key, or no range
    # of the index is read
    fixed = (*scoped, rows.column)
    key = tuple(name for name in key_of(rows.table) if name not in fixed)
    return _Where(rows.table, condition, within, key, arguments)


async def count(tx: Tx, rows: TableRows) -> int:
    """Return the number of these rows."""
    where = _where(tx, rows)
    return await tx.fetch_int(
        f"SELECT count(*) FROM {where.table} WHERE {where.condition}", *where.arguments
    )


RowKey = tuple[Any, ...]
"""Key of the last deleted row."""


async def erase(
    tx: Tx, rows: TableRows, *, after: RowKey | None, limit: int
) -> tuple[int, RowKey | None]:
    """Delete the next rows in the order of their key, up to `limit`; return how many.

    The second value is where to go on, None when there are no more. Without an index for them it
    reads no more rows than that. Two statements, each over one range of the key.
    """
    where = _where(tx, rows)
    if not where.key:
        return await tx.execute(
            f"DELETE FROM {where.table} WHERE {where.condition}", *where.arguments
        ), None
    key, first = ", ".join(where.key), tx.bound + len(where.arguments) + 1
    arguments, range_start = [*where.arguments], ""
    if after is not None:
        range_start = f" AND {_compare_key(key, '>', first, len(where.key))}"
        arguments += after
    condition = where.condition + range_start
    last = await tx.fetchrow(
        f"SELECT {key} FROM {where.table} WHERE {where.range}{range_start} ORDER BY {key} OFFSET"
        f" {limit - 1} LIMIT 1",
        *arguments,
    )
    if last is None:
        return await tx.execute(f"DELETE FROM {where.table} WHERE {condition}", *arguments), None
    last_key = tuple(last.values())
    condition += f" AND {_compare_key(key, '<=', tx.bound + len(arguments) + 1, len(where.key))}"
    deleted = await tx.execute(
        f"DELETE FROM {where.table} WHERE {condition}", *arguments, *last_key
    )
    return deleted, last_key


def _compare_key(key: str, operator: str, first: int, width: int) -> str:
    values = ", ".join(f"${number}" for number in range(first, first + width))
    return f"({key}) {operator} ({values})"


async def release_usage(tx: Tx) -> None:
    """Subtract what the project holds from its tenant's usage and delete the project's row."""
    await tx.execute(
        """
        WITH gone AS (DELETE FROM projects WHERE tenant = $1 AND project = $2 RETURNING size_bytes)
        UPDATE usage AS u SET size_bytes = greatest(u.size_bytes - gone.size_bytes, 0) FROM gone
            WHERE u.tenant = $1
        """
    )


# Files, live or deleted, at $3 and from $4 to before $5. Two statements, as each has an index of
# its own.
_AT = "tenant = $1 AND project = $2 AND (path = $3 OR (path >= $4 AND path < $5))"
_LIVE, _DELETED = "deleted_at IS NULL", "deleted_at IS NOT NULL"


@frozen
class PurgeFile:
    """File to be deleted: its path, and its size in bytes as a live file of a caller."""

    incarnation: Any
    path: str
    size_bytes: int


async def hide_files(tx: Tx, path: str, *, now: Any, limit: int) -> list[PurgeFile]:
    """Mark the next files at and below a path deleted, with all their states; return the live ones.

    The tree is locked, or nobody else makes files there.
    """
    return await tx.fetch_as(
        PurgeFile,
        f"""
        WITH hidden AS (
            UPDATE files SET deleted_at = $6, updated_at = $6, revision = revision + 1
            WHERE tenant = $1 AND project = $2 AND incarnation = ANY(ARRAY(
                SELECT incarnation FROM files WHERE {_AT} AND {_LIVE} ORDER BY path LIMIT $7))
            RETURNING incarnation, path, CASE WHEN owner = '' THEN size_bytes ELSE 0
                END AS size_bytes
        ), unread AS (
            UPDATE streams AS s SET first_revision = -s.first_revision FROM hidden
            WHERE s.tenant = $1 AND s.project = $2 AND s.incarnation = hidden.incarnation
                AND s.first_revision > 0
        )
        SELECT * FROM hidden
        """,
        *(path, *children_range(path)),
        now,
        limit,
    )


async def deleted_files(tx: Tx, path: str, *, limit: int) -> list[PurgeFile]:
    """Return some deleted files at and below a path."""
    return await tx.fetch_as(
        PurgeFile,
        f"SELECT incarnation, path, 0::int8 AS size_bytes FROM files WHERE {_AT} AND {_DELETED}"
        " ORDER BY path LIMIT $6",
        *(path, *children_range(path)),
        limit,
    )


async def erase_blocks(tx: Tx, file_ids: Sequence[Any], *, limit: int) -> int:
    """Hide every state of these deleted files, and delete up to `limit` of their blocks.

    Return how many.
    """
    await tx.execute(
        """
        UPDATE streams SET first_revision = -first_revision
        WHERE tenant = $1 AND project = $2 AND incarnation = ANY($3::uuid[]) AND first_revision > 0
        """,
        file_ids,
    )
    return await tx.execute(
        """
        WITH doomed AS MATERIALIZED (
            SELECT b.stream, b.start FROM unnest($3::uuid[]) AS one (incarnation) CROSS
                JOIN LATERAL (
                SELECT stream FROM streams
                WHERE tenant = $1 AND project = $2 AND incarnation = one.incarnation OFFSET 0) AS s
            CROSS JOIN LATERAL (
                SELECT stream, start FROM blocks
                WHERE tenant = $1 AND project = $2 AND stream = s.stream LIMIT $4) AS b LIMIT $4
        )
        DELETE FROM blocks AS b USING doomed
        WHERE b.tenant = $1 AND b.project = $2 AND b.stream = doomed.stream
            AND b.start = doomed.start
        """,
        file_ids,
        limit,
    )


async def erase_files(tx: Tx, file_ids: Sequence[Any]) -> Row:
    """Delete the remaining rows of these files, whose blocks are gone; return the counts by table.

    The tables are `streams`, `summaries` and `files`.
    """
    row = await tx.fetchrow(
        """
        WITH unread AS (
            DELETE FROM streams WHERE tenant = $1 AND project = $2 AND incarnation = ANY($3::uuid[])
                RETURNING 1
        ), untold AS (
            DELETE FROM summaries WHERE tenant = $1 AND project = $2
                AND incarnation = ANY($3::uuid[]) RETURNING 1
        ), gone AS (
            DELETE FROM files WHERE tenant = $1 AND project = $2 AND incarnation = ANY($3::uuid[])
                RETURNING 1
        )
        SELECT (SELECT count(*) FROM unread) AS streams, (SELECT count(*) FROM untold) AS summaries,
               (SELECT count(*) FROM gone) AS files
        """,
        file_ids,
    )
    assert row is not None
    return row


async def count_files(tx: Tx, path: str, *, index_id: int | None) -> dict[str, int]:
    """Return the row counts of files at and below a path, and of their entries in an index."""
    row = await tx.fetchrow(
        f"""
        WITH held AS MATERIALIZED (
            SELECT incarnation FROM files WHERE {_AT} AND {_LIVE}
            UNION ALL SELECT incarnation FROM files WHERE {_AT} AND {_DELETED}
        ), kept AS MATERIALIZED (
            SELECT s.stream FROM held CROSS JOIN LATERAL (
                SELECT stream FROM streams
                WHERE tenant = $1 AND project = $2 AND incarnation = held.incarnation OFFSET 0) AS s
        )
        SELECT (SELECT count(*) FROM held) AS files, (SELECT count(*) FROM kept) AS streams,
               (SELECT count(*) FROM kept CROSS JOIN LATERAL (SELECT FROM blocks
                WHERE tenant = $1 AND project = $2
                    AND stream = kept.stream OFFSET 0) AS b) AS blocks,
               (SELECT count(*) FROM held JOIN summaries AS s
                ON s.tenant = $1 AND s.project = $2
                    AND s.incarnation = held.incarnation) AS summaries,
               (SELECT count(*) FROM held JOIN entries AS e ON e.tenant = $1 AND e.project = $2
                   AND e.book = $6
                AND e.role = 'document' AND e.ref = replace(held.incarnation::text, '-',
                    '')) AS entries
        """,
        *(path, *children_range(path)),
        index_id,
    )
    return dict(row or {})


WHOLE = 0
"""Unit that stands for all of a project."""


def units_of(tx: Tx, locks: Sequence[Lock]) -> list[int]:
    """Return the units that stand for what is written under these locks; WHOLE without any."""
    return [lock.key(tx.scope) for lock in locks] or [WHOLE]


async def close_units(tx: Tx, units: Sequence[int], purge: UUID, *, now: datetime) -> bool:
    """Close units of the project for writers, or take them over.

    Return whether one was closed already. The transaction holds what their writers hold or share.
    """
    found = await tx.fetch(
        "SELECT unit FROM purges WHERE tenant = $1 AND project = $2 AND unit = ANY ($3::int8[])",
        units,
    )
    await tx.execute_each(
        """
        INSERT INTO purges (tenant, project, unit, purge, begun_at) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant, project, unit) DO UPDATE SET purge = EXCLUDED.purge
        """,
        [(unit, purge, now) for unit in units],
    )
    return bool(found)


async def lock_purge(tx: Tx, purge: UUID) -> None:
    """Raise RESOURCE_BUSY if the purge was taken over.

    Otherwise prevent that until the transaction ends.
    """
    of_project = "AND project = $2" if tx.bound > 1 else "AND project = '*'"
    rows = await tx.fetch(
        f"SELECT unit FROM purges WHERE tenant = $1 {of_project} AND purge = ${tx.bound + 1} FOR"
        " SHARE",
        purge,
    )
    if not rows:
        raise resource_busy(
            "another call is purging the same data and has taken over from this call",
            retry_after_s=2.0,
        )


async def release(tx: Tx, purge: UUID) -> None:
    """Admit writers again to what this purge closed in the project."""
    await tx.execute("DELETE FROM purges WHERE tenant = $1 AND project = $2 AND purge = $3", purge)


async def release_all(tx: Tx) -> None:
    """Admit writers again everywhere in the project, or in the tenant."""
    await tx.execute(
        "DELETE FROM purges WHERE tenant = $1" + (" AND project = $2" if tx.bound > 1 else "")
    )
