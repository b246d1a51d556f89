"""Detection of a pooler between this process and PostgreSQL, by which many connections share few.

In transaction mode a pooler gives each transaction whichever connection of the server is free, so
that what is prepared in one is unknown in the next or, as every process gives its statements the
same names, is another process's statement. Some poolers prevent that by names of their own:
PgBouncer from 1.21 on, where `max_prepared_statements` is not 0. Which kind it is shows in what
PostgreSQL knows of a statement that was prepared through it.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any, Final

import asyncpg

CONNECT_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 10.0
CANNOT_CONNECT: Final = (
    TimeoutError,
    OSError,
    ValueError,
    asyncpg.InterfaceError,
    asyncpg.PostgresError,
)
"""Errors of the driver when a connection cannot be made; ValueError for a DSN it cannot read."""

_PROCESS: Final = "SELECT pg_backend_pid()"
_CHECK: Final = """
    SELECT pg_backend_pid() AS process, EXISTS (SELECT FROM pg_prepared_statements
        WHERE name = $1) AS as_named
"""


class Pooler(Enum):
    """Kind of pooler: none, one that keeps prepared statements, or one that loses them."""

    NONE = auto()
    SUPPORTS_PREPARED = auto()
    WITHOUT_PREPARED = auto()
    """Or nobody can tell: one in session mode, which loses nothing, is taken for this."""


async def pooler_before(connection: Any) -> Pooler:
    """Return the kind of pooler of a connection.

    It prepares a statement, and leaves none with a pooler that would give it to others. A pooler
    makes up its process id, as it forwards cancellations.
    """
    name = f"memsvc_{secrets.token_hex(8)}"
    await connection.execute("BEGIN READ ONLY")
    try:
        statement = await connection.prepare(_CHECK, name=name)
        found = await statement.fetchrow(name)
        if found["process"] == connection.get_server_pid():
            return Pooler.NONE
        if not found["as_named"]:
            return Pooler.SUPPORTS_PREPARED
        await connection.execute(f"DEALLOCATE {name}")
        return Pooler.WITHOUT_PREPARED
    finally:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")


async def is_direct(connection: Any) -> bool:
    """Return whether PostgreSQL itself is at the other end of a connection, and no pooler."""
    process: int = await connection.fetchval(_PROCESS)
    return process == int(connection.get_server_pid())


async def shares_by_transaction(url: str) -> bool:
    """Return whether the server's connections are shared by transaction there.

    Then two of ours reach the same one, or one of ours several. Raises what the driver does; False
    too where a pooler is so busy that it does not show.
    """
    async with connected_once(url) as first, connected_once(url) as second:
        first_processes = {await first.fetchval(_PROCESS) for _ in range(2)}
        second_processes = {await second.fetchval(_PROCESS) for _ in range(2)}
    return len(first_processes) > 1 or bool(first_processes & second_processes)


@asynccontextmanager
async def connected_once(url: str) -> AsyncIterator[Any]:
    """Yield a connection for a few quick statements, which are not prepared.

    It works through every pooler, and a network that drops everything does not hold it for long.
    """
    connection = await asyncpg.connect(
        url, timeout=CONNECT_TIMEOUT_S, command_timeout=ANSWER_TIMEOUT_S, statement_cache_size=0
    )
    try:
        yield connection
    finally:
        await connection.close(timeout=ANSWER_TIMEOUT_S)
