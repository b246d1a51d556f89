"""The clause that says a fact, and the later sentence by which it may no longer hold."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("facts", sa.Column("statement", sa.Text(), nullable=False, server_default=""))
    op.add_column("facts", sa.Column("doubt", JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("facts", "doubt")
    op.drop_column("facts", "statement")
