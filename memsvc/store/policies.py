"""Row level security, storage, privileges and distribution over Citus of the tables.

Everything is compared with the catalogue first and changed only where it differs, so that a start
of a server that has nothing to migrate takes no lock on any table.
"""

import base64
import hashlib
import hmac
import re
import secrets
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from memsvc.core.frozen import frozen
from memsvc.store import calls, queue
from memsvc.store.queue import TABLES as QUEUE_TABLES
from memsvc.store.tables import OPEN_TABLES, SERVER_TABLES, TABLES, TENANT_IS_CURRENT

POLICY = "tenant_only"

STORAGE: dict[str, dict[str, str]] = {
    # Rows that grow with what is added: room in the page for the next version, and vacuum soon.
    "posting_lists": {"autovacuum_vacuum_scale_factor": "0.05", "fillfactor": "80"},
    # Rows that come and soon go again.
    "fresh_terms": {"autovacuum_vacuum_scale_factor": "0.05"},
    # Tables that only grow: vacuum soon, so that later vacuums have little to do.
    "entries": {
        "autovacuum_vacuum_insert_scale_factor": "0.02",
        "autovacuum_vacuum_insert_threshold": "1000",
    },
    "blocks": {
        "autovacuum_vacuum_insert_scale_factor": "0.02",
        "autovacuum_vacuum_insert_threshold": "1000",
    },
    "embeddings": {
        "autovacuum_vacuum_insert_scale_factor": "0.02",
        "autovacuum_vacuum_insert_threshold": "1000",
    },
    # Counters that every write updates: leave room in the page, so that the update touches no
    # index.
    "books": {"fillfactor": "80"},
    "sessions": {"fillfactor": "80"},
    "projects": {"fillfactor": "80"},
    "job_refs": {"fillfactor": "80"},
}
LARGE_COLUMNS: tuple[tuple[str, str], ...] = (("blocks", "content"), ("entries", "text"))


@frozen
class AppRole:
    """Role of the server. With a password it is made when there is none."""

    name: str
    password: str | None = None
    statement_timeout_ms: int = 30000


def secure(connection: Connection) -> None:
    """Set row level security and storage parameters of every existing table, whatever they were."""
    for table in connection.exec_driver_sql(OPEN_TABLES).scalars().all():
        _set_policy(connection, table)
    rows = connection.execute(
        text("""
            SELECT relname, reloptions FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        """)
    )
    for table, options in rows.all():
        options_sql = [f"{name}={value}" for name, value in STORAGE.get(table, {}).items()]
        if not set(options_sql) <= set(options or ()):
            connection.exec_driver_sql(f"ALTER TABLE {table} SET ({', '.join(options_sql)})")
    _compress(connection)


def _set_policy(connection: Connection, table: str) -> None:
    """Set one policy, and no other, for the rows of a table."""
    connection.exec_driver_sql(
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    )
    policy_query = "SELECT polname FROM pg_policy WHERE polrelid = to_regclass(:table)"
    for policy in connection.scalars(text(policy_query), {"table": table}).all():
        name = connection.dialect.identifier_preparer.quote(policy)
        connection.exec_driver_sql(f"DROP POLICY {name} ON {table}")
    condition = f"({TENANT_IS_CURRENT})"
    connection.exec_driver_sql(
        f"CREATE POLICY {POLICY} ON {table} USING {condition} WITH CHECK {condition}"
    )


def _compress(connection: Connection) -> None:
    """Use lz4 for large columns, where this server has it: it costs a fraction of pglz to read."""
    if not scalar(
        connection,
        "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'",
    ):
        return
    for table, column in LARGE_COLUMNS:
        present = scalar(
            connection,
            """
            SELECT attcompression::text FROM pg_attribute
            WHERE attrelid = to_regclass(:table) AND attname = :column AND NOT attisdropped
            """,
            table=table,
            column=column,
        )
        if present not in (None, "l"):
            connection.exec_driver_sql(
                f"ALTER TABLE {table} ALTER COLUMN {column} SET COMPRESSION lz4"
            )


def scalar(connection: Connection, sql: str, **values: str) -> Any:
    """Return the first column of the first row of a statement, or None."""
    return connection.scalar(text(sql), values)


