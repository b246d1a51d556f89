"""What a tenant's projects hold, counted where no counter is kept: each statement reads one table once, by its key."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

from memsvc.store.database import Row, Tx
from memsvc.store.queue import QUEUE

# {scope} binds the tenant, and the project where one was asked for. Every statement gives a row a project.
_COUNTED: Final[Sequence[str]] = (
    """
    SELECT project, count(*) FILTER (WHERE owner = '') AS files,
           coalesce(sum(size_bytes) FILTER (WHERE owner = ''), 0)::int8 AS file_bytes,
           count(*) FILTER (WHERE owner = 'whiteboard') AS boards,
           count(*) FILTER (WHERE owner = 'notebook') AS documents,
           coalesce(sum(size_bytes) FILTER (WHERE owner <> ''), 0)::int8 AS memory_file_bytes
    FROM files WHERE {scope} AND deleted_at IS NULL GROUP BY project
    """,
    """
    SELECT project, count(*) AS contents FROM streams WHERE {scope} AND first_revision > 0 GROUP BY project
    """,
    """
    SELECT project, coalesce(sum(octet_length(content)), 0)::int8 AS stored_bytes FROM blocks
    WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, count(*) AS sessions, coalesce(sum(turns), 0)::int8 AS turns FROM sessions
    WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, count(*) AS facts FROM facts WHERE {scope} AND state = 'active' GROUP BY project
    """,
    """
    SELECT project, count(*) AS memories FROM memories WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, sum(inbox + active + archived)::int8 AS blocks FROM activity WHERE {scope} GROUP BY project
    """,
    """
    SELECT project, sum(entries)::int8 AS index_entries FROM books WHERE {scope} GROUP BY project
    """,
)
_VECTORS: Final = "SELECT project, count(*) AS vectors FROM embeddings WHERE {scope} GROUP BY project"
_CALLS: Final = """
    SELECT project, status, count(*) AS calls FROM calls WHERE {scope} AND called_at >= {since} GROUP BY project, status
"""


def _scoped(sql: str, tx: Tx) -> str:
    scope = "tenant = $1" if tx.bound == 1 else "tenant = $1 AND project = $2"
    return sql.format(scope=scope, since=f"${tx.bound + 1}")


def statements(tx: Tx, *, vectors: bool) -> list[str]:
    """What `counted` asks."""
    return [_scoped(sql, tx) for sql in (*_COUNTED, *([_VECTORS] if vectors else []))]


async def counted(tx: Tx, *, vectors: bool) -> dict[str, dict[str, int]]:
    """What each project holds, by project: of a transaction's project, or of all of them."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for sql in statements(tx, vectors=vectors):
        for row in await tx.fetch(sql):
            fields: dict[str, Any] = dict(row)
            found[fields.pop("project")].update(fields)
    return dict(found)


async def calls_since(tx: Tx, since: datetime) -> list[Row]:
    """How many calls of which `project` ended with which `status` since a moment (`calls`)."""
    return await tx.fetch(_scoped(_CALLS, tx), since)


async def jobs_queued(tx: Tx) -> list[Row]:
    """How many jobs of which `project` are in the queue (`jobs`)."""
    return await tx.unbound(
        f"""
        SELECT headers ->> 'project' AS project, count(*) AS jobs FROM {QUEUE}
        WHERE headers ->> 'tenant' = $1 AND ($2::text IS NULL OR headers ->> 'project' = $2) GROUP BY 1
        """,
        tx.scope.tenant.hex(),
        None if tx.bound == 1 else tx.scope.project,
    )


async def taken_on(tx: Tx, day: date) -> dict[str, int]:
    """How often the tenant did on a day what it may do only so often, by purpose. For a transaction over the tenant."""
    rows = await tx.fetch("SELECT purpose, times FROM allowances WHERE tenant = $1 AND day = $2", day)
    return {row["purpose"]: row["times"] for row in rows}
