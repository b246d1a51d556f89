"""Older context gives way to one event that says what was said; nothing is lost, and nothing is
shown twice."""

from typing import Any

import orjson
import pytest

from memsvc.core.scope import Scope
from memsvc.store import context as running
from memsvc.store.database import Database, Tx
from memsvc.store.locks import session_lock
from memsvc.styles.turns.follow_up import ITEM_INTERVAL
from memsvc.styles.turns.maintenance.compaction import current_summary, replace_summary
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter
from tests.styles.turns import folders
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    assistant,
    counted,
    events,
    file_paths,
    file_records,
    file_text,
    memory,
    say,
    texts,
    unblocked,
    user,
)

RUN = "memory_run_maintenance"
CURRENT = "/memory/s1/runtime/context/current.jsonl"
POINTER = "/memory/s1/runtime/context/latest_compact_pointer.json"
COMPACT = "/memory/s1/events/compact/2026/01/05/compact-20260105.jsonl"


@pytest.fixture
def short(opened: Opened) -> Door:
    """A service that keeps two items in the running context."""
    return opened(recent_context_items=2, max_input_tok=100)


async def talk(door: Door, turns: int, first: int = 1) -> None:
    for turn in range(first, first + turns):
        await say(
            door,
            f"t{turn}",
            f"My sister Person{turn} lives in City{turn} since {1990 + turn}.",
            answer=f"Noted {turn}.",
        )


async def test_six_turns_over_a_small_limit_leave_a_summary_and_the_latest_items(
    short: Door, meter: RecordingMeter
) -> None:
    await talk(short, 6)
    done = await short(RUN, session_id="s1")
    assert done["compacted_items"] == 10
    [line] = await file_records(short, COMPACT)
    assert line["type"] == "compact_summary"
    assert "City" in line["summary"]
    assert "compacted" not in line["summary"]
    assert (line["covers"]["items"], line["covers"]["first"], line["covers"]["last"]) == (
        10,
        "t1-in-0",
        "t5-out-0",
    )
    context = await file_records(short, CURRENT)
    assert [record["type"] for record in context] == [
        "compact_summary",
        "input_item",
        "output_item",
    ]
    assert orjson.loads(await file_text(short, POINTER)) == {
        "last_compact_at": "2026-01-05T12:00:00Z",
        "compact_file": COMPACT,
    }
    state = orjson.loads(await file_text(short, "/memory/s1/meta/state.json"))
    assert state["last_compact_at"] == "2026-01-05T12:00:00Z"
    metrics = orjson.loads(await file_text(short, "/memory/s1/meta/metrics.json"))
    assert (metrics["compaction_count"], metrics["compacted_items"]) == (1, 10)
    assert meter.total("mcp_memory_compaction_total") == 1
    assert len(await events(short)) == 12


async def test_a_session_within_its_limits_is_left_as_it_is(door: Door) -> None:
    await talk(door, 6)
    assert (await door(RUN, session_id="s1"))["compacted_items"] == 0
    assert POINTER not in await file_paths(door, "/memory/s1")
    assert not [path for path in await file_paths(door, "/memory/s1") if "/compact/" in path]


async def test_more_items_than_twice_the_recent_ones_are_compacted_whatever_they_cost(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=4)
    await talk(door, 4)
    assert (await door(RUN, session_id="s1"))["compacted_items"] == 0
    await say(door, "t9", "One more.")
    assert (await door(RUN, session_id="s1"))["compacted_items"] == 5


async def test_tokens_over_the_threshold_are_compacted_however_few_the_items(
    opened: Opened,
) -> None:
    door = opened(max_input_tok=1000, compact_threshold=0.5)
    for turn in range(4):
        await say(door, f"t{turn}", f"Mira moved to Lisbon in {2000 + turn}. " + "blah " * 150)
    assert (await door(RUN, session_id="s1"))["compacted_items"] == 3


async def test_the_prompt_shows_the_summary_once_as_data_that_is_never_stored(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=2)
    await talk(door, 6)
    await door(RUN, session_id="s1")
    prepared = await ask(door, "Good morning!")
    shown = memory(prepared)["summary"]
    [line] = await file_records(door, COMPACT)
    assert shown["text"] == line["summary"]
    assert (shown["id"], shown["from"]) == (line["id"], "2026-01-05T12:00:00Z")
    assert prepared["context_token_count"] == counted(prepared["input_items"])
    assert texts(unblocked(prepared)) == [
        "My sister Person6 lives in City6 since 1996.",
        "Noted 6.",
        "Good morning!",
    ]
    await door(
        "memory_after_turn",
        session_id="s1",
        turn_id="t7",
        input_items=prepared["input_items"],
        output_items=[assistant("Good morning.")],
    )
    assert texts([record["item"] for record in (await events(door))[-2:]]) == [
        "Good morning!",
        "Good morning.",
    ]