def grant(connection: Connection, role: AppRole) -> None:
    """Let the application role read and write rows, and nothing else.

    It is made when it is absent and may be made. A role that cannot be made is left absent, without
    privileges: the server then refuses to start because it cannot connect.
    """
    quote = connection.dialect.identifier_preparer.quote
    name = quote(role.name)
    exists = scalar(
        connection, "SELECT count(*) FROM pg_roles WHERE rolname = :role", role=role.name
    )
    if not (exists or _made(connection, role, name)):
        return
    tables = [table for table in (*SERVER_TABLES, *TABLES) if _exists(connection, table)]
    schema = quote(str(scalar(connection, "SELECT current_schema()")))
    connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    if tables:
        connection.exec_driver_sql(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(tables)} TO {name}"
        )
    for table, permissions in queue.TABLE_GRANTS.items():
        if _exists(connection, table):
            connection.exec_driver_sql(f"GRANT {permissions} ON {table} TO {name}")
    if _exists(connection, queue.SEQUENCE):
        connection.exec_driver_sql(f"GRANT USAGE ON SEQUENCE {queue.SEQUENCE} TO {name}")
    if scalar(connection, "SELECT to_regprocedure(:roll) IS NOT NULL", roll=calls.ROLL):
        connection.exec_driver_sql(f"GRANT EXECUTE ON FUNCTION {calls.ROLL} TO {name}")
    if _exists(connection, "alembic_version"):
        connection.exec_driver_sql(f"GRANT SELECT ON alembic_version TO {name}")
    role_settings = {
        "jit": "off",
        # every statement is shaped to have one good plan: to make it anew for each call costs as
        # much as to run it
        "plan_cache_mode": "force_generic_plan",
        "statement_timeout": f"{role.statement_timeout_ms}ms",
        "idle_in_transaction_session_timeout": "60s",
        # a client whose machine is gone sends nothing: it is probed, and its locks are released
        # with it
        "tcp_keepalives_idle": "30",
        "tcp_keepalives_interval": "10",
        "tcp_keepalives_count": "3",
    }
    if has_shards(connection):
        role_settings |= dict(ROLE_SETTINGS)
    for setting, value in role_settings.items():
        _allowed(connection, f"ALTER ROLE {name} SET {setting} = '{value}'")


def _made(connection: Connection, role: AppRole, name: str) -> bool:
    return role.password is not None and _allowed(
        connection,
        f"CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE"
        f" PASSWORD '{scram_verifier(role.password)}'",
    )


def _exists(connection: Connection, table: str) -> bool:
    return scalar(connection, "SELECT to_regclass(:table) IS NOT NULL", table=table) is True


def _allowed(connection: Connection, sql: str) -> bool:
    """Run a statement that managed databases often forbid.

    Return False, changing nothing, if forbidden.
    """
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(sql)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != "42501":
            raise
        return False
    return True


def scram_verifier(password: str) -> str:
    """Return what PostgreSQL stores of a password (RFC 5802, 4096 rounds).

    So no log of statements holds the password.
    """
    salt = secrets.token_bytes(16)
    password_key = hashlib.pbkdf2_hmac(
        "sha256", unicodedata.normalize("NFKC", password).encode(), salt, 4096
    )
    stored = hashlib.sha256(hmac.digest(password_key, b"Client Key", "sha256")).digest()
    server = hmac.digest(password_key, b"Server Key", "sha256")
    encoded = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return "SCRAM-SHA-256$4096:{}${}:{}".format(*encoded)


ANCHOR: Final = "files"
"""The table that is distributed first; all others are put beside it."""
LOCAL: Final[Mapping[str, str]] = {
    "job_refs": "is written together with the queue, and separating them could lose jobs",
    "tenants": "is read across all tenants",
    "api_keys": "is read by key before the tenant is known",
    "server_secrets": "does not belong to a tenant",
    "ended_sessions": "does not belong to a tenant",
    "alembic_version": "does not belong to a tenant",
    **dict.fromkeys(
        QUEUE_TABLES,
        "belongs to PgQueuer, which needs a sequence, a trigger and SKIP LOCKED across all tenants",
    ),
}
"""Tables that stay on the coordinator, and why. No statement has one of them beside a distributed
one."""
SHARD_TABLES: Final = (
    ANCHOR,
    *(name for name in TABLES if name not in {ANCHOR, *LOCAL}),
)

ROLE_SETTINGS: Final = (
    ("citus.propagate_set_commands", "local"),
    ("citus.override_table_visibility", "off"),
    ("plan_cache_mode", "auto"),
)
"""Settings that the application's role needs on Citus: nodes learn whose rows a transaction sees,
shards are not looked up in each read of the catalogue, from which the driver learns types (half a
second a connection), and plans are made for values."""

VERSION_MIN: Final = (11, 2)
"""The first Citus that begins transactions on its nodes as they were begun: all reads of one
snapshot."""

