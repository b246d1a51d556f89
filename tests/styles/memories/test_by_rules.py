"""Memories that rules find in a conversation, where no model is configured."""

import pytest

from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.memories.telling import events, says, tell

pytestmark = pytest.mark.anyio

ALEX = "Hi, I'm Alex. I'm a vegetarian and allergic to nuts."


async def test_what_a_user_says_becomes_memories(call: Door) -> None:
    added = await tell(call, ALEX, metadata={"session_id": "session_123", "source": "chat"})
    assert says(added) == ["Name is Alex", "Is vegetarian", "Allergic to nuts"]
    assert {one["event"] for one in added["results"]} == {"ADD"}
    assert added["message"] == "Added 3 memories successfully"
    assert len({one["id"] for one in added["results"]}) == 3
    listed = (await call("memories_list", user_id="alex"))["results"]
    assert says({"results": listed}) == ["Allergic to nuts", "Is vegetarian", "Name is Alex"]
    assert listed[0] == {
        "id": added["results"][2]["id"],
        "memory": "Allergic to nuts",
        "user_id": "alex",
        "created_at": "2026-01-05T12:00:00Z",
        "updated_at": "2026-01-05T12:00:00Z",
        "metadata": {"session_id": "session_123", "source": "chat"},
    }


async def test_what_is_known_is_not_added_again(call: Door) -> None:
    await tell(call, ALEX)
    again = await tell(call, ALEX)
    assert again == {"results": [], "message": "Added 0 memories successfully"}
    assert len((await call("memories_list", user_id="alex"))["results"]) == 3


@pytest.mark.parametrize(
    ("said", "memories"),
    [
        ("I do not like coffee.", ["Dislikes coffee"]),
        ("I have a dog called Rex.", ["Has a dog called Rex"]),
        ("Ich habe einen Hund namens Rex.", ["Ich habe einen Hund namens Rex"]),
        ("My name is Sam now.", ["Name is Sam"]),
        ("Je m'appelle Sam maintenant.", ["Je m'appelle Sam"]),
        ("I have a dog.", ["Has a dog"]),
        ("I never eat fish.", ["I never eat fish"]),
        ("I'm a vegetarian and allergic to nuts.", ["Is vegetarian", "Allergic to nuts"]),
    ],
)
async def test_a_sentence_makes_one_memory_of_each_thing_that_it_says(
    call: Door, said: str, memories: list[str]
) -> None:
    assert says(await tell(call, said)) == memories


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            "My email is a@example.org.",
            "My work email is b@example.org.",
            ["Email is a@example.org", "Work email is b@example.org"],
        ),
        (
            "My work email is b@example.org.",
            "My private email is a@example.org.",
            ["Private email is a@example.org", "Work email is b@example.org"],
        ),
        (
            "My work email is a@example.org.",
            "My work email is b@example.org.",
            ["Work email is b@example.org"],
        ),
        (
            "My email is a@example.org.",
            "My new email is b@example.org.",
            ["Email is b@example.org"],
        ),
        ("I like pizza.", "I became vegan and no longer eat pizza.", ["Is vegan"]),
        ("I like pizza.", "I stopped eating pizza.", []),
        ("I like pizza.", "My sister no longer eats pizza.", ["Likes pizza"]),
        ("I like pizza.", "I no longer eat pasta.", ["Likes pizza"]),
    ],
)
async def test_a_memory_ends_for_what_is_said_of_the_same_thing_alone(
    call: Door, first: str, second: str, expected: list[str]
) -> None:
    await tell(call, first)
    await tell(call, second)
    listed = says(await call("memories_list", user_id="alex"))
    assert sorted(text for text in listed if "sister" not in text and "pasta" not in text) == (
        expected
    )


async def test_a_conversation_may_tell_nothing(call: Door) -> None:
    for said in ("What time is it?", ""):
        assert await tell(call, said) == {
            "results": [],
            "message": "No new information found to store",
        }
    none = await call("memories_add", user_id="alex", messages=[])
    assert none["message"] == "No new information found to store"


async def test_only_what_the_user_says_counts(call: Door) -> None:
    messages = [
        {"role": "system", "content": "My name is System."},
        {"role": "assistant", "content": "My name is Bot."},
        {"role": "user", "content": [{"type": "text", "text": "My name is Ada."}], "timestamp": 1},
    ]
    added = await call("memories_add", user_id="alex", messages=messages)
    assert says(added) == ["Name is Ada"]


async def test_a_new_value_updates_the_memory_under_its_id(call: Door, clock: FakeClock) -> None:
    first = await tell(call, "I live in California.")
    clock.advance(days=1)
    moved = await tell(call, "I moved to San Francisco.")
    assert events(moved) == [("UPDATE", "Lives in San Francisco")]
    assert moved["results"][0]["id"] == first["results"][0]["id"]
    assert moved["message"] == "Added 0 memories successfully"
    held = (await call("memories_list", user_id="alex"))["results"]
    assert [(one["memory"], one["created_at"], one["updated_at"]) for one in held] == [
        ("Lives in San Francisco", "2026-01-05T12:00:00Z", "2026-01-06T12:00:00Z")
    ]


async def test_what_is_taken_back_or_contradicted_is_deleted(call: Door) -> None:
    await tell(call, "I like pizza. I'm vegetarian.")
    assert events(await tell(call, "I'm no longer vegetarian.")) == [("DELETE", "")]
    assert sorted(events(await tell(call, "I hate pizza."))) == [
        ("ADD", "Dislikes pizza"),
        ("DELETE", ""),
    ]
    assert says(await call("memories_list", user_id="alex")) == ["Dislikes pizza"]


