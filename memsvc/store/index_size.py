"""How large the search index is, over all tenants, as the database's own books have it."""

from dataclasses import dataclass
from typing import Final

from memsvc.store.database import Database

_TABLES: Final = ("embeddings", "entries", "fresh_terms", "postings")


@dataclass(frozen=True, slots=True)
class IndexSize:
    """Bytes on disk, with the database's own indexes, and about how many entries."""

    size_bytes: int = 0
    entries: int = 0


async def read_index_size(database: Database) -> IndexSize:
    """As the database has it in its catalogue, where entries are counted when a table is vacuumed or analysed."""
    rows = await database.registry(
        """
        SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS size_bytes,
               coalesce(max(reltuples) FILTER (WHERE relname = 'entries'), 0)::bigint AS entries
        FROM pg_class WHERE relname = ANY ($1) AND relkind = 'r' AND relnamespace = 'public'::regnamespace
        """,
        list(_TABLES),
    )
    return IndexSize(rows[0]["size_bytes"], max(0, rows[0]["entries"]))
