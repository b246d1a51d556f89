"""What was said and held at some moment, as recall shows it when it is asked for that moment."""

from typing import Any

import pytest

from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, say, texts, unblocked, user, values

NAME = "What is my name?"


async def test_a_fact_is_the_one_that_held_then(opened: Opened, clock: FakeClock) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "My name is Ada.")
    clock.advance(hours=2)
    await say(door, "t2", "My name is Eve.")
    assert values(await ask(door, NAME)) == ["Eve"]
    assert values(await ask(door, NAME, as_of="2026-01-05T13:00:00Z")) == ["Ada"]
    assert values(await ask(door, NAME, as_of="2026-01-05T15:00:00+01:00")) == ["Eve"]
    assert values(await ask(door, NAME, as_of="2026-01-05T11:00:00Z")) == []


async def test_nothing_is_shown_that_was_said_later(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", "Bees live in Zanzibar.", answer="They do.")
    clock.advance(hours=2)
    await say(door, "t2", "Bees live in Lisbon too.", answer="Indeed.")
    prepared = await ask(door, "Where do bees live?", as_of="2026-01-05T13:00:00")
    assert texts(unblocked(prepared)) == [
        "Bees live in Zanzibar.",
        "They do.",
        "Where do bees live?",
    ]
    assert "Lisbon" not in str(prepared)


async def test_it_is_the_time_that_counts_at_which_the_client_says_it_was_said(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=0)
    said = user("Bees live in Zanzibar.", metadata={"occurred_at": "2020-03-01T10:00:00Z"})
    await door("memory_after_turn", session_id="s1", turn_id="t1", input_items=[said])
    for moment, shown in (
        ("2020-02-28T00:00:00Z", []),
        ("2020-03-02T00:00:00Z", ["Bees live in Zanzibar."]),
    ):
        turns = memory(await ask(door, "Where do bees live?", as_of=moment))["turns"]
        assert [turn["text"] for turn in turns] == shown


async def test_a_moment_to_come_shows_what_will_still_hold_then(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "My name is Ada. Today I need to pay the rent.")
    later = "2026-02-01T00:00:00Z"
    assert values(await ask(door, NAME, as_of=later)) == ["Ada"]
    assert values(await ask(door, "What task is there today?", as_of=later)) == []


@pytest.mark.parametrize(
    "moment", ["yesterday", "2026-13-01", "5", "2026-01-05T25:00Z", "0001-01-01T00:00+14:00"]
)
async def test_what_names_no_moment_is_refused(door: Door, moment: str) -> None:
    body = await door.refuses(
        "INVALID_ARGUMENT", "memory_before_turn", current_input="x", as_of=moment
    )
    assert "as_of" in body["message"]


@pytest.mark.parametrize("sources", [["web"], ["facts", "web"], "facts", [None]])
async def test_a_kind_of_memory_that_there_is_not_is_refused(door: Door, sources: Any) -> None:
    body = await door.refuses(
        "INVALID_ARGUMENT", "memory_before_turn", current_input="x", sources=sources
    )
    assert "sources" in body["message"]


async def test_only_the_kinds_of_memory_that_were_asked_for_are_recalled(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I live in Oslo and I keep bees.")
    question = "Where do I live, and who keeps bees?"
    held = memory(await ask(door, question, sources=["facts"]))
    assert (bool(held["facts"]), held["turns"]) == (True, [])
    held = memory(await ask(door, question, sources=["turns"]))
    assert (held["facts"], bool(held["turns"])) == ([], True)
    assert len((await ask(door, question, sources=[]))["input_items"]) == 1
