"""Row level security, storage parameters and privileges of the tables.

Everything is compared with the catalogue first and changed only where it differs, so that a start
of a server that has nothing to migrate takes no lock on any table.
"""

import base64
import hashlib
import hmac
import secrets
import unicodedata
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from memsvc.store import call_partitions, citus, queue
from memsvc.store.isolation import OPEN_TABLES, TENANT_IS_CURRENT
from memsvc.store.schema import metadata

POLICY = "tenant_only"

STORAGE: dict[str, dict[str, str]] = {
    # Rows that grow with what is added: room in the page for the next version, and vacuum soon.
    "postings": {"autovacuum_vacuum_scale_factor": "0.05", "fillfactor": "80"},
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
    # Counters that every write updates: leave room in the page, so that the update touches no
    # index.
    "books": {"fillfactor": "80"},
    "sessions": {"fillfactor": "80"},
    "projects": {"fillfactor": "80"},
    "job_refs": {"fillfactor": "80"},
}
LARGE_COLUMNS: tuple[tuple[str, str], ...] = (("blocks", "content"), ("entries", "text"))


@dataclass(frozen=True, slots=True)
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
            connection.execute(text(f"ALTER TABLE {table} SET ({', '.join(options_sql)})"))
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
    known = connection.scalar(
        text(
            "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name ="
            " 'default_toast_compression'"
        )
    )
    if not known:
        return
    for table, column in LARGE_COLUMNS:
        present = connection.scalar(
            text("""
                SELECT attcompression::text FROM pg_attribute
                WHERE attrelid = to_regclass(:table) AND attname = :column AND NOT attisdropped
            """),
            {"table": table, "column": column},
        )
        if present is not None and present != "l":
            connection.execute(
                text(f"ALTER TABLE {table} ALTER COLUMN {column} SET COMPRESSION lz4")
            )


def grant(connection: Connection, role: AppRole) -> None:
    """Let the application role read and write rows, and nothing else.

    It is made when it is absent and may be made. A role that cannot be made is left absent, without
    privileges: the server then refuses to start because it cannot connect.
    """
    name = connection.dialect.identifier_preparer.quote(role.name)
    if not (_role_exists(connection, role) or _made(connection, role, name)):
        return
    tables = [table for table in metadata.tables if _exists(connection, table)]
    connection.execute(text(f"GRANT USAGE ON SCHEMA {_schema(connection)} TO {name}"))
    if tables:
        connection.execute(
            text(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(tables)} TO {name}")
        )
    for table, permissions in queue.TABLE_GRANTS.items():
        if _exists(connection, table):
            connection.execute(text(f"GRANT {permissions} ON {table} TO {name}"))
    if _exists(connection, queue.SEQUENCE):
        connection.execute(text(f"GRANT USAGE ON SEQUENCE {queue.SEQUENCE} TO {name}"))
    if connection.scalar(
        text("SELECT to_regprocedure(:roll) IS NOT NULL"), {"roll": call_partitions.ROLL}
    ):
        connection.execute(text(f"GRANT EXECUTE ON FUNCTION {call_partitions.ROLL} TO {name}"))
    if _exists(connection, "alembic_version"):
        connection.execute(text(f"GRANT SELECT ON alembic_version TO {name}"))
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
    if citus.has_shards(connection):
        role_settings |= dict(citus.ROLE_SETTINGS)
    for setting, value in role_settings.items():
        _allowed(connection, f"ALTER ROLE {name} SET {setting} = '{value}'")


def _role_exists(connection: Connection, role: AppRole) -> bool:
    found = connection.scalar(
        text("SELECT count(*) FROM pg_roles WHERE rolname = :role"), {"role": role.name}
    )
    return bool(found)


def _made(connection: Connection, role: AppRole, name: str) -> bool:
    return role.password is not None and _allowed(
        connection,
        f"CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE"
        f" PASSWORD '{scram_verifier(role.password)}'",
    )


def _exists(connection: Connection, table: str) -> bool:
    return (
        connection.scalar(text("SELECT to_regclass(:table) IS NOT NULL"), {"table": table}) is True
    )


def _schema(connection: Connection) -> str:
    return connection.dialect.identifier_preparer.quote(
        str(connection.scalar(text("SELECT current_schema()")))
    )


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
