"""Tree of file paths: listings and counts of directories, which exist by the files inside."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from memsvc.core.frozen import frozen
from memsvc.core.paths import children_range, prefix_range, roots_of
from memsvc.store.database import Row, Tx, columns_of

PATHS_A_PAGE: Final = 1000

# Where a walk goes on behind a file: past the whole subtree, where the file stands deeper than is
# asked for. A column and no condition: under row level security not every PostgreSQL looks for what
# calls functions by an index.
_NEXT_PATH: Final = """CASE
    WHEN cardinality(string_to_array(path, '/')) - 1 > $6
    THEN array_to_string((string_to_array(path, '/'))[1:$6 + 1], '/') || '/~'
    ELSE path END"""


async def walk(tx: Tx, directory: str, *, depth: int, after: str, limit: int) -> list[Row]:
    """Return the next files inside a directory by path, one for each subtree deeper than `depth`.

    A loose index scan: it costs what it returns, however many files lie below.
    """
    rows: list[Row] = []
    for low, high in _ranges(*children_range(directory), roots_of(tx.scope.hidden_toolsets)):
        rows += await tx.fetch(
            f"""
            WITH RECURSIVE walk AS (
                (SELECT path, size_bytes, created_at, updated_at, {_NEXT_PATH} AS behind FROM files
                 WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL AND path >= $3
                     AND path < $4 AND path > $5
                 ORDER BY path LIMIT 1)
                UNION ALL
                SELECT following.* FROM walk CROSS JOIN LATERAL (
                    SELECT path, size_bytes, created_at, updated_at, {_NEXT_PATH} AS behind
                    FROM files
                    WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL AND path < $4
                        AND path > walk.behind
                    ORDER BY path LIMIT 1) AS following
            )
            SELECT * FROM walk LIMIT $7
            """,
            low,
            high,
            after,
            directory.count("/") + depth,
            limit - len(rows),
        )
    return rows


def _ranges(low: str, high: str, without: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a range of paths that are outside these directories."""
    for start, stop in sorted(map(children_range, without)):
        if low < stop and start < high:
            if low < start:
                yield low, start
            low = stop
    if low < high:
        yield low, high


async def directories(tx: Tx, paths: Sequence[str]) -> dict[str, datetime]:
    """Return when anything was last written inside each of these paths that is a directory."""
    ranges = [children_range(path) for path in paths]
    return await tx.fetch_pairs(
        """
        SELECT asked.path, inside.updated_at
        FROM unnest($3::text[], $4::text[], $5::text[]) AS asked (path, low, high) CROSS
            JOIN LATERAL (
            SELECT max(updated_at) AS updated_at FROM files WHERE tenant = $1 AND project = $2
            AND files.path >= asked.low COLLATE "C" AND files.path < asked.high COLLATE "C"
                AND deleted_at IS NULL
        ) AS inside
        WHERE inside.updated_at IS NOT NULL
        """,
        paths,
        *columns_of(ranges, 2),
    )


async def are_directories(tx: Tx, paths: Sequence[str]) -> list[str]:
    """Return which of these paths are directories, at the cost of the result alone."""
    ranges = [children_range(path) for path in paths]
    return await tx.fetch_column(
        """
        SELECT asked.path FROM unnest($3::text[], $4::text[], $5::text[]) AS asked (path, low, high)
        CROSS JOIN LATERAL (
            SELECT FROM files WHERE tenant = $1 AND project = $2
                AND files.path >= asked.low COLLATE "C"
            AND files.path < asked.high COLLATE "C" AND deleted_at IS NULL ORDER BY files.path
                LIMIT 1
        ) AS inside
        """,
        paths,
        *columns_of(ranges, 2),
    )


async def files_at(tx: Tx, path: str, *, after: str, limit: int) -> list[str]:
    """Return the next files at a path and inside it, in byte order of their paths."""
    low, high = children_range(path)
    return await tx.fetch_column(
        """
        SELECT path FROM (
            SELECT path FROM files WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL
                AND path = $3 AND path > $6
            UNION ALL (
                SELECT path FROM files
                WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL AND path >= $4
                    AND path < $5 AND path > $6
                ORDER BY path LIMIT $7)
        ) AS found ORDER BY path LIMIT $7
        """,
        path,
        low,
        high,
        after,
        limit,
    )


async def all_files_at(tx: Tx, path: str) -> AsyncIterator[str]:
    """Yield the paths of all files at and inside a path, in order."""
    after = ""
    while page := await files_at(tx, path, after=after, limit=PATHS_A_PAGE):
        after = page[-1]
        for found in page:
            yield found


