"""Whatever clients send back of a conversation, each thing that was said is stored once and shown
once."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.core.items import Item, canonical, hash_of_content
from memsvc.styles.turns import history
from memsvc.styles.turns.history import Conversation
from tests.door import Door
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import assistant, events, turn_items, unblocked, user

RECENT = 6
LOOKED_AT = RECENT * 2 + 8

SAID = st.lists(st.sampled_from(["yes", "yes", "ok", "no", "hm"]).map(user), min_size=1, max_size=3)
ANSWERED = st.lists(
    st.sampled_from(["ok", "ok", "yes", "sure"]).map(assistant)
    | st.just({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"})
    | st.just({"type": "function_call_output", "output": "1", "call_id": "c"}),
    max_size=2,
).map(lambda items: [*items, assistant("so be it")])
TURNS = st.lists(st.tuples(SAID, ANSWERED), min_size=1, max_size=14)
WAYS = ("new", "everything", "prepared", "prepared with history")


def prepared(stored: list[Item], told: Conversation) -> list[Item]:
    """What a turn's model is sent but for the memory block, as before_turn puts it together."""
    recent = stored[-RECENT:]
    positions, older = history.new_positions(
        recent, [hash_of_content(canonical(item)) for item in recent], told
    )
    unsent = [recent[at] for at in positions]
    history_items, current = (
        [item.item for item in items] for items in (told.history, told.current)
    )
    return [*unsent[:older], *history_items, *unsent[older:], *current]


def sent(way: str, stored: list[Item], said: list[Item]) -> list[Item]:
    """What a client sends as input_items after the turn."""
    match way:
        case "new":
            return said
        case "everything":
            return [*stored, *said]
        case "prepared":
            return prepared(stored, Conversation([], turn_items(said)))
        case _:
            return prepared(
                stored, Conversation(turn_items(stored[-RECENT - 3 :]), turn_items(said))
            )


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(TURNS, st.sampled_from(WAYS), st.booleans())
def test_a_client_of_any_kind_has_every_item_stored_once_and_in_order(
    turns: list[tuple[list[Item], list[Item]]], way: str, block: bool
) -> None:
    stored: list[Item] = []
    spoken: list[Item] = []
    for said, answered in turns:
        marks = [hash_of_content(canonical(item)) for item in stored[-LOOKED_AT:]]
        # a block comes with what before_turn prepared and with nothing else
        found = block and way.startswith("prepared") and bool(stored)
        older = len(marks) == LOOKED_AT
        fresh = history.delta(
            turn_items(sent(way, stored, said)),
            marks,
            window=RECENT,
            block_found=found,
            has_more=older,
        )
        inputs = [item.item for item in fresh]
        stored += [*inputs, *answered]
        spoken += [*said, *answered]
        assert stored == spoken


@settings(max_examples=300, deadline=None)
@given(TURNS, SAID, st.integers(0, 40), st.integers(0, 40))
def test_nothing_is_shown_more_often_than_it_was_said(
    turns: list[tuple[list[Item], list[Item]]], said: list[Item], first: int, last: int
) -> None:
    stored = [item for asked, answered in turns for item in (*asked, *answered)]
    held = stored[first : len(stored) - last] if first < len(stored) - last else []
    shown = prepared(stored, Conversation(turn_items(held), turn_items(said)))
    often = Counter(map(canonical, [*stored, *said]))
    assert all(count <= often[item] for item, count in Counter(map(canonical, shown)).items())
    assert shown[len(shown) - len(said) :] == said
    assert any(shown[at : at + len(held)] == held for at in range(len(shown)))


@settings(max_examples=300, deadline=None)
@given(TURNS, SAID)
def test_a_client_that_holds_everything_is_shown_what_it_holds(
    turns: list[tuple[list[Item], list[Item]]], said: list[Item]
) -> None:
    stored = [item for asked, answered in turns for item in (*asked, *answered)]
    assert prepared(stored, Conversation(turn_items(stored), turn_items(said))) == [*stored, *said]


@settings(max_examples=300, deadline=None)
@given(TURNS, st.data())
def test_an_answer_that_was_generated_anew_is_shown_instead_of_the_old_one(
    turns: list[tuple[list[Item], list[Item]]], data: st.DataObject
) -> None:
    stored = [item for asked, _ in turns for item in (*asked, assistant("so be it"))]
    answers = [at for at in range(len(stored)) if stored[at] == assistant("so be it")]
    at = data.draw(st.sampled_from(answers))
    told = [*stored[:at], assistant("anew"), *stored[at + 1 :]]
    assert prepared(stored, Conversation(turn_items(told), turn_items([user("next")]))) == [
        *told,
        user("next"),
    ]


