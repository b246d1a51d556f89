"""When something was said: as the client gives it, on the day of its own clock."""

from typing import Any

import pytest

from tests.door import Door
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, user, values


async def _said(door: Door, turn: str, text: str, **fields: Any) -> dict[str, Any]:
    item = user(text) | fields
    return await door(
        "memory_after_turn", session_id="s1", turn_id=turn, user_id="u1", input_items=[item]
    )


def _at(time: Any) -> dict[str, Any]:
    return {"metadata": {"occurred_at": time}}


@pytest.mark.parametrize(
    "fields",
    [_at(1700000000), _at("1700000000000"), _at("2023-11-14t22:13:20z"), {"timestamp": 1700000000},
     {"created_at": 1700000000}, {"create_time": 1700000000.5}],
)  # fmt: skip
async def test_imported_message_does_not_replace_a_newer_fact(
    opened: Opened, fields: dict[str, Any]
) -> None:
    door = opened(recent_context_items=0)
    await _said(door, "t1", "I live in Prague.", **_at("2025-05-01T00:00:00Z"))
    await _said(door, "t2", "I live in Berlin.", **fields)
    assert values(await ask(door, "Where do I live?", "s2", user_id="u1")) == ["Prague"]


async def test_turn_with_an_unreadable_time_is_refused_and_nothing_is_stored(door: Door) -> None:
    item = user("I live in Berlin.") | _at("14/11/2023")
    body = await door.refuses(
        "INVALID_ARGUMENT", "memory_after_turn", session_id="s1", input_items=[user("Hi."), item]
    )
    assert "input_items[1].metadata.occurred_at" in body["message"]
    prepared = await ask(door, "Where do I live?")
    assert "Berlin" not in str(prepared)


@pytest.mark.parametrize(
    ("given", "shown", "since"),
    [
        ("2026-01-04T02:30:00+08:00", "2026-01-04 02:30+08:00", "2026-01-04"),
        ("2026-01-03T23:30:00-08:00", "2026-01-03 23:30-08:00", "2026-01-03"),
        ("2026-01-03T23:30:00Z", "2026-01-03 23:30Z", "2026-01-03"),
        ("2026-01-03T23:30:00", "2026-01-03 23:30Z", "2026-01-03"),
    ],
)
async def test_message_and_fact_are_shown_on_the_day_of_the_offset_that_was_given(
    opened: Opened, given: str, shown: str, since: str
) -> None:
    door = opened(recent_context_items=0)
    await _said(door, "t1", "I live in Oslo and adopted a dog yesterday.", **_at(given))
    for session in ("s1", "s2"):
        told = memory(await ask(door, "Where do I live with my dog?", session, user_id="u1"))
        assert {turn["time"] for turn in told["turns"]} == {shown}
        assert {fact["since"] for fact in told["facts"]} == {since}
    listed = await door("memory_profile", user_id="u1")
    assert {entry["since"] for entry in listed["facts"]} == {since}


async def test_messages_of_one_minute_in_two_offsets_are_shown_apart(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    items = [
        user("The bees of Zanzibar swarm.") | _at("2026-01-03T18:30:00Z"),
        user("The bees of Zanzibar rest.") | _at("2026-01-04T02:30:00+08:00"),
    ]
    await door("memory_after_turn", session_id="s1", turn_id="t1", input_items=items)
    shown = memory(await ask(door, "What do the bees of Zanzibar do?"))["turns"]
    assert [turn["time"] for turn in shown] == ["2026-01-03 18:30Z", "2026-01-04 02:30+08:00"]
