"""What MCP clients subscribed to within a session, for any replica to resume."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "mcp_sessions",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("session_hash", sa.LargeBinary(), nullable=False),
        sa.Column("stream", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.BigInteger(), nullable=False),
        sa.Column("subscriptions", JSONB(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session_hash"),
    )


def downgrade() -> None:
    op.drop_table("mcp_sessions")
