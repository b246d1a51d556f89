"""The offset from UTC, in minutes, in which the time of an entry was given; NULL for UTC."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0029"
down_revision: str | None = "0028"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("entries", sa.Column("utc_offset", sa.SmallInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("entries", "utc_offset")
    bind = op.get_bind()
    for tenant in (
        bind.exec_driver_sql("SELECT tenant FROM tenants ORDER BY tenant").scalars().all()
    ):
        bind.exec_driver_sql("SELECT set_tenant($1, 0, 0)", (tenant,))
        bind.exec_driver_sql(
            "UPDATE facts SET evidence = evidence - 'utc_offset' WHERE tenant = $1", (tenant,)
        )
