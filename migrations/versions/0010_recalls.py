"""What before_turn recalled and why, and the sessions of a project by when they were last
written."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from memsvc.store import concurrent_index

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    concurrent_index.build(
        "sessions_latest", "sessions", ["tenant", "project", "updated_at", "session"]
    )
    op.create_table(
        "recalls",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", sa.Text(collation="C"), nullable=False),
        sa.Column("session", sa.Text(collation="C"), nullable=False),
        sa.Column("recalled_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("recall", sa.UUID(), nullable=False),
        sa.Column("turn", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("told", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "session", "recalled_at", "recall"),
    )
    op.create_index("recalls_past", "recalls", ["tenant", "project", "recalled_at"])


def downgrade() -> None:
    op.drop_index("sessions_latest", "sessions")
    op.drop_table("recalls")
