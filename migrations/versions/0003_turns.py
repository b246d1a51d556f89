"""What turns leave behind by and by: insights, digests and policies of sessions, and the servers' own secrets."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Name = sa.Text(collation="C")


def upgrade() -> None:
    op.add_column("sessions", sa.Column("policy", postgresql.JSONB(), nullable=True))
    for name in ("compacted_at", "consolidated_at"):
        op.add_column("sessions", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    for name in ("consolidated_entry", "digested_entry", "extracted_entry"):
        op.add_column("sessions", sa.Column(name, sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.create_index(
        "sessions_user", "sessions", ["tenant", "project", "user_id"], postgresql_where=sa.text("user_id <> ''")
    )
    op.create_table(
        "insights",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("book", sa.BigInteger(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.Column("insight", Name, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("confidence", sa.REAL(), nullable=False),
        sa.Column("evidence", postgresql.JSONB(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "book", "entry"),
    )
    op.create_index("insights_once", "insights", ["tenant", "project", "book", "insight"], unique=True)
    op.create_table(
        "server_secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    op.drop_table("server_secrets")
    op.drop_table("insights")
    op.drop_index("sessions_user", "sessions")
    for name in (
        "extracted_entry",
        "digested_entry",
        "consolidated_entry",
        "consolidated_at",
        "compacted_at",
        "policy",
    ):
        op.drop_column("sessions", name)
