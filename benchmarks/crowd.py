"""Other tenants by the thousand. One of them is stored by the tools; the others are copies of its
rows under their own tenants, made past the service: as many calls would take hours, and rows are
all that a tenant is to the others."""

from hashlib import sha256

import asyncpg

from benchmarks.service import Service
from migrations.schema import TENANT_TABLES

PASSING = frozenset({"allowances", "calls", "job_refs", "purges", "rates"})
"""Tables of what happens, not of what is kept: a copy of it would be of nothing."""


def key_of(number: int) -> str:
    """The key of one of the others; the first is the one to store."""
    return f"other-{number}"


async def copies(running: Service, count: int) -> None:
    """Make others of the first one, if there is one, until there are so many; then have the
    database look at what it has, as it would in time by itself."""
    connection = await asyncpg.connect(running.superuser_dsn())
    try:
        await connection.execute("SET synchronous_commit = off")
        first, *others = (
            sha256(key_of(number).encode()).digest() for number in range(max(1, count))
        )
        statements = [
            await connection.prepare(await _copying(connection, name))
            for name in sorted({"tenants", *TENANT_TABLES} - PASSING)
            if await connection.fetchval(
                f"SELECT EXISTS (SELECT FROM {name} WHERE tenant = $1)", first
            )
        ]
        for other in others:
            async with connection.transaction():
                for statement in statements:
                    await statement.fetch(other, first)
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


async def _copying(connection: asyncpg.Connection, name: str) -> str:
    columns = await connection.fetch(
        "SELECT quote_ident(attname) AS name FROM pg_attribute WHERE attrelid ="
        " $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND"
        " attname <> 'tenant' ORDER BY attnum",
        name,
    )
    listed = ", ".join(column["name"] for column in columns)
    return (
        f"INSERT INTO {name} (tenant, {listed}) SELECT $1, {listed} FROM {name} WHERE tenant = $2"
    )
