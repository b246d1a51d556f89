"""Connections to the database: checked URLs, pool and poolers, setup, and what errors mean."""

import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Any, Final, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import orjson
from asyncpg import exceptions as pg

from memsvc.core.errors import (
    Code,
    ExclusiveLockError,
    MemsvcError,
    permission_denied,
    quota_exceeded,
    resource_busy,
    unavailable,
)
from memsvc.core.frozen import frozen
from memsvc.store.tables import TABLES

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

CACHED_STATEMENTS: Final = 100
"""Statements that a connection keeps prepared."""
IDLE_S_MAX: Final = 60.0

Prepared = Literal["auto", "always", "never"]


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


@frozen
class ConnectionPool:
    """Connections and their pooler; `prepares` says whether statements are prepared over them.

    If not, each takes one round trip more.
    """

    connections: asyncpg.Pool
    pooler: Pooler
    prepared: bool


async def open_pool(
    url: str, size_min: int, size_max: int, *, command_timeout_s: float, prepared: Prepared
) -> ConnectionPool:
    """Connect, with prepared statements unless a pooler is seen to lose them.

    UNAVAILABLE where they are to be prepared `always` all the same; otherwise raises what the
    driver does.
    """

    async def create(*, use_prepared: bool) -> asyncpg.Pool:
        return await asyncpg.create_pool(
            url,
            min_size=min(size_min, size_max),
            max_size=size_max,
            max_inactive_connection_lifetime=IDLE_S_MAX,
            command_timeout=command_timeout_s,
            init=prepare,
            reset=_keep,
            statement_cache_size=CACHED_STATEMENTS if use_prepared else 0,
        )

    use_prepared = prepared != "never"
    connections = await create(use_prepared=use_prepared)
    try:
        async with connections.acquire() as connection:
            pooler = await pooler_before(connection)
        lost = use_prepared and pooler is Pooler.WITHOUT_PREPARED
        if lost and prepared == "always" and await shares_by_transaction(url):
            raise statements_lost()
    except BaseException:
        await connections.close()
        raise
    if lost and prepared == "auto":
        await connections.close()
        connections, use_prepared = await create(use_prepared=False), False
    return ConnectionPool(connections, pooler, use_prepared)


LOCK_ERRORS: Final = (pg.LockNotAvailableError, pg.DeadlockDetectedError, pg.SerializationError)
CONNECTION_ERRORS: Final = (
    OSError,
    TimeoutError,
    pg.PostgresConnectionError,
    pg.CannotConnectNowError,
    pg.OperatorInterventionError,
    pg.InsufficientResourcesError,
    pg.ReadOnlySQLTransactionError,
    # what the driver makes of a connection that ends between two statements
    pg.InternalClientError,
)

LOST: Final = (pg.InvalidSQLStatementNameError, pg.DuplicatePreparedStatementError)
"""Errors of prepared statements that a pooler in transaction mode does not know."""

DRIVER_ERRORS: Final = (
    OSError,
    TimeoutError,
    pg.PostgresError,
    pg.InterfaceError,
    pg.InternalClientError,
)


TIMEOUT_STATES: Final = {"25P03", "25P04"}
"""SQL states with which PostgreSQL ends a transaction that was idle, or open, for too long."""

NODE_LOST: Final = (
    "failure on connection marked as essential",
    "could not commit transaction for shard",
    "failed to COPY to shard",
    "server closed the connection unexpectedly",
)
"""Messages of Citus, as an error of its own, when a node fails during a transaction."""

CLOSED: Final = "MS001"
"""SQL state with which `admit_writer` refuses."""


def translate_error(error: BaseException) -> MemsvcError | None:
    """Return the error for the caller when the database is busy, unreachable or out of numbers.

    None for an internal error.
    """
    if isinstance(error, LOCK_ERRORS):
        kind = ExclusiveLockError if isinstance(error, pg.LockNotAvailableError) else MemsvcError
        return kind(Code.RESOURCE_BUSY, "another call is writing the same data", retry_after_s=0.1)
    if isinstance(error, pg.PostgresError) and error.sqlstate == CLOSED:
        return ExclusiveLockError(
            Code.RESOURCE_BUSY,
            "the data that this call needs is being purged",
            retry_after_s=2.0,
            recovery="wait until the purge is finished; if the purge was interrupted, run it"
            " again to finish it",
        )
    if isinstance(error, pg.QueryCanceledError):  # by the statement timeout, or by an administrator
        return resource_busy(
            "the operation took too long and was stopped",
            retry_after_s=1.0,
            recovery="try again, with less data if the call was large",
        )
    if isinstance(error, LOST):
        return statements_lost()
    if isinstance(error, pg.NumericValueOutOfRangeError):
        return quota_exceeded(
            "a number exceeded the maximum that the database can store",
            recovery="continue in another session or project",
        )
    # a connection or pool that was closed is a bare InterfaceError; its subclasses are faults of
    # our arguments
    disconnected = isinstance(error, pg.PostgresError) and (
        error.sqlstate in TIMEOUT_STATES or str(error).startswith(NODE_LOST)
    )
    if disconnected or isinstance(error, CONNECTION_ERRORS) or type(error) is pg.InterfaceError:
        return unavailable("the database cannot be reached at the moment", retry_after_s=1.0)
    return None


