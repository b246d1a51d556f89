"""The user that a key is bound to; "" for any."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0033"
down_revision: str | None = "0032"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("user_id", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("api_keys", "user_id")
