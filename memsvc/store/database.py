"""The pool and the transaction: every statement carries its tenant and project, whoever writes it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from time import perf_counter
from typing import Any

import anyio
import asyncpg
import orjson
from asyncpg import exceptions as pg
from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Meter
from memsvc.core.scope import Scope
from memsvc.store.locks import Lock

Row = Mapping[str, Any]
"""A row by column name; asyncpg's records are such mappings."""


class DatabaseOptions(BaseModel):
    """How the database is reached. Without `url` the embedded server under the data folder is used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field("", repr=False, description="DSN of the application role; empty: the embedded PostgreSQL")
    admin_url: str = Field("", repr=False, description="DSN of the owner, for migration; empty: migrate elsewhere")
    direct_url: str = Field(
        "", repr=False, description="DSN of the application role that bypasses a pooler, for LISTEN; empty: url"
    )
    pool_min: int = Field(2, ge=1, le=1000, description="connections kept open")
    pool_max: int = Field(10, ge=1, le=1000, description="connections at the most")
    acquire_timeout_ms: int = Field(5000, ge=1, description="how long a call waits for a connection")
    lock_timeout_ms: int = Field(3000, ge=1, description="how long a call waits for a row or file lock")
    statement_timeout_ms: int = Field(30000, ge=100, description="how long one statement may run")


_BUSY = (pg.LockNotAvailableError, pg.DeadlockDetectedError, pg.SerializationError)
_OUT_OF_REACH = (
    OSError,
    TimeoutError,
    pg.PostgresConnectionError,
    pg.CannotConnectNowError,
    pg.OperatorInterventionError,
    pg.InsufficientResourcesError,
    pg.QueryCanceledError,
    pg.ReadOnlySQLTransactionError,
    pg.InternalClientError,  # what the driver makes of a connection that ends between two statements
)

_FAULTS = (OSError, TimeoutError, pg.PostgresError, pg.InterfaceError, pg.InternalClientError)


def translated(error: BaseException) -> MemsvcError | None:
    """The error for the caller when the database is busy or out of reach; None for a fault of ours."""
    if isinstance(error, _BUSY):
        return MemsvcError(Code.RESOURCE_BUSY, "somebody else is writing this just now", retry_after_s=0.1)
    # a connection or pool that was closed is a bare InterfaceError; its subclasses are faults of our arguments
    if isinstance(error, _OUT_OF_REACH) or type(error) is pg.InterfaceError:
        return MemsvcError(Code.UNAVAILABLE, "the database cannot be reached just now", retry_after_s=1.0)
    return None


@lru_cache(maxsize=1024)
def _names(sql: str, bound: int) -> bool:
    return all(f"${number}" in sql for number in range(1, bound + 1))


class Tx:
    """One transaction of one scope. `$1` is the tenant, `$2` the project in every statement; further arguments follow.

    A statement that names neither is refused before it is sent, so that no query can forget whose data it touches.
    In a transaction over all projects of a tenant (`Database.begin_tenant`), only `$1` is bound.
    """

    __slots__ = ("_bound", "_connection", "_meter", "round_trips", "scope")

    def __init__(self, connection: Any, scope: Scope, meter: Meter, *, whole_tenant: bool = False) -> None:
        self._connection = connection
        self._meter = meter
        self._bound = (scope.tenant,) if whole_tenant else (scope.tenant, scope.project)
        self.scope = scope
        self.round_trips = 0

    def _checked(self, sql: str) -> str:
        if not _names(sql, len(self._bound)):
            raise ValueError("a statement must name its tenant as $1 and, within one project, its project as $2")
        self.round_trips += 1
        return sql

    async def fetch(self, sql: str, *arguments: Any) -> list[Row]:
        """All rows of a statement."""
        rows: list[Row] = list(await self._connection.fetch(self._checked(sql), *self._bound, *arguments))
        return rows

    async def fetchrow(self, sql: str, *arguments: Any) -> Row | None:
        """The first row of a statement, or None."""
        row: Row | None = await self._connection.fetchrow(self._checked(sql), *self._bound, *arguments)
        return row

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """The first column of the first row, or None."""
        return await self._connection.fetchval(self._checked(sql), *self._bound, *arguments)

    async def execute(self, sql: str, *arguments: Any) -> int:
        """How many rows a statement touched."""
        status: str = await self._connection.execute(self._checked(sql), *self._bound, *arguments)
        return int(status.rsplit(" ", 1)[-1])

    async def unbound(self, sql: str, *arguments: Any) -> list[Row]:
        """A statement of the job queue, whose tables know no tenant and hold no content."""
        self.round_trips += 1
        rows: list[Row] = list(await self._connection.fetch(sql, *arguments))
        return rows

    async def lock(self, lock: Lock) -> None:
        """Wait for a lock and hold it until the transaction ends; RESOURCE_BUSY after the lock timeout."""
        self.round_trips += 1
        started = perf_counter()
        try:
            await self._connection.execute(f"SELECT pg_advisory_xact_lock({lock.key(self.scope)})")
        finally:
            self._meter.add("memsvc_lock_wait_ms", (perf_counter() - started) * 1000, lock=lock.kind)


class Database:
    """The pool of one server process. Every use of it is a transaction of a scope, or the registry of keys."""

    def __init__(self, pool: asyncpg.Pool, options: DatabaseOptions, meter: Meter) -> None:
        self._pool = pool
        self._options = options
        self._meter = meter

    @classmethod
    async def open(cls, url: str, options: DatabaseOptions, meter: Meter) -> "Database":
        """Connect; refuses a role that row level security does not bind (superuser, BYPASSRLS, or table owner)."""
        try:
            pool = await asyncpg.create_pool(
                url,
                min_size=min(options.pool_min, options.pool_max),
                max_size=options.pool_max,
                max_inactive_connection_lifetime=60.0,
                command_timeout=options.statement_timeout_ms / 1000 + 5,
                init=_prepare_connection,
                reset=_leave_no_transaction,
            )
        except (*_OUT_OF_REACH, pg.PostgresError) as error:
            raise MemsvcError(
                Code.UNAVAILABLE,
                f"cannot connect to the database: {type(error).__name__}",
                recovery="check database.url",
            ) from error
        database = cls(pool, options, meter)
        try:
            await database._refuse_privileged_role()
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        """Close every connection, waiting for those in use."""
        await self._pool.close()

    async def _refuse_privileged_role(self) -> None:
        row = await self._pool.fetchrow(
            """
            SELECT r.rolsuper, r.rolbypassrls,
                   EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relrowsecurity
                           AND pg_has_role(r.oid, c.relowner, 'MEMBER')) AS owner
            FROM pg_roles r WHERE r.rolname = current_user
            """
        )
        if row is None or row["rolsuper"] or row["rolbypassrls"] or row["owner"]:
            raise MemsvcError(
                Code.PERMISSION_DENIED,
                "the application role is a superuser, bypasses row level security, or owns the tables",
                recovery="let database.url name an ordinary role and database.admin_url the owner, then migrate",
            )

    def begin_tenant(self, scope: Scope, *, read_only: bool = False) -> AbstractAsyncContextManager[Tx]:
        """A transaction that sees all projects of the scope's tenant; statements bind `$1` alone. Errors as `begin`."""
        return self.begin(scope, read_only=read_only, whole_tenant=True)

    @asynccontextmanager
    async def begin(
        self,
        scope: Scope,
        *,
        locks: Sequence[Lock] = (),
        lock_timeout_ms: int | None = None,
        read_only: bool = False,
        whole_tenant: bool = False,
    ) -> AsyncIterator[Tx]:
        """A transaction that sees this scope's rows and no others; committed when the block ends, else rolled back.

        `locks` are taken in their order in the same round trip. Raises RESOURCE_BUSY when a lock is not to be had in
        time and UNAVAILABLE when the database is out of reach; anything else of the database is a fault of ours.
        """
        head = f"BEGIN{' ISOLATION LEVEL REPEATABLE READ READ ONLY' if read_only else ''};"
        head += f"SET LOCAL memsvc.tenant = '\\x{scope.tenant.hex()}';"
        if locks or not read_only:
            head += f"SET LOCAL lock_timeout = {lock_timeout_ms or self._options.lock_timeout_ms};"
        head += "".join(f"SELECT pg_advisory_xact_lock({lock.key(scope)});" for lock in locks)
        try:
            async with self._connection() as connection:
                tx = Tx(connection, scope, self._meter, whole_tenant=whole_tenant)
                try:
                    started = perf_counter()
                    try:
                        await connection.execute(head)
                    finally:
                        if locks:
                            waited_ms = (perf_counter() - started) * 1000
                            self._meter.add("memsvc_lock_wait_ms", waited_ms, lock=locks[0].kind)
                    yield tx
                    await connection.execute("COMMIT")
                except BaseException:  # cancellation too: what was begun here ends here
                    with anyio.CancelScope(shield=True):
                        await _leave_no_transaction(connection)
                    raise
                self._meter.add("memsvc_round_trips", tx.round_trips + 2)
        except _FAULTS as error:
            named = translated(error)
            if named is None:
                raise
            raise named from error

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection of the pool; RATE_LIMITED when all of them are busy for too long."""
        try:
            connection: Any = await self._pool.acquire(timeout=self._options.acquire_timeout_ms / 1000)
        except TimeoutError as error:
            if self._pool.get_size() < self._options.pool_max:
                raise
            raise MemsvcError(
                Code.RATE_LIMITED, "the server is busy with too many calls just now", retry_after_s=1.0
            ) from error
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def registry(self, sql: str, *arguments: Any) -> list[Row]:
        """Rows of the registry of tenants and keys, which holds no content and has no tenant policy."""
        try:
            async with self._connection() as connection:
                rows: Any = await connection.fetch(sql, *arguments)
                return list(rows)
        except _FAULTS as error:
            named = translated(error)
            if named is None:
                raise
            raise named from error

    def usage(self) -> tuple[int, int]:
        """Connections open, and those of them that are idle."""
        return self._pool.get_size(), self._pool.get_idle_size()


async def _prepare_connection(connection: Any) -> None:
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + orjson.dumps(value),
        decoder=lambda raw: orjson.loads(raw[1:]),
    )


async def _leave_no_transaction(connection: Any) -> None:
    if connection.is_in_transaction() and not connection.is_closed():
        await connection.execute("ROLLBACK")
