"""Which archive a project was restored from."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "restores",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", sa.Text(collation="C"), nullable=False),
        sa.Column("archive", postgresql.UUID(as_uuid=True), nullable=False),
        sa.Column("restored_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "archive"),
    )


def downgrade() -> None:
    op.drop_table("restores")
