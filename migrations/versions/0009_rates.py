"""How much of their rates busy tenants use, shared by the replicas of the service."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "rates",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("bucket", sa.Text(collation="C"), nullable=False),
        sa.Column("empty_at", sa.Double(), nullable=False),
        sa.Column("used_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "bucket"),
    )


def downgrade() -> None:
    op.drop_table("rates")
