"""Since when the quota of what a tenant stores holds for those who were there before it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("tenants", sa.Column("bounded_since", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE tenants SET bounded_since = now()")


def downgrade() -> None:
    op.drop_column("tenants", "bounded_since")