async def with_prefix(tx: Tx, text: str, *, limit: int) -> list[str]:
    """Return the first files whose paths begin with this text, in byte order."""
    paths: list[str] = []
    for low, high in _ranges(*prefix_range(text), roots_of(tx.scope.hidden_toolsets)):
        paths += await tx.fetch_column(
            """
            SELECT path FROM files
            WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL AND path >= $3 AND path < $4
            ORDER BY path LIMIT $5
            """,
            low,
            high,
            limit - len(paths),
        )
    return paths


async def outside(tx: Tx, directories: Sequence[str], *, after: str, limit: int) -> list[Row]:
    """Return the next files after `after` that are in none of these directories, in byte order.

    Each as `path`, `size_bytes` and `updated_at`. It costs what it returns, however many files the
    directories have.
    """
    return await tx.fetch(
        """
        SELECT f.path, f.size_bytes, f.updated_at
        FROM unnest($3::text[], $4::text[]) AS gap (low, high) CROSS JOIN LATERAL (
            SELECT path, size_bytes, updated_at FROM files
            WHERE tenant = $1 AND project = $2 AND deleted_at IS NULL
                AND path >= gap.low COLLATE "C" AND path < gap.high COLLATE "C" AND path > $5
            ORDER BY path LIMIT $6
        ) AS f
        ORDER BY f.path LIMIT $6
        """,
        *columns_of(_ranges(after, "\U0010ffff", directories), 2),
        after,
        limit,
    )


async def count(tx: Tx, directory: str, *, limit: int) -> int:
    """Return the number of files inside a directory, counted up to `limit`."""
    return await tx.fetch_int(
        """
        SELECT count(*) FROM (
            SELECT FROM files WHERE tenant = $1 AND project = $2 AND path >= $3 AND path < $4
                AND deleted_at IS NULL
            LIMIT $5) AS f
        """,
        *children_range(directory),
        limit,
    )


@frozen
class DirectoryFiles:
    """Files directly in one directory; `sample_limit` are the paths of the first ones."""

    directory: str
    files: int
    size_bytes: int
    created_at: datetime
    updated_at: datetime
    samples: tuple[str, ...]


async def count_by_directory(
    tx: Tx, directory: str, *, sample_limit: int, excluded_names: Sequence[str]
) -> list[DirectoryFiles]:
    """Return the files directly in each directory at or below this one, without some names.

    Directories without files of their own are left out.
    """
    low, high = children_range(directory)
    rows = await tx.fetch(
        r"""
        SELECT directory, count(*) AS files, sum(size_bytes)::int8 AS size_bytes,
            min(created_at) AS created_at,
               max(updated_at) AS updated_at, (array_agg(path ORDER BY path))[1:$5] AS samples
        FROM (SELECT regexp_replace(path, '/[^/]*$', '') AS directory, path, size_bytes, created_at,
            updated_at
              FROM files WHERE tenant = $1 AND project = $2 AND path >= $3 AND path < $4
                  AND deleted_at IS NULL
                AND NOT substring(path FROM '[^/]*$') = ANY($6::text[])) AS f
        GROUP BY directory ORDER BY directory
        """,
        low,
        high,
        sample_limit,
        excluded_names,
    )
    return [DirectoryFiles(**{**row, "samples": tuple(row["samples"])}) for row in rows]


async def updated_at(tx: Tx, paths: Sequence[str]) -> dict[str, datetime]:
    """Return when each of the live files at these paths was last written."""
    return await tx.fetch_pairs(
        """
        SELECT path, updated_at FROM files
        WHERE tenant = $1 AND project = $2 AND path = ANY($3::text[]) AND deleted_at IS NULL
        """,
        paths,
    )


async def contents(tx: Tx, paths: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of several small files; those that do not exist are left out."""
    rows = await tx.fetch(
        """
        SELECT f.path, b.content FROM files AS f JOIN blocks AS b
            ON b.tenant = $1 AND b.project = $2 AND b.stream = f.stream
        WHERE f.tenant = $1 AND f.project = $2 AND f.path = ANY($3::text[]) AND f.deleted_at IS NULL
        ORDER BY f.path, b.start
        """,
        paths,
    )
    whole: dict[str, bytes] = {}
    for row in rows:
        whole[row["path"]] = whole.get(row["path"], b"") + row["content"]
    return whole