async def test_a_summary_never_breaks_the_limit_and_goes_before_what_the_caller_sends(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=2)
    await talk(door, 12)
    await door(RUN, session_id="s1")
    history = [user("An older question."), assistant("An older answer.")]
    for limit in (100, 150, 200, 300, 400, 600, 1000, 3000):
        prepared = await door(
            "memory_before_turn",
            session_id="s1",
            conversation_items=[*history, user("Good morning!")],
            current_input_start=2,
            max_input_tok=limit,
        )
        assert prepared["context_token_count"] == counted(prepared["input_items"]) <= limit
        assert texts(unblocked(prepared))[-1] == "Good morning!"
        if "summary" in memory(prepared):
            assert "An older question." in texts(prepared["input_items"])
    assert "summary" in memory(prepared)


async def test_what_gave_way_is_still_recalled_by_what_it_says(opened: Opened) -> None:
    door = opened(recent_context_items=2)
    await talk(door, 40)
    await door(RUN, session_id="s1")
    prepared = await ask(door, "When did Person7 move to City7?")
    assert "My sister Person7 lives in City7 since 1997." in [
        one["text"] for one in memory(prepared)["turns"]
    ]


async def test_summaries_roll_on_and_the_latest_stands_for_all_before(opened: Opened) -> None:
    door = opened(recent_context_items=2)
    await talk(door, 6)
    await door(RUN, session_id="s1")
    await talk(door, 6, first=7)
    assert (await door(RUN, session_id="s1"))["compacted_items"] == 12
    first, second = await file_records(door, COMPACT)
    assert set(first["summary"].splitlines()) & set(second["summary"].splitlines())
    context = await file_records(door, CURRENT)
    assert [record["id"] for record in context] == [second["id"], "t12-in-0", "t12-out-0"]
    assert await door(RUN, session_id="s1") == {
        **await door(RUN, session_id="s1"),
        "compacted_items": 0,
    }


async def test_a_caller_that_sends_its_own_history_sees_no_item_twice_after_a_compaction(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=2)
    await talk(door, 6)
    await door(RUN, session_id="s1")
    history = [record["item"] for record in await events(door)]
    prepared = await door(
        "memory_before_turn",
        session_id="s1",
        conversation_items=[*history, user("And now?")],
        current_input_start=len(history),
    )
    assert texts(unblocked(prepared)) == [*texts(history), "And now?"]


async def test_a_call_stays_with_its_output(opened: Opened) -> None:
    door = opened(recent_context_items=3)
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    await talk(door, 3)
    await door("memory_after_turn", session_id="s1", turn_id="t9", input_items=[user("Look there.")],
               output_items=[call, output, assistant("I saw it."), assistant("Done.")])  # fmt: skip
    await door(RUN, session_id="s1")
    context = await file_records(door, CURRENT)
    assert [record.get("item", {}).get("type") for record in context] == [
        None,
        "message",
        "message",
    ]


async def test_a_call_stays_with_its_reasoning(opened: Opened) -> None:
    door = opened(recent_context_items=30, max_input_tok=400)
    reasoning = {
        "type": "reasoning",
        "id": "r1",
        "summary": [{"type": "summary_text", "text": "word " * 400}],
    }
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    await door("memory_after_turn", session_id="s1", turn_id="t9", input_items=[user("Look there.")],
               output_items=[reasoning, call, output, assistant("I saw it.")])  # fmt: skip
    await door(RUN, session_id="s1")
    context = await file_records(door, CURRENT)
    assert [record.get("item", {}).get("type") for record in context] == [None, "message"]


