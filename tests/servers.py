"""The PostgreSQL that tests run on, and throw-away databases on it."""

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import asyncpg
from anyio.from_thread import start_blocking_portal

from memsvc.adapters.postgres import EmbeddedPostgres
from memsvc.store.migrate import migrate
from memsvc.store.shard_setup import shard_all_tables

IMAGE = "pgvector/pgvector:pg18"
MEMORY_BYTES_MIN = 2**30
SHARDS = 2
"""Parts of each table where databases are distributed: few, as each database has them all."""


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """One database as its owner, as the application role and as a superuser, whom no policy
    binds."""

    admin: str
    app: str
    superuser: str


@contextmanager
def superuser_url() -> Iterator[str]:
    """A superuser's DSN: MEMSVC_TEST_DSN; else a container if MEMSVC_TEST_CONTAINERS=1; else the
    embedded server."""
    if dsn := os.environ.get("MEMSVC_TEST_DSN"):
        yield dsn
    elif os.environ.get("MEMSVC_TEST_CONTAINERS") == "1" and _docker_answers():
        from testcontainers.postgres import PostgresContainer  # noqa: PLC0415

        with PostgresContainer(IMAGE, driver=None) as container:
            yield container.get_connection_url()
    else:
        folder = Path(tempfile.mkdtemp(prefix="memsvc-test-", dir=in_memory()))
        server = EmbeddedPostgres(folder)
        try:
            yield server.start().superuser_url
        finally:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)


def in_memory() -> str | None:
    """A file system in memory, where a database is cloned ten times as fast; None where there is
    none with room."""
    with suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > MEMORY_BYTES_MIN and os.access("/dev/shm", os.W_OK):
            return "/dev/shm"
    return None


def _docker_answers() -> bool:
    with suppress(Exception):
        import docker  # noqa: PLC0415

        return bool(docker.from_env(timeout=5).ping())
    return False


