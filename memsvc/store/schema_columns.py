"""What the tables are made of: the columns and keys that many of them have alike."""

from sqlalchemy import Column, DateTime, LargeBinary, MetaData, PrimaryKeyConstraint, Table, Text
from sqlalchemy.schema import SchemaItem

metadata = MetaData()

Name = Text(collation="C")


def tenant_table(name: str, *items: SchemaItem, key: tuple[str, ...]) -> Table:
    """A table of what is in one project: the key behind tenant and project, and under row level security."""
    return Table(
        name,
        metadata,
        Column("tenant", LargeBinary, nullable=False),
        Column("project", Name, nullable=False),
        *items,
        PrimaryKeyConstraint("tenant", "project", *key),
        info={"tenant": True},
    )


def moment(name: str, *, nullable: bool = False) -> Column[object]:
    """A time, aware."""
    return Column(name, DateTime(timezone=True), nullable=nullable)


def words(name: str) -> Column[object]:
    """A text that is empty unless given."""
    return Column(name, Text, nullable=False, server_default="")