async def test_pictures_are_not_read_to_compact_or_list_what_holds_them(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, loaded = opened(recent_context_items=4), list[int]()
    read = running.read

    async def counted(tx: Tx, *where: Any, **limits: Any) -> running.Context:
        found = await read(tx, *where, **limits)
        loaded.append(sum(len(item.line) for item in found.items))
        return found

    monkeypatch.setattr(running, "read", counted)
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{'A' * 1_500_000}"}
    for turn in range(9):
        await door("memory_after_turn", session_id="s1", turn_id=f"t{turn}",
                   input_items=[user("See.") | {"content": [picture]}])  # fmt: skip
    await door("file_list", project="default", path="/memory/s1/meta")
    assert max(loaded) < 2_000_000
    await door("file_list", project="default", path="/memory/s1/runtime/context")
    await door(RUN, session_id="s1")
    assert max(loaded) <= running.LINES_BYTES_MAX
    shown = await door("file_stat", project="default", path=CURRENT)
    assert 3_000_000 < shown["size"] < running.LINES_BYTES_MAX + 2000
    marks = orjson.loads(await file_text(door, "/memory/s1/meta/watermarks.json"))
    assert (marks["last_raw_event_id"], marks["runtime_context_count"]) == ("t8-in-0", 3)


async def test_the_follow_up_of_turns_compacts_without_being_asked(
    opened: Opened, meter: RecordingMeter
) -> None:
    door = opened(recent_context_items=2)
    await talk(door, ITEM_INTERVAL // 2)
    assert ("turns.follow_up", "s1") in await door.work()
    assert meter.total("mcp_memory_compaction_total") == 1
    assert (await file_records(door, CURRENT))[0]["type"] == "compact_summary"


async def test_a_model_may_word_a_summary_anew_while_it_stands(
    opened: Opened, database: Database, scope: Scope, clock: FakeClock
) -> None:
    door = opened(recent_context_items=2)
    await talk(door, 6)
    await door(RUN, session_id="s1")
    async with database.begin(scope, locks=[session_lock("s1")]) as tx:
        standing = await current_summary(tx, "s1")
        assert standing is not None
        assert [one.text for one in standing.messages][:2] == [
            "My sister Person1 lives in City1 since 1991.",
            "Noted 1.",
        ]
        assert await replace_summary(
            tx, "s1", standing.event, "Five sisters, five cities.", now=clock.now()
        )
    assert (
        memory(await ask(door, "Good morning!"))["summary"]["text"] == "Five sisters, five cities."
    )
    await talk(door, 6, first=7)
    await door(RUN, session_id="s1")
    async with database.begin(scope, locks=[session_lock("s1")]) as tx:
        assert not await replace_summary(tx, "s1", standing.event, "Too late.", now=clock.now())
    assert (
        "Five sisters, five cities." in memory(await ask(door, "Good morning!"))["summary"]["text"]
    )


async def test_a_long_past_is_compacted_in_steps(opened: Opened, meter: RecordingMeter) -> None:
    door = opened(recent_context_items=2)
    for turn in range(3):
        await say(door, f"t{turn}", *[f"Note {turn}.{n}: Person{n} met Ada." for n in range(700)])
    assert (await door(RUN, session_id="s1"))["compacted_items"] == 2098
    assert meter.total("mcp_memory_compaction_total") == 3


async def test_what_is_forgotten_is_no_longer_told_by_the_summary_nor_by_any_later_one(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=2)
    await say(door, "t0", "My name is Ludmilla and I live in Tromso.", answer="Noted.")
    await talk(door, 6)
    await door(RUN, session_id="s1")
    told = memory(await ask(door, "Good morning!"))["summary"]["text"]
    assert "City3" in told
    assert "Ludmilla" in told
    await door("memory_forget", session_id="s1", turn_ids=["t3"], fact_ids=["user_name"])
    told = memory(await ask(door, "Good morning!"))["summary"]["text"]
    assert "City3" not in told
    assert "Ludmilla" not in told
    assert "City2" in told
    await talk(door, 6, first=7)
    await door(RUN, session_id="s1")
    told = memory(await ask(door, "Good morning!"))["summary"]["text"]
    assert "City3" not in told
    assert "Ludmilla" not in told


async def test_older_turns_that_are_imported_later_are_in_the_summary_too_and_nothing_is_shown_beside_it(
    short: Door,
) -> None:
    await talk(short, 6)
    await short(RUN, session_id="s1")
    old = [
        folders.turn("old1", "The lighthouse is red.", "Noted."),
        folders.turn("old2", "It opens at six.", "Noted."),
    ]
    log = folders.jsonl([line for lines in old for line in lines])
    await short("memory_import_session", session_id="s1", files={"log.jsonl": log})
    await short(RUN, session_id="s1")
    context = await file_records(short, CURRENT)
    assert [record["id"] for record in context[1:]] == ["t6-in-0", "t6-out-0"]
    assert context[0]["type"] == "compact_summary"
    covers = context[0]["covers"]
    assert (covers["items"], covers["first"], covers["last"]) == (14, "old1-in-0", "t5-out-0")
