"""What a person corrects is true from then on, with its history, and no program undoes it."""

from typing import Any

import asyncpg
import pytest

from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.talk import ask, file_records, memory, row_counts, say, values

CORRECT, LIST = "memory_correct_fact", "memory_list_facts"
U1 = {"session_id": "s1", "user_id": "u1"}


async def only(door: Door, value: str, **more: Any) -> dict[str, Any]:
    """The one listed fact of this value, past or not."""
    facts = (await door(LIST, **U1, **{"state": "all"} | more))["facts"]
    [found] = [fact for fact in facts if fact["value"] == value]
    return dict(found)


async def test_a_corrected_value_is_told_and_history_says_who_changed_it(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "I live in Paris.", user_id="u1")
    clock.advance(hours=1)
    paris = await only(door, "Paris")
    done = await door(CORRECT, **U1, record_id=paris["record_id"], value="Oslo")
    assert (done["changed"], done["fact"]["value"]) == (True, "Oslo")
    assert values(await ask(door, "Where do I live?", user_id="u1", session="s2")) == ["Oslo"]
    oslo, before = await only(door, "Oslo"), await only(door, "Paris")
    assert (oslo["fact_id"], oslo["key"], oslo["tier"]) == ("user_home", "home", "L0")
    assert (oslo["evidence"]["origin"], oslo["evidence"]["turn_id"]) == ("person", "t1")
    assert (before["state"], before["superseded_by"]) == ("superseded", oslo["record_id"])
    assert before["evidence"]["origin"] == "rule"
    records = await file_records(door, "/memory/s1/memory_tiers/L0/2026/01/facts-202601.jsonl")
    assert [(one["type"], one["value"], one.get("origin")) for one in records] == [
        ("fact_upsert", "Paris", None),
        ("fact_supersede", "Paris", None),
        ("fact_upsert", "Oslo", "person"),
    ]
    found = await door(
        "memory_before_turn", **U1, current_input="Where do I live?", as_of="2026-01-05T12:30:00Z"
    )
    assert "Paris" in str(found["input_items"])


async def test_a_corrected_statement_gives_its_value_by_the_rules(door: Door) -> None:
    await say(door, "t1", "I live in Paris. I like jazz.", user_id="u1")
    for old, statement, value in (
        ("Paris", "I live in Oslo.", "Oslo"),
        ("jazz", "Only Sundays are for opera.", "Only Sundays are for opera."),
    ):
        record = (await only(door, old))["record_id"]
        done = await door(CORRECT, **U1, record_id=record, statement=statement)
        assert (done["fact"]["value"], done["fact"]["statement"]) == (value, statement)
        assert (done["note"] is None) is (value != statement)
        assert done["fact"]["record_id"] != record
        again = await door(CORRECT, **U1, record_id=record, statement=statement)
        assert (again["changed"], again["fact"]["record_id"]) == (
            False,
            done["fact"]["record_id"],
        )


