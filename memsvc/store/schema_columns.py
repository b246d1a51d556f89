"""Columns and keys that many tables share."""

from sqlalchemy import Column, DateTime, LargeBinary, MetaData, PrimaryKeyConstraint, Table, Text
from sqlalchemy.schema import SchemaItem

metadata = MetaData()

Name = Text(collation="C")


def tenant_table(name: str, *items: SchemaItem, key: tuple[str, ...]) -> Table:
    """Return a table of one project's rows.

    Tenant and project lead its key, under row level security.
    """
    return Table(
        name,
        metadata,
        Column("tenant", LargeBinary, nullable=False),
        Column("project", Name, nullable=False),
        *items,
        PrimaryKeyConstraint("tenant", "project", *key),
        info={"tenant": True},
    )


def timestamp_column(name: str, *, nullable: bool = False) -> Column[object]:
    """Return a column of a time with a zone."""
    return Column(name, DateTime(timezone=True), nullable=nullable)


def words(name: str) -> Column[object]:
    """Return a column of a text that is empty by default."""
    return Column(name, Text, nullable=False, server_default="")
