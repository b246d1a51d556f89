"""The digests of a session by its name, and the sessions that have a policy of their own."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from memsvc.store import concurrent_index

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    concurrent_index.build(
        "entries_digests",
        "entries",
        ["tenant", "project", "ref"],
        postgresql_ops={"ref": "text_pattern_ops"},
        postgresql_where=sa.text("role = 'digest'"),
    )
    concurrent_index.build(
        "sessions_policies",
        "sessions",
        ["tenant", "project", "session"],
        postgresql_where=sa.text("policy IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("sessions_policies", "sessions")
    op.drop_index("entries_digests", "entries")
