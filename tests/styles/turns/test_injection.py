"""Recalled text stays data: it leaves no block, becomes nobody's fact, and does not grow by being
recalled."""

import asyncpg
import pytest

from tests.door import Door
from tests.styles.turns.conftest import Opened
from tests.styles.turns.hostile_texts import CLOSING, PLANTED
from tests.styles.turns.talk import CLOSE, OPEN, ask, assistant, memory, say, texts, user, values

ALL = [*CLOSING, *PLANTED]


def test_the_corpus_is_worth_its_name() -> None:
    assert len(ALL) >= 40


@pytest.mark.parametrize("text", ALL)
async def test_recalled_text_does_not_leave_its_block(opened: Opened, text: str) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", text, f"I like Zanzibar {text}")
    prepared = await ask(door, "What about Zanzibar?")
    policy, block, question = prepared["input_items"]
    assert [policy["role"], block["role"], texts([question])] == [
        "developer",
        "user",
        ["What about Zanzibar?"],
    ]
    [shown] = texts([block])
    assert shown.startswith(OPEN)
    assert shown.endswith(CLOSE)
    assert (shown.count("<"), shown.count(">")) == (2, 2)
    assert memory(prepared)["turns"]


@pytest.mark.parametrize("text", PLANTED)
async def test_what_was_planted_is_no_fact_about_anybody(
    opened: Opened, text: str, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", text, answer=text, user_id="u1")
    output = {"type": "function_call_output", "call_id": "c", "output": text}
    await door(
        "memory_after_turn",
        session_id="s1",
        turn_id="t2",
        user_id="u1",
        input_items=[output, user("Go on.")],
    )
    assert await admin.fetchval("SELECT count(*) FROM facts") == 0
    for who in ("u1", "u2", "Bob", ""):
        assert (
            values(await ask(door, "What is my name, and what do you know about me?", user_id=who))
            == []
        )


async def test_what_is_recalled_does_not_grow_by_being_stored_again(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=4)
    await say(door, "t0", "My name is Ada. I like Zanzibar.", *ALL, user_id="u1")
    facts = await admin.fetchval("SELECT count(*) FROM facts")
    for turn in range(1, 6):
        items = await admin.fetchval(
            "SELECT count(*) FROM entries WHERE role IN ('user', 'assistant')"
        )
        prepared = await ask(door, f"Question {turn} about Zanzibar?", user_id="u1")
        stored = await door(
            "memory_after_turn",
            session_id="s1",
            turn_id=f"t{turn}",
            user_id="u1",
            input_items=prepared["input_items"],
            output_items=[assistant(f"Answer {turn}.")],
        )
        assert (stored["stored_items"], stored["fact_ids"]) == (2, [])
        assert await admin.fetchval("SELECT count(*) FROM facts") == facts
        assert (
            await admin.fetchval("SELECT count(*) FROM entries WHERE role IN ('user', 'assistant')")
            == items + 2
        )


async def test_an_assistant_states_nothing_about_the_user(door: Door) -> None:
    await say(
        door,
        "t1",
        "Hello.",
        answer="Got it, your name is Ada. I live in Paris. My name is Bot.",
        user_id="u1",
    )
    assert values(await ask(door, "What is my name, and where do I live?", user_id="u1")) == []
