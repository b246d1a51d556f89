"""People look back: at sessions, at what was said in them, and at what was recalled and why."""

from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.styles.turns.options import TraceOptions, TurnOptions
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.turns.talk import ask, memory, say

pytestmark = pytest.mark.anyio


async def pages(door: Door, tool: str, member: str, **arguments: Any) -> list[dict[str, Any]]:
    """All pages of a listing, each of at most `limit`."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        body = await door(tool, **arguments, **({"cursor": cursor} if cursor else {}))
        assert len(body[member]) <= arguments["limit"]
        found += body[member]
        if body["next_cursor"] is None:
            return found
        cursor = body["next_cursor"]


async def asked(door: Door, question: str, **more: Any) -> dict[str, Any]:
    """What is prepared for a question, with its trace written."""
    async with door.at_work():
        return await ask(door, question, **more)


async def recalls(door: Door, session: str = "s1", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await door("memory_list_recalls", session_id=session, **more))[
        "recalls"
    ]
    return found


async def test_sessions_are_listed_the_latest_first_a_page_at_a_time(
    door: Door, clock: FakeClock
) -> None:
    for number in range(7):
        await say(
            door,
            "t1",
            f"I like number {number}.",
            session=f"s{number}",
            user_id="ada" if number % 2 else "",
        )
        clock.advance(seconds=60)
    await say(door, "t2", "My name is Ada.", answer="Hello.", session="s3", user_id="ada")
    found = await pages(door, "memory_list_sessions", "sessions", limit=3)
    assert [one["session_id"] for one in found] == ["s3", "s6", "s5", "s4", "s2", "s1", "s0"]
    assert (found[0]["turns"], found[0]["items"], found[0]["user_id"]) == (2, 3, "ada")
    assert found[0]["facts"] >= 1


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"q": "TRIP"}, ["my-trip", "trip_%"]),
        ({"q": "%"}, ["trip_%"]),
        ({"q": "zz"}, []),
        ({"user_id": "bo"}, ["food"]),
    ],
)
async def test_sessions_are_found_by_a_part_of_their_name_and_by_their_user(
    door: Door, clock: FakeClock, given: dict[str, Any], names: list[str]
) -> None:
    for session, user in (("trip_%", "ada"), ("food", "bo"), ("my-trip", "ada")):
        await say(door, "t1", "I like tea.", session=session, user_id=user)
        clock.advance(seconds=1)
    found = await door("memory_list_sessions", **given)
    assert [one["session_id"] for one in found["sessions"]] == names


async def test_what_was_said_is_listed_the_latest_first_a_page_at_a_time(
    door: Door, clock: FakeClock
) -> None:
    for number in range(4):
        await say(door, f"t{number}", f"Question {number}?", answer=f"Answer {number}.")
        clock.advance(seconds=1)
    found = await pages(door, "memory_list_turns", "items", session_id="s1", limit=3)
    expected = [
        text for number in (3, 2, 1, 0) for text in (f"Answer {number}.", f"Question {number}?")
    ]
    assert [one["text"] for one in found] == expected
    assert [one["turn_id"] for one in found] == ["t3", "t3", "t2", "t2", "t1", "t1", "t0", "t0"]
    assert found[0]["role"] == "assistant"
    assert found[0]["item"]["content"] == [{"type": "output_text", "text": "Answer 3."}]
    assert (
        await pages(door, "memory_list_turns", "items", session_id="s1", turn_id="t2", limit=3)
        == found[2:]
    )
    assert (await door("memory_list_turns", session_id="s1", turn_id="never"))["items"] == []


async def test_each_user_of_a_shared_session_is_named_as_the_speaker(door: Door) -> None:
    await say(door, "t1", "Good morning.", answer="Hello.", user_id="ada")
    await say(door, "t2", "Good morning to you.", user_id="bo")
    found = await door("memory_list_turns", session_id="s1")
    assert [(one["role"], one["speaker"]) for one in found["items"]] == [
        ("user", "bo"),
        ("assistant", ""),
        ("user", "ada"),
    ]


async def test_a_long_text_is_cut_and_says_so(door: Door) -> None:
    await say(door, "t1", "word " * 20_000)
    [item] = (await door("memory_list_turns", session_id="s1"))["items"]
    assert (len(item["text"]), item["cut"], item["item"]) == (4000, True, None)


async def test_what_was_forgotten_is_not_listed(door: Door) -> None:
    await say(door, "t1", "My secret hobby is fencing.")
    await say(door, "t2", "I like tea.")
    await door("memory_forget", session_id="s1", turn_ids=["t1"])
    found = await door("memory_list_turns", session_id="s1")
    assert [one["turn_id"] for one in found["items"]] == ["t2"]


async def test_a_recall_tells_what_the_prompt_had_and_why(door: Door) -> None:
    await say(door, "t1", "I am allergic to peanuts, and I prefer trains to planes.", user_id="ada")
    prepared = await asked(
        door, "Am I allergic to peanuts?", session="s2", turn_id="t9", user_id="ada"
    )
    [told] = await recalls(door, "s2")
    assert (told["turn_id"], told["user_id"]) == ("t9", "ada")
    assert told["context_token_count"] == prepared["context_token_count"]
    shown = [one for one in told["candidates"] if one["shown"]]
    block = memory(prepared)
    assert [one["text"] for one in shown if one["kind"] == "turn"] == [
        turn["text"] for turn in block["turns"]
    ]
    assert [one["text"] for one in shown if one["kind"] == "fact"] == [
        fact["value"] for fact in block["facts"]
    ]
    assert {(one["session_id"], one["turn_id"]) for one in shown} == {("s1", "t1")}
    held = (await door("memory_list_facts", session_id="s2", user_id="ada"))["facts"]
    assert {one["fact_id"] for one in shown if one["kind"] == "fact"} <= {
        one["fact_id"] for one in held
    }
    assert all(one["score"] > 0 and one["parts"] for one in shown)
    assert told["limits"]["block_tok"] > 0


async def test_a_recall_tells_why_something_was_left_out(door: Door) -> None:
    await say(door, "t1", "The blue heron nests by the old mill.")
    await asked(door, "Where does the blue heron nest?", turn_id="t2")
    [told] = await recalls(door)
    [one] = told["candidates"]
    assert (one["shown"], one["reason"], one["ref"]) == (False, "in the recent context", "t1-in-0")
    assert one["text"] == "The blue heron nests by the old mill."


async def test_a_snippet_is_told_as_the_prompt_had_it(door: Door) -> None:
    long = (
        "filler words here. " * 60 + "The treasure is under the oak. " + "more filler words. " * 60
    )
    await say(door, "t1", long, user_id="ada")
    prepared = await asked(
        door, "Where is the treasure under the oak?", session="s2", user_id="ada"
    )
    [told] = await recalls(door, "s2")
    [turn] = memory(prepared)["turns"]
    assert turn["text"].startswith("…")
    assert [
        one["text"] for one in told["candidates"] if one["shown"] and one["kind"] == "turn"
    ] == [turn["text"]]


async def test_what_was_forgotten_since_is_told_without_its_text(door: Door) -> None:
    await say(door, "t1", "I am allergic to peanuts.", user_id="ada")
    await asked(door, "Am I allergic to peanuts?", session="s2", user_id="ada")
    await door("memory_forget", session_id="s1", user_id="ada", turn_ids=["t1"])
    [told] = await recalls(door, "s2")
    assert told["candidates"]
    assert all(one["text"] is None for one in told["candidates"])


async def test_a_fact_says_what_became_of_it_since(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", "My favorite color is green.", user_id="ada")
    await asked(door, "What is my favorite color?", session="s2", user_id="ada")
    clock.advance(days=1)
    await say(door, "t2", "My favorite color is blue now.", user_id="ada")
    [told] = await recalls(door, "s2")
    assert ("green", "superseded") in {
        (one["text"], one["state"]) for one in told["candidates"] if one["kind"] == "fact"
    }


async def test_recalls_of_one_turn_are_found_and_paged(door: Door, clock: FakeClock) -> None:
    for number in range(5):
        await asked(door, "Anything?", turn_id=f"t{number % 2}")
        clock.advance(seconds=1)
    found = await pages(door, "memory_list_recalls", "recalls", session_id="s1", limit=2)
    assert [one["turn_id"] for one in found] == ["t0", "t1", "t0", "t1", "t0"]
    assert len(await recalls(door, turn_id="t0")) == 3


async def test_traces_go_after_their_days(door: Door, clock: FakeClock) -> None:
    await asked(door, "First?", turn_id="t1")
    clock.advance(days=10)
    await asked(door, "Second?", turn_id="t2")
    clock.advance(days=5)
    await door.jobs["turns.forget_traces"].run(Scope(door.caller.tenant, "default"), "")
    assert [one["turn_id"] for one in await recalls(door)] == ["t2"]


async def test_traces_can_be_switched_off(
    database: Any, clock: FakeClock, tokens: Any, meter: RecordingMeter, scope: Scope
) -> None:
    door = open_door(
        database, clock, tokens, meter, scope, turns=TurnOptions(trace=TraceOptions(days=0))
    )
    await asked(door, "Anything?")
    assert await recalls(door) == []


@pytest.mark.parametrize(
    "tool", ["memory_list_sessions", "memory_list_turns", "memory_list_recalls"]
)
@pytest.mark.parametrize("cursor", ["x", "W10=", "WyIyMDI2IiwgImEiXQ==", "0", "-1", "99999999999"])
async def test_a_cursor_that_no_page_had_is_refused(door: Door, tool: str, cursor: str) -> None:
    await door.refuses("INVALID_ARGUMENT", tool, cursor=cursor)


async def test_a_trace_does_not_outlive_the_purge_of_its_project(
    door: Door, admin: asyncpg.Connection, scope: Scope
) -> None:
    async with door.at_work():
        await admin.execute(
            "INSERT INTO purges VALUES ($1, '*', 0, gen_random_uuid(), now())", scope.tenant
        )
        await ask(door, "Anything?")
    await admin.execute("DELETE FROM purges")
    assert await recalls(door) == []
