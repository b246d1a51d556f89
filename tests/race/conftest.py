"""Many calls at once, with enough connections that they really meet."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database, DatabaseOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.servers import DatabaseUrls


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Faults are the point here: their tracebacks would take longer to draw than the tests to
    run."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
async def database(database_urls: DatabaseUrls, meter: RecordingMeter) -> AsyncIterator[Database]:
    """A pool in which every call of a test has a connection of its own."""
    options = DatabaseOptions(pool_min=1, pool_max=24, acquire_timeout_ms=20_000)
    database = await Database.open(database_urls.app, options, meter)
    yield database
    await database.close()


@pytest.fixture
def door(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Door:
    return open_door(database, clock, tokens, meter, scope)
