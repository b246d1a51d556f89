"""Shadow mode: what a client's own memory came to beside what this service would, and nothing else
kept of it."""

import asyncpg
import pytest

from memsvc.styles.turns.options import ShadowOptions
from tests.door import Door, Refused
from tests.fakes import RecordingMeter
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, assistant, file_records, file_text, say, user

COMPARE = "memory_shadow_compare"
REPORT = "/memory/s1/shadow/2026/01/05/report-20260105.jsonl"
RAW = "/memory/s1/events/raw/2026/01/05/log-20260105.jsonl"
L0 = "memory_tiers/L0/2026/01/facts-202601.jsonl"


@pytest.fixture
def shadowed(opened: Opened) -> Door:
    return opened(shadow=ShadowOptions(enabled=True))


async def test_shadow_mode_is_off_unless_asked_for(opened: Opened) -> None:
    await opened().refuses("NOT_FOUND", COMPARE, session_id="s1", current_input="Hello?")


async def test_two_sides_that_recall_the_same_agree(shadowed: Door, meter: RecordingMeter) -> None:
    await say(shadowed, "t1", "My name is Ada.", answer="Hello.")
    ours = await ask(shadowed, "What is my name?")
    found = await shadowed(
        COMPARE,
        session_id="s1",
        turn_id="t2",
        current_input="What is my name?",
        own_input_items=ours["input_items"],
        own_facts=[{"id": "user_name", "value": "ada"}],
        own_files=[{"path": RAW, "lines": 2}, {"path": L0, "lines": 1}],
    )
    assert found == {
        "agrees": True,
        "facts": {"only_there": [], "only_here": [], "same": ["user_name"], "different": []},
        "tokens_there": ours["context_token_count"],
        "tokens_here": ours["context_token_count"],
        "tokens_agree": True,
        "files": {"missing_here": [], "missing_there": [], "different": [], "same": 2},
    }
    assert meter.total("mcp_memory_shadow_total", result="agree") == 1


async def test_what_differs_is_named_on_both_sides(shadowed: Door, meter: RecordingMeter) -> None:
    await say(shadowed, "t1", "My name is Ada. I prefer tea.", answer="Hello.")
    found = await shadowed(
        COMPARE,
        session_id="s1",
        turn_id="t2",
        current_input="What is my name, and what do I prefer?",
        own_facts=[{"id": "user_name", "value": "Eve"}],
        own_fact_ids=["user_like"],
        own_token_count=1,
        own_files=[
            {"path": "events/raw/2026/01/05/log-20260105.jsonl", "lines": 9},
            {"path": "insights/x.jsonl"},
        ],
    )
    assert found["facts"] == {
        "only_there": ["user_like"],
        "only_here": ["user_preference"],
        "same": [],
        "different": ["user_name"],
    }
    assert (found["agrees"], found["tokens_there"], found["tokens_agree"]) == (False, 1, False)
    assert found["files"] == {
        "missing_here": ["insights/x.jsonl"],
        "missing_there": [L0],
        "different": ["events/raw/2026/01/05/log-20260105.jsonl"],
        "same": 0,
    }
    assert meter.total("mcp_memory_shadow_total", result="differ") == 1


async def test_the_kept_report_holds_no_value_and_no_text(shadowed: Door) -> None:
    await say(shadowed, "t1", "My name is Ada.")
    await shadowed(
        COMPARE,
        session_id="s1",
        turn_id="t2",
        current_input="What is my secret name?",
        own_facts=[{"id": "user_name", "value": "Mallory"}],
        own_input_items=[user("canary"), assistant("canary")],
    )
    [record] = await file_records(shadowed, REPORT)
    assert (record["type"], record["turn_id"], record["agrees"]) == (
        "shadow_comparison",
        "t2",
        False,
    )
    kept = await file_text(shadowed, REPORT)
    assert not any(word in kept for word in ("Ada", "Mallory", "canary", "secret"))


async def test_a_comparison_stores_no_turn(shadowed: Door, admin: asyncpg.Connection) -> None:
    await shadowed(COMPARE, session_id="s1", current_input="My name is Ada.")
    assert await admin.fetchval("SELECT count(*) FROM guards") == 0
    assert await admin.fetchval("SELECT count(*) FROM facts") == 0


async def test_the_report_sums_up_sessions_and_counts_each_turn_once(
    shadowed: Door, other_call: Door
) -> None:
    await say(shadowed, "t1", "My name is Ada.")
    question = "What is my name?"
    right = [{"id": "user_name", "value": "Ada"}]
    for facts in ([], right):  # the same turn again: the last comparison counts
        await shadowed(
            COMPARE, session_id="s1", turn_id="t2", current_input=question, own_facts=facts
        )
    await shadowed(
        COMPARE,
        session_id="s1",
        turn_id="t3",
        current_input=question,
        own_facts=[{"id": "x", "value": "y"}],
    )
    await shadowed(COMPARE, session_id="s2", turn_id="t2", current_input="Nothing known.")
    report = await shadowed("memory_shadow_report")
    assert (report["sessions"], report["turns"], report["agreement"]) == (2, 3, 0.6667)
    assert report["facts_agreement"] == 0.3333
    assert (report["tokens_agreement"], report["files_agreement"]) == (None, None)
    theirs = await shadowed.as_caller(other_call.caller)("memory_shadow_report")
    assert (theirs["turns"], theirs["agreement"]) == (0, None)


async def test_too_much_is_refused_and_nothing_is_kept(shadowed: Door) -> None:
    many = [str(at) for at in range(2001)]
    await shadowed.refuses(
        "INVALID_ARGUMENT", COMPARE, session_id="s1", current_input="x", own_fact_ids=many
    )
    with pytest.raises(Refused):
        await file_text(shadowed, REPORT)
