"""A client that sends back what memory_before_turn gave it stores nothing twice, whatever was
forgotten meanwhile."""

from typing import Any

import pytest

from tests.door import Door
from tests.styles.turns.talk import texts

AFTER, BEFORE = "memory_after_turn", "memory_before_turn"

SAID = (
    "I live in Kiel.",
    "My alarm code is 5521, and I moved to Rome last week. The garden is large.",
    "My sister Eva is a nurse.",
)


async def turn(door: Door, said: str, *, forget: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask, perhaps forget something, and store the turn with the input as it was prepared."""
    who = {"session_id": "s1", "user_id": "ada"}
    prepared = await door(BEFORE, **who, current_input=said)
    if forget:
        await door("memory_forget", **who, **forget)
    answer = {"role": "assistant", "content": f"Noted: {said[:12]}"}
    return await door(
        AFTER,
        **who,
        turn_id=prepared["turn_id"],
        input_items=prepared["input_items"],
        output_items=[answer],
    )


@pytest.mark.parametrize(
    "forget",
    [
        {"query": "the alarm code"},
        {"query": "5521"},
        {"query": "Rome"},
        {"query": "I live in Kiel."},
        {"turn_ids": [1]},
        {"turn_ids": [0, 2]},
        {"turn_ids": [1], "erase": True},
    ],
)
@pytest.mark.parametrize("is_between", [False, True])
async def test_nothing_is_stored_twice_after_something_was_forgotten(
    door: Door, forget: dict[str, Any], is_between: bool
) -> None:
    turns = [(await turn(door, said))["turn_id"] for said in SAID]
    given = forget | {"turn_ids": [turns[at] for at in forget.get("turn_ids", ())]}
    if not is_between:
        await door("memory_forget", session_id="s1", user_id="ada", **given)
    stored = [
        await turn(door, "What should I cook?", forget=given if is_between else None),
        await turn(door, "And for dessert?"),
        await turn(door, "What should I cook?"),
        await turn(door, "Thanks."),
    ]
    assert [one["stored_items"] for one in stored] == [2] * 4
    said = texts(
        (await door(BEFORE, session_id="s1", user_id="ada", current_input="Hm."))["input_items"]
    )
    assert said.count("My sister Eva is a nurse.") == (2 not in forget.get("turn_ids", ()))


async def test_history_of_before_and_after_a_forget_is_known_together(door: Door) -> None:
    """A client may hold some items from before the forget and others from after it."""
    kept: list[dict[str, Any]] = []
    who = {"session_id": "s1", "user_id": "ada"}
    for number, said in enumerate((*SAID, "What should I cook?", "And for dessert?")):
        mine = {"role": "user", "content": said}
        answer = {"role": "assistant", "content": f"Noted: {number}"}
        done = await door(
            AFTER, **who, turn_id=f"t{number}", input_items=[*kept, mine], output_items=[answer]
        )
        assert done["stored_items"] == 2
        kept += [mine, answer]
        if number == 1:
            await door("memory_forget", **who, query="the alarm code")
            prepared = await door(BEFORE, **who, current_input="x")
            kept = prepared["input_items"][:-1]
        if number == 2:
            await door("memory_forget", **who, turn_ids=["t2"])
