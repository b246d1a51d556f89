"""The functions of the schema by statements that Citus can run: nothing else changes."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# The tenant is looked up before it is compared: Citus sends a statement to one node by a value, not
# by an expression.
ADMIT = """
CREATE OR REPLACE FUNCTION admit_writer(written text, shared bigint[], own bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    one bigint;
    writer CONSTANT bytea := NULLIF(current_setting('memsvc.tenant', true), '')::bytea;
BEGIN
    FOREACH one IN ARRAY shared LOOP
        PERFORM pg_advisory_xact_lock_shared(one);
    END LOOP;
    FOREACH one IN ARRAY own LOOP
        PERFORM pg_advisory_xact_lock(one);
    END LOOP;
    PERFORM true FROM purges WHERE tenant = writer AND project IN (written, '*') AND unit = ANY (own || 0::bigint);
    IF FOUND THEN
        RAISE EXCEPTION 'closed' USING ERRCODE = 'MS001';
    END IF;
END
$$
"""
ADMIT_BEFORE = """
CREATE OR REPLACE FUNCTION admit_writer(written text, shared bigint[], own bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
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

# As in 0012 but for what {moved} and {mode} are. Two statements move rows where one did: nobody
# else is in the table meanwhile. One connection to each node is enough, and what was changed over
# several could not be altered any more; PostgreSQL without Citus takes the setting for one of
# nobody's.
ROLL = """
CREATE OR REPLACE FUNCTION
    memsvc_roll_calls(keep_days integer, OUT made integer, OUT dropped integer, OUT kept_days integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
SET lock_timeout = '2s'
AS $$
DECLARE
    parent CONSTANT regclass := '{place}.calls';
    cutoff timestamptz;
    low timestamptz;
    name text;
    part record;
    alone boolean := false;
BEGIN
    IF keep_days IS NULL OR keep_days NOT BETWEEN 0 AND 36500 THEN
        RAISE EXCEPTION 'days from 0 to 36500 are kept' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    made := 0;
    dropped := 0;
    kept_days := CASE keep_days WHEN 0 THEN 0
        ELSE greatest(keep_days, {place}.memsvc_calls_kept_days_min()) END;
    IF NOT pg_try_advisory_xact_lock({lock}) THEN
        RETURN;
    END IF;
    {mode}
    FOR week IN 0..2 LOOP
        low := date_trunc('week', now()) + week * interval '7 days';
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = parent
                AND coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \\(''([^'']+)''\\)'), '-infinity')
                    ::timestamptz <= low
                AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''([^'']+)''\\)')::timestamptz > low
        );
        IF NOT alone THEN
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', parent);
            alone := true;
        END IF;
        name := format('{place}.calls_%s', to_char(low, 'YYYYMMDD'));
        EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL)', name, parent);
        {moved}
        EXECUTE format(
            'ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
            parent, name, low, low + interval '7 days'
        );
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', name);
        made := made + 1;
    END LOOP;
    IF kept_days = 0 THEN
        RETURN;
    END IF;
    cutoff := now() - kept_days * interval '1 day';
    DELETE FROM {place}.calls_rest WHERE called_at < cutoff;
    FOR part IN
        SELECT c.oid::regclass AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent
            AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''([^'']+)''\\)')::timestamptz <= cutoff
    LOOP
        IF NOT alone THEN
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', parent);
            alone := true;
        END IF;
        EXECUTE format('DROP TABLE %s', part.name);
        dropped := dropped + 1;
    END LOOP;
END
$$
"""
MOVED = """
        EXECUTE format(
            'INSERT INTO %s SELECT * FROM {place}.calls_rest WHERE called_at >= %L AND called_at < %L',
            name, low, low + interval '7 days'
        );
        EXECUTE format(
            'DELETE FROM {place}.calls_rest WHERE called_at >= %L AND called_at < %L', low, low + interval '7 days'
        );
"""
MOVED_BEFORE = """
        EXECUTE format(
            'WITH early AS (DELETE FROM {place}.calls_rest WHERE called_at >= %L AND called_at < %L RETURNING *)'
            ' INSERT INTO %s SELECT * FROM early',
            low, low + interval '7 days', name
        );
"""
MODE = "PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);"
LOCK = 0x63616C6C73  # "calls"


def _roll(moved: str, mode: str) -> str:
    place = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    return ROLL.format(place=place, lock=LOCK, moved=moved.strip().format(place=place), mode=mode)


def upgrade() -> None:
    op.get_bind().exec_driver_sql(ADMIT)
    op.get_bind().exec_driver_sql(_roll(MOVED, MODE))


def downgrade() -> None:
    op.get_bind().exec_driver_sql(_roll(MOVED_BEFORE, ""))
    op.get_bind().exec_driver_sql(ADMIT_BEFORE)