async def test_what_was_deleted_comes_back_only_when_it_is_said_again(call: Door) -> None:
    old = await tell(call, "I'm vegetarian.")
    await call("memories_delete", user_id="alex", memory_id=old["results"][0]["id"])
    await tell(call, "I like tea.")
    assert says(await call("memories_list", user_id="alex")) == ["Likes tea"]
    again = await tell(call, "I'm vegetarian.")
    assert events(again) == [("ADD", "Is vegetarian")]
    assert again["results"][0]["id"] != old["results"][0]["id"]
    history = await call("memories_history", user_id="alex", memory_id=old["results"][0]["id"])
    assert [one["event"] for one in history["results"]] == ["ADD", "DELETE"]


async def test_secrets_and_errands_of_the_day_are_no_memories(call: Door) -> None:
    for said in ("I like sk-ant-api03-Zx9Kq2Lm8Vb4Tn6Wp1Rs3Yd5.", "Today I need milk."):
        assert (await tell(call, said))["results"] == []


@pytest.mark.parametrize(
    ("said", "memory"),
    [
        ("I am Alex and I love hiking", "Name is Alex"),
        ("I am Alex and I love hiking", "Likes hiking"),
        (
            "I'm working on a Python project using FastAPI",
            "Working on a Python project using FastAPI",
        ),
        ("I prefer dark mode in all my applications", "Prefers dark mode in all applications"),
        ("I like walking my dog", "Likes walking their dog"),
        ("I prefer watching My Fair Lady", "Prefers watching My Fair Lady"),
        ("I moved from Berlin to Paris", "Lives in Paris"),
        ("I have two cats.", "Has two cats"),
        ("I have an old dog.", "Has an old dog"),
        ("I have a dog.", "Has a dog"),
        ("My wife is called Ana.", "Wife is Ana"),
        ("I have a cat named Tom.", "Has a cat called Tom"),
        ("I'm lactose intolerant.", "Is lactose intolerant"),
        ("I'm retired.", "Is retired"),
        ("I don't eat meat.", "Eats no meat"),
    ],
)
async def test_a_memory_begins_with_the_fact(call: Door, said: str, memory: str) -> None:
    assert memory in says(await tell(call, said))


@pytest.mark.parametrize(
    ("said", "memories"),
    [
        ("Ich heiße Ada.", ["Ich heiße Ada"]),
        (
            "Ich trinke gern grünen Tee und wohne in Köln",
            ["Ich trinke gern grünen Tee", "Ich wohne in Köln"],
        ),
        (
            "Ich wohne in Köln und arbeite als Koch bei Ford.",
            ["Ich wohne in Köln", "Ich arbeite als Koch"],
        ),
        (
            "Ich bin allergisch gegen Nüsse und Milch.",
            [f"Ich bin allergisch gegen {it}" for it in ("Nüsse", "Milch")],
        ),
        ("Ich mag Jazz und Rock, und du?", ["Ich mag Jazz und Rock"]),
        ("Ich wohne in Köln und Anna wohnt in Bonn", ["Ich wohne in Köln"]),
        ("ich bin nach Köln gezogen", ["Ich bin nach Köln gezogen"]),
        ("Ich esse kein Fleisch mehr.", ["Ich esse kein Fleisch"]),
        ("Ich wäre gern reich und lebe in Monaco", []),
        ("J'habite à Lyon.", ["J'habite à Lyon"]),
        ("我喜欢绿茶。", ["我喜欢绿茶"]),
    ],
)
async def test_a_memory_in_another_language_stays_in_the_users_words(
    call: Door, said: str, memories: list[str]
) -> None:
    assert says(await tell(call, said)) == memories


async def test_what_is_said_in_another_language_is_updated_contradicted_and_taken_back(
    call: Door,
) -> None:
    home = await tell(call, "Ich wohne in Köln.")
    moved = await tell(call, "I moved from Köln to Paris.")
    assert (events(moved), moved["results"][0]["id"]) == (
        [("UPDATE", "Lives in Paris")],
        home["results"][0]["id"],
    )
    await tell(call, "Ich mag Jazz. Ich bin Vegetarierin.")
    assert sorted(events(await tell(call, "Ich hasse Jazz."))) == [
        ("ADD", "Ich hasse Jazz"),
        ("DELETE", ""),
    ]
    assert events(await tell(call, "I like Jazz.")) == [("ADD", "Likes Jazz"), ("DELETE", "")]
    assert events(await tell(call, "Ich bin keine Vegetarierin mehr.")) == [("DELETE", "")]
    assert sorted(says(await call("memories_list", user_id="alex"))) == [
        "Likes Jazz",
        "Lives in Paris",
    ]


async def test_what_has_no_phrase_is_told_as_it_was_said(call: Door) -> None:
    rows = [
        ("Please answer in French.", ["Please answer in French"]),
        ("I have asthma.", ["I have asthma"]),
        ("We release on first Mondays.", ["We release on first Mondays"]),
        ("I started hiking in 2015", ["I started hiking in 2015"]),
        ("Never page the night shift.", ["Never page the night shift"]),
        ("I never drink coffee.", ["I never drink coffee"]),
        ("I take insulin every morning.", ["I take insulin every morning"]),
        ("I have asthma. I have two cats.", ["I have asthma", "Has two cats"]),
    ]
    wrong = []
    for number, (said, memories) in enumerate(rows):
        for expected in (memories, []):  # the same again is nothing new
            found = says(await tell(call, said, user=f"u{number}"))
            wrong += [(said, found)] if found != expected else []
    assert wrong == []
