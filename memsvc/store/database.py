"""Pool and transactions of the database: every statement is bound to its tenant and project."""

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import replace
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

import anyio
from pydantic import Field, field_validator

from memsvc.core.call_context import NO_TRACER, CallContext, WaitTimer, current_call
from memsvc.core.errors import Code, InDoubtError, resource_busy
from memsvc.core.options import Count, Options
from memsvc.core.ports import Meter
from memsvc.core.scope import Scope
from memsvc.core.vectors import MeantText, TextVector
from memsvc.store.connections import (
    CANNOT_CONNECT,
    DRIVER_ERRORS,
    ConnectionPool,
    Prepared,
    check_role,
    checked_dsn,
    connection_error,
    open_pool,
    rollback,
    terminate,
    translate_error,
)
from memsvc.store.locks import Lock, shared_locks, whole_lock
from memsvc.store.node_plans import statement_on_node
from memsvc.store.tables import check_isolation

TRANSACTION_TIMEOUT_SINCE: Final = 17
"""First version of PostgreSQL that can end a transaction as a whole."""

Kind = TypeVar("Kind")

Row = Mapping[str, Any]
"""Row by column name; asyncpg's records are such mappings."""


class DatabaseOptions(Options):
    """Options of the database.

    Without `url`, the embedded PostgreSQL in the data folder is used."""

    url: str = Field(
        "",
        repr=False,
        description="URL with which memsvc connects to the database as the application role; empty:"
        " use the embedded PostgreSQL",
    )
    admin_url: str = Field(
        "",
        repr=False,
        description="URL with which the server connects at startup as the database owner, to"
        " migrate the database; empty: you run `memsvc migrate` yourself",
    )
    direct_url: str = Field(
        "",
        repr=False,
        description="URL with which the application role receives notifications of changes and jobs"
        " (LISTEN); if `url` points to a pooler, `direct_url` must point to PostgreSQL itself;"
        " empty: same as url",
    )
    prepared_statements: Prepared = Field(
        "auto",
        description="when to use prepared statements; auto: always, unless the database is behind a"
        " pooler that does not support them",
    )
    pool_min: int = Field(
        2, ge=1, le=1000, description="minimum number of database connections that are kept open"
    )
    pool_max: int = Field(10, ge=1, le=1000, description="maximum number of database connections")
    acquire_timeout_ms: Count = Field(
        5000,
        description="how long a call waits for a free database connection before it is refused",
    )
    lock_timeout_ms: Count = Field(
        3000, description="how long a call waits for a lock on a row or file before it fails"
    )
    statement_timeout_ms: int = Field(
        30000,
        ge=100,
        description="time limit of one SQL statement; a slower statement is stopped, and the call"
        " that runs it fails",
    )

    @field_validator("url", "admin_url", "direct_url")
    @classmethod
    def _is_dsn(cls, value: str) -> str:
        return checked_dsn(value) if value else value


_VERB: Final = re.compile(r"SELECT|INSERT|UPDATE|DELETE")
_TABLE: Final = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(\w+)")


@lru_cache(maxsize=1024)
def statement_name(sql: str, bound: int = 0) -> str:
    """Return the name of a statement in traces, such as `INSERT entries`.

    ValueError without the first `bound` parameters, which are the tenant and the project."""
    if not all(re.search(rf"\${number}(?!\d)", sql) for number in range(1, bound + 1)):
        raise ValueError(
            "an SQL statement must use $1 as its tenant and, within one project, $2 as its project"
        )
    return " ".join(
        found[found.lastindex or 0] for found in (_VERB.search(sql), _TABLE.search(sql)) if found
    )


@lru_cache
def _call(function: str, arguments: int) -> str:
    return f"SELECT * FROM {function}({', '.join(f'${at}' for at in range(1, arguments + 1))})"