@settings(max_examples=300, deadline=None)
@given(TURNS, st.integers(1, 30))
def test_a_turn_that_is_asked_again_in_the_middle_is_not_shown_beside_itself(
    turns: list[tuple[list[Item], list[Item]]], which: int
) -> None:
    stored: list[Item] = []
    bounds = []
    for asked, answered in turns:
        bounds.append((len(stored), len(asked)))
        stored += [*asked, *answered]
    start, count = bounds[which % len(bounds)]
    assert (
        prepared(stored, history.split_conversation(turn_items(stored), start, count))
        == stored[: start + count]
    )


Client = Callable[[Door, list[Item], list[Item], str, list[Item]], Any]


async def commits(
    door: Door, held: list[Item], said: list[Item], turn: str, answered: list[Item]
) -> None:
    begun = await door(
        "memory_run_turn",
        session_id="s1",
        turn_id=turn,
        conversation_items=[*held, *said],
        current_input_start=len(held),
    )
    await door(
        "memory_commit_turn", operation_token=begun["operation_token"], output_items=answered
    )


async def echoes(
    door: Door, held: list[Item], said: list[Item], turn: str, answered: list[Item]
) -> None:
    del held
    begun = await door("memory_before_turn", session_id="s1", turn_id=turn, current_input=said)
    given = begun["input_items"]
    await door(
        "memory_after_turn", session_id="s1", turn_id=turn, input_items=given, output_items=answered
    )


async def echoes_all(
    door: Door, held: list[Item], said: list[Item], turn: str, answered: list[Item]
) -> None:
    whole = {"conversation_items": [*held, *said], "current_input_start": len(held)}
    begun = await door("memory_before_turn", session_id="s1", turn_id=turn, **whole)
    assert unblocked(begun) == [*held, *said]
    given = begun["input_items"]
    await door(
        "memory_after_turn", session_id="s1", turn_id=turn, input_items=given, output_items=answered
    )


async def resends(
    door: Door, held: list[Item], said: list[Item], turn: str, answered: list[Item]
) -> None:
    given = [*held, *said]
    await door(
        "memory_after_turn", session_id="s1", turn_id=turn, input_items=given, output_items=answered
    )


async def cuts(
    door: Door, held: list[Item], said: list[Item], turn: str, answered: list[Item]
) -> None:
    whole = [*held, *said, *answered]
    place = {"current_input_start": len(held), "current_input_count": len(said)}
    await door(
        "memory_after_turn",
        session_id="s1",
        turn_id=turn,
        conversation_items=whole,
        output_items=answered,
        **place,
    )


async def is_brief(
    door: Door, held: list[Item], said: list[Item], turn: str, answered: list[Item]
) -> None:
    del held
    await door(
        "memory_after_turn", session_id="s1", turn_id=turn, input_items=said, output_items=answered
    )


CLIENTS: list[Client] = [commits, echoes, echoes_all, resends, cuts, is_brief]
WORDS = ["yes", "yes", "ok", "My name is Ada.", "I prefer tea.", "What is my name?", "bees", "yes"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("client", [*CLIENTS, None], ids=lambda one: one.__name__ if one else "any")
async def test_a_session_holds_what_was_said_whoever_takes_part(
    opened: Opened, client: Client | None, seed: int
) -> None:
    chosen = random.Random(seed)
    door = opened(recent_context_items=RECENT)
    held: list[Item] = []
    for turn in range(9):
        said = [user(chosen.choice(WORDS)) for _ in range(chosen.randint(1, 2))]
        answered = [assistant(chosen.choice(["ok", "ok", "yes", f"Answer {turn}."]))]
        take_part = client or chosen.choice(CLIENTS)
        for _ in range(chosen.randint(1, 2)):  # some calls are sent twice
            await take_part(door, held, said, f"t{turn}", answered)
        held += [*said, *answered]
    assert [record["item"] for record in await events(door)] == held


@pytest.mark.parametrize("seed", range(4))
async def test_a_session_whose_older_context_became_a_summary_still_holds_each_item_once(
    opened: Opened, seed: int
) -> None:
    chosen = random.Random(seed)
    door = opened(recent_context_items=RECENT, max_input_tok=200)
    held: list[Item] = []
    compacted = 0
    for turn in range(15):
        said = [user(chosen.choice(WORDS)) for _ in range(chosen.randint(1, 2))]
        answered = [assistant(chosen.choice(["ok", "yes", f"Answer {turn}."]))]
        await chosen.choice([commits, echoes, resends, cuts, is_brief])(
            door, held, said, f"t{turn}", answered
        )
        held += [*said, *answered]
        if turn % 4 == 3:
            compacted += (await door("memory_run_maintenance", session_id="s1"))["compacted_items"]
    assert [record["item"] for record in await events(door)] == held
    assert compacted
