"""A database that is lost while it commits: nobody knows whether a call was done."""

from typing import Any

import asyncpg
import pytest

from tests.contract.catalogue import message
from tests.door import Door, Refused

pytestmark = pytest.mark.anyio
MEMORY = (
    "memories_add",
    {"user_id": "u", "messages": [{"role": "user", "content": "I like tea."}]},
)
TURN = (
    "memory_after_turn",
    {"session_id": "s", "turn_id": "t", "input_items": [message("I drink tea.")]},
)


def lose(monkeypatch: pytest.MonkeyPatch, *, reading: bool) -> None:
    """Let the connection break after the commit of what only reads or writes, unconfirmed."""
    execute = asyncpg.Connection.execute
    begun: dict[asyncpg.Connection, bool] = {}

    async def break_at_commit(self: asyncpg.Connection, sql: str, *args: Any, **more: Any) -> str:
        done: str = await execute(self, sql, *args, **more)
        if sql.startswith("BEGIN"):
            begun[self] = "READ ONLY" in sql
        elif sql == "COMMIT" and begun[self] is reading:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed")
        return done

    monkeypatch.setattr(asyncpg.Connection, "execute", break_at_commit)


@pytest.mark.parametrize(("call", "may_repeat"), [(MEMORY, False), (TURN, True)])
async def test_what_may_have_been_done_is_only_retryable_where_doing_it_twice_is_harmless(
    door: Door,
    monkeypatch: pytest.MonkeyPatch,
    call: tuple[str, dict[str, Any]],
    may_repeat: bool,
) -> None:
    lose(monkeypatch, reading=False)
    tool, arguments = call
    with pytest.raises(Refused) as refused:
        await door(tool, **arguments)
    body = refused.value.body
    assert (body["code"], body["retryable"]) == ("UNAVAILABLE", may_repeat)
    assert ("first check" in body.get("recovery", "")) is not may_repeat


async def test_what_was_only_to_be_read_can_be_read_again(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(monkeypatch, reading=True)
    with pytest.raises(Refused) as refused:
        await door("memory_list_facts", session_id="s")
    assert refused.value.body["retryable"]
