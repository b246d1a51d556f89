"""`model` is a scripted model, `made` makes a service that asks one for facts, and `door` is that
service."""

from collections.abc import Callable
from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.ports import Llm
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.turns.options import TurnOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter, ScriptedLlm

Made = Callable[..., Door]


@pytest.fixture
def model() -> ScriptedLlm:
    return ScriptedLlm()


@pytest.fixture
def made(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Made:
    """A service that asks a model for facts."""

    def make(model: Llm, **heuristic: Any) -> Door:
        turns = TurnOptions.model_validate({"heuristic": {"enabled": True} | heuristic})
        return open_door(database, clock, tokens, meter, scope, turns=turns, llm=model)

    return make


@pytest.fixture
def door(made: Made, model: ScriptedLlm) -> Door:
    return made(model)