class Encoder(Protocol):
    """Maker of the vectors that are stored with their texts, where it can make them at once."""

    @property
    def model(self) -> str:
        """Return the name that vectors are kept under."""
        ...

    def wait_for_loading(self) -> None:
        """Let questions wait until the encoder is loaded; they do without it before."""
        ...

    async def encode(self, texts: Sequence[MeantText]) -> list[TextVector | None]:
        """Return the vectors of texts; None for what a job has to embed later."""
        ...


class Tx:
    """Transaction of one scope: `$1` is the tenant, `$2` the project; further arguments follow.

    A statement that names neither is refused before it is sent. In a transaction over all projects
    of a tenant (`Database.begin_tenant`), only `$1` is bound. `on_node` are the statements by which
    a node runs others itself. `unembedded` are the search indexes with entries that an embedder has
    to make vectors for later.
    """

    __slots__ = (
        *("_bound", "_call", "_connection", "_meter", "on_node", "query_count", "scope"),
        *("encoder", "unembedded"),
    )

    def __init__(
        self, connection: Any, scope: Scope, meter: Meter, *, whole_tenant: bool = False
    ) -> None:
        self._connection = connection
        self._meter = meter
        self._call = current_call()
        self._bound = (scope.tenant,) if whole_tenant else (scope.tenant, scope.project)
        self.scope = scope
        self.query_count = 0
        self.on_node: dict[str, str] = {}
        self.encoder: Encoder | None = None
        self.unembedded: set[int] = set()

    def _request(self, sql: str) -> WaitTimer:
        """Return the wait for an answer; ValueError without tenant or project in the statement."""
        name = statement_name(sql, len(self._bound))
        self.query_count += 1
        return round_trip(self._call, name)

    def within(self, project: str) -> "Tx":
        """Return the same transaction, bound to one project of its tenant."""
        tx = Tx(self._connection, replace(self.scope, project=project), self._meter)
        tx.on_node = self.on_node
        tx.encoder, tx.unembedded = self.encoder, self.unembedded
        return tx

    async def fetch(self, sql: str, *arguments: Any) -> list[Row]:
        """Return all rows of a statement."""
        with self._request(sql):
            rows: list[Row] = list(await self._connection.fetch(sql, *self._bound, *arguments))
        return rows

    async def fetch_prepared(self, sql: str, *arguments: Any) -> list[Row]:
        """Return all rows of a read that takes as long to plan as to run.

        PostgreSQL keeps its plan, and the tenant's node does where there are nodes."""
        if sql not in self.on_node:
            self.on_node[sql] = await statement_on_node(self._connection, sql)
        return await self.fetch(self.on_node[sql], *arguments)

    async def fetch_as(self, kind: type[Kind], sql: str, *arguments: Any) -> list[Kind]:
        """Run a statement and return each row as a `kind`, whose fields are the columns."""
        return [kind(**row) for row in await self.fetch(sql, *arguments)]

    async def fetch_with(
        self, make: Callable[[Row], Kind], sql: str, *arguments: Any
    ) -> list[Kind]:
        """Run a statement and convert each row with `make`."""
        return list(map(make, await self.fetch(sql, *arguments)))

    async def fetchrow_as(self, kind: type[Kind], sql: str, *arguments: Any) -> Kind | None:
        """Return the first row of a statement as an object, or None."""
        row = await self.fetchrow(sql, *arguments)
        return kind(**row) if row else None

    async def fetchrow(self, sql: str, *arguments: Any) -> Row | None:
        """Return the first row of a statement, or None."""
        with self._request(sql):
            row: Row | None = await self._connection.fetchrow(sql, *self._bound, *arguments)
        return row

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """Return the first column of the first row, or None."""
        with self._request(sql):
            return await self._connection.fetchval(sql, *self._bound, *arguments)

    async def fetch_column(self, sql: str, *arguments: Any) -> list[Any]:
        """Return the first column of all rows."""
        rows: Any = await self.fetch(sql, *arguments)
        return [row[0] for row in rows]

    async def fetch_pairs(self, sql: str, *arguments: Any) -> dict[Any, Any]:
        """Return the second column of all rows by the first."""
        rows: Any = await self.fetch(sql, *arguments)
        return dict(map(tuple, rows))

    async def fetch_bool(self, sql: str, *arguments: Any) -> bool:
        """Return whether the first column of the first row is true."""
        return bool(await self.fetchval(sql, *arguments))

    async def fetch_int(self, sql: str, *arguments: Any) -> int:
        """Return the first column of the first row, a number."""
        return int(await self.fetchval(sql, *arguments))

    async def execute(self, sql: str, *arguments: Any) -> int:
        """Return the number of rows a statement affected."""
        with self._request(sql):
            status: str = await self._connection.execute(sql, *self._bound, *arguments)
        return int(status.rsplit(" ", 1)[-1])

    async def call(self, function: str, *arguments: Any) -> list[Row]:
        """Return the rows of a function of the schema, which takes tenant and project first."""
        return await self.fetch(_call(function, len(self._bound) + len(arguments)), *arguments)

    async def execute_each(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of further arguments, all in one round trip.

        On Citus, one row by values goes to its node alone, many out of arrays to all nodes."""
        if rows:
            with self._request(sql):
                await self._connection.executemany(sql, [(*self._bound, *row) for row in rows])

    async def unbound(self, sql: str, *arguments: Any) -> list[Row]:
        """Return the rows of a statement on the job queue or key registry, without content."""
        self.query_count += 1
        with round_trip(self._call, statement_name(sql)):
            return list(await self._connection.fetch(sql, *arguments))

    @property
    def bound(self) -> int:
        """Number of bound parameters."""
        return len(self._bound)

    async def lock(self, lock: Lock) -> None:
        """Wait for a lock that the transaction then holds; RESOURCE_BUSY after the lock timeout."""
        self.query_count += 1
        started = perf_counter()
        try:
            with round_trip(self._call, "lock"):
                await self._connection.execute(
                    f"SELECT pg_advisory_xact_lock({lock.key(self.scope)})"
                )
        finally:
            self._meter.add(
                "memsvc_lock_wait_ms", (perf_counter() - started) * 1000, lock=lock.kind
            )


class Database:
    """Connection pool of a process behind `pooler`; `prepared` tells of prepared statements."""

    def __init__(self, pool: ConnectionPool, options: DatabaseOptions, meter: Meter) -> None:
        self._pool = pool.connections
        self._options = options
        self._meter = meter
        self.flush_callbacks: list[Callable[[], Awaitable[None]]] = []
        self.pooler = pool.pooler
        self.prepared = pool.prepared
        self._on_node: dict[str, str] = {}
        self.encoder: Encoder | None = None

    @classmethod
    async def open(cls, url: str, options: DatabaseOptions, meter: Meter) -> "Database":
        """Connect; refuse roles that bypass row level security and tables without policies.

        Roles that may become such a role are refused too. UNAVAILABLE for statements that a pooler
        loses.
        """
        try:
            pool = await open_pool(
                url,
                options.pool_min,
                options.pool_max,
                command_timeout_s=options.statement_timeout_ms / 1000 + 5,
                prepared=options.prepared_statements,
            )
        except CANNOT_CONNECT as error:
            raise connection_error(url, error, "database.url") from error
        database = cls(pool, options, meter)
        try:
            with _translated():
                await check_role(pool.connections)
                await check_isolation(pool.connections)
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        """Close every connection, waiting for those in use."""
        await self._pool.close()

    def begin_tenant(
        self, scope: Scope, *, read_only: bool = False, long_running: bool = False
    ) -> AbstractAsyncContextManager[Tx]:
        """Begin a transaction over all projects of a tenant (`$1` alone); errors as `begin`."""
        return self.begin(scope, read_only=read_only, whole_tenant=True, long_running=long_running)

    def begin_read(self, scope: Scope) -> AbstractAsyncContextManager[Tx]:
        """Begin a transaction that writes nothing; errors as `begin`."""
        return self.begin(scope, read_only=True)

    def begin_closing(self, scope: Scope) -> AbstractAsyncContextManager[Tx]:
        """Begin closing a project, or the tenant for `*`, once nobody writes there."""
        return self.begin(scope, purging=True, exclusive=True)

    @asynccontextmanager
    async def begin(
        self,
        scope: Scope,
        *,
        locks: Sequence[Lock] = (),
        lock_timeout_ms: int | None = None,
        read_only: bool = False,
        whole_tenant: bool = False,
        purging: bool = False,
        exclusive: bool = False,
        long_running: bool = False,
    ) -> AsyncIterator[Tx]:
        """Begin a transaction that sees this scope's rows alone.

        It commits at the end of the block. `locks` are taken in order in the same round trip.
        RESOURCE_BUSY when one is not free in time or, unless it is `purging`, what it would write
        is being purged; UNAVAILABLE when the database cannot be reached, InDoubtError when it is
        lost while a writing one commits. Unless it is `purging` or `long_running`, a writing one
        has `WRITES_S_MAX`, where PostgreSQL can enforce it.
        """
        timeout_ms = lock_timeout_ms or self._options.lock_timeout_ms
        call = current_call()
        is_ending = False
        tracer = call.tracer if call.tracer.is_enabled else NO_TRACER
        try:
            with tracer.span("transaction"):
                async with self._connection() as connection:
                    tx = Tx(connection, scope, self._meter, whole_tenant=whole_tenant)
                    tx.encoder = self.encoder
                    tx.on_node = self._on_node
                    version = connection.get_server_version().major
                    may_end = version >= TRANSACTION_TIMEOUT_SINCE and not long_running
                    head = begin_statement(
                        scope,
                        locks=locks,
                        lock_timeout_ms=timeout_ms,
                        read_only=read_only,
                        purging=purging,
                        exclusive=exclusive,
                        has_timeout=may_end and not purging,
                    )
                    try:
                        started = perf_counter()
                        try:
                            with round_trip(call, "begin"):
                                await connection.execute(head)
                        finally:
                            if locks:
                                wait_ms = (perf_counter() - started) * 1000
                                self._meter.add("memsvc_lock_wait_ms", wait_ms, lock=locks[0].kind)
                        yield tx
                        is_ending = not read_only
                        with round_trip(call, "commit"):
                            await connection.execute("COMMIT")
                    except BaseException:  # cancellation too: the transaction ends here
                        with anyio.CancelScope(shield=True):
                            await rollback(connection)
                        raise
                    self._meter.add("memsvc_round_trips", tx.query_count + 2)
        except DRIVER_ERRORS as error:
            translated_error = translate_error(error)
            if translated_error is None:
                raise
            if is_ending and translated_error.code is Code.UNAVAILABLE:
                raise InDoubtError(
                    "the connection to the database was lost during the commit, so it is not known"
                    " whether the changes of this call were saved"
                ) from error
            raise translated_error from error

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """Yield a connection of the pool; RESOURCE_BUSY when all of them are busy for too long."""
        started, timeout_s = perf_counter(), self._options.acquire_timeout_ms / 1000
        try:
            with current_call().timer("pool"):
                async with asyncio.timeout(
                    timeout_s
                ):  # a timeout of the pool's own makes a task for each call
                    connection: Any = await self._pool.acquire()
        except TimeoutError as error:
            if self._pool.get_size() < self._options.pool_max:
                raise
            raise resource_busy(
                "all database connections of the server are in use at the moment",
                retry_after_s=1.0,
            ) from error
        finally:
            self._meter.add("memsvc_pool_wait_ms", (perf_counter() - started) * 1000)
        try:
            yield connection
        except (
            TimeoutError
        ):  # PostgreSQL ends statements before the driver does: it no longer answers
            terminate(connection)
            raise
        finally:
            with suppress(
                *DRIVER_ERRORS
            ):  # the pool ends what it cannot take back; the call's own error is reported
                await self._pool.release(connection, timeout=timeout_s)

    async def registry(self, sql: str, *arguments: Any) -> list[Row]:
        """Return rows of the registry of tenants and keys, which has no content and no policy."""
        with _translated():
            async with self._connection() as connection:
                with round_trip(current_call(), statement_name(sql)):
                    return list(await connection.fetch(sql, *arguments))

    async def check_isolation(self) -> None:
        """Raise if role or policies of the tables have become unfit to serve."""
        with _translated():
            async with self._connection() as connection:
                await check_role(connection)
                await check_isolation(connection)

    def usage(self) -> tuple[int, int]:
        """Return the number of open connections, and of idle ones."""
        return self._pool.get_size(), self._pool.get_idle_size()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the driver's errors as those for the caller; internal ones as they are."""
    try:
        yield
    except DRIVER_ERRORS as error:
        translated_error = translate_error(error)
        if translated_error is None:
            raise
        raise translated_error from error


WRITES_S_MAX: Final = 120
"""How long a writing transaction may hold its locks, unless it is `lasting`."""


def begin_statement(
    scope: Scope,
    *,
    locks: Sequence[Lock] = (),
    lock_timeout_ms: int,
    read_only: bool = False,
    purging: bool = False,
    exclusive: bool = False,
    has_timeout: bool = False,
) -> str:
    """Return the SQL that begins a transaction, with locks in their order.

    One that is `read_only` has one snapshot; one that is `purging` writes what is closed to others;
    one that is `exclusive` begins when nobody else is writing the project or, where that is `*`,
    the tenant.

    A writing one that `has_timeout` is ended by PostgreSQL after WRITES_S_MAX. No other timeout
    ends one whose client vanished between the messages of one statement, which the driver sends
    apart when it prepares it: neither idle nor running, it would keep its locks. Needs PostgreSQL
    17.
    """
    keys = [lock.key(scope) for lock in locks]
    if read_only:
        settings = _settings(scope, lock_timeout_ms if locks else 0)
        head = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;{settings}"
    else:
        timeout_s = WRITES_S_MAX if has_timeout else 0
        head = f"BEGIN;{_settings(scope, lock_timeout_ms, timeout_s)}"
    if read_only or purging:
        keys = [whole_lock(scope)] * exclusive + keys
        return head + "".join(f"SELECT pg_advisory_xact_lock({key});" for key in keys)
    project = "'" + scope.project.replace("'", "''") + "'"
    return f"{head}SELECT admit_writer({project}, {_keys(shared_locks(scope))}, {_keys(keys)});"


def _settings(scope: Scope, lock_timeout_ms: int, transaction_timeout_s: int = 0) -> str:
    """Return the SQL of what holds in the transaction alone.

    A function sets it, as Citus repeats the whole message of a SET on nodes.

    Rows are looked up by index: a plan is made once and kept, and one made while a table had a page
    would later read all of the grown table for each row. A server that fills an empty database is
    as fast without this, as its statistics are soon refreshed; but the tests that limit what a
    page or a summary of the call log reads fail, so it stays.
    """
    set_tenant_call = (
        f"set_tenant('\\x{scope.tenant.hex()}', {lock_timeout_ms}, {transaction_timeout_s})"
    )
    return f"SELECT {set_tenant_call}, set_config('enable_seqscan', 'off', true);"


def _keys(keys: Sequence[int]) -> str:
    """Return keys of locks as an SQL array."""
    return "'{" + ",".join(map(str, keys)) + "}'"


def columns_of(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return rows of values as one list a column, for a statement that unnests them."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def round_trip(call: CallContext, name: str) -> WaitTimer:
    """Return the context of one round trip."""
    call.round_trips += 1
    return call.timer("database", "statement", name)
