"""Which notions another one stands for, by index."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from memsvc.store import concurrent_index

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    concurrent_index.build(
        *("notions_superseded", "notions", ["tenant", "project", "book", "superseded_by"]),
        postgresql_where=sa.text("superseded_by IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("notions_superseded", "notions")
