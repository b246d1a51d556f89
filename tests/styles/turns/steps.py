"""What happens between the steps of a rebuild."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from memsvc.store.database import Tx
from memsvc.styles.turns.rebuild.rebuilding import Rebuilding


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[int], Awaitable[None]]) -> None:
    """Let something happen before each step of a rebuild, which are counted from 1."""
    step = Rebuilding._step
    numbers = count(1)

    @asynccontextmanager
    async def after_it(self: Rebuilding, *given: Any) -> AsyncIterator[Tx]:
        await happens(next(numbers))
        async with step(self, *given) as tx:
            yield tx

    monkeypatch.setattr(Rebuilding, "_step", after_it)
