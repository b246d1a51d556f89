"""A connection to the database: whose it may be, what a new one needs, and how a used one is left behind."""

from typing import Any, Final

import asyncpg
import orjson

from memsvc.core.errors import Code, MemsvcError

ROLLBACK_S_MAX: Final = 2.0


async def refuse_privileged_role(pool: asyncpg.Pool) -> None:
    """PERMISSION_DENIED for a role that row level security does not bind (superuser, BYPASSRLS, or table owner), and
    for one that may become such a role."""
    row = await pool.fetchrow(
        """
        SELECT EXISTS (SELECT FROM pg_roles p WHERE (p.rolsuper OR p.rolbypassrls)
                       AND pg_has_role(r.oid, p.oid, 'MEMBER')) AS privileged,
               EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relrowsecurity
                       AND pg_has_role(r.oid, c.relowner, 'MEMBER')) AS owner
        FROM pg_roles r WHERE r.rolname = current_user
        """
    )
    if row is None or row["privileged"] or row["owner"]:
        raise MemsvcError(
            Code.PERMISSION_DENIED,
            "the application role is a superuser, bypasses row level security, owns the tables, or may become"
            " one that does",
            recovery="let database.url name an ordinary role and database.admin_url the owner, then migrate",
        )


async def prepare(connection: Any) -> None:
    """What every new connection needs: JSON as Python values."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + orjson.dumps(value),
        decoder=lambda raw: orjson.loads(raw[1:]),
    )


async def leave_no_transaction(connection: Any) -> None:
    """Roll back. Over a network that swallows everything the call has waited long enough: the connection is given up,
    and PostgreSQL ends the transaction when it finds out."""
    if connection.is_in_transaction() and not connection.is_closed():
        try:
            await connection.execute("ROLLBACK", timeout=ROLLBACK_S_MAX)
        except TimeoutError:
            connection.terminate()
