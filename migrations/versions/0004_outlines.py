"""Outlines: trees of names, which documents that link each other make."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Name = sa.Text(collation="C")


def upgrade() -> None:
    op.create_table(
        "outlines",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("book", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "book"),
    )
    op.create_table(
        "outline_nodes",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("book", sa.BigInteger(), nullable=False),
        sa.Column("node", Name, nullable=False),
        sa.Column("parent", Name, nullable=True),
        sa.Column("children", sa.ARRAY(Name), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "book", "node"),
    )


def downgrade() -> None:
    # what they say stands in the files, from which they are made again
    op.drop_table("outline_nodes")
    op.drop_table("outlines")
