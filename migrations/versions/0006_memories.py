"""Memories: what is kept beside the facts that they are, what was found when, and what a project
wants otherwise."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Name = sa.Text(collation="C")


def scope() -> list[sa.Column[object]]:
    return [
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
    ]


def moment(of: str) -> sa.Column[object]:
    return sa.Column(of, sa.DateTime(timezone=True), nullable=False)


def upgrade() -> None:
    op.create_table(
        "memories",
        *scope(),
        sa.Column("book", sa.BigInteger(), nullable=False),
        sa.Column("memory", Name, nullable=False),
        sa.Column("fact_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("metadata", postgresql.JSONB(), nullable=False),
        moment("created_at"),
        sa.PrimaryKeyConstraint("tenant", "project", "book", "memory"),
    )
    op.create_table(
        "memory_findings",
        *scope(),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("book", sa.BigInteger(), nullable=False),
        sa.Column("first_entry", sa.Integer(), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        moment("found_at"),
        sa.PrimaryKeyConstraint("tenant", "project", "number"),
    )
    op.create_table(
        "memory_settings",
        *scope(),
        sa.Column(
            "wanted", postgresql.JSONB(), nullable=False, server_default=sa.text("'{}'::jsonb")
        ),
        sa.Column("prompt", sa.Text(), nullable=True),
        sa.Column("findings", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.PrimaryKeyConstraint("tenant", "project"),
    )


def downgrade() -> None:
    for table in ("memory_settings", "memory_findings", "memories"):
        op.drop_table(table)
