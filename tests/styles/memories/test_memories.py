"""Memories as they are searched, listed, changed one by one, and hidden when nobody changed them
for long."""

import asyncio
from typing import Any

import pytest

from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.memories.options import MemoriesOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter
from tests.styles.memories.telling import says, tell

pytestmark = pytest.mark.anyio


async def search(call: Door, query: str, **more: Any) -> list[str]:
    return says(await call("memories_search", user_id="alex", query=query, **more))


@pytest.mark.parametrize(
    ("said", "question", "memory"),
    [
        (
            "I'm a vegetarian and allergic to nuts.",
            "What are my food preferences?",
            "Is vegetarian",
        ),
        ("I am Alex and I love hiking", "outdoor activities", "Likes hiking"),
        (
            "I'm working on a Python project using FastAPI",
            "What programming language do I use?",
            "Working on a Python project using FastAPI",
        ),
        (
            "I prefer dark mode in all my applications",
            "UI preferences",
            "Prefers dark mode in all applications",
        ),
        ("I like Swimming", "does she swim?", "Likes Swimming"),
        ("I like rain.", "What do I like?", "Likes rain"),
        ("I live in Rome.", "Where do I live?", "Lives in Rome"),
    ],
)
async def test_a_search_needs_no_word_of_the_memory(
    call: Door, said: str, question: str, memory: str
) -> None:
    await tell(call, said, "My wife is called Ana.", "My phone number is +49 170 1234567.")
    assert memory in await search(call, question)
    assert await search(call, "quantum chromodynamics") == []


async def test_a_search_is_over_one_user_and_within_its_limit(call: Door) -> None:
    await tell(call, *(f"I like band {number}" for number in range(8)))
    await tell(call, "I like another band", user="bob")
    assert len(await search(call, "which band?")) == 5
    assert len(await search(call, "which band?", limit=3)) == 3
    found = await search(call, "which band?", limit=100)
    assert len(found) == 8
    assert "Likes another band" not in found


async def test_by_meaning_a_search_finds_what_shares_no_word(
    database: Database,
    clock: FakeClock,
    tokens: Any,
    meter: RecordingMeter,
    scope: Scope,
) -> None:
    embedder = FakeEmbedder(alike={"volvo": "automobile"})
    door = open_door(database, clock, tokens, meter, scope, embedder=embedder)
    await tell(door, "I drive a Volvo.", "I like tea.")
    assert await search(door, "automobile") == []
    await door.work()
    assert (await search(door, "automobile"))[0] == "Car is Volvo"


async def test_memories_are_listed_newest_first(call: Door, clock: FakeClock) -> None:
    for name in ("tea", "jazz", "rain"):
        await tell(call, f"I like {name}.")
        clock.advance(seconds=1)
    listed = await call("memories_list", user_id="alex")
    assert says(listed) == ["Likes rain", "Likes jazz", "Likes tea"]
    assert says(await call("memories_list", user_id="alex", limit=2)) == [
        "Likes rain",
        "Likes jazz",
    ]
    first = listed["results"][-1]
    await call("memories_update", user_id="alex", memory_id=first["id"], memory="Likes green tea")
    assert says(await call("memories_list", user_id="alex")) == [
        "Likes rain",
        "Likes jazz",
        "Likes green tea",
    ]


async def test_a_changed_memory_is_found_by_what_it_says_now(call: Door) -> None:
    memory = (await tell(call, "I like tea."))["results"][0]["id"]
    await call(
        "memories_update",
        user_id="alex",
        memory_id=memory,
        memory="Likes hiking",
        metadata={"a": [1]},
    )
    assert await search(call, "tea") == []
    assert await search(call, "outdoor") == ["Likes hiking"]
    one = await call("memories_get", user_id="alex", memory_id=memory)
    assert (one["memory"], one["metadata"]) == ("Likes hiking", {"a": [1]})
    same = await call("memories_update", user_id="alex", memory_id=memory, memory="Likes hiking")
    assert same["metadata"] == {"a": [1]}
    for bad in ("", "x" * 1025, "my password is hunter2", "a\x00b"):
        await call.refuses(
            "INVALID_ARGUMENT", "memories_update", user_id="alex", memory_id=memory, memory=bad
        )


async def test_a_deleted_memory_is_gone_for_everything_but_its_history(call: Door) -> None:
    memory = (await tell(call, "I like tea."))["results"][0]["id"]
    await call("memories_delete", user_id="alex", memory_id=memory)
    assert await search(call, "tea") == []
    assert says(await call("memories_list", user_id="alex")) == []
    for tool in ("memories_get", "memories_delete"):
        await call.refuses("NOT_FOUND", tool, user_id="alex", memory_id=memory)
    await call.refuses("NOT_FOUND", "memories_update", user_id="alex", memory_id=memory, memory="x")
    steps = await call("memories_history", user_id="alex", memory_id=memory)
    assert [one["event"] for one in steps["results"]] == ["ADD", "DELETE"]


async def test_all_memories_of_one_user_go_at_once(call: Door) -> None:
    await tell(call, "I like tea. I'm vegetarian.")
    await tell(call, "I like tea.", user="bob")
    assert (await call("memories_delete_all", user_id="alex"))["message"] == "Deleted 2 memories"
    assert (await call("memories_delete_all", user_id="alex"))["message"] == "Deleted 0 memories"
    assert says(await call("memories_list", user_id="bob")) == ["Likes tea"]


