"""What a client gets to send to its model: its input, what memory knows about it, and never more
than it asked for."""

from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.styles.turns import block
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    assistant,
    counted,
    memory,
    row_counts,
    say,
    snapshot,
    texts,
    unblocked,
    user,
    values,
)

BEFORE = "memory_before_turn"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"current_input": "hello"}, [user("hello")]),
        ({"current_input": user("hello")}, [user("hello")]),
        ({"current_input": {"role": "user", "content": "hello"}}, [user("hello")]),
        ({"current_input": [user("a"), user("b")]}, [user("a"), user("b")]),
        ({"current_input": None, "current_input_text": "hello"}, [user("hello")]),
        ({"current_input": [], "current_input_text": "hello"}, [user("hello")]),
        ({"current_input": "", "current_input_text": "hello"}, [user("hello")]),
        ({"current_input_text": "hello"}, [user("hello")]),
        ({"current_input": "first", "current_input_text": "hello"}, [user("first")]),
        ({"conversation_items": [user("a"), assistant("b"), user("c")]}, [user("a"), assistant("b"), user("c")]),
        ({"conversation_items": [user("a")], "current_input": "ignored"}, [user("a")]),
        ({"conversation_items": [user("a"), user("b"), user("c")], "current_input_start": 1, "current_input_count": 1},
         [user("a"), user("b")]),
        ({"conversation_items": [user("a"), user("b")], "current_input_start": -3}, [user("a"), user("b")]),
        ({"conversation_items": [user("a"), user("b")], "current_input_start": 1, "current_input_count": 99},
         [user("a"), user("b")]),
        ({"conversation_items": [user("a"), user("b")], "current_input_start": 1.0, "current_input_count": -1},
         [user("a"), user("b")]),
    ],
)  # fmt: skip
async def test_every_way_to_give_an_input_is_taken(
    door: Door, given: dict[str, Any], expected: list[Any]
) -> None:
    prepared = await door(BEFORE, **given)
    assert prepared["input_items"] == expected
    assert prepared["context_token_count"] == counted(expected)
    assert (prepared["recall_fact_ids"], prepared["recall_insight_ids"]) == ([], [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "current_input is required when conversation_items is empty"),
        ({"current_input": None}, "current_input is required"),
        ({"current_input": "  ", "current_input_text": " "}, "current_input is required"),
        ({"current_input": 5}, "current_input must be an array of response items or a string"),
        ({"current_input": True}, "current_input must be an array of response items or a string"),
        ({"current_input": [5]}, r"current_input[0]"),
        ({"current_input": {}}, r"current_input[0]"),
        ({"current_input": {"role": "user"}}, "current_input[0].content is required"),
        ({"current_input": {"role": "banana", "content": "x"}}, "current_input[0].role"),
        ({"conversation_items": [user("a")], "current_input_start": 1}, "current_input_start"),
        ({"conversation_items": "text"}, "conversation_items"),
        ({"conversation_items": [user("a"), {"role": 5}]}, "conversation_items[1]"),
        ({"current_input": "x", "session_id": "a\nb"}, "session_id"),
        ({"current_input": "x", "session_id": "é" * 65}, "session_id"),
        ({"current_input": "x", "session_id": 5}, "session_id"),
        ({"current_input": "x", "turn_id": "a\x00b"}, "turn_id"),
        ({"current_input": "x", "max_input_tok": "many"}, "max_input_tok"),
        ({"current_input": "x", "current_input_start": 2**60}, "current_input_start"),
        ({"current_input": "x", "unknown": 1}, "unknown"),
        ({"current_input": "x", "plugin": "none"}, "available plugins"),
    ],
)
async def test_what_cannot_be_right_is_refused_for_good(
    door: Door, given: dict[str, Any], said: str
) -> None:
    # a fault of the input is never worth trying again
    assert said in (await door.refuses("INVALID_ARGUMENT", BEFORE, **given))["message"]


