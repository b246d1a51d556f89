"""What is believed of a key while it is changed."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import ALL_PERMISSIONS
from memsvc.gateway import credentials
from memsvc.gateway.credentials import KeyCache
from memsvc.store import keys
from memsvc.store.changes import Changes
from memsvc.store.database import Database

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 5, tzinfo=UTC)
VALID = keys.ApiKey(
    UUID(int=1), b"t" * 32, "k", ALL_PERMISSIONS, None, frozenset(), NOW, None, None, None
)
REVOKED = replace(VALID, revoked_at=NOW)
HASH = b"h" * 32


class Told:
    """Changes that the test tells of."""

    def __init__(self) -> None:
        self.tell: list[Callable[[], None]] = []

    def watch(self, _: str, told: Callable[[], None]) -> Callable[[], None]:
        self.tell.append(told)
        return lambda: None


async def test_keys_that_wait_behind_a_silent_database_are_told_so_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(*_: Any) -> Any:
        await asyncio.sleep(3600)

    monkeypatch.setattr(keys, "find_key", ask)
    monkeypatch.setattr(credentials, "QUERY_S_MAX", 0.05)
    known = KeyCache(
        cast(Database, None), keep_s=300, keys_max=10, changes=None, changed=lambda: None
    )
    looked_up = await asyncio.gather(
        *(known.find(bytes([one]) * 32) for one in range(9)), return_exceptions=True
    )
    assert {error.code for error in looked_up if isinstance(error, MemsvcError)} == {
        Code.UNAVAILABLE
    }
    assert len(looked_up) == 9


async def test_an_answer_from_before_a_key_was_revoked_that_comes_late_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()

    async def ask(*_: Any) -> Any:
        answer = asyncio.get_running_loop().create_future()
        await asked.put(answer)
        return await answer

    monkeypatch.setattr(keys, "find_key", ask)
    monkeypatch.setattr(keys, "find_keys", ask)
    told = Told()
    known = KeyCache(
        cast(Database, None),
        keep_s=300,
        keys_max=10,
        changes=cast(Changes, told),
        changed=lambda: None,
    )

    async def begun(asking: Any) -> tuple[asyncio.Task[Any], asyncio.Future[Any]]:
        return asyncio.create_task(asking), await asked.get()

    task, answer = await begun(known.find(HASH))
    answer.set_result(VALID)
    assert await task == VALID
    told.tell[0]()
    early, early_answer = await begun(known.find(HASH))
    again, again_answer = await begun(known.refresh([HASH]))
    told.tell[0]()
    late, late_answer = await begun(known.find(HASH))
    late_answer.set_result(REVOKED)
    assert await late == REVOKED
    early_answer.set_result(VALID)
    again_answer.set_result({HASH: VALID})
    await asyncio.gather(early, again)
    assert await known.find(HASH) == REVOKED