@pytest.mark.parametrize(
    ("statement", "key"),
    [
        ("My manager is called Marta.", "manager"),
        ("My boss's name is Marta.", "boss"),
        ("Marta is my manager, not my sister.", "manager"),
    ],
)
async def test_statement_of_another_topic_changes_what_the_fact_is_about(
    door: Door, statement: str, key: str
) -> None:
    await say(door, "t1", "My sister is called Marta.", user_id="u1")
    old = await only(door, "Marta")
    done = await door(CORRECT, **U1, record_id=old["record_id"], statement=statement)
    assert (done["changed"], done["fact"]["key"], done["fact"]["value"]) == (
        True,
        key,
        "Marta",
    )
    assert (done["fact"]["evidence"]["origin"], done["fact"]["tier"]) == ("person", "L0")
    [active] = (await door(LIST, **U1))["facts"]
    assert active["record_id"] == done["fact"]["record_id"]
    [past] = (await door(LIST, **U1, state="past"))["facts"]
    assert (past["key"], past["superseded_by"]) == ("sister", active["record_id"])
    again = await door(CORRECT, **U1, record_id=old["record_id"], statement=statement)
    assert not again["changed"]
    asked = await ask(door, f"What is my {key} called?", user_id="u1", session="s2")
    assert "Marta" in values(asked)


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("I'm allergic to nuts.", "I am not allergic to nuts."),
        ("I'm allergic to nuts.", "Turns out I'm not allergic to nuts after all."),
        ("My sister is called Marta.", "Marta isn't my sister."),
        ("My sister is called Marta.", "I have no sister."),
        ("I live in Linz.", "I don't live in Linz."),
        ("Ich bin allergisch gegen Nüsse.", "Ich bin nicht allergisch gegen Nüsse."),
    ],
)
async def test_statement_that_denies_the_fact_ends_it(
    door: Door, said: str, statement: str
) -> None:
    await say(door, "t1", said, user_id="u1")
    [old] = (await door(LIST, **U1))["facts"]
    correction = {"record_id": old["record_id"], "statement": statement}
    done = await door(CORRECT, **U1, **correction)
    assert (done["changed"], done["fact"]["value"]) == (True, old["value"])
    assert (done["fact"]["state"], "was ended" in done["note"]) == ("deleted", True)
    assert (await door(LIST, **U1))["facts"] == []
    assert (await only(door, old["value"]))["state"] == "deleted"
    again = await door(CORRECT, **U1, **correction)
    assert (again["changed"], again["fact"]["state"]) == (False, "deleted")
    restored = await door(CORRECT, **U1, record_id=old["record_id"], restore=True)
    assert restored["fact"]["state"] == "active"


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("My sister is called Marta.", "I have no sister, only two brothers."),
        ("I live in Linz.", "I work in Linz."),
        ("I live in Linz.", "The twins go to school in Linz."),
    ],
)
async def test_statement_about_something_else_is_stored_as_a_plain_one(
    door: Door, said: str, statement: str
) -> None:
    await say(door, "t1", said, user_id="u1")
    [old] = (await door(LIST, **U1))["facts"]
    done = await door(CORRECT, **U1, record_id=old["record_id"], statement=statement)
    fact = done["fact"]
    assert (fact["fact_id"], fact["value"]) == ("user_statement", statement)
    assert "plain statement" in done["note"]
    assert [one["record_id"] for one in (await door(LIST, **U1))["facts"]] == [fact["record_id"]]


async def test_statement_that_names_the_kind_of_fact_keeps_it(door: Door) -> None:
    await say(door, "t1", "My sister is called Marta.", user_id="u1")
    old = await only(door, "Marta")
    statement = "Marta, my sister, spells it with an h in the middle."
    done = await door(CORRECT, **U1, record_id=old["record_id"], statement=statement)
    assert (done["fact"]["key"], done["fact"]["statement"]) == ("sister", statement)
    assert "the kind of the fact is unchanged" in done["note"]


async def test_allergy_stays_one_and_its_value_never_says_the_opposite(door: Door) -> None:
    await say(door, "t1", "I'm allergic to nuts.", user_id="u1")
    old = await only(door, "nuts")
    statement = "With nuts nothing ever happens, my lips swell from sesame."
    done = await door(CORRECT, **U1, record_id=old["record_id"], statement=statement)
    assert (done["fact"]["key"], done["fact"]["statement"]) == ("allergy", statement)
    assert done["fact"]["value"] != "nuts"


@pytest.mark.parametrize(
    "statement", ["No, that's wrong.", "Wrong!", "That isn't true.", "Das stimmt nicht."]
)
async def test_statement_that_says_nothing_true_is_refused(
    door: Door, admin: asyncpg.Connection, statement: str
) -> None:
    await say(door, "t1", "My sister is called Marta.", user_id="u1")
    record = (await only(door, "Marta"))["record_id"]
    before = await row_counts(admin)
    refused = await door.refuses(
        "INVALID_ARGUMENT", CORRECT, **U1, record_id=record, statement=statement
    )
    assert "pass the true sentence as statement" in str(refused)
    assert await row_counts(admin) == before
    assert (await only(door, "Marta"))["state"] == "active"


async def test_correction_to_a_fact_that_is_known_already_ends_the_wrong_one(door: Door) -> None:
    await say(door, "t1", "My sister is called Marta.", user_id="u1")
    await say(door, "t2", "My manager is called Marta.", user_id="u1")
    facts = {fact["key"]: fact for fact in (await door(LIST, **U1))["facts"]}
    done = await door(
        CORRECT,
        **U1,
        record_id=facts["sister"]["record_id"],
        statement=facts["manager"]["statement"],
    )
    assert (done["changed"], done["fact"]["record_id"]) == (True, facts["manager"]["record_id"])
    [active] = (await door(LIST, **U1))["facts"]
    assert active["key"] == "manager"
    [past] = (await door(LIST, **U1, state="past"))["facts"]
    assert past["superseded_by"] == active["record_id"]
    refused = await door.refuses("INVALID_ARGUMENT", CORRECT, **U1, record_id=active["record_id"])
    assert "to change what the fact is about" in str(refused)


