"""Summaries of files by models, each of one content: a stream and its size in bytes."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from memsvc.core.frozen import frozen
from memsvc.store.database import Row, Tx, columns_of
from memsvc.store.files import File


@frozen
class Summary:
    """Text of a summary, and a hash of all that it depends on."""

    generation: bytes
    text: str


@frozen
class ContentDescription:
    """Description of a file's content: its summary or, without one, its beginning."""

    size_bytes: int
    is_text: bool
    summary: str | None
    head: bytes


async def find(tx: Tx, file_id: uuid.UUID) -> Summary | None:
    """Return the present or past summary of a file."""
    return await tx.fetchrow_as(
        Summary,
        "SELECT generation, text FROM summaries WHERE tenant = $1 AND project = $2 AND"
        " incarnation = $3",
        file_id,
    )


async def put(
    tx: Tx, file: File, summary: Summary, *, words: int, model: str, now: datetime
) -> None:
    """Store the summary of the present content of a file, which is locked by the transaction."""
    await tx.execute(
        """
        INSERT INTO summaries AS s
            (tenant, project, incarnation, stream, size_bytes, generation, words, text, model,
                updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        ON CONFLICT (tenant, project, incarnation) DO UPDATE
        SET stream = $4, size_bytes = $5, generation = $6, words = $7, text = $8, model = $9,
            updated_at = $10
        """,
        file.incarnation,
        file.stream,
        file.size_bytes,
        summary.generation,
        words,
        summary.text,
        model,
        now,
    )


async def remove(tx: Tx, file_id: uuid.UUID) -> None:
    """Delete the summary of a file, if it has one."""
    await tx.execute(
        "DELETE FROM summaries WHERE tenant = $1 AND project = $2 AND incarnation = $3", file_id
    )


# What stands for contents `c`: tenant, project, stream, size_bytes. The OFFSETs keep look-ups by
# key what they are.
_DESCRIPTION = """
    LEFT JOIN LATERAL (
        SELECT text FROM summaries WHERE tenant = $1 AND project = c.project AND stream = c.stream
            AND size_bytes = c.size_bytes OFFSET 0) AS s ON true
    LEFT JOIN LATERAL (
        SELECT substring(string_agg(substring(content FOR {most}), ''
            ORDER BY start) FOR {most}) AS head FROM blocks
        WHERE tenant = $1 AND project = c.project AND stream = c.stream AND start < {most}
            AND s.text IS NULL
        OFFSET 0) AS b ON true
"""


async def describe_contents(
    tx: Tx, contents: Sequence[tuple[str, int, int]], *, head_bytes: int
) -> dict[tuple[str, int, int], ContentDescription]:
    """Return the descriptions of contents of text files, by project, stream and size in bytes.

    Takes a transaction of the whole tenant (`Database.begin_tenant`).
    """
    rows = await tx.fetch(
        f"""
        SELECT c.project, c.stream, c.size_bytes, true AS is_text, s.text, b.head
        FROM unnest($2::text[], $3::int8[], $4::int8[]) AS c (project, stream,
            size_bytes) {_DESCRIPTION.format(most="$5")}
        """,
        *columns_of(contents, 3),
        head_bytes,
    )
    return {(row["project"], row["stream"], row["size_bytes"]): _description(row) for row in rows}


async def describe_paths(
    tx: Tx, paths: Sequence[str], *, head_bytes: int
) -> dict[str, ContentDescription]:
    """Return the descriptions of the existing files at some paths."""
    rows = await tx.fetch(
        f"""
        SELECT c.path, c.size_bytes, c.is_text, s.text, b.head
        FROM unnest($3::text[]) AS asked (path) CROSS JOIN LATERAL (
            SELECT project, path, stream, size_bytes, is_text FROM files
            WHERE tenant = $1 AND project = $2 AND path = asked.path
                AND deleted_at IS NULL OFFSET 0) AS c
        {_DESCRIPTION.format(most="$4")}
        """,
        paths,
        head_bytes,
    )
    return {row["path"]: _description(row) for row in rows}


def _description(row: Row) -> ContentDescription:
    return ContentDescription(row["size_bytes"], row["is_text"], row["text"], row["head"] or b"")
