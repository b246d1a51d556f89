"""Every index with the terms of this version: parts of names in code, umlauts written out.

As revision 0030 does, which finds the indexes of an older version."""

from collections.abc import Sequence

from alembic import op

revision: str = "0031"
down_revision: str | None = "0030"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    context = op.get_context().environment_context
    assert context is not None
    context.script.get_revision(down_revision).module.upgrade()


def downgrade() -> None:
    """Postings of other terms are valid for the version before, too."""