async def test_blank_names_are_the_defaults_and_null_is_absent(door: Door) -> None:
    await door("memory_after_turn", turn_id="t1", input_items=[user("My name is Ada.")])
    for blank in (
        {},
        {"session_id": " ", "project": "", "user_id": " "},
        {"session_id": None, "project": None},
    ):
        prepared = await door(BEFORE, current_input="What is my name?", max_input_tok=0, **blank)
        assert values(prepared) == ["Ada"]
    assert "/memory/default" in [
        entry["path"]
        for entry in (await door("file_list", project="default", path="/memory"))["entries"]
    ]


async def test_a_turn_id_is_made_when_none_is_given_and_kept_when_one_is(
    door: Door, clock: FakeClock
) -> None:
    milliseconds = int(clock.now().timestamp() * 1000)
    made = [(await ask(door, "hi", turn_id=blank))["turn_id"] for blank in ("", " ", None)]
    assert len(set(made)) == 3
    for turn in made:
        word, time, tail = turn.split("-")
        assert (word, time, len(bytes.fromhex(tail))) == ("turn", str(milliseconds), 3)
    assert (await ask(door, "hi", turn_id="t 7"))["turn_id"] == "t 7"


async def test_the_order_is_memory_then_history_then_recent_then_the_input(opened: Opened) -> None:
    door = opened(recent_context_items=2)
    await say(door, "t1", "My name is Ada and I keep bees in Zanzibar.", answer="Bees, how nice.")
    await say(door, "t2", "Something else now.", answer="Go on.")
    history = [user("An older message of the client."), assistant("Noted.")]
    prepared = await door(
        BEFORE,
        session_id="s1",
        conversation_items=[*history, user("Where do I keep my bees?")],
        current_input_start=2,
    )
    items = prepared["input_items"]
    assert texts(items[:1]) == [block.POLICY]
    assert [item["role"] for item in items] == [
        "developer",
        "user",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert texts(items[2:]) == [
        "An older message of the client.",
        "Noted.",
        "Something else now.",
        "Go on.",
        "Where do I keep my bees?",
    ]
    shown = memory(prepared)["turns"]
    assert [one["text"] for one in shown] == [
        "My name is Ada and I keep bees in Zanzibar.",
        "Bees, how nice.",
    ]
    assert {(one["session"], one["turn"], one["time"]) for one in shown} == {
        ("s1", "t1", "2026-01-05 12:00Z")
    }


async def test_what_was_said_before_the_window_of_a_client_stands_before_it(door: Door) -> None:
    for turn in range(4):
        await say(door, f"t{turn}", f"Remark {turn}.", answer=f"Reply {turn}.")
    prepared = await door(
        BEFORE,
        session_id="s1",
        conversation_items=[user("Remark 2."), assistant("Reply 2."), user("Go on?")],
        current_input_start=2,
    )
    said = [f"{word} {turn}." for turn in range(4) for word in ("Remark", "Reply")]
    assert texts(prepared["input_items"]) == [*said, "Go on?"]


async def test_an_answer_without_content_is_not_recalled(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    for turn, answer in enumerate(("Noted.", "OK, got it!", "Gern!", "Gern, Zanzibar ist warm.")):
        await say(door, f"t{turn}", f"Bees {turn} live in Zanzibar.", answer=answer)
    prepared = await ask(door, "Which bees live in Zanzibar?", explain=True)
    said = [one["text"] for one in memory(prepared)["turns"]]
    assert set(said) == {
        *(f"Bees {turn} live in Zanzibar." for turn in range(4)),
        "Gern, Zanzibar ist warm.",
    }


async def test_nothing_is_shown_twice(door: Door) -> None:
    # the caller's own history, the recent context and recall know of each other
    await say(door, "t1", "Bees hum in Zanzibar.", answer="Bees, how nice.")
    await say(door, "t2", "And goats in Zanzibar.", answer="Goats too.")
    history = [user("Bees hum in Zanzibar."), assistant("Bees, how nice.")]
    prepared = await door(
        BEFORE,
        session_id="s1",
        conversation_items=[*history, user("What hums in Zanzibar?")],
        current_input_start=2,
    )
    assert texts(prepared["input_items"]) == [
        "Bees hum in Zanzibar.",
        "Bees, how nice.",
        "And goats in Zanzibar.",
        "Goats too.",
        "What hums in Zanzibar?",
    ]


async def test_nothing_relevant_makes_no_memory_block(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I live in Oslo. I keep bees in Zanzibar.", answer="How nice.")
    prepared = await ask(door, "Explain quantum chromodynamics, please")
    assert prepared["input_items"] == [user("Explain quantum chromodynamics, please")]
    assert prepared["recall_fact_ids"] == []


async def test_the_token_count_is_that_of_the_items_by_the_published_tokenizer(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=3)
    for turn in range(8):
        await say(
            door,
            f"t{turn}",
            f"Fact {turn}: メモ 🐝 <b>bees</b> \\u003c {'honey ' * turn}",
            answer=f'"{turn}"',
        )
    await say(door, "t9", "My name is Ada & I like <memory_reference>.")
    for limit in (0, 100_000, 600, 400, 200):
        prepared = await ask(
            door, "What did I say of bees and honey, and what is my name?", max_input_tok=limit
        )
        assert prepared["context_token_count"] == counted(prepared["input_items"])
        assert prepared["context_token_count"] <= (limit or 120_000)


async def test_over_the_limit_recent_context_goes_first_oldest_first_then_the_least_relevant_memory(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=4)
    await say(
        door,
        "t0",
        "My name is Ada. I keep bees in Zanzibar.",
        "Zanzibar has goats too.",
        answer="I see.",
    )
    for turn in range(1, 4):
        await say(door, f"t{turn}", f"Remark number {turn}", answer=f"Reply number {turn}")
    question = "What is my name, and what do I keep in Zanzibar?"
    whole = await ask(door, question)
    shown_before, recent_before = _parts(whole)
    assert (len(recent_before), len(shown_before) >= 2) == (4, True)
    for limit in range(whole["context_token_count"], counted([user(question)]) - 1, -7):
        prepared = await ask(door, question, max_input_tok=limit)
        shown, recent = _parts(prepared)
        assert counted(prepared["input_items"]) == prepared["context_token_count"] <= limit
        assert prepared["input_items"][-1] == user(question)
        assert recent == recent_before[len(recent_before) - len(recent) :]
        assert shown == shown_before[: len(shown)]
        assert (
            len(recent) >= 2 or not shown
        )  # the last exchange is worth more than what is recalled
    assert (shown, recent) == ([], [])


def _parts(prepared: dict[str, Any]) -> tuple[list[Any], list[str]]:
    held = memory(prepared)
    return [*held["facts"], *held["turns"]], texts(unblocked(prepared)[:-1])


async def test_an_input_that_alone_is_over_the_limit_is_refused_saying_by_how_much(
    door: Door,
) -> None:
    await say(door, "t1", "My name is Ada.")
    long = user("word " * 500)
    tokens = counted([long])
    body = await door.refuses(
        "INVALID_ARGUMENT", BEFORE, session_id="s1", current_input=[long], max_input_tok=300
    )
    assert (
        f"{tokens} tokens, which is {tokens - 300} more than max_input_tok (300)" in body["message"]
    )
    assert (await door(BEFORE, session_id="s1", current_input=[long], max_input_tok=tokens))[
        "input_items"
    ] == [long]


async def test_a_call_and_its_output_are_kept_or_dropped_together(opened: Opened) -> None:
    door = opened(recent_context_items=3)
    call = {"type": "function_call", "name": "f", "call_id": "c1", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    await door(
        "memory_after_turn",
        session_id="s1",
        turn_id="t1",
        input_items=[user("Do it."), call, output],
        output_items=[assistant("It is done."), assistant("Anything else?")],
    )
    kinds = [item["type"] for item in (await ask(door, "Thanks"))["input_items"]]
    assert kinds == ["message", "message", "message"]


async def test_nothing_is_shown_without_what_it_needs_where_that_is_too_long_to_be_read(
    opened: Opened,
) -> None:
    door = opened()
    reasoning = {
        "type": "reasoning",
        "id": "r1",
        "summary": [{"type": "summary_text", "text": "It needs a file."}],
    }
    call = {
        "type": "function_call",
        "name": "write_file",
        "call_id": "c1",
        "arguments": "word " * 20_000,
    }
    output = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    for session, outputs in {
        "call": [reasoning, call, output],
        "reasoning": [reasoning | {"summary": [{"type": "summary_text", "text": "word " * 20_000}]},
                      call | {"arguments": "{}"}, output],
        "output": [reasoning, call | {"arguments": "{}"}, output | {"output": "word " * 20_000}],
    }.items():  # fmt: skip
        said = {
            "input_items": [user("Write it.")],
            "output_items": [*outputs, assistant("It is written.")],
        }
        await door("memory_after_turn", session_id=session, turn_id="t1", **said)
        prepared = await ask(door, "Thanks", session=session, max_input_tok=4000)
        assert unblocked(prepared) == [assistant("It is written."), user("Thanks")], session
        prepared = await ask(door, "Thanks", session=session, max_input_tok=90_000)
        assert unblocked(prepared)[-6:-2] == [user("Write it."), *outputs], session


async def test_reading_writes_nothing(door: Door, admin: asyncpg.Connection) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello.", user_id="u1")
    counts, rows = await row_counts(admin), await snapshot(admin)
    await ask(door, "What is my name?", user_id="u1", explain=True)
    await ask(door, "What is my name?", session="never seen", user_id="unknown")
    await door("memory_list_dir_with_abstract", session_id="s1")
    await door("memory_list_dir_with_abstract", session_id="never seen")
    await door("memory_list_dir_with_abstract", session_id="s1", path="/elsewhere")
    assert await row_counts(admin) == counts
    assert await snapshot(admin) == rows


async def test_explain_says_of_every_candidate_why_it_is_shown_or_not(opened: Opened) -> None:
    door = opened(recent_context_items=2, recall_turns_limit=2)
    for turn in range(5):
        await say(
            door,
            f"t{turn}",
            f"My bees number {turn} live in Zanzibar.",
            answer=f"Hive {turn} it is.",
        )
    await say(door, "t9", "My name is Ada.", answer="Zanzibar bees live well.")
    prepared = await ask(
        door, "What is my name and where do my bees live in Zanzibar?", explain=True
    )
    candidates = prepared["explanation"]["candidates"]
    shown = [one for one in candidates if one["shown"]]
    assert [one["ref"] for one in shown if one["kind"] != "turn"] == prepared["recall_fact_ids"]
    shown_turns = [one["ref"].rsplit("-", 2)[0] for one in shown if one["kind"] == "turn"]
    assert sorted(shown_turns) == [one["turn"] for one in memory(prepared)["turns"]]
    assert {one["time"] for one in shown if one["kind"] == "turn"} == {"2026-01-05T12:00:00Z"}
    reasons = {one["ref"]: one["reason"] for one in candidates if not one["shown"]}
    assert reasons["t9-out-0"] == "in the recent context"
    assert (
        "over recall_turns_limit" in reasons.values()
        or "nearly the same as an earlier item" in reasons.values()
    )
    assert all(
        abs(sum(one["parts"].values()) - one["score"]) < 0.01
        for one in shown
        if one["kind"] == "turn"
    )
    assert (await ask(door, "hi"))["explanation"] is None


async def test_explanation_lists_an_item_once_that_is_shown_as_an_answer(opened: Opened) -> None:
    door = opened(recent_context_items=0, recall_turns_limit=1)
    for turn in range(3):
        said = f"My bees number {turn} live in Zanzibar."
        await say(door, f"t{turn}", said, answer=f"Hive {turn} of Zanzibar, then.")
    prepared = await ask(door, "Where do my bees live in Zanzibar?", explain=True)
    listed = [one for one in prepared["explanation"]["candidates"] if one["kind"] == "turn"]
    refs = [one["ref"] for one in listed]
    assert sorted(refs) == sorted(f"t{turn}-{way}-0" for turn in range(3) for way in ("in", "out"))
    assert ["answer to an item that is shown"] in [
        [*one["parts"]] for one in listed if one["shown"]
    ]


async def test_explain_tells_facts_that_were_left_out_from_turns(opened: Opened) -> None:
    door = opened(recent_context_items=0, recall_tok_max=100)
    await say(door, "t1", *(f"I like Zanzibar thing {number} {'x' * 60}" for number in range(6)))
    prepared = await ask(door, "What things do I like in Zanzibar?", explain=True)
    left_out = [one for one in prepared["explanation"]["candidates"] if not one["shown"]]
    listed = await door("memory_list_facts", session_id="s1")
    records = {fact["record_id"] for fact in listed["facts"]}
    assert {one["kind"] for one in left_out if one["ref"] in records} == {"fact"}


async def test_a_turn_says_when_it_was_said_and_by_whom(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    meta = {"occurred_at": "2023-05-07T10:00:00+02:00", "speaker": "Caroline"}
    items = [user("The pottery class in Zanzibar was fun.", metadata=meta)]
    await door("memory_after_turn", session_id="s1", turn_id="t1", input_items=items)
    [shown] = memory(await ask(door, "How was the pottery class in Zanzibar?"))["turns"]
    assert (shown["speaker"], shown["time"]) == ("Caroline", "2023-05-07 10:00+02:00")


@pytest.mark.parametrize("levels", [50, 120, 200, 240])
async def test_an_item_as_deep_as_what_is_stored_comes_back_or_is_refused_but_never_breaks_its_session(
    door: Door, levels: int
) -> None:
    deep: Any = "bottom"
    for _ in range(levels):
        deep = [deep]
    item = user("A deep one.") | {"extra": deep}
    outcome = await door.dispatch.call(
        door.caller, "memory_after_turn", {"session_id": "s1", "turn_id": "t1", "input_items": [item]},
        surface="test", request_id="test",
    )  # fmt: skip
    assert outcome.error is None or outcome.body["code"] == "INVALID_ARGUMENT"
    prepared = await ask(door, "hello")
    assert (item in prepared["input_items"]) is (outcome.error is None)


async def test_projects_and_tenants_share_nothing(door: Door, other_scope: Scope) -> None:
    await say(door, "t1", "My name is Ada. I keep bees in Zanzibar.", user_id="u1")
    other = door.as_tenant(other_scope)
    for prepared in (
        await ask(
            door,
            "What is my name, and what about my bees in Zanzibar?",
            user_id="u1",
            project="other",
        ),
        await ask(other, "What is my name, and what about my bees in Zanzibar?", user_id="u1"),
    ):
        assert len(prepared["input_items"]) == 1
    assert (await other("memory_list_dir_with_abstract", session_id="s1"))["summaries"] == []


async def test_explain_says_which_limit_left_something_out(opened: Opened) -> None:
    door = opened(recent_context_items=2)
    for turn in range(6):
        await say(
            door,
            f"t{turn}",
            f"Bees number {turn} live in Zanzibar, beside the old harbour.",
            answer="Yes.",
        )
    question = "Which bees live in Zanzibar?"
    roomy = (await ask(door, question, explain=True))["explanation"]["limits"]
    assert (roomy["block_cut_by"], roomy["history_dropped"], roomy["recent_dropped"]) == (
        None,
        0,
        0,
    )
    assert 0 < roomy["block_tok"] <= roomy["block_tok_max"]
    tight = (await ask(door, question, explain=True, max_input_tok=40))["explanation"]["limits"]
    assert tight["block_cut_by"] == "max_input_tok"
    small = opened(recent_context_items=2, recall_tok_max=120)
    assert (await ask(small, question, explain=True))["explanation"]["limits"][
        "block_cut_by"
    ] == "recall_tok_max"
