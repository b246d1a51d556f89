"""Tables and files of a tenant that go into an archive, read and written.

Of a file that is every state that can be read of it, and its bytes in blocks. A row is everything
but its tenant and project, so that it can be restored as another tenant's. Statements are made from
the catalogue of the database: a column that a later revision adds is archived without a change
here.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from asyncpg import exceptions as pg

from memsvc.core.errors import conflict, invalid_content
from memsvc.core.frozen import frozen
from memsvc.store.database import Row, Tx, columns_of
from memsvc.store.jobs import SWEEP
from memsvc.store.tables import Archive, archived_as

PLAIN: Final = archived_as(Archive.ROWS)
FILES: Final = archived_as(Archive.FILES)
CALLS: Final = "calls"
JOBS: Final = "job_refs"


@frozen
class Column:
    """Column of a table, with its type as PostgreSQL writes it.

    One that is not `required` may be left out.
    """

    name: str
    type: str
    nullable: bool
    required: bool


@frozen
class Table:
    """Table without the columns of tenant and project; `key` identifies a row within a project."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)


async def describe_tables(
    tx: Tx, tables: Collection[str] = (*PLAIN, "files", CALLS)
) -> dict[str, Table]:
    """Return these tables as the catalogue of the database describes them."""
    rows = await tx.unbound(
        """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) AS type,
            NOT a.attnotnull AS nullable,
               a.attnotnull AND NOT a.atthasdef AS required,
                   array_position(i.indkey::int2[], a.attnum) AS place
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
            AND NOT a.attisdropped
        JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
        WHERE c.oid = ANY (SELECT to_regclass(name) FROM unnest($1::text[]) AS name)
          AND a.attname NOT IN ('tenant', 'project')
        ORDER BY c.relname, a.attnum
        """,
        list(tables),
    )
    tables_by_name = {}
    for table in tables:
        table_rows = [row for row in rows if row["relname"] == table]
        keys = sorted(
            (row["place"], row["attname"]) for row in table_rows if row["place"] is not None
        )
        columns = tuple(
            Column(row["attname"], row["type"], row["nullable"], row["required"])
            for row in table_rows
        )
        tables_by_name[table] = Table(table, columns, tuple(name for _, name in keys))
    return tables_by_name


async def revision(tx: Tx) -> str:
    """Return the revision of the schema of this database."""
    (row,) = await tx.unbound("SELECT version_num FROM alembic_version")
    return str(row["version_num"])


async def projects(tx: Tx, only: Collection[str] | None) -> list[str]:
    """Return the names of a tenant's projects that hold anything to archive, in order.

    With `only`, of these alone. Takes a transaction of the whole tenant; a step a project and
    table.
    """
    selects = (
        f"""
        (WITH RECURSIVE walk (project) AS (
            (SELECT project FROM {table} WHERE tenant = $1 ORDER BY project LIMIT 1)
            UNION ALL
            SELECT (SELECT project FROM {table} WHERE tenant = $1 AND project > walk.project
                ORDER BY project LIMIT 1)
            FROM walk WHERE walk.project IS NOT NULL
        ) SELECT project FROM walk WHERE project IS NOT NULL)
        """
        for table in (*PLAIN, "files")
    )
    return await tx.fetch_column(
        f"""
        SELECT project FROM ({" UNION ".join(selects)}) AS found
        WHERE $2::text[] IS NULL OR project = ANY ($2) ORDER BY project
        """,
        None if only is None else sorted(only),
    )


async def has_rows(tx: Tx) -> bool:
    """Return whether a project holds anything that an archive could bring."""
    checks = (
        f"EXISTS (SELECT FROM {table} WHERE tenant = $1 AND project = $2)"
        for table in (*PLAIN, "files", "blocks")
    )
    return await tx.fetch_bool(f"SELECT {' OR '.join(checks)}")


