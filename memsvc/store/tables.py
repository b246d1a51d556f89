"""Tables of tenants, and what belongs to whom: the one declaration that mechanisms go by.

Row security, purge, export, restore and usage read it; a table that is not here fails the tests.
Rows of each tenant are isolated by one known policy, enabled and forced. Columns and indexes are in
`migrations/schema.py`, which tests hold equal to what the migrations make.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final

from memsvc.core.errors import permission_denied
from memsvc.core.frozen import frozen_by_keyword


class Archive(Enum):
    """Form in which a table's rows stand in an archive."""

    ROWS = "row by row"
    FILES = "as files, with their current content and history"
    LOG = (
        "row by row if requested; never restored, because the log describes calls to"
        " another database"
    )
    JOBS = "as names and subjects; a restore queues the jobs again"
    DERIVED = "not at all, because it is rebuilt from the other data"


@frozen_by_keyword
class TenantTable:
    """Table whose rows belong to a tenant.

    `key` are the columns of the primary key after the tenant. `owners` are those by which rows go
    with an index (`book`), a session, a user (`user_id`) or a file (`incarnation`, `stream`).
    `archive` is how they are exported, or why they are not. What is `derived_from` another table is
    made of it again by a rebuild and, where it is not exported, by a restore. `next_entry` is the
    number after the last entry of an index that its rows name. `usage` are the aggregates that a
    project's rows are counted by; `held_bytes` among them count against the tenant's quota.
    """

    key: str
    owners: str = ""
    archive: Archive | str = Archive.ROWS
    derived_from: str = ""
    of_project: bool = True
    next_entry: str = ""
    usage: Mapping[str, str] = field(default_factory=dict)


# Bytes on disk of what is derived, indexes included, per row: measured with English turns of 12 to
# 1,200 words in sessions of 6 to 1,200 turns, where they gave 0.8 to 1.6 of the true size. Reading
# the rows would take as long as reading all that is stored.
ENTRY_BYTES: Final = 850
TERM_BYTES: Final = 25
FACT_BYTES: Final = 1300
TRACE_BYTES: Final = 2000
VECTOR_BYTES: Final = 300
"""Bytes of a row with a vector, apart from the vector's numbers (one byte each) and signs (one bit
each, in the row and in the index). The signs of its sentences are included."""


def _of_index(key: str = "", **declared: Any) -> TenantTable:
    return TenantTable(key=f"project book {key}".strip(), owners="book", **declared)


def _derived(size: str, **counts: str) -> Mapping[str, str]:
    return counts | {"derived_bytes": f"({size})::int8", "held_bytes": f"({size})::int8"}


def _file_bytes(condition: str) -> str:
    return f"coalesce(sum(size_bytes) FILTER (WHERE {condition}), 0)::int8"


_LIVE: Final = "deleted_at IS NULL"
_FILES: Final = {
    "files": f"count(*) FILTER (WHERE {_LIVE} AND owner = '')",
    "file_bytes": _file_bytes(f"{_LIVE} AND owner = ''"),
    "boards": f"count(*) FILTER (WHERE {_LIVE} AND owner = 'whiteboard')",
    "documents": f"count(*) FILTER (WHERE {_LIVE} AND owner = 'notebook')",
    "memory_file_bytes": _file_bytes(f"{_LIVE} AND owner <> ''"),
    "turn_bytes": _file_bytes("owner = 'turns'"),
    "board_bytes": _file_bytes("owner = 'whiteboard'"),
    "document_bytes": _file_bytes("owner = 'notebook'"),
    "held_bytes": "sum(size_bytes)::int8",
}
_NAMED: Final = "max(entry) + 1"

