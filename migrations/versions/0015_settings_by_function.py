"""A transaction is told its tenant and its timeouts by a function: Citus repeats on the nodes the
whole message that a SET stands in, and the string that EXECUTE runs holds nothing else."""

from collections.abc import Sequence

from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# It runs as its caller and sets nothing that the caller could not set. A timeout of 0 stays as it
# is.
SET_TENANT = """
CREATE FUNCTION set_tenant(tenant bytea, lock_timeout_ms integer, transaction_timeout_s integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL memsvc.tenant = %L', '\\x' || encode(tenant, 'hex'));
    IF lock_timeout_ms > 0 THEN
        EXECUTE format('SET LOCAL lock_timeout = %L', lock_timeout_ms);
    END IF;
    IF transaction_timeout_s > 0 THEN
        EXECUTE format('SET LOCAL transaction_timeout = %L', transaction_timeout_s || 's');
    END IF;
END
$$
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(SET_TENANT)


def downgrade() -> None:
    op.execute("DROP FUNCTION set_tenant(bytea, integer, integer)")
