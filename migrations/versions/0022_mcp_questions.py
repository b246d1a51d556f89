"""What the users of MCP clients are asked, for any replica to take the answer."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "mcp_questions",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("question", sa.Text(collation="C"), nullable=False),
        sa.Column("session_hash", sa.LargeBinary(), nullable=False),
        sa.Column("answer", JSONB(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "question"),
    )


def downgrade() -> None:
    op.drop_table("mcp_questions")