async def test_a_past_value_is_restored_and_what_contradicts_it_is_closed(
    door: Door, clock: FakeClock
) -> None:
    for turn, said in enumerate(("I like jazz.", "I hate jazz.")):
        await say(door, f"t{turn}", said, user_id="u1")
        clock.advance(minutes=1)
    facts = (await door(LIST, **U1, state="past"))["facts"]
    [liked] = [fact for fact in facts if fact["fact_id"] == "user_like"]
    done = await door(CORRECT, **U1, record_id=liked["record_id"], restore=True)
    assert (done["changed"], done["fact"]["fact_id"]) == (True, "user_like")
    active = (await door(LIST, **U1))["facts"]
    assert [(one["fact_id"], one["value"]) for one in active] == [("user_like", "jazz")]
    again = await door(CORRECT, **U1, record_id=liked["record_id"], restore=True)
    assert (again["changed"], again["fact"]["record_id"]) == (False, done["fact"]["record_id"])


async def test_what_cannot_be_corrected_says_why_and_changes_nothing(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "I live in Paris. My name is Ada.", user_id="u1")
    await say(door, "t2", "I live in Oslo.", user_id="u1")
    await door("memory_forget", **U1, fact_ids=["user_name"])
    past, now = [(await only(door, value))["record_id"] for value in ("Paris", "Oslo")]
    before = await row_counts(admin)
    for code, args in (
        ("INVALID_ARGUMENT", {"record_id": now}),
        ("INVALID_ARGUMENT", {"record_id": now, "value": "Rome", "restore": True}),
        ("INVALID_ARGUMENT", {"record_id": now, "value": "Rome", "statement": "I live in Rome."}),
        ("INVALID_ARGUMENT", {"record_id": now, "value": " \u200b"}),
        ("INVALID_ARGUMENT", {"record_id": now, "statement": "x" * 201}),
        ("INVALID_ARGUMENT", {"record_id": now, "value": "sk-proj-" + "aB3" * 16}),
        ("NOT_FOUND", {"record_id": "0" * 12, "value": "Rome"}),
        ("INVALID_ARGUMENT", {"record_id": "user_home", "value": "Rome"}),
        ("CONFLICT", {"record_id": past, "value": "Rome"}),
    ):
        await door.refuses(code, CORRECT, **U1, **args)
    await door.refuses("NOT_FOUND", CORRECT, session_id="s1", record_id=now, value="Rome")
    assert await row_counts(admin) == before
    assert (await only(door, "Oslo"))["state"] == "active"


async def test_a_session_whose_policy_forbids_storage_corrects_nothing(door: Door) -> None:
    await say(door, "t1", "I live in Paris.", user_id="u1")
    record = (await only(door, "Paris"))["record_id"]
    path = "/memory/s1/meta/policy.json"
    await door(
        "file_write", project="default", path=path, content='{"store": false}', mode="TRUNCATE"
    )
    await door.refuses("CONFLICT", CORRECT, **U1, record_id=record, value="Oslo")
    assert (await only(door, "Paris"))["state"] == "active"


async def test_a_rule_puts_a_correction_in_doubt_and_does_not_undo_it(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "I live in Paris. I like jazz.", user_id="u1")
    for old, new in (("Paris", "Oslo"), ("jazz", "opera")):
        record = (await only(door, old))["record_id"]
        await door(CORRECT, **U1, record_id=record, value=new)
    clock.advance(hours=1)
    await say(door, "t2", "I live in Rome. I hate opera.", user_id="u1")
    oslo = await only(door, "Oslo")
    assert (oslo["state"], oslo["doubt"]["turn_id"]) == ("questioned", "t2")
    assert "Rome" in oslo["doubt"]["text"]
    facts = (await door(LIST, **U1))["facts"]
    assert {fact["fact_id"]: fact["state"] for fact in facts if fact["value"] == "opera"} == {
        "user_like": "questioned",
        "user_dislike": "active",
    }
    done = await door(CORRECT, **U1, record_id=oslo["record_id"], restore=True)
    assert (done["fact"]["state"], done["fact"]["doubt"]) == ("active", None)
    await say(door, "t3", "I live in Oslo.", user_id="u1")
    assert (await only(door, "Oslo", state="active"))["state"] == "active"


