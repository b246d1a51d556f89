"""The rates that memory is judged by, each measured on a session of some length."""

import pytest

from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    assistant,
    events,
    file_paths,
    file_text,
    recalled_facts,
    say,
    texts,
    unblocked,
    user,
    values,
)

FACTS = {
    "What is my name?": ("user_name", "Ada"),
    "Which drink do I prefer?": ("user_preference", "green tea as a drink"),
    "What task is there today?": ("today_task", "to pay the rent"),
    "What is my task this week?": ("weekly_task", "to paint the fence"),
}
SAID = (
    "My name is Ada. I prefer green tea as a drink. Today I need to pay the rent. This week I"
    " need to paint the fence."
)
OFF_TOPIC = [
    "Explain chromodynamics.",
    "Translate Zanzibar.",
    "Summarise Hamlet.",
    "Sort these numbers: 3 1 2",
]


@pytest.fixture
async def remembering(opened: Opened) -> Door:
    """A session with facts at its beginning and twenty turns of other things after them."""
    door = opened(recent_context_items=2)
    await say(door, "t0", SAID, answer="Noted.")
    for turn in range(1, 21):
        await say(
            door,
            f"t{turn}",
            f"Distraction number {turn} about the weather.",
            answer=f"Remark {turn}.",
        )
    return door


async def test_every_fact_is_recalled_when_it_is_asked_for_and_none_that_is_not(
    remembering: Door,
) -> None:
    for question, fact in FACTS.items():
        prepared = await ask(remembering, question)
        assert fact in await recalled_facts(remembering, prepared), question
        assert fact[1] in values(prepared)
    prepared = await ask(remembering, "What is my name?")
    assert await recalled_facts(remembering, prepared) == [("user_name", "Ada")]
    assert [(await ask(remembering, question))["recall_fact_ids"] for question in OFF_TOPIC] == [
        []
    ] * len(OFF_TOPIC)


async def test_what_expired_is_suppressed_and_what_lasts_survives(
    remembering: Door, clock: FakeClock
) -> None:
    clock.advance(days=8)
    for swept in (False, True):
        if swept:
            await remembering("memory_run_maintenance", session_id="s1")
        recalled = {
            fact_id
            for question in FACTS
            for fact_id, _ in await recalled_facts(remembering, await ask(remembering, question))
        }
        assert recalled == {"user_name", "user_preference"}


async def test_a_session_that_is_played_again_changes_nothing(remembering: Door) -> None:
    root = "/memory/s1"
    before = {
        path: await file_text(remembering, path) for path in await file_paths(remembering, root)
    }
    await say(remembering, "t0", SAID, answer="Noted.")
    for turn in range(1, 21):
        await say(
            remembering,
            f"t{turn}",
            f"Distraction number {turn} about the weather.",
            answer=f"Remark {turn}.",
        )
    assert {
        path: await file_text(remembering, path) for path in await file_paths(remembering, root)
    } == before


async def test_saying_the_same_facts_again_and_again_does_not_grow_them(remembering: Door) -> None:
    tiers = [
        path for path in await file_paths(remembering, "/memory/s1") if "/memory_tiers/" in path
    ]
    before = {path: await file_text(remembering, path) for path in tiers}
    for turn in range(10):
        assert (await say(remembering, f"again{turn}", SAID))["fact_ids"] == []
    assert {path: await file_text(remembering, path) for path in tiers} == before


async def test_no_session_leaks_into_another(remembering: Door) -> None:
    for session in ("s10", "s", "s2", "S1"):
        for question in FACTS:
            assert len((await ask(remembering, question, session=session))["input_items"]) == 1


async def test_the_same_is_recalled_whether_the_client_keeps_the_history_or_not(
    opened: Opened,
) -> None:
    door = opened()
    conversation = []
    for turn, (said, answer) in enumerate(
        [(SAID, "Noted."), ("How is the weather?", "Fine."), ("Good.", "Indeed.")]
    ):
        await say(door, f"t{turn}", said, answer=answer)
        conversation += [user(said), assistant(answer)]
    for question in FACTS:
        latest = await ask(door, question)
        whole = await door(
            "memory_before_turn",
            session_id="s1",
            conversation_items=[*conversation, user(question)],
            current_input_start=len(conversation),
        )
        assert whole["recall_fact_ids"] == latest["recall_fact_ids"]
        assert unblocked(whole) == unblocked(latest) == [*conversation, user(question)]


async def test_neither_the_prompt_nor_the_store_holds_anything_twice(opened: Opened) -> None:
    door = opened(recent_context_items=6)
    conversation = []
    for turn in range(12):
        question = f"Question {turn} about bees in Zanzibar?"
        conversation.append(user(question))
        prepared = await door(
            "memory_before_turn",
            session_id="s1",
            conversation_items=conversation,
            current_input_start=len(conversation) - 1,
        )
        shown = texts(unblocked(prepared))
        assert len(shown) == len(set(shown))
        answer = assistant(f"Answer {turn}, about bees.")
        given = {"input_items": prepared["input_items"], "output_items": [answer]}
        await door("memory_after_turn", session_id="s1", turn_id=f"t{turn}", **given)
        conversation.append(answer)
    assert [record["item"] for record in await events(door)] == conversation
