"""Real PostgreSQL for every test: one server a run, one database a test, cloned from a migrated
template."""

import asyncio
import gc
import io
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx2
import orjson
import pytest
import structlog

from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import SentenceEncoder
from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.gateway.logs import configure_logging
from memsvc.store.connections import open_pool
from memsvc.store.database import Database, DatabaseOptions
from memsvc.styles.model_budget import ModelBudget
from memsvc.styles.services import StyleServices
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.servers import DatabaseUrls, TestServer, superuser_url
from tests.statements import Watch

TEMPORARY = "PYTEST_DEBUG_TEMPROOT"
EMBEDDINGS = "MEMSVC_EMBEDDINGS__PROVIDER"
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def pytest_configure(config: pytest.Config) -> None:
    """Give each run a folder of its own for temporary files. Of the one that runs share, pytest
    takes every right of other accounts away at each start, and the servers of a run that is under
    way can no longer reach theirs."""
    if TEMPORARY not in os.environ:  # the workers of a run inherit it
        os.environ[TEMPORARY] = folder = tempfile.mkdtemp(prefix="memsvc-pytest-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    # what goes by words is tested by itself; tests of the sentence encoder turn it on
    os.environ.setdefault(EMBEDDINGS, "")


def pytest_collection_finish() -> None:
    """What thousands of tests are made of stays to the end: the garbage collector need not look
    through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    """The server that this run's databases are on."""
    with superuser_url() as dsn:
        server = TestServer(dsn)
        try:
            asyncio.run(server.prepare(relax="MEMSVC_TEST_DSN" not in os.environ))
            yield server
        finally:
            asyncio.run(server.close())


@pytest.fixture(autouse=True)
def left_out_on_a_cluster(request: pytest.FixtureRequest) -> None:
    """A test that holds for one server alone says so by its mark."""
    mark = request.node.get_closest_marker("one_server")
    if mark and request.getfixturevalue("server").nodes:
        pytest.skip(*mark.args)


@pytest.fixture
async def database_urls(server: TestServer) -> AsyncIterator[DatabaseUrls]:
    """A database of this test alone, at the newest revision."""
    name = await server.create()
    yield server.urls(name)
    await server.drop(name)


@pytest.fixture
async def empty_urls(server: TestServer) -> AsyncIterator[DatabaseUrls]:
    """A database in which nothing is yet."""
    name = await server.create(migrated=False)
    yield server.urls(name)
    await server.drop(name)


@pytest.fixture
async def database(database_urls: DatabaseUrls, meter: RecordingMeter) -> AsyncIterator[Database]:
    """The pool of the application role, as the service has it. What `Database.open` checks of a
    role and its tables held in the template."""
    options = DatabaseOptions(pool_min=1)
    pool = await open_pool(
        database_urls.app,
        options.pool_min,
        options.pool_max,
        command_timeout_s=options.statement_timeout_ms / 1000 + 5,
        prepared=options.prepared_statements,
    )
    database = Database(pool, options, meter)
    yield database
    await database.close()


@pytest.fixture
async def admin(database_urls: DatabaseUrls) -> AsyncIterator[asyncpg.Connection]:
    """A superuser in the test's database, who sees the rows of all tenants."""
    connection = await asyncpg.connect(database_urls.superuser)
    yield connection
    await connection.close()


@pytest.fixture
async def owner(database_urls: DatabaseUrls) -> AsyncIterator[asyncpg.Connection]:
    """The owner of the tables, whom the policies bind too."""
    connection = await asyncpg.connect(database_urls.admin)
    yield connection
    await connection.close()


@pytest.fixture
def scope() -> Scope:
    return Scope(b"\x01" * 32, "default")


@pytest.fixture
def other_scope() -> Scope:
    """Another tenant's project of the same name."""
    return Scope(b"\x02" * 32, "default")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def meter() -> RecordingMeter:
    return RecordingMeter()


@pytest.fixture(scope="session")
def tokens() -> O200kCounter:
    """The counter of the service; it takes a moment to load and keeps no state."""
    counter = O200kCounter()
    counter.load()
    return counter


@pytest.fixture
def style_services(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter
) -> StyleServices:
    """What a style is given, without models."""
    return StyleServices(database, clock, tokens, meter, ModelBudget(database, clock, 0))


@pytest.fixture
def door(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Door:
    """Every tool of the service behind the real dispatch, called by the tenant of `scope`."""
    return open_door(database, clock, tokens, meter, scope)


@pytest.fixture
def call(door: Door) -> Door:
    """The door, under the name that reads well where it is called."""
    return door


@pytest.fixture
def other_call(door: Door, other_scope: Scope) -> Door:
    """The same service, called by another tenant."""
    return door.as_tenant(other_scope)


@pytest.fixture
def log_lines() -> Iterator[io.BytesIO]:
    """Everything that the process logs, as it would reach stderr."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    file = io.BytesIO()
    configure_logging("debug", file)
    structlog.configure(cache_logger_on_first_use=False)
    yield file
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def plain_log_lines() -> None:
    """What a test logs is told when it fails; to make it colourful would take a fifteenth of the
    time of all tests."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(
                serializer=lambda line, default: orjson.dumps(line, default).decode()
            ),
        ]
    )


@pytest.fixture(scope="session", autouse=True)
def only_this_machine() -> Iterator[None]:
    """No test asks a host that is not this one, whichever way: sockets refuse to connect, and the
    transports of both HTTP clients refuse to look for an address. The database of MEMSVC_TEST_DSN
    may be elsewhere."""
    database = urlsplit(os.environ.get("MEMSVC_TEST_DSN", "")).hostname
    allowed = LOOPBACK | {
        str(found[4][0]) for found in (socket.getaddrinfo(database, None) if database else ())
    }

    def connecting(connect: Any) -> Any:
        def checked(self: socket.socket, address: Any) -> Any:
            here = self.family not in (socket.AF_INET, socket.AF_INET6) or address[0] in allowed
            assert here, f"tests stay on the loopback, and {address[0]} is not on it"
            return connect(self, address)

        return checked

    def guarded(send: Any) -> Any:
        async def handle(transport: Any, request: Any) -> Any:
            assert request.url.host in LOOPBACK, (
                f"tests stay on the loopback, and {request.url.host} is not on it"
            )
            return await send(transport, request)

        return handle

    with pytest.MonkeyPatch.context() as patch:
        transport = httpx2.AsyncHTTPTransport
        patch.setattr(transport, "handle_async_request", guarded(transport.handle_async_request))
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, connecting(getattr(socket.socket, name)))
        yield


@pytest.fixture(scope="session")
def watched_statements() -> Iterator[Watch]:
    """What the product runs of statements in this process, from the first test on."""
    with pytest.MonkeyPatch.context() as patch:
        yield Watch(patch)


@pytest.fixture(autouse=True)
def statements_for_citus(watched_statements: Watch) -> Iterator[None]:
    """Whatever a test makes the product run, Citus could run it too (tests/citus_rules.py)."""
    yield
    found = watched_statements.faults()
    assert not found, "\n\n".join(found)


@pytest.fixture
async def encoder() -> SentenceEncoder:
    """The bundled sentence encoder, loaded."""
    encoder = SentenceEncoder(EmbeddingOptions())
    await encoder.load()
    return encoder


@pytest.fixture
def encoding_door(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    encoder: SentenceEncoder,
) -> Door:
    """As `door`, with the bundled sentence encoder."""
    return open_door(database, clock, tokens, meter, scope, embedder=encoder)
