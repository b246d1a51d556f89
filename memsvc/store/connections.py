"""Database connections: check of the role, setup of new ones, cleanup of used ones."""

from contextlib import suppress
from typing import Any, Final

import asyncpg
import orjson

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.database_errors import DRIVER_ERRORS
from memsvc.store.tables import TABLES

ROLLBACK_S_MAX: Final = 2.0


async def check_role(pool: asyncpg.Pool) -> None:
    """Raise for a role that row level security does not bind or that is not set up for Citus.

    PERMISSION_DENIED for a superuser, BYPASSRLS or the table owner, and for a role that may become
    such a role, make roles, or access the server's files. UNAVAILABLE for one that is not set up
    for Citus where that is: its nodes would not learn whose rows it may see, and find none.
    """
    row = await pool.fetchrow(
        """
        SELECT EXISTS (
                   SELECT FROM pg_roles p WHERE pg_has_role(r.oid, p.oid, 'MEMBER') AND (
                       p.rolsuper OR p.rolbypassrls OR p.rolcreaterole OR p.rolname IN (
                       'pg_read_server_files', 'pg_write_server_files',
                           'pg_execute_server_program'))) AS privileged,
               EXISTS (SELECT FROM pg_class c JOIN unnest($1::text[]) AS t (name)
                   ON c.oid = to_regclass(t.name)
                       WHERE pg_has_role(r.oid, c.relowner, 'MEMBER')) AS owner,
               EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') AS citus,
               current_setting('citus.propagate_set_commands', true) AS passed_on,
               current_setting('plan_cache_mode') AS plans
        FROM pg_roles r WHERE r.rolname = current_user
        """,
        [*TABLES],
    )
    if row is None or row["privileged"] or row["owner"]:
        raise MemsvcError(
            Code.PERMISSION_DENIED,
            "the application role is a superuser, bypasses row level security, owns the tables,"
            " makes roles, gets at the server's files, or may become one that does",
            recovery="let database.url name an ordinary role and database.admin_url the owner,"
            " then migrate",
        )
    if row["citus"] and (row["passed_on"] != "local" or row["plans"] == "force_generic_plan"):
        raise MemsvcError(
            Code.UNAVAILABLE,
            "this database has Citus, and the application role is not set up for it",
            recovery="run `memsvc db distribute` with database.admin_url set",
        )


async def prepare(connection: Any) -> None:
    """Set a new connection up: JSON as Python values."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + orjson.dumps(value),
        decoder=lambda raw: orjson.loads(raw[1:]),
    )


async def rollback(connection: Any) -> None:
    """Roll back, and raise nothing: the caller reports why its call ended.

    A connection that does not roll back in time, over a network that drops everything for example,
    is terminated: PostgreSQL ends the transaction when it finds out.
    """
    try:
        if not connection.is_closed() and connection.is_in_transaction():
            await connection.execute("ROLLBACK", timeout=ROLLBACK_S_MAX)
    except DRIVER_ERRORS:
        terminate(connection)


def terminate(connection: Any) -> None:
    """Terminate a connection.

    The driver may have done so itself, and taken it from its user: it does where a statement is not
    seen to be cancelled in time.
    """
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