# Each line: a table and what Citus would refuse of it, or would do wrong.
_SHARD_ERRORS: Final = text("""
    WITH t AS (
        SELECT c.oid, c.relname, c.relkind, a.attnum AS tenant FROM pg_class AS c
        LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant'
            AND NOT a.attisdropped
            AND a.attnotnull AND a.attgenerated = ''
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY (:tables)
    )
    SELECT relname, 'is not a table' AS fault FROM t WHERE relkind NOT IN ('r', 'p')
    UNION ALL SELECT relname, 'has no column tenant that is never empty' FROM t WHERE tenant IS NULL
    UNION ALL SELECT relname, 'has the unique key ' || i.indexrelid::regclass ||
        ' without the tenant'
        FROM t JOIN pg_index AS i ON i.indrelid = t.oid
        WHERE (i.indisunique OR i.indisexclusion)
            AND t.tenant <> ALL ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    UNION ALL SELECT relname, 'has the foreign key ' || k.conname || ', which crosses tenants'
        FROM t JOIN pg_constraint AS k ON k.contype = 'f' AND t.oid IN (k.conrelid, k.confrelid)
        WHERE NOT EXISTS (
            SELECT FROM t AS own JOIN t AS other ON other.oid = k.confrelid,
                unnest(k.conkey, k.confkey) AS pair (own, other)
            WHERE own.oid = k.conrelid AND pair.own = own.tenant AND pair.other = other.tenant)
    UNION ALL SELECT relname, 'has the trigger ' || g.tgname
        FROM t JOIN pg_trigger AS g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
    UNION ALL SELECT relname, 'counts its column ' || a.attname || ' by a sequence'
        FROM t JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef AS d ON d.adrelid = t.oid AND d.adnum = a.attnum
        WHERE a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval(%'
    UNION ALL SELECT relname, 'inherits from another table'
        FROM t JOIN pg_inherits AS i ON i.inhrelid = t.oid
    ORDER BY 1, 2
""")
# Tables that are distributed: how, and beside which others.
_SHARD_TABLES: Final = text("""
    SELECT c.relname AS name, p.partmethod::text AS method, p.colocationid AS beside,
           CASE WHEN p.partkey IS NOT NULL THEN column_to_column_name(p.logicalrelid, p.partkey)
               END AS cut_by
    FROM pg_dist_partition AS p JOIN pg_class AS c ON c.oid = p.logicalrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT c.relispartition
""")
# Tables that hold rows here, a partition under the name of its whole.
_LOCAL_ROWS: Final = text("""
    SELECT DISTINCT coalesce(whole.relname, c.relname) AS name FROM pg_class AS c
    LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid LEFT JOIN pg_class AS whole
        ON whole.oid = i.inhparent
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
        AND pg_relation_size(c.oid) > 0
""")
_TABLES: Final = text("""
    SELECT relname FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND NOT relispartition
""")
_ROLE: Final = text("""
    SELECT s.setconfig FROM pg_roles AS r
    LEFT JOIN pg_db_role_setting AS s ON s.setrole = r.oid AND s.setdatabase = 0
        WHERE r.rolname = :role
""")


@frozen
class ShardTable:
    """Distribution of a table: `method` h means by hash."""

    name: str
    method: str
    group_id: int
    shard_key: str | None


def version(connection: Connection) -> tuple[int, ...] | None:
    """Return the version of Citus in this database; None where it was not created."""
    known = scalar(connection, "SELECT extversion FROM pg_extension WHERE extname = 'citus'")
    return None if known is None else tuple(int(part) for part in re.findall(r"\d+", known)[:2])


def has_shards(connection: Connection) -> bool:
    """Return whether the tables are distributed over nodes, which the first one tells."""
    if version(connection) is None:
        return False
    return any(table.name == ANCHOR for table in shard_tables(connection).values())


def shard_tables(connection: Connection) -> dict[str, ShardTable]:
    """Return the distributed tables, by name, of a database that has Citus."""
    return {
        row.name: ShardTable(row.name, row.method, row.beside, row.cut_by)
        for row in connection.execute(_SHARD_TABLES)
    }


def is_primary_node(connection: Connection) -> bool:
    """Return whether this is the node that knows all others."""
    return scalar(connection, "SELECT citus_is_coordinator()") is True


def present(connection: Connection) -> frozenset[str]:
    """Return the tables that exist, without partitions."""
    return frozenset(connection.scalars(_TABLES))


def shard_errors(connection: Connection, tables: frozenset[str]) -> list[str]:
    """Return what Citus would refuse of these tables, in a few words each.

    Other tables that stand in their way are named too.
    """
    errors = [
        f"{row.relname} {row.fault}"
        for row in connection.execute(_SHARD_ERRORS, {"tables": sorted(tables)})
    ]
    known = shard_tables(connection)
    anchor = known.get(ANCHOR)
    for name in sorted(known):
        table = known[name]
        if name in LOCAL:
            errors.append(
                f"{name} is distributed, but must stay on the coordinator: it {LOCAL[name]}"
            )
        elif name in tables and (table.method, table.shard_key) != ("h", "tenant"):
            errors.append(f"{name} is distributed by a column other than its tenant")
        elif name in tables and (anchor is None or table.group_id != anchor.group_id):
            errors.append(f"{name} is distributed, but not co-located with {ANCHOR}")
    return errors


def tables_with_rows(connection: Connection) -> frozenset[str]:
    """Return the tables with rows in the coordinator's own files, hidden or not."""
    return frozenset(connection.scalars(_LOCAL_ROWS))


def settings_of_role(connection: Connection, role: str) -> dict[str, str] | None:
    """Return the settings of a role in every database; None for a role that does not exist."""
    rows = connection.execute(_ROLE, {"role": role}).all()
    if not rows:
        return None
    return dict(setting.split("=", 1) for setting in rows[0].setconfig or ())
