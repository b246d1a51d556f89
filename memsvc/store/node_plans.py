"""Reads that are dear to plan: on a Citus cluster the node of their tenant keeps their plans."""

from typing import Any, Final

RUN_ON_NODE: Final = "run_on_node(bytea,text,text)"

# The node is told a statement and its values, and prepares it over its own parts of the tables.
# Where the coordinator cannot let the node run it, as the node does not know the cluster yet, it
# plans it as any other. Of what is not prepared yet, PostgreSQL says that it returns no rows.
# Each of the 128 latest takes about half a megabyte of a connection.
FUNCTION_BODY: Final = r"""
DECLARE
    node_part CONSTANT bigint := get_shard_id_for_distribution_column('files', $1);
    is_here CONSTANT boolean := to_regclass(shard_name('files', node_part)) IS NOT NULL;
    name CONSTANT text := format('memsvc_%s_%s', node_part, md5($2));
    execution CONSTANT text := format('EXECUTE %I (%s)', name, $3);
    one record;
BEGIN
    PERFORM set_config('enable_seqscan', 'off', true),
        set_config('plan_cache_mode', CASE WHEN is_here THEN 'force_generic_plan' ELSE 'auto' END,
            true);
    RETURN QUERY EXECUTE execution;
EXCEPTION WHEN syntax_error THEN
    FOR one IN
        SELECT logicalrelid AS whole,
            shard_name(logicalrelid, get_shard_id_for_distribution_column(logicalrelid, $1)) AS part
        FROM pg_dist_partition
        WHERE is_here AND partmethod = 'h' AND strpos($2, logicalrelid::text) > 0
            AND has_table_privilege(logicalrelid, 'SELECT')
    LOOP
        statement := regexp_replace(statement, format('\m(FROM|JOIN)(\s+)%s\M', one.whole),
            format('\1\2%s', one.part), 'g');
    END LOOP;
    FOR one IN
        SELECT kept.name FROM pg_prepared_statements AS kept WHERE kept.name LIKE 'memsvc\_%'
        ORDER BY prepare_time DESC OFFSET 127
    LOOP
        EXECUTE format('DEALLOCATE %I', one.name);
    END LOOP;
    EXECUTE format('PREPARE %I AS %s', name, statement);
    RETURN QUERY EXECUTE execution;
END
"""
CREATE_FUNCTION: Final = f"""
CREATE OR REPLACE FUNCTION run_on_node(tenant bytea, statement text, arguments text)
RETURNS SETOF record LANGUAGE plpgsql AS $body${FUNCTION_BODY}$body$
"""


async def statement_on_node(connection: Any, sql: str) -> str:
    """Return the statement by which the tenant's node runs this one and keeps its plan.

    The same one where no nodes are, or none runs statements for this role."""
    may_run = "SELECT has_function_privilege(to_regprocedure($1), 'EXECUTE')"
    if not await connection.fetchval(may_run, RUN_ON_NODE):
        return sql
    prepared = await connection.prepare(sql, name="")
    values = ", ".join(
        f"quote_nullable(${number}::{_name(kind)})"
        for number, kind in enumerate(prepared.get_parameters(), 1)
    )
    columns = ", ".join(f'"{one.name}" {_name(one.type)}' for one in prepared.get_attributes())
    text = sql.replace("'", "''")
    return (
        f"SELECT * FROM run_on_node($1, '{text}', concat_ws(', ', {values})) AS found ({columns})"
    )


def _name(kind: Any) -> str:
    return f"{kind.schema}.{kind.name}"
