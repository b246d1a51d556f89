"""The profile of a person: told with every question, to that person's sessions alone."""

import orjson

from memsvc.core.facts import PROFILE_CLASSES
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ENCODING, ask, memory, profile, say

SAID = (
    "I'm allergic to peanuts. My name is Ada. I take metformin. I am a vegetarian."
    " I have asthma. Always answer in French."
)
CLASSES = ["answer_language", "name", "allergy", "condition", "medication", "diet"]
OFF_TOPIC = "How many moons does Jupiter have?"


async def test_a_profile_is_told_whatever_is_asked_and_is_no_recall(opened: Opened) -> None:
    door = opened(profile_tok_max=1000)
    await say(door, "t1", SAID, user_id="ada", session="old")
    for question in (OFF_TOPIC, "Thanks!", "What should I cook tonight?"):
        prepared = await ask(door, question, session="new", user_id="ada")
        assert [name for name, _ in profile(prepared)] == CLASSES, question
        assert prepared["recall_fact_ids"] == []
        body = memory(prepared)
        assert (body["facts"], body["turns"]) == ([], [])
    for stranger in ("bo", ""):
        assert profile(await ask(door, OFF_TOPIC, session="new", user_id=stranger)) == []
    named = await ask(door, "What is my name?", session="new", user_id="ada")
    [name] = [fact["id"] for fact in memory(named)["profile"] if fact["class"] == "name"]
    assert named["recall_fact_ids"] == [name]
    assert memory(named)["facts"] == []
    assert (
        profile(await ask(door, OFF_TOPIC, session="new", user_id="ada", sources=["turns"])) == []
    )


async def test_new_facts_of_a_profile_come_behind_those_of_their_class(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(profile_tok_max=1000)
    await say(door, "t1", "I'm allergic to peanuts. My name is Ada.", user_id="ada")
    before = profile(await ask(door, OFF_TOPIC, user_id="ada"))
    clock.advance(days=1)
    await say(door, "t2", "I'm allergic to wool.", user_id="ada")
    after = profile(await ask(door, OFF_TOPIC, user_id="ada"))
    assert after[:-1] == before
    assert "wool" in after[-1][1]
    then = clock.now().replace(hour=0).isoformat()
    assert profile(await ask(door, OFF_TOPIC, user_id="ada", as_of=then)) == before


async def test_instructions_give_way_first_and_the_profile_says_how_many(opened: Opened) -> None:
    door = opened(profile_tok_max=120)
    for number in range(12):
        await say(door, f"t{number}", f"Always end with the number {number}.", user_id="ada")
    await say(door, "t-last", "I'm allergic to peanuts.", user_id="ada")
    *told, left_out = memory(await ask(door, OFF_TOPIC, user_id="ada"))["profile"]
    assert told[-1]["class"] == "allergy"
    assert left_out["left_out"] == f"{13 - len(told)} more: memory_profile"
    instructions = [one for one in told if one["class"] == "instruction"]
    assert len(ENCODING.encode_ordinary(orjson.dumps(instructions).decode())) <= 120 + len(told)
    assert profile(await ask(opened(profile_tok_max=0), OFF_TOPIC, user_id="ada")) == []


async def test_what_keeps_a_person_safe_is_told_however_long_the_rest_is(opened: Opened) -> None:
    door = opened(profile_tok_max=60)
    said = [
        "My name is Ada Fischer and I live in Hamburg with my wife and our two old dogs.",
        "Always answer in English, whatever language I use with you in a chat.",
        "My pronouns are she/her.",
        "I'm allergic to peanuts, walnuts and sesame, which nobody in this office can believe.",
        "I have type 2 diabetes.",
        "I take metformin every morning.",
        "I'm vegan.",
        "Never use emojis.",
    ]
    for number, text in enumerate(said):
        await say(door, f"t{number}", text, user_id="ada")
    told = memory(await ask(door, OFF_TOPIC, session="new", user_id="ada"))["profile"]
    words = str(told)
    for safe in ("peanuts", "walnuts", "sesame", "diabetes", "metformin", "vegan"):
        assert safe in words
    assert "Hamburg" not in words
    assert "left_out" in told[-1]


async def test_nothing_about_health_is_told_where_somebody_else_speaks(opened: Opened) -> None:
    door = opened(profile_tok_max=1000)
    await say(door, "t1", SAID, user_id="ada", session="own")
    await say(door, "t1", "Good morning everybody.", user_id="bo", session="shared")
    alone = await ask(door, OFF_TOPIC, session="own", user_id="ada")
    for _ in range(2):
        shared = await ask(door, OFF_TOPIC, session="shared", user_id="ada")
        assert [name for name, _ in profile(shared)] == ["answer_language", "name"]
        await say(door, "t2", "It is me.", user_id="ada", session="shared")
    assert [name for name, _ in profile(alone)] == CLASSES


async def test_classes_can_be_left_out_by_the_service_and_by_a_session(opened: Opened) -> None:
    door = opened(profile={"classes": ["name", "diet"]}, profile_tok_max=1000)
    await say(door, "t1", SAID, user_id="ada", session="s1")
    assert [name for name, _ in profile(await ask(door, OFF_TOPIC, user_id="ada"))] == [
        "name",
        "diet",
    ]
    await _write_policy(door, ["allergy"])
    [(name, _)] = profile(await ask(door, OFF_TOPIC, user_id="ada"))
    assert name == "allergy"
    assert len(profile(await ask(door, OFF_TOPIC, session="s2", user_id="ada"))) == 2
    await _write_policy(door, list(PROFILE_CLASSES))
    assert len(profile(await ask(door, OFF_TOPIC, user_id="ada"))) == len(CLASSES)
    await door.refuses("INVALID_CONTENT", "file_write", **_policy(["shoe size"]))


def _policy(classes: list[str]) -> dict[str, str]:
    return {
        "project": "default",
        "path": "/memory/s1/meta/policy.json",
        "content": orjson.dumps({"profile": {"classes": classes}}).decode(),
        "mode": "TRUNCATE",
    }


async def _write_policy(door: Door, classes: list[str]) -> None:
    await door("file_write", **_policy(classes))
