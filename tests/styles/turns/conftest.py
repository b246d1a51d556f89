"""`opened` makes a door with turn options other than the defaults, for the tenant that `door` is
for."""

from collections.abc import Callable
from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.turns.options import TurnOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter

Opened = Callable[..., Door]


@pytest.fixture
def opened(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Opened:
    """Makes a service with turn options of its own."""

    def make(**options: Any) -> Door:
        return open_door(database, clock, tokens, meter, scope, turns=TurnOptions(**options))

    return make