async def counts(tx: Tx) -> dict[str, int]:
    """Return the number of archived rows of a project, by table; tables without rows are left out.

    `content_bytes` is the size of its files, history included.
    """
    each = [
        f"SELECT '{table}' AS name, count(*) AS held FROM {table} WHERE tenant = $1 AND project ="
        " $2"
        for table in (*PLAIN, *FILES)
    ]
    each.append(
        "SELECT 'content_bytes', coalesce(sum(octet_length(content)), 0) FROM blocks WHERE tenant"
        " = $1 AND project = $2"
    )
    rows = await tx.fetch(" UNION ALL ".join(each))
    return {row["name"]: int(row["held"]) for row in rows if row["held"]}


async def page(tx: Tx, table: Table, after: Row | None, *, limit: int) -> list[Row]:
    """Return the next rows of a table after the given one, or its first rows, ordered by key."""
    keys = ", ".join(table.key)
    condition = (
        ""
        if after is None
        else f"AND ({keys}) > ({', '.join(f'${at}' for at in range(4, 4 + len(table.key)))})"
    )
    return await tx.fetch(
        f"""
        SELECT {", ".join(table.names)} FROM {table.name} WHERE tenant = $1
            AND project = $2 {condition}
        {f"ORDER BY {keys}" if keys else ""} LIMIT $3
        """,
        limit,
        *([] if after is None else [after[name] for name in table.key]),
    )


