"""The facts of a book by when they began to hold, and the notions that were archived, by index."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from memsvc.store import concurrent_index

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    concurrent_index.build(
        *("facts_latest", "facts", ["tenant", "project", "book", "valid_from", "entry"]),
        postgresql_where=sa.text("NOT forgotten"),
    )
    concurrent_index.build(
        *("notions_archived", "notions", ["tenant", "project", "book", "created_at", "notion"]),
        postgresql_where=sa.text("status = 'archived'"),
    )


def downgrade() -> None:
    op.drop_index("notions_archived", "notions")
    op.drop_index("facts_latest", "facts")
