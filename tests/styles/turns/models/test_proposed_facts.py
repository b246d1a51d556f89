"""What a model proposes becomes a fact, replaces one or ends one only where its evidence and the
rules allow it."""

from datetime import datetime

import asyncpg
import pytest

from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter, ScriptedLlm
from tests.styles.turns.models.proposals import adds, believed, deletes, extract, updates
from tests.styles.turns.talk import ask, file_records, say, values

pytestmark = pytest.mark.anyio


async def test_six_equal_answers_among_distractors_are_one_write(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, meter: RecordingMeter
) -> None:
    for turn in range(6):
        noise = (
            [adds(f"distractor_{turn}", f"passing thing {turn}", evidence=["m9"])] if turn else []
        )
        model.answers.append(
            [
                adds("stable_preference", "Concise answers" if turn % 2 else " concise  ANSWERS "),
                *noise,
            ]
        )
        await say(door, f"t{turn}", f"Bob gave concise answers today ({turn}).")
        await extract(door)
    assert await admin.fetchval("SELECT count(*) FROM facts WHERE key = 'stable_preference'") == 1
    assert await admin.fetchval("SELECT count(*) FROM facts") == 1
    assert meter.total("memsvc_extracted_facts_total", outcome="repeated") == 5
    assert meter.total("memsvc_extracted_facts_total", outcome="unknown") == 5


async def test_a_new_value_supersedes_and_a_deletion_deletes(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    model.answers.extend(
        [
            [adds("dog_name", "Rex"), adds("plant_name", "Bob")],
            [updates("f1", "Rexy"), deletes("f2")],
        ]
    )
    await say(door, "t1", "Rex ate Bob.")
    await extract(door)
    await say(door, "t2", "Rexy, really. And Bob is gone.")
    await extract(door)
    assert [(fact["id"], fact["value"]) for fact in model.asked[1].shown["facts"]] == [
        ("f1", "Rex"),
        ("f2", "Bob"),
    ]
    assert await believed(admin) == {"dog_name": "Rexy"}
    kinds = [
        record["type"]
        for record in await file_records(
            door, "/memory/s1/memory_tiers/L0/2026/01/facts-202601.jsonl"
        )
    ]
    assert sorted(kinds) == [
        "fact_delete",
        "fact_supersede",
        "fact_upsert",
        "fact_upsert",
        "fact_upsert",
    ]
    assert "Bob" not in values(await ask(door, "What is the name of my plant?"))


async def test_the_model_corrects_what_a_rule_made_of_the_same_words(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    model.answers.append([updates("f1", "Ada")])
    await say(door, "t1", "My name is Ada Lovelace-ish")
    await extract(door)
    assert (await believed(admin))["name"] == "Ada"


async def test_what_the_user_said_later_is_neither_changed_nor_deleted(
    door: Door,
    model: ScriptedLlm,
    admin: asyncpg.Connection,
    clock: FakeClock,
    meter: RecordingMeter,
) -> None:
    await say(door, "t1", "Somebody told me that I am Bob.")

    async def later() -> None:
        clock.advance(seconds=5)
        await say(door, "t2", "My name is Ada.")

    model.meanwhile = later
    model.answers.append([adds("name", "Bob")])
    await extract(door)
    assert await believed(admin) == {"name": "Ada"}
    assert meter.total("memsvc_extracted_facts_total", outcome="stale") == 1


async def test_an_old_message_deletes_nothing_that_was_said_after_it(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    await say(door, "t1", "Nothing about me is as you think.")
    clock.advance(seconds=5)
    await say(door, "t2", "My name is Ada.")
    model.answers.append([deletes("f1", evidence=["m1"])])
    await extract(door)
    assert await believed(admin) == {"name": "Ada"}


async def test_the_assistant_changes_nothing_that_the_user_said(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello Eve. Your name is Eve.")
    model.answers.append(
        [
            updates("f1", "Eve", evidence=["m2"]),
            deletes("f1", evidence=["m2"]),
            adds("name", "Eve", evidence=["m2"]),
        ]
    )
    await extract(door)
    assert await believed(admin) == {"name": "Ada"}


async def test_what_only_the_assistant_or_a_pasted_text_says_is_not_believed(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "Book it.", answer="The flight is booked for the fifth.")
    await say(door, "t2", "Translate into German:\n\nThe hamster in my office is called Bo.")
    everywhere = {"evidence": ["m1", "m2", "m3"]}
    model.answers.append(
        [
            adds("flight", "on the fifth", **everywhere),
            adds("hamster_name", "Bo", statement="The hamster is called Bo", **everywhere),
        ]
    )
    await extract(door)
    assert await believed(admin) == {}


async def test_a_fact_keeps_the_sentence_that_the_user_said(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    said = "Hm. Deploys never go out on Fridays, whatever they say! Good."
    quoted = "Deploys go out on Fridays"
    await say(door, "t1", said)
    model.answers.append([adds("deploy_day", "Fridays", statement=quoted)])
    await extract(door)
    [fact] = (await door("memory_list_facts", session_id="s1"))["facts"]
    assert fact["statement"] == "Deploys never go out on Fridays, whatever they say!"


async def test_ids_that_were_not_shown_are_dropped_and_counted(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, meter: RecordingMeter
) -> None:
    await say(door, "t1", "My name is Eve.", session="other", user_id="eve")
    record = await admin.fetchval("SELECT record FROM facts")
    await say(door, "t1", "Hello there, all of you.", user_id="ada")
    model.answers.append(
        [
            deletes("f1"),
            deletes(record),
            deletes("user_name"),
            updates("f7", "Bob"),
            adds("colour", "blue", evidence=["m2"]),
            adds("colour", "blue", evidence=["t1-in-0"]),
            adds("colour", "blue", evidence=[]),
        ]
    )
    await extract(door)
    assert await believed(admin) == {"name": "Eve"}
    assert meter.total("memsvc_extracted_facts_total", outcome="unknown") == 7
    assert model.asked[0].shown["facts"] == []


async def test_a_key_that_may_hold_several_values_holds_them(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    model.answers.append(
        [adds("instrument", one, several=True) for one in ("violin", "piano", "Violin")]
    )
    await say(door, "t1", "Violin, and piano.")
    await extract(door)
    rows = await admin.fetch(
        "SELECT value FROM facts WHERE key = 'instrument' AND state = 'active'"
    )
    assert sorted(row["value"].casefold() for row in rows) == ["piano", "violin"]


async def test_a_fact_of_the_day_is_counted_from_when_it_was_said(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    model.answers.append([adds("errand", "milk", tier="L1"), adds("task", "report", tier="L2")])
    await say(door, "t1", "Milk and the report.")
    clock.advance(days=2)
    await extract(door)
    assert await believed(admin) == {"task": "report"}
    expires_at: datetime = await admin.fetchval("SELECT expires_at FROM facts")
    assert expires_at.isoformat() == "2026-01-12T00:00:00+00:00"