TABLES: Final[Mapping[str, TenantTable]] = {
    "calls": TenantTable(key="called_at call", archive=Archive.LOG),
    "allowances": TenantTable(
        key="purpose day",
        archive="the daily budget of model calls belongs to this database",
        of_project=False,
    ),
    "rates": TenantTable(
        key="bucket",
        archive="the tenant's current rates of calls belong to this database",
        of_project=False,
    ),
    "mcp_sessions": TenantTable(
        key="session_hash",
        archive="the sessions of connected clients belong to this database",
        of_project=False,
    ),
    "mcp_questions": TenantTable(
        key="question",
        archive="questions that wait for an answer belong to this database",
        of_project=False,
    ),
    "restores": TenantTable(
        key="project archive",
        archive="the list of restored archives belongs to this database",
    ),
    "usage": TenantTable(key="", archive=Archive.DERIVED, derived_from="files", of_project=False),
    "projects": TenantTable(key="project", archive=Archive.DERIVED, derived_from="files"),
    "blocks": TenantTable(
        key="project stream start",
        owners="stream",
        archive=Archive.FILES,
        usage={"stored_bytes": "coalesce(sum(octet_length(content)), 0)::int8"},
    ),
    "streams": TenantTable(
        key="project incarnation first_revision",
        owners="incarnation",
        archive=Archive.FILES,
        usage={"contents": "count(*) FILTER (WHERE first_revision > 0)"},
    ),
    "files": TenantTable(
        key="project incarnation", owners="incarnation", archive=Archive.FILES, usage=_FILES
    ),
    "books": _of_index(
        usage=_derived(
            f"sum(entries::int8) * {ENTRY_BYTES} + sum(length) * {TERM_BYTES}",
            index_entries="sum(entries)::int8",
        ),
        derived_from="entries",
    ),
    "entries": _of_index("entry", next_entry=_NAMED, derived_from="files"),
    "guards": TenantTable(key="project session turn", owners="session", derived_from="files"),
    # the row of a purged session is removed last, as a purge of its user finds the session by it
    "sessions": TenantTable(
        key="project session",
        usage={"sessions": "count(*)", "turns": "coalesce(sum(turns), 0)::int8"},
        derived_from="files",
    ),
    "facts": _of_index(
        "entry",
        next_entry=_NAMED,
        usage=_derived(
            f"count(*) * {FACT_BYTES}", facts="count(*) FILTER (WHERE state = 'active')"
        ),
        derived_from="files",
    ),
    "insights": _of_index("entry", next_entry=_NAMED),
    "notions": _of_index("notion", next_entry=_NAMED),
    "notion_tags": _of_index("tag notion"),
    "edges": _of_index("low high"),
    "contradictions": _of_index("low high"),
    "outcomes": _of_index("notion number"),
    "activity": _of_index(usage={"blocks": "sum(inbox + active + archived)::int8"}),
    "memories": _of_index("memory", usage={"memories": "count(*)"}),
    "memory_findings": TenantTable(
        key="project number", owners="book", next_entry="max(first_entry + entries)"
    ),
    "memory_settings": TenantTable(key="project"),
    "outlines": _of_index(derived_from="files"),
    "outline_nodes": _of_index("node", derived_from="files"),
    "summaries": TenantTable(key="project incarnation", owners="incarnation"),
    "recalls": TenantTable(
        key="project session recalled_at recall",
        owners="session user_id",
        usage=_derived(f"count(*) * {TRACE_BYTES}"),
    ),
    "forgets": TenantTable(
        key="project session forget",
        owners="session",
        archive="a forget can only be undone in this database",
    ),
    "posting_lists": _of_index("term segment", archive=Archive.DERIVED, derived_from="entries"),
    "fresh_terms": _of_index("entry", archive=Archive.DERIVED, derived_from="entries"),
    "embeddings": _of_index(
        "model entry",
        archive=Archive.DERIVED,
        derived_from="entries",
        usage=_derived(
            f"count(*) * ({VECTOR_BYTES} + (SELECT length(signs) * 5 / 4 FROM embeddings"
            " WHERE {scope} LIMIT 1))",
            vectors="count(*)",
        ),
    ),
    "purges": TenantTable(key="project unit", archive="purges in progress belong to this database"),
    "job_refs": TenantTable(key="project name subject started", archive=Archive.JOBS),
}
"""The tables in the order in which an archive holds them. A purge goes from the last to the first,
so that what finds goes before what it finds, and the log goes last."""
SERVER_TABLES: Final = ("tenants", "api_keys", "server_secrets", "ended_sessions")
"""Registry of tenants and keys, and what processes share: no content, and no policy."""


def key_of(table: str) -> tuple[str, ...]:
    """Return the columns of a table's primary key."""
    return ("tenant", *TABLES[table].key.split())


def archived_as(form: Archive) -> tuple[str, ...]:
    """Return the tables that stand in an archive in this form, in its order."""
    return tuple(name for name, table in TABLES.items() if table.archive is form)


def purge_order(owner: str = "") -> list[str]:
    """Return the tables in the order of deletion; those with this owner column if one is given."""
    return [
        name for name in reversed([*TABLES]) if not owner or owner in TABLES[name].owners.split()
    ]


TENANT_IS_CURRENT: Final = "tenant = NULLIF(current_setting('memsvc.tenant', true), '')::bytea"
# A setting that is absent reads as NULL and one that was local to an earlier transaction as '':
# both match no row.
_AS_STORED: Final = (
    "(tenant = (NULLIF(current_setting(''memsvc.tenant''::text, true), ''''::text))::bytea)"
)

OPEN_TABLES: Final = f"""
    SELECT t.name FROM unnest('{{{",".join(TABLES)}}}'::text[]) AS t (name)
    JOIN pg_class AS c ON c.oid = to_regclass(t.name) LEFT JOIN pg_policy AS p ON p.polrelid = c.oid
    GROUP BY t.name, c.oid, c.relrowsecurity, c.relforcerowsecurity
    HAVING NOT (c.relrowsecurity AND c.relforcerowsecurity AND count(p.oid) = 1
        AND coalesce(bool_and(
        p.polpermissive AND p.polcmd = '*' AND p.polroles = '{{0}}'
        AND coalesce(pg_get_expr(p.polqual, p.polrelid), '') = '{_AS_STORED}'
        AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '') = '{_AS_STORED}'), false))
    ORDER BY 1
"""
"""Tables, as statements find them, that show or take rows of another tenant; an absent one shows
none."""


async def check_isolation(pool: Any) -> None:
    """Raise PERMISSION_DENIED where row security is off or changed on any table of tenants."""
    tables = [row["name"] for row in await pool.fetch(OPEN_TABLES)]
    if tables:
        raise permission_denied(
            f"row-level security is off or was changed on {', '.join(tables)}",
            recovery="to restore row-level security, set database.admin_url and run `memsvc"
            " migrate`; also find out who turned it off or changed it",
        )