PLAIN = {
    "Remember that the insurance number of the house is WG-4471-882.": "WG-4471-883",
    "Remember that mum's birthday is on 6 march, she turns 72.": "7 march",
    "Remember that my goal for the club is 68 members.": "66",
}


@pytest.mark.parametrize(("said", "value"), PLAIN.items())
async def test_value_takes_its_place_in_a_plain_sentence_and_the_message_is_marked(
    door: Door, clock: FakeClock, said: str, value: str
) -> None:
    await say(door, "t1", said, user_id="u1")
    clock.advance(hours=1)
    [old] = (await door(LIST, **U1, fact_id="user_statement"))["facts"]
    done = await door(CORRECT, **U1, record_id=old["record_id"], value=value)
    statement = done["fact"]["statement"]
    assert (value in statement, len(statement)) == (True, len(old["statement"])), statement
    assert done["fact"]["value"].rstrip(".") == statement.rstrip(".")
    told = await ask(door, said.removeprefix("Remember that "), user_id="u1", session="s2")
    [turn] = memory(told)["turns"]
    assert turn["superseded_by"].rstrip(".") == statement.rstrip(".")


@pytest.mark.parametrize("value", ["Anton", "7 march", "12"])
async def test_value_that_is_no_sentence_is_refused_for_a_plain_sentence(
    door: Door, admin: asyncpg.Connection, value: str
) -> None:
    await say(door, "t1", "Remember that the club meets from 5 to 7 at the mill.", user_id="u1")
    [old] = (await door(LIST, **U1))["facts"]
    before = await row_counts(admin)
    refused = await door.refuses(
        "INVALID_ARGUMENT", CORRECT, **U1, record_id=old["record_id"], value=value
    )
    assert f"as statement; the fact is: {old['statement']}" in str(refused)
    assert await row_counts(admin) == before


async def test_restoring_ends_the_correction_and_leaves_no_mark_of_it(
    door: Door, clock: FakeClock
) -> None:
    said = "Remember that I want short answers, no bullet points please."
    await say(door, "t1", said, user_id="u1")
    clock.advance(hours=1)
    [old] = (await door(LIST, **U1))["facts"]
    for statement in ("The moon is made of cheese.", "The sun is made of butter."):
        [now] = (await door(LIST, **U1))["facts"]
        await door(CORRECT, **U1, record_id=now["record_id"], statement=statement)
        clock.advance(hours=1)
    await door(CORRECT, **U1, record_id=old["record_id"], restore=True)
    [active] = (await door(LIST, **U1))["facts"]
    assert (active["value"], active["state"]) == (old["value"], "active")
    told = await ask(door, "Which bullet points and short answers?", user_id="u1", session="s2")
    assert "superseded_by" not in str(memory(told))
    assert "made of" not in str(memory(told))


async def test_restoring_a_questioned_fact_ends_the_doubt_alone(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "My sister is called Marta.", user_id="u1")
    clock.advance(hours=1)
    [old] = (await door(LIST, **U1))["facts"]
    about = {"session_id": "s1", "user_id": "u1", "record_id": old["record_id"]}
    await door("memory_feedback", **about, verdict="wrong")
    done = await door(CORRECT, **about, restore=True)
    assert (done["changed"], done["fact"]) == (True, old)
    assert (await door(LIST, **U1, state="all"))["facts"] == [old]


async def test_correcting_the_rest_of_a_sentence_keeps_the_name_in_it(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "My mum Helga gets a new hip on 12 December.", user_id="u1")
    clock.advance(hours=1)
    helga = await only(door, "Helga")
    statement = "mum's hip operation is on 19 December"
    done = await door(CORRECT, **U1, record_id=helga["record_id"], statement=statement)
    assert (done["fact"]["statement"], "beside the fact" in done["note"]) == (statement, True)
    kept = await only(door, "Helga")
    assert (kept["state"], kept["doubt"]["text"]) == ("questioned", statement)
