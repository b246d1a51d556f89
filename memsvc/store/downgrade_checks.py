"""Checks of what a downgrade of the schema would lose."""

from typing import Final

from sqlalchemy import Connection, text

_KEPT: Final = text("""
    SELECT coalesce(whole.relname, c.relname) AS name, bool_or(pg_relation_size(c.oid) > 0) AS held
    FROM pg_class AS c
    LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid LEFT JOIN pg_class AS whole
        ON whole.oid = i.inhparent
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' GROUP BY 1
""")
"""Tables, a partition under the name of its whole, and whether they hold any row: by their size, as
the owner too is bound by the policies and sees no row."""

_COLUMNS: Final = text("""
    SELECT c.relname AS name, a.attname AS place FROM pg_class AS c JOIN pg_attribute AS a
        ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition
        AND a.attnum > 0 AND NOT a.attisdropped
""")


def in_use(connection: Connection) -> frozenset[str]:
    """Return the tables that hold something, as `table`, and their columns, as `table.column`."""
    tables = {row.name for row in connection.execute(_KEPT) if row.held}
    columns = {
        f"{row.name}.{row.place}" for row in connection.execute(_COLUMNS) if row.name in tables
    }
    return frozenset(tables | columns)


def missing_since(connection: Connection, before: frozenset[str]) -> list[str]:
    """Return what of `before` no longer exists; a table that went is named without its columns."""
    tables = {row.name for row in connection.execute(_KEPT)}
    remaining = tables | {f"{row.name}.{row.place}" for row in connection.execute(_COLUMNS)}
    return sorted(
        name for name in before - remaining if "." not in name or name.partition(".")[0] in tables
    )
