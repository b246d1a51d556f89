"""memory_profile: what is known of a person, in one read."""

from typing import Any

import pytest

from memsvc.styles.turns.options import ProfileOptions
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ENCODING, say

SAID = (
    "I'm allergic to peanuts. My name is Ada. I live in Kobe. I work at Initech."
    " Always answer in French. Never use emojis."
)


async def profile(door: Door, user: str = "ada", **more: Any) -> dict[str, Any]:
    return await door("memory_profile", user_id=user, **more)


def topics(told: dict[str, Any]) -> list[str]:
    return [fact["topic"] for fact in told["facts"]]


async def test_instructions_come_first_then_the_person_then_facts_by_topic(opened: Opened) -> None:
    door = opened()
    await say(door, "t1", SAID, user_id="ada")
    told = await profile(door)
    assert topics(told)[:4] == ["instruction", "answer_language", "name", "allergy"]
    others = topics(told)[4:]
    assert others == sorted(others)
    assert len(others) >= 2
    assert any("Kobe" in fact["statement"] for fact in told["facts"][4:])
    assert told["text"].splitlines() == ['project default, user "ada":'] + [
        f"{fact['topic']}: {fact['statement']}" for fact in told["facts"]
    ]
    assert told["left_out"] == 0
    assert topics(await profile(door, "bo")) == []


async def test_what_is_told_stays_where_it_was_when_more_is_known(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened()
    await say(door, "t1", SAID, user_id="ada", session="one")
    before = (await profile(door))["text"].splitlines()
    assert (await profile(door))["text"].splitlines() == before
    clock.advance(days=1)
    await say(door, "t2", "I'm allergic to wool.", user_id="ada", session="two")
    after = (await profile(door))["text"].splitlines()
    assert [line for line in after if line in before] == before
    assert len(after) == len(before) + 1


async def test_a_replaced_fact_is_not_told(opened: Opened, clock: FakeClock) -> None:
    door = opened()
    await say(door, "t1", "I live in Kobe.", user_id="ada")
    clock.advance(days=1)
    await say(door, "t2", "I live in Oslo.", user_id="ada")
    text = (await profile(door))["text"]
    assert "Oslo" in text
    assert "Kobe" not in text


@pytest.mark.parametrize("max_tokens", [1, 5, 20, 60, 200])
async def test_the_text_never_has_more_tokens_and_instructions_give_way_before_health(
    opened: Opened, max_tokens: int
) -> None:
    door = opened()
    await say(door, "t0", "I'm allergic to peanuts.", user_id="ada")
    for number in range(12):
        await say(door, f"t{number + 1}", f"Always end with the number {number}.", user_id="ada")
    await say(door, "t-last", "I live in Kobe. My dog is called Rex.", user_id="ada")
    everything = await profile(door)
    told = await profile(door, max_tokens=max_tokens)
    tokens = len(ENCODING.encode_ordinary(told["text"]))
    assert told["token_count"] == tokens <= max_tokens
    assert len(told["facts"]) + told["left_out"] == len(everything["facts"])
    assert [fact for fact in everything["facts"] if fact in told["facts"]] == told["facts"]
    if "instruction" in topics(told):
        assert "allergy" in topics(told)
    if told["left_out"]:
        assert "home" not in topics(told)


async def test_a_class_that_no_profile_may_tell_is_not_told(opened: Opened) -> None:
    door = opened(profile=ProfileOptions(classes=("name",)))
    await say(door, "t1", SAID, user_id="ada")
    assert "name" in topics(await profile(door))
    assert not {"allergy", "instruction", "answer_language"} & {*topics(await profile(door))}


async def test_the_last_bound_is_that_of_a_user(opened: Opened) -> None:
    door = opened()
    await door.refuses("INVALID_ARGUMENT", "memory_profile", user_id=" ")
    await door.refuses("INVALID_ARGUMENT", "memory_profile", user_id="ada", max_tokens=0)


async def test_corrected_value_is_told_with_its_topic_once(opened: Opened) -> None:
    door = opened()
    await say(door, "t1", "I live in Kobe.", user_id="ada")
    [fact] = (await door("memory_list_facts", session_id="s1", user_id="ada"))["facts"]
    await door(
        "memory_correct_fact",
        session_id="s1",
        user_id="ada",
        record_id=fact["record_id"],
        value="Neu-Ulm",
    )
    text = (await profile(door))["text"]
    assert "home: " in text
    assert "home: home" not in text
    assert "Neu-Ulm" in text