def statements_lost() -> MemsvcError:
    """Return the error for statements prepared through a pooler that gives them to others."""
    return unavailable(
        "the pooler in front of the database does not support prepared statements",
        retry_after_s=1.0,
        recovery="set database.prepared_statements to auto or never, or enable prepared"
        " statements in the pooler (PgBouncer 1.21 and newer: max_prepared_statements),"
        " and restart memsvc",
    )


SCHEMES: Final = ("postgresql://", "postgres://")
DEFAULT_PORT: Final = 5432
PORT_MAX: Final = 65535


def checked_dsn(value: str) -> str:
    """Return the same URL; ValueError unless it is one of PostgreSQL with ports that are ports."""
    if not value.startswith(SCHEMES):
        raise ValueError(f"the URL must begin with {SCHEMES[0]}")
    if any(not 0 < port <= PORT_MAX for _, port in _addresses(value)):
        raise ValueError(f"the port in the URL must be from 1 to {PORT_MAX}")
    return value


def connection_error(url: str, error: BaseException, setting: str) -> MemsvcError:
    """Return UNAVAILABLE for what kept the driver from connecting.

    It names address, database or role, whichever is wrong, and never the password; `setting` is
    where the URL stands.
    """
    try:
        where = ", ".join(f"{host}:{port}" for host, port in _addresses(url))
        parts = urlsplit(url)
    except ValueError:
        return _unavailable("the URL is not valid", setting)
    match error:
        case socket.gaierror():
            reason = f"cannot resolve the host name ({where})"
        case ConnectionRefusedError():
            reason = f"nothing listens at {where}"
        case TimeoutError():
            reason = f"{where} did not answer in time"
        case pg.InvalidCatalogNameError():
            reason = f"the database {unquote(parts.path.lstrip('/'))} does not exist at {where}"
        case pg.InvalidAuthorizationSpecificationError():  # a wrong password is one, too
            reason = f"{where} rejects the role {unquote(parts.username or '')} or its password"
        case ValueError():  # the driver's word for options that it does not take
            reason = "the URL has options that the driver does not support"
        case _:
            reason = f"{type(error).__name__} at {where}"
    return _unavailable(reason, setting)


def _unavailable(reason: str, setting: str) -> MemsvcError:
    return unavailable(
        f"cannot connect to the database: {reason}",
        recovery=f"check {setting}, and that the database is running",
    )


def _addresses(url: str) -> list[tuple[str, int]]:
    """Return host and port of every server of a URL; ValueError for a port that is no number."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    netloc = parts.netloc.rpartition("@")[2] or ",".join(query.get("host", ["localhost"]))
    ports = ",".join(query.get("port", [str(DEFAULT_PORT)])).split(",")
    found = []
    for number, address in enumerate(netloc.split(",")):
        host, separator, port = (
            address.rpartition(":") if not address.endswith("]") else (address, "", "")
        )
        found.append(
            (host or address, int(port if separator else ports[min(number, len(ports) - 1)]))
        )
    return found


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
        raise permission_denied(
            "the application role has too many rights: it is a superuser, bypasses"
            " row-level security, owns the tables, can create roles or access the server's"
            " files, or can become such a role",
            recovery="set database.url to an ordinary role and database.admin_url to the owner"
            " of the tables, then run `memsvc migrate`",
        )
    if row["citus"] and (row["passed_on"] != "local" or row["plans"] == "force_generic_plan"):
        raise unavailable(
            "this database uses Citus, and the application role is not set up for Citus",
            recovery="set database.admin_url and run `memsvc db distribute`",
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

    It is sent to every open connection: one whose BEGIN is being cancelled does not yet say that it
    is in a transaction. A connection that does not roll back in time, over a network that drops
    everything for example, is terminated: PostgreSQL ends the transaction when it finds out.
    """
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK", timeout=ROLLBACK_S_MAX)
    except DRIVER_ERRORS:
        terminate(connection)


async def _keep(_: Any) -> None:
    """Leave a connection as its last user did: none keeps a setting beyond its transaction."""


def terminate(connection: Any) -> None:
    """Terminate a connection.

    The driver may have done so itself, and taken it from its user: it does where a statement is not
    seen to be cancelled in time.
    """
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
