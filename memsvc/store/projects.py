"""Projects of a tenant: they exist because files are in them."""

from collections.abc import Collection
from typing import Final

from memsvc.core.paths import prefix_range
from memsvc.store.database import Tx


async def names(
    tx: Tx, *, like: str, after: str, only: Collection[str] | None, limit: int
) -> list[str]:
    """Return the projects with live files after `after`, in byte order, whose names match `like`.

    A name matches if it has the characters of `like` in this order, in any case and with others
    between them; only some projects if `only` is given. For a transaction over the whole tenant. A
    loose index scan: it costs a step a project, whatever the files.
    """
    if "\0" in like:  # no text of the database can have one
        return []
    return await tx.fetch_column(
        """
        WITH RECURSIVE walk AS (
            (SELECT project FROM files WHERE tenant = $1 AND deleted_at IS NULL AND project > $2
             ORDER BY project LIMIT 1)
            UNION ALL
            SELECT following.project FROM walk CROSS JOIN LATERAL (
                SELECT project FROM files WHERE tenant = $1 AND deleted_at IS NULL
                    AND project > walk.project
                ORDER BY project LIMIT 1) AS following
        )
        SELECT project FROM walk
        WHERE lower(project) LIKE $3 AND ($4::text[] IS NULL OR project = ANY($4)) LIMIT $5
        """,
        after,
        _like_pattern(like),
        sorted(only) if only is not None else None,
        limit,
    )


_TABLES: Final = ("files", "books", "sessions", "projects", "memory_settings", "activity")
"""Tables in which a project has rows as soon as anything is kept in it, beside `job_refs`, which is
elsewhere in a database that is spread over nodes."""
_NEXT: Final = " UNION ALL ".join(
    f"SELECT (SELECT project FROM {table} WHERE tenant = $1 AND project > $2 ORDER BY project"
    " LIMIT 1) AS project"
    for table in _TABLES
)


async def next_project(tx: Tx, after: str) -> str | None:
    """Return the next project after `after`, in byte order, in which anything is kept, or None.

    That is files, deleted ones too, or anything else. For a transaction over the whole tenant; a
    few steps of indexes.
    """
    stored: str | None = await tx.fetchval(
        f'SELECT min(project COLLATE "C") FROM ({_NEXT}) AS found', after
    )
    queued: str | None = await tx.fetchval(
        "SELECT project FROM job_refs WHERE tenant = $1 AND project > $2 ORDER BY project LIMIT 1",
        after,
    )
    return min(
        (project for project in (stored, queued) if project is not None),
        key=str.encode,
        default=None,
    )


async def with_prefix(tx: Tx, text: str, *, only: Collection[str] | None, limit: int) -> list[str]:
    """Return the first projects with live files whose names begin with this text.

    With `only`, of these alone. As `names`, it takes a transaction over the whole tenant and costs
    a step a project that it finds.
    """
    return await tx.fetch_column(
        """
        WITH RECURSIVE walk AS (
            (SELECT project FROM files WHERE tenant = $1 AND deleted_at IS NULL AND project >= $2
                AND project < $3
             ORDER BY project LIMIT 1)
            UNION ALL
            SELECT following.project FROM walk CROSS JOIN LATERAL (
                SELECT project FROM files
                WHERE tenant = $1 AND deleted_at IS NULL AND project > walk.project AND project < $3
                ORDER BY project LIMIT 1) AS following
        )
        SELECT project FROM walk WHERE $4::text[] IS NULL OR project = ANY($4) LIMIT $5
        """,
        *prefix_range(text),
        sorted(only) if only is not None else None,
        limit,
    )


def _like_pattern(text: str) -> str:
    """Return the pattern of LIKE for texts that have these characters in this order."""
    return "%" + "".join(
        f"\\{character}%" if character in "\\%_" else f"{character}%" for character in text.lower()
    )
