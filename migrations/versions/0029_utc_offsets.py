"""The offset from UTC, in minutes, in which the time of an entry was given; NULL for UTC."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0029"
down_revision: str | None = "0027"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("entries", sa.Column("utc_offset", sa.SmallInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("entries", "utc_offset")
