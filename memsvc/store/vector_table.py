"""Table of vectors, made beside the schema revisions, because not every PostgreSQL can hold it."""

from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from memsvc.store.isolation import TENANT_IS_CURRENT
from memsvc.store.policies import POLICY

VECTOR_VERSION_MIN: Final = (0, 7)
"""First pgvector with halfvec and binary_quantize."""

# Signs stand in the index, so that the first pass reads no vector. A vector stays in its row while
# a page has room for it (MAIN: up to 3,900 dimensions), so that the second pass finds it in one
# step; PLAIN, or the rest would go instead.
_TABLE: Final = (
    """
    CREATE TABLE embeddings (
        tenant bytea NOT NULL, project text COLLATE "C" NOT NULL, book bigint NOT NULL,
            model bigint NOT NULL,
        entry integer NOT NULL, signs bit varying NOT NULL, vector halfvec NOT NULL,
        PRIMARY KEY (tenant, project, book, model, entry) INCLUDE (signs)
    ) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 1000)
    """,
    """
    ALTER TABLE embeddings ALTER vector SET STORAGE MAIN, ALTER signs SET STORAGE PLAIN,
        ALTER tenant SET STORAGE PLAIN, ALTER project SET STORAGE PLAIN
    """,
    "ALTER TABLE embeddings ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    (
        f"CREATE POLICY {POLICY} ON embeddings USING ({TENANT_IS_CURRENT}) WITH CHECK"
        f" ({TENANT_IS_CURRENT})"
    ),
)
# Who may write entries may write what they mean.
_MISSING_GRANTS: Final = """
    SELECT DISTINCT held.grantee::regrole::text
    FROM pg_class AS c CROSS JOIN aclexplode(c.relacl) AS held
    WHERE c.oid = to_regclass('entries') AND held.grantee NOT IN (0, c.relowner)
        AND held.privilege_type = 'INSERT'
      AND NOT has_table_privilege(held.grantee, to_regclass('embeddings'), 'INSERT')
"""
_CREATE_ERRORS: Final = ("42501", "58P01", "0A000", "42710")


def ensure(connection: Connection) -> bool:
    """Create extension and table as the owner of the tables; return True when they exist.

    It runs after privileges were granted. Without pgvector 0.7 or newer, or without the right to
    create the extension, nothing changes. Roles with a grant on the entries get one on these rows
    too. Reads the catalogue alone when there is nothing to do.
    """
    if not _has_vector_extension(connection):
        return False
    if connection.scalar(text("SELECT to_regclass('embeddings') IS NULL")):
        for statement in _TABLE:
            connection.exec_driver_sql(statement)
    for role in connection.scalars(text(_MISSING_GRANTS)).all():
        connection.exec_driver_sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON embeddings TO {role}")
    return True


def drop(connection: Connection) -> None:
    """Remove the table, and leave the extension, which others may use."""
    connection.exec_driver_sql("DROP TABLE IF EXISTS embeddings")


def _has_vector_extension(connection: Connection) -> bool:
    row = connection.execute(
        text(
            "SELECT default_version, installed_version FROM pg_available_extensions WHERE name ="
            " 'vector'"
        )
    ).first()
    if row is None or _numbers(row.installed_version or row.default_version) < VECTOR_VERSION_MIN:
        return False
    if row.installed_version is None:
        try:
            with connection.begin_nested():
                connection.exec_driver_sql("CREATE EXTENSION vector")
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _CREATE_ERRORS:
                raise
            return False
    return connection.scalar(text("SELECT to_regtype('halfvec') IS NOT NULL")) is True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
