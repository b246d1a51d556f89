"""Likes, dislikes and projects have no last day any more."""

from collections.abc import Sequence

from alembic import op

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# An expired one that a later statement contradicts stays expired.
LASTING = """
    UPDATE facts AS f SET expires_at = NULL
    WHERE f.tenant = $1 AND f.expires_at IS NOT NULL AND f.state = 'active'
        AND f.fact_id IN ('user_like', 'user_dislike', 'user_project')
        AND NOT EXISTS (SELECT FROM facts AS later WHERE later.tenant = $1
            AND later.project = f.project AND later.book = f.book AND later.slot = f.slot
            AND later.fact_id IN ('user_like', 'user_dislike') AND later.fact_id <> f.fact_id
            AND later.valid_from > f.valid_from)
"""


def upgrade() -> None:
    bind = op.get_bind()
    for tenant in (
        bind.exec_driver_sql("SELECT tenant FROM tenants ORDER BY tenant").scalars().all()
    ):
        bind.exec_driver_sql("SELECT set_tenant($1, 0, 0)", (tenant,))
        bind.exec_driver_sql(LASTING, (tenant,))


def downgrade() -> None:
    """Facts without a last day are valid for the version before, too."""
