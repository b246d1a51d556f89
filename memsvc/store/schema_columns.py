"""Columns and keys that many tables share."""

from typing import Any

from sqlalchemy import Column, DateTime, LargeBinary, MetaData, PrimaryKeyConstraint, Table, Text
from sqlalchemy.schema import SchemaItem

from memsvc.store.tables import TABLES, key_of

metadata = MetaData()

Name = Text(collation="C")


def tenant_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a table of `TABLES` with its key and, before these columns, tenant and project."""
    project = [Column("project", Name, nullable=False)] if TABLES[name].of_project else []
    return Table(
        name,
        metadata,
        Column("tenant", LargeBinary, nullable=False),
        *project,
        *items,
        PrimaryKeyConstraint(*key_of(name)),
        **options,
    )


def timestamp_column(name: str, *, nullable: bool = False) -> Column[object]:
    """Return a column of a time with a zone."""
    return Column(name, DateTime(timezone=True), nullable=nullable)


def words(name: str) -> Column[object]:
    """Return a column of a text that is empty by default."""
    return Column(name, Text, nullable=False, server_default="")
