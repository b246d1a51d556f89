"""What happens between the steps of a rebuild."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from memsvc.store.database import Tx
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[int], Awaitable[None]]) -> None:
    """Let something happen before each step of a rebuild, which are counted from 1."""
    step = TurnRebuild._step
    numbers = count(1)

    @asynccontextmanager
    async def after_it(self: TurnRebuild, *given: Any) -> AsyncIterator[Tx]:
        await happens(next(numbers))
        async with step(self, *given) as tx:
            yield tx

    monkeypatch.setattr(TurnRebuild, "_step", after_it)