async def put(tx: Tx, table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Add rows, each with a value for each of these columns, to a project marked as restored.

    CONFLICT when a row exists already or the project is not marked (by one archive),
    INVALID_CONTENT when PostgreSQL does not accept a row.
    """
    types = {column.name: column.type for column in table.columns}
    casts = (
        f"${at}::{'text' if _is_json(types[name]) else types[name]}[]"
        for at, name in enumerate(columns, 3)
    )
    value_expressions = (_typed(name, types[name]) for name in columns)
    try:
        written = await tx.execute(
            f"""
            INSERT INTO {table.name} (tenant, project, {", ".join(columns)})
            SELECT own.tenant, own.project, {", ".join(value_expressions)}
            FROM restores AS own, unnest({", ".join(casts)}) AS r ({", ".join(columns)})
            WHERE own.tenant = $1 AND own.project = $2
            """,
            *(
                _array(types[name], values)
                for name, values in zip(columns, zip(*rows, strict=True), strict=True)
            ),
        )
    except pg.UniqueViolationError as error:
        raise conflict(
            f"a row of {table.name} already exists: either the archive contains it twice, or"
            " another call has just written it",
        ) from error
    except (
        pg.DataError,
        pg.IntegrityConstraintViolationError,
        pg.ProgramLimitExceededError,
    ) as error:
        raise invalid_content(f"the archive has an invalid row of {table.name}") from error
    if written != len(rows):
        raise conflict(
            f"another process ended the restore of this project: only {written} of {len(rows)}"
            f" rows of {table.name} were written",
        )


def _is_json(kind: str) -> bool:
    # an array of arrays, or of JSON that is one, would be taken apart: these go as text
    return kind == "jsonb" or kind.endswith("[]")


def _array(kind: str, values: Sequence[Any]) -> list[Any]:
    if not _is_json(kind):
        return list(values)
    return [None if value is None else orjson.dumps(value).decode() for value in values]


def _typed(name: str, kind: str) -> str:
    if not kind.endswith("[]"):
        return f"r.{name}::{kind}"
    members = f"jsonb_array_elements_text(r.{name}::jsonb) WITH ORDINALITY AS o (one, at)"
    return (
        f"CASE WHEN r.{name} IS NOT NULL THEN ARRAY(SELECT one::{kind[:-2]} FROM {members}"
        " ORDER BY at) END"
    )


async def pending_jobs(tx: Tx) -> list[tuple[str, str]]:
    """Return the jobs of a project that wait or run, by name and subject."""
    rows = await tx.fetch(
        """
        SELECT DISTINCT name, subject FROM job_refs
        WHERE tenant = $1 AND project = $2 AND NOT starts_with(name, $3) ORDER BY name, subject
        """,
        SWEEP,
    )
    return [(row["name"], row["subject"]) for row in rows]


async def is_closed(tx: Tx) -> bool:
    """Return whether a project, or something in it, is being purged."""
    return await tx.fetch_bool(
        "SELECT EXISTS (SELECT FROM purges WHERE tenant = $1 AND project = $2)"
    )


async def restored_before(tx: Tx, archive: UUID) -> bool:
    """Return whether a project came from this archive."""
    return await tx.fetch_bool(
        "SELECT EXISTS (SELECT FROM restores WHERE tenant = $1 AND project = $2 AND archive = $3)",
        archive,
    )


async def set_restored(tx: Tx, archive: UUID, now: Any) -> None:
    """Store that a project came from an archive, and from no other one."""
    await tx.execute(
        """
        WITH before AS (DELETE FROM restores WHERE tenant = $1 AND project = $2 AND archive <> $3)
        INSERT INTO restores AS r (tenant, project, archive, restored_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (tenant, project, archive) DO UPDATE SET restored_at = $4
        """,
        archive,
        now,
    )


@frozen
class Block:
    """Bytes of a stream, as a revision added them."""

    size_bytes: int
    revision: int
    created_at: datetime


@frozen
class ExportStream:
    """Stream of a file from its first readable revision on, with its blocks in order."""

    stream: int
    first_revision: int
    created_at: datetime | None
    blocks: Sequence[Block] = field(default=())

    @property
    def size_bytes(self) -> int:
        """Size of all its blocks."""
        return sum(block.size_bytes for block in self.blocks)


class ExportBlock(NamedTuple):
    """Block to be written into the database."""

    stream: int
    start: int
    revision: int
    created_at: datetime
    content: bytes


async def streams(tx: Tx, file_ids: Sequence[UUID]) -> dict[UUID, list[ExportStream]]:
    """Return the readable streams of files, by incarnation, oldest first."""
    rows = await tx.fetch(
        """
        SELECT incarnation, first_revision, stream, created_at FROM streams
        WHERE tenant = $1 AND project = $2 AND incarnation = ANY ($3) AND first_revision > 0
        ORDER BY incarnation, first_revision
        """,
        file_ids,
    )
    blocks = await _blocks(tx, [row["stream"] for row in rows])
    found: dict[UUID, list[ExportStream]] = defaultdict(list)
    for row in rows:
        stream_blocks = blocks.get(row["stream"], [])
        found[row["incarnation"]].append(
            ExportStream(row["stream"], row["first_revision"], row["created_at"], stream_blocks)
        )
    return found


async def _blocks(tx: Tx, of: Sequence[int]) -> dict[int, list[Block]]:
    rows = await tx.fetch(
        """
        SELECT stream, octet_length(content) AS size_bytes, revision, created_at FROM blocks
        WHERE tenant = $1 AND project = $2 AND stream = ANY ($3) ORDER BY stream, start
        """,
        of,
    )
    found: dict[int, list[Block]] = defaultdict(list)
    for row in rows:
        found[row["stream"]].append(Block(row["size_bytes"], row["revision"], row["created_at"]))
    return found


async def contents(tx: Tx, places: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return the blocks that start at these places (stream, start), in this order."""
    return await tx.fetch_column(
        """
        SELECT b.content FROM unnest($3::int8[], $4::int8[]) WITH ORDINALITY AS p (stream, start,
            at)
        CROSS JOIN LATERAL (
            SELECT content FROM blocks
            WHERE tenant = $1 AND project = $2 AND stream = p.stream
                AND start = p.start OFFSET 0) AS b
        ORDER BY p.at
        """,
        *columns_of(places, 2),
    )


async def put_streams(tx: Tx, table: Table, of: Sequence[tuple[UUID, ExportStream]]) -> None:
    """Add streams of files. Errors as `put`."""
    rows = [
        (file_id, file_stream.first_revision, file_stream.stream, file_stream.created_at)
        for file_id, file_stream in of
    ]
    if rows:
        await put(tx, table, ("incarnation", "first_revision", "stream", "created_at"), rows)


async def put_blocks(tx: Tx, table: Table, blocks: Sequence[ExportBlock]) -> None:
    """Add blocks. Errors as `put`."""
    await put(tx, table, ExportBlock._fields, blocks)