class Superuser:
    """A superuser's connection that is kept for the whole run, as connecting takes as long as
    cloning a database does.

    It lives on an event loop of its own, since each test has another one.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: asyncpg.Connection | None = None
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        self._turn = self._portal.call(_lock)

    async def execute(self, sql: str) -> None:
        """Run a statement, after those that others have asked for."""
        await asyncio.wrap_future(self._portal.start_task_soon(self._run, sql))

    async def _run(self, sql: str) -> None:
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = await asyncpg.connect(self._dsn)
            await self._connection.execute(sql)

    def close(self) -> None:
        with self._stack:
            if self._connection is not None:
                self._portal.call(self._connection.close)


async def _lock() -> asyncio.Lock:
    return asyncio.Lock()


class TestServer:
    """Makes databases with roles of its own, so that several test runs may share one server.

    Where the superuser's database is the coordinator of a Citus cluster, every database is one on
    each node, migrated ones are distributed, and `nodes` are the others' addresses.
    """

    __test__ = False

    def __init__(self, superuser_dsn: str) -> None:
        self._superuser_dsn = superuser_dsn
        self._superuser = Superuser(superuser_dsn)
        self._everywhere = [self._superuser]
        self.nodes: list[str] = []
        self._spare: list[str] = []
        self._prefix = f"memsvc_test_{os.getpid()}_{secrets.token_hex(3)}"
        self.password = secrets.token_hex(16)
        self._made = 0
        self._strategy = "WAL_LOG"
        self.owner = f"{self._prefix}_owner"
        self.app = f"{self._prefix}_app"
        self.template = f"{self._prefix}_template"

    async def prepare(self, *, relax: bool, workers: int | None = None) -> None:
        """Roles and the migrated template; `relax` gives durability up, where the server is ours
        alone. Of a cluster's workers, only the first `workers` take part."""
        run = self._superuser.execute
        if relax:
            self._strategy = "FILE_COPY"  # an eighth of the time, where a checkpoint costs nothing
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                await run(f"ALTER SYSTEM SET {setting} = off")
            await run("SELECT pg_reload_conf()")
            await run("SET scram_iterations = 1")  # as tests connect thousands of times
            who = urlsplit(self._superuser_dsn)
            await run(f"ALTER ROLE {who.username} PASSWORD '{who.password}'")
        for role in (self.owner, self.app):
            await run(f"CREATE ROLE {role} LOGIN PASSWORD '{self.password}'")
        for setting in (
            "statement_timeout = '30s'",
            "idle_in_transaction_session_timeout = '30s'",
            "jit = off",
            "plan_cache_mode = force_generic_plan",
        ):  # the owner may not set them
            await run(f"ALTER ROLE {self.app} SET {setting}")
        async with _connected(self._superuser_dsn) as connection:
            if await connection.fetchval(
                "SELECT count(*) FROM pg_extension WHERE extname = 'citus'"
            ):
                rows = await connection.fetch(
                    "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY nodeid"
                )
                nodes = [f"{node['nodename']}:{node['nodeport']}" for node in rows]
                self.nodes, self._spare = nodes[:workers], nodes[workers or len(nodes) :]
                self._strategy = "FILE_COPY"
        self._everywhere += [Superuser(self._at(node, self._superuser_dsn)) for node in self.nodes]
        await self._on_all(f"CREATE DATABASE {self.template} OWNER {self.owner}")
        urls = self.urls(self.template)
        if self.nodes:
            await self._join(urls.superuser)
        async with _connected(urls.superuser) as connection:
            if await connection.fetchval(
                "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
            ):
                await connection.execute("CREATE EXTENSION vector")
        await migrate(urls.admin, self.app)
        if self.nodes:
            shards = max(SHARDS, 2 * (workers or 0))
            await shard_all_tables(urls.superuser, self.app, shards=shards, report=lambda _: None)

    async def _on_all(self, sql: str) -> None:
        await asyncio.gather(*(superuser.execute(sql) for superuser in self._everywhere))

    async def _join(self, dsn: str) -> None:
        """Make a database one of the cluster."""
        host, _, port = urlsplit(dsn).netloc.rpartition("@")[2].partition(":")
        for each in (dsn, *(self._at(node, dsn) for node in self.nodes)):
            async with _connected(each) as connection:
                await connection.execute("CREATE EXTENSION citus")
        async with _connected(dsn) as connection:
            await connection.execute(
                "SELECT citus_set_coordinator_host($1, $2)", host, int(port or 5432)
            )
            for node in self.nodes:
                name, _, at = node.rpartition(":")
                await connection.execute("SELECT citus_add_node($1, $2)", name, int(at))

    async def grow(self) -> None:
        """Let one more worker have its part of the template, while that is used."""
        node = self._spare.pop(0)
        extra = Superuser(self._at(node, self._superuser_dsn))
        await extra.execute(f"CREATE DATABASE {self.template} OWNER {self.owner}")
        self._everywhere.append(extra)
        dsn = self.urls(self.template).superuser
        async with _connected(self._at(node, dsn)) as connection:
            await connection.execute("CREATE EXTENSION citus")
        name, _, port = node.rpartition(":")
        async with _connected(dsn) as connection:
            await connection.execute(f"ALTER ROLE {self.owner} BYPASSRLS")
            await connection.execute("SELECT citus_add_node($1, $2)", name, int(port))
            await connection.execute("SELECT citus_rebalance_start()")
            await connection.execute("SELECT citus_rebalance_wait()")
            await connection.execute(f"ALTER ROLE {self.owner} NOBYPASSRLS")

    @staticmethod
    def _at(node: str, dsn: str) -> str:
        """The same database on another node."""
        parts = urlsplit(dsn)
        return parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{node}").geturl()

    async def close(self) -> None:
        """Drop the template and the roles."""
        try:
            await self.drop(self.template)
            for role in (self.app, self.owner):
                await self._superuser.execute(f"DROP ROLE IF EXISTS {role}")
        finally:
            self.leave()

    def leave(self) -> None:
        """Hang up, and leave the template and the roles to whoever ends the server."""
        for superuser in self._everywhere:
            superuser.close()

    async def create(self, *, migrated: bool = True, origin: str = "") -> str:
        """The name of a new database: a clone of `origin`, by default the template, or one in which
        nothing is yet."""
        self._made += 1
        name = f"{self._prefix}_{self._made}"
        origin = origin or (self.template if migrated else "template0")
        await self._hang_up(origin)
        await self._on_all(
            f"CREATE DATABASE {name} TEMPLATE {origin} OWNER {self.owner} STRATEGY {self._strategy}"
        )
        return name

    async def drop(self, name: str) -> None:
        """Remove a database, whoever is still connected."""
        if self.nodes:
            await self._on_all(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await self._hang_up(name)
        await self._on_all(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    async def _hang_up(self, name: str) -> None:
        """End what Citus runs in a database, which would keep it from being cloned or dropped; it
        hears the first signal only when it wakes."""
        if self.nodes:
            await self._on_all(
                "SELECT pg_terminate_backend(pid, 50) OR pg_terminate_backend(pid, 5000)"
                f" FROM pg_stat_activity WHERE datname = '{name}'"
            )

    def urls(self, name: str) -> DatabaseUrls:
        """How to connect to a database of this server."""
        return DatabaseUrls(
            admin=self._url(name, self.owner),
            app=self._url(name, self.app),
            superuser=urlsplit(self._superuser_dsn)._replace(path=f"/{name}").geturl(),
        )

    def _url(self, database: str, role: str) -> str:
        parts = urlsplit(self._superuser_dsn)
        address = parts.netloc.rpartition("@")[2]
        return parts._replace(
            netloc=f"{quote(role)}:{self.password}@{address}", path=f"/{database}"
        ).geturl()


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


class Relay:
    """A network path to a server that can be cut and mended; `url` goes through it."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._folder = tempfile.mkdtemp(prefix="memsvc-relay-")
        self._socket = f"{self._folder}/.s.PGSQL.5432"
        self._streams: list[asyncio.StreamWriter] = []
        self._pumps: set[asyncio.Task[None]] = set()
        user = self._parts.netloc.rpartition("@")[0]
        self.url = f"postgresql://{user}@{self._parts.path}?host={self._folder}&port=5432"

    async def __aenter__(self) -> "Relay":
        await self.mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def mend(self) -> None:
        """Let connections through."""
        self._listener = await asyncio.start_unix_server(self._connect, self._socket)

    async def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._listener.close()
        with suppress(FileNotFoundError):
            os.unlink(self._socket)  # noqa: PTH108
        for stream in self._streams:
            stream.transport.abort()
        self._streams.clear()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = {name: values[0] for name, values in parse_qs(self._parts.query).items()}
        host, port = (
            query.get("host", self._parts.hostname or "localhost"),
            int(query.get("port", self._parts.port or 5432)),
        )
        if host.startswith("/"):
            far_reader, far_writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        self._streams += [writer, far_writer]
        for source, target in ((reader, far_writer), (far_reader, writer)):
            pump = asyncio.create_task(_pump(source, target))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(65536):
            target.write(piece)
            await target.drain()
    target.close()


async def current_revision(url: str) -> str | None:
    """The revision of a database; None when it was never migrated."""
    connection = await asyncpg.connect(url)
    try:
        revision: str | None = await connection.fetchval("SELECT version_num FROM alembic_version")
        return revision
    except asyncpg.UndefinedTableError:
        return None
    finally:
        await connection.close()
