"""Size of the search index, over all tenants, from the database's own statistics."""

from dataclasses import dataclass
from typing import Final

from memsvc.store.database import Database
from memsvc.store.tables import TABLES

_TABLES: Final = (
    "entries",
    *(name for name, table in TABLES.items() if table.derived_from == "entries"),
)


@dataclass(frozen=True, slots=True)
class IndexSize:
    """Bytes on disk, the database's own indexes included, and the approximate number of entries."""

    size_bytes: int = 0
    entries: int = 0


async def read_index_size(database: Database) -> IndexSize:
    """Return the size from the catalogue, where vacuum or analyse count the entries."""
    rows = await database.registry(
        """
        SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS size_bytes,
               coalesce(max(reltuples) FILTER (WHERE relname = 'entries'), 0)::bigint AS entries
        FROM pg_class WHERE relname = ANY ($1) AND relkind = 'r'
            AND relnamespace = 'public'::regnamespace
        """,
        list(_TABLES),
    )
    return IndexSize(rows[0]["size_bytes"], max(0, rows[0]["entries"]))
