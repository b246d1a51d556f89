"""Whiteboards of one tenant, behind the real dispatch, with a model that tests script or without
one."""

from collections.abc import Callable
from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.whiteboard.options import WhiteboardOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter, ScriptedLlm

Opened = Callable[..., Door]


@pytest.fixture
def llm() -> ScriptedLlm:
    """The model of the `board` fixture."""
    return ScriptedLlm()


@pytest.fixture
def opened(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Opened:
    """Makes a service of its own over the test's database: `opened(llm=..., tokens_max=...)`."""

    def make(llm: Any = None, **options: Any) -> Door:
        return open_door(
            database, clock, tokens, meter, scope, llm=llm, whiteboard=WhiteboardOptions(**options)
        )

    return make


@pytest.fixture
def board(opened: Opened, llm: ScriptedLlm) -> Door:
    """The whiteboard tools with a model."""
    return opened(llm)
