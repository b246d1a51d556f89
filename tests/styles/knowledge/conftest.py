"""A memory that is consolidated only when a test says so."""

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter, ScriptedLlm
from tests.styles.knowledge.blocks import PATIENT


@pytest.fixture
def door(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Door:
    return open_door(database, clock, tokens, meter, scope, knowledge=PATIENT)


@pytest.fixture
def llm() -> ScriptedLlm:
    return ScriptedLlm()


@pytest.fixture
def judged(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    llm: ScriptedLlm,
) -> Door:
    """The same with a model that judges blocks."""
    return open_door(database, clock, tokens, meter, scope, knowledge=PATIENT, llm=llm)


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
async def embedded(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    embedder: FakeEmbedder,
) -> Door:
    """The same with an embedder."""
    return open_door(database, clock, tokens, meter, scope, knowledge=PATIENT, embedder=embedder)
