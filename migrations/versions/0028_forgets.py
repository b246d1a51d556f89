"""Words that were forgotten and can still be taken back."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0028"
down_revision: str | None = "0027"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "forgets",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", sa.Text(collation="C"), nullable=False),
        sa.Column("session", sa.Text(collation="C"), nullable=False),
        sa.Column("forget", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("undo", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "session", "forget"),
    )
    op.create_index("forgets_by_id", "forgets", ["tenant", "project", "forget"])


def downgrade() -> None:
    op.drop_table("forgets")
