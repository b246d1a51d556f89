"""The call log in parts, a week each, so that what is past its time goes by the table."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# What the log held before becomes its first part, up to the end of the week, without a row being
# moved. Whoever could read and write the log still can; the parts themselves are nobody's but the
# owner's.
PARTED = """
DO $$
DECLARE
    place text := quote_ident(current_schema());
    ends timestamptz;
    granted record;
BEGIN
    PERFORM set_config('TimeZone', 'UTC', true);
    ALTER TABLE calls NO FORCE ROW LEVEL SECURITY;
    DROP POLICY IF EXISTS tenant_only ON calls;
    SELECT date_trunc('week', greatest(now(), max(called_at))) + interval '7 days' INTO ends FROM calls;
    ALTER TABLE calls RENAME TO calls_before;
    ALTER INDEX calls_pkey RENAME TO calls_before_pkey;
    CREATE TABLE calls (LIKE calls_before INCLUDING DEFAULTS) PARTITION BY RANGE (called_at);
    ALTER TABLE calls ADD CONSTRAINT calls_pkey PRIMARY KEY (tenant, called_at, call);
    CREATE INDEX calls_failed ON calls (tenant, called_at, call) WHERE status <> 'success';
    EXECUTE format('ALTER TABLE calls ATTACH PARTITION calls_before FOR VALUES FROM (MINVALUE) TO (%L)', ends);
    CREATE TABLE calls_rest PARTITION OF calls DEFAULT;
    ALTER TABLE calls_before ENABLE ROW LEVEL SECURITY;
    ALTER TABLE calls_rest ENABLE ROW LEVEL SECURITY;
    FOR granted IN
        SELECT DISTINCT quote_ident(r.rolname) AS role FROM pg_class c, aclexplode(c.relacl) AS a, pg_roles r
        WHERE c.oid = 'calls_before'::regclass AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE ALL ON calls_before FROM %s', granted.role);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON calls TO %s', granted.role);
    END LOOP;
END
$$
"""

# Run by the application, as the owner: it makes the parts of this week and the next two, into which
# what came too early is moved, and drops those whose last call is past its time. It can be asked
# for nothing else, and not to keep less than the owner says, who may put another number into this
# function:
LEAST = """
CREATE FUNCTION memsvc_calls_kept_days_min() RETURNS integer LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS 'SELECT 1'
"""
ROLL = """
CREATE FUNCTION memsvc_roll_calls(keep_days integer, OUT made integer, OUT dropped integer, OUT kept_days integer)
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
        EXECUTE format(
            'WITH early AS (DELETE FROM {place}.calls_rest WHERE called_at >= %L AND called_at < %L RETURNING *)'
            ' INSERT INTO %s SELECT * FROM early',
            low, low + interval '7 days', name
        );
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
FUNCTIONS = ("memsvc_roll_calls(integer)", "memsvc_calls_kept_days_min()")
LOCK = 0x63616C6C73  # "calls"

WHOLE = """
DO $$
DECLARE
    part record;
    granted record;
BEGIN
    ALTER TABLE calls RENAME TO calls_parted;
    ALTER INDEX calls_pkey RENAME TO calls_parted_pkey;
    CREATE TABLE calls (LIKE calls_parted INCLUDING DEFAULTS);
    FOR part IN SELECT inhrelid::regclass AS name FROM pg_inherits WHERE inhparent = 'calls_parted'::regclass LOOP
        EXECUTE format('INSERT INTO calls SELECT * FROM %s', part.name);
    END LOOP;
    ALTER TABLE calls ADD CONSTRAINT calls_pkey PRIMARY KEY (tenant, called_at, call);
    FOR granted IN
        SELECT DISTINCT quote_ident(r.rolname) AS role FROM pg_class c, aclexplode(c.relacl) AS a, pg_roles r
        WHERE c.oid = 'calls_parted'::regclass AND r.oid = a.grantee AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON calls TO %s', granted.role);
    END LOOP;
    DROP TABLE calls_parted;
END
$$
"""


def upgrade() -> None:
    place = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    op.get_bind().exec_driver_sql(PARTED)
    op.get_bind().exec_driver_sql(LEAST)
    op.get_bind().exec_driver_sql(ROLL.format(place=place, lock=LOCK))
    for function in FUNCTIONS:
        op.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC")
    op.execute("SELECT memsvc_roll_calls(0)")


def downgrade() -> None:
    for function in FUNCTIONS:
        op.execute(f"DROP FUNCTION {function}")
    op.get_bind().exec_driver_sql(WHOLE)
