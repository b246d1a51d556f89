"""What is being purged, and the gate that every writer passes."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "purges",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", sa.Text(collation="C"), nullable=False),
        sa.Column("unit", sa.BigInteger(), nullable=False),
        sa.Column("purge", postgresql.UUID(as_uuid=True), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "unit"),
    )
    # Each statement in it sees what was committed while the one before waited for a lock.
    op.execute(
        """
        CREATE FUNCTION admit_writer(written text, shared bigint[], own bigint[]) RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            one bigint;
        BEGIN
            FOREACH one IN ARRAY shared LOOP
                PERFORM pg_advisory_xact_lock_shared(one);
            END LOOP;
            FOREACH one IN ARRAY own LOOP
                PERFORM pg_advisory_xact_lock(one);
            END LOOP;
            IF EXISTS (
                SELECT FROM purges WHERE tenant = NULLIF(current_setting('memsvc.tenant', true), '')::bytea
                    AND project IN (written, '*') AND unit = ANY (own || 0::bigint)
            ) THEN
                RAISE EXCEPTION 'closed' USING ERRCODE = 'MS001';
            END IF;
        END
        $$
        """
    )


def downgrade() -> None:
    op.execute("DROP FUNCTION admit_writer(text, bigint[], bigint[])")
    op.drop_table("purges")