async def test_what_nobody_changed_for_long_is_hidden_and_not_deleted(
    call: Door, clock: FakeClock
) -> None:
    await call("memories_put_settings", decayDays=6)
    memory = (await tell(call, "I like tea."))["results"][0]["id"]
    clock.advance(days=6)
    assert await search(call, "tea") == ["Likes tea"]
    clock.advance(seconds=1)
    assert await search(call, "tea") == []
    assert says(await call("memories_list", user_id="alex")) == []
    assert (await call("memories_get", user_id="alex", memory_id=memory))["memory"] == "Likes tea"
    await call("memories_put_settings", decayDays=0)
    assert await search(call, "tea") == ["Likes tea"]


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("I like tea.", "I like tea!"),
        ("I'm allergic to nuts.", "I am allergic to nuts."),
        ("I live in Oslo.", "I live in Oslo."),
        ("Ich bin allergisch gegen Nüsse.", "Ich bin allergisch gegen Nüsse"),
        ("Me gusta el té.", "me gusta el té"),
        ("我喜欢茶。", "我喜欢茶"),
        ("コーヒーが好きです。", "コーヒーが好きです"),
    ],
)
async def test_a_hidden_memory_that_is_said_again_is_visible_again(
    call: Door, clock: FakeClock, first: str, again: str
) -> None:
    await call("memories_put_settings", decayDays=6)
    [memory] = (await tell(call, first))["results"]
    clock.advance(days=7)
    assert (await call("memories_list", user_id="alex"))["results"] == []
    told = await tell(call, again)
    assert told["results"] == [memory | {"event": "UPDATE"}]
    [listed] = (await call("memories_list", user_id="alex"))["results"]
    assert (listed["id"], listed["memory"]) == (memory["id"], memory["memory"])
    assert listed["created_at"] < listed["updated_at"]
    clock.advance(days=5)
    assert len((await call("memories_list", user_id="alex"))["results"]) == 1
    assert (await tell(call, again))["results"] == []


async def test_a_hidden_memory_that_is_denied_is_not_brought_back(
    call: Door, clock: FakeClock
) -> None:
    await call("memories_put_settings", decayDays=6)
    await tell(call, "I like tea.", "I like jazz.")
    clock.advance(days=7)
    await tell(call, "I like tea.", "I no longer like tea.")
    assert says(await call("memories_list", user_id="alex")) == []
    await call("memories_put_settings", decayDays=0)
    assert says(await call("memories_list", user_id="alex")) == ["Likes jazz"]


async def test_what_is_changed_is_fresh_again(call: Door, clock: FakeClock) -> None:
    await call("memories_put_settings", decayDays=6)
    memory = (await tell(call, "I like tea."))["results"][0]["id"]
    clock.advance(days=5)
    await call("memories_update", user_id="alex", memory_id=memory, memory="Likes green tea")
    clock.advance(days=5)
    assert await search(call, "tea") == ["Likes green tea"]
    clock.advance(days=2)
    assert await search(call, "tea") == []


async def test_hidden_memories_do_not_stand_in_the_way_of_others(
    database: Database, clock: FakeClock, tokens: Any, meter: RecordingMeter, scope: Scope
) -> None:
    door = open_door(database, clock, tokens, meter, scope, memories=MemoriesOptions(decay_days=6))
    for at in range(3):
        await tell(door, *(f"I like tea {at}{number}" for number in range(50)))
    clock.advance(days=7)
    await tell(door, "I like black tea of the lowlands")
    assert len(await search(door, "tea")) == 1
    await door("memories_put_settings", decayDays=0)
    assert len(await search(door, "tea", limit=1000)) == 151


async def test_conversations_at_once_that_say_the_same_make_one_memory_each(call: Door) -> None:
    said = "Hi, I'm Alex. I'm a vegetarian and allergic to nuts."
    await asyncio.gather(*(tell(call, said) for _ in range(50)))
    assert len((await call("memories_list", user_id="alex"))["results"]) == 3


async def test_a_user_has_no_more_memories_than_there_may_be(
    database: Database, clock: FakeClock, tokens: Any, meter: RecordingMeter, scope: Scope
) -> None:
    door = open_door(
        database, clock, tokens, meter, scope, memories=MemoriesOptions(per_user_max=2)
    )
    await tell(door, "I like tea. I'm vegetarian.")
    await door.refuses("QUOTA_EXCEEDED", "memories_add", **_like("jazz"))
    assert len((await door("memories_list", user_id="alex"))["results"]) == 2
    await tell(door, "I'm vegan.")
    await door("memories_add", **_like("jazz") | {"user_id": "bob"})


def _like(what: str) -> dict[str, Any]:
    return {"user_id": "alex", "messages": [{"role": "user", "content": f"I like {what}."}]}


@pytest.mark.parametrize(
    ("options", "code", "arguments"),
    [
        ({"messages_max": 1}, "INVALID_ARGUMENT", {"messages": _like("a")["messages"] * 2}),
        ({"conversation_chars_max": 10}, "PAYLOAD_TOO_LARGE", {}),
        ({"metadata_bytes_max": 10}, "INVALID_ARGUMENT", {"metadata": {"a": "x" * 10}}),
        ({}, "INVALID_ARGUMENT", {"metadata": {"a": ["\x00"]}}),
    ],
)
async def test_every_limit_is_kept(
    database: Database,
    clock: FakeClock,
    tokens: Any,
    meter: RecordingMeter,
    scope: Scope,
    options: dict[str, int],
    code: str,
    arguments: dict[str, Any],
) -> None:
    door = open_door(database, clock, tokens, meter, scope, memories=MemoriesOptions(**options))
    await door.refuses(code, "memories_add", **_like("a very long walk") | arguments)
