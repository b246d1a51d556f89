"""What is forgotten is never recalled again, whoever asks and whatever time is asked for."""

from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from memsvc.core.cursors import encode_cursor
from memsvc.core.scope import Scope
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    events,
    file_records,
    memory,
    recalled_facts,
    row_counts,
    say,
    snapshot,
    texts,
    values,
)

FORGET, LIST = "memory_forget", "memory_list_facts"
NAME = "What is my name?"


async def listed(door: Door, session: str = "s1", **more: Any) -> list[tuple[str, str, str]]:
    found = (await door(LIST, session_id=session, **more))["facts"]
    return [(one["fact_id"], one["value"], one["state"]) for one in found]


async def test_a_fact_is_listed_with_where_it_was_said_and_what_replaced_it(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "My name is Ada.")
    clock.advance(hours=1)
    await say(door, "t2", "My name is Eve.")
    now, before = (await door(LIST, session_id="s1", state="all"))["facts"]
    assert (now["value"], now["state"], now["valid_to"], now["superseded_by"]) == (
        "Eve",
        "active",
        None,
        None,
    )
    assert (before["value"], before["state"], before["superseded_by"]) == (
        "Ada",
        "superseded",
        now["record_id"],
    )
    assert (before["valid_from"], before["valid_to"]) == (
        "2026-01-05T12:00:00Z",
        "2026-01-05T13:00:00Z",
    )
    assert now["evidence"]["turn_id"] == "t2"
    assert now["evidence"]["item"] == (await events(door))[-1]["id"]
    assert await listed(door) == [("user_name", "Eve", "active")]
    assert await listed(door, state="past") == [("user_name", "Ada", "superseded")]


async def test_ids_are_those_of_one_value_in_block_list_and_forgetting(door: Door) -> None:
    await say(door, "t1", "My sister is called Eve. I live in Rome.", session="s1", user_id="u1")
    await say(door, "t1", "My sister is called Ida. I live in Oslo.", session="s2", user_id="u1")
    asked = {"session": "s3", "user_id": "u1"}
    question = "What are my sisters called, and where do I live?"
    prepared = await ask(door, question, **asked)
    facts = {fact["value"]: fact["id"] for fact in memory(prepared)["facts"]}
    assert facts.keys() == {"Eve", "Ida", "Oslo"}
    assert sorted(facts.values()) == sorted(prepared["recall_fact_ids"])
    every = (await door(LIST, user_id="u1", state="all"))["facts"]
    by_value = {one["value"]: one for one in every}
    assert {value: by_value[value]["record_id"] for value in facts} == facts
    assert by_value["Rome"]["superseded_by"] == facts["Oslo"]  # of another session
    done = await door(FORGET, user_id="u1", fact_ids=[facts["Eve"]])
    assert ([one["value"] for one in done["facts"]], done["not_found"]) == (["Eve"], [])
    assert {
        value
        for _, value in await recalled_facts(door, await ask(door, question, **asked), **asked)
    } == {"Ida", "Oslo"}


async def test_facts_are_listed_by_tier_and_by_whose_they_are(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", "My name is Ada.", user_id="u1")
    await say(door, "t2", "Today I need to pay the rent.")
    assert await listed(door, user_id="u1", tier="L1") == [
        ("today_task", "to pay the rent", "active")
    ]
    assert await listed(door, user_id="u1", reach="user") == [("user_name", "Ada", "active")]
    assert await listed(door, user_id="u1", reach="session") == [
        ("today_task", "to pay the rent", "active")
    ]
    assert await listed(door, reach="user") == []
    assert await listed(door, session="s2", user_id="u1") == [("user_name", "Ada", "active")]
    clock.advance(days=2)
    assert await listed(door, state="past") == [("today_task", "to pay the rent", "expired")]


async def pages(door: Door, **asked: Any) -> list[list[dict[str, Any]]]:
    found, cursor = [], ""
    while cursor is not None:
        page = await door(LIST, session_id="s1", limit=3, cursor=cursor, **asked)
        found.append(page["facts"])
        cursor = page["next_cursor"]
    return found


async def test_pages_of_facts_hold_each_once(door: Door) -> None:
    for number in range(7):  # all of one moment
        await say(door, f"t{number}", f"I like the number {number}.")
    found = await pages(door)
    assert [len(page) for page in found] == [3, 3, 1]
    assert len({one["record_id"] for page in found for one in page}) == 7


async def test_pages_of_facts_of_a_session_and_its_user_are_newest_first(
    door: Door, clock: FakeClock
) -> None:
    for number in range(6):
        await say(
            door,
            f"t{number}",
            f"I like the number {number}. Today I need to buy book {number}.",
            user_id="u1",
        )
        clock.advance(minutes=number % 2)  # two turns of each moment
    whole = (await door(LIST, session_id="s1", user_id="u1", state="all"))["facts"]
    assert len(whole) == 12
    assert [one["valid_from"] for one in whole] == sorted(
        (one["valid_from"] for one in whole), reverse=True
    )
    for asked, many in (
        ({"state": "all"}, 12),
        ({"state": "all", "tier": "L1"}, 6),
        ({}, 7),
        ({"state": "past"}, 5),
    ):
        some = [one for page in await pages(door, user_id="u1", **asked) for one in page]
        assert (some, len(some)) == ([one for one in whole if one in some], many)


async def test_the_values_of_one_fact_are_listed_alone(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", "My name is Ada. I live in Kobe.")
    clock.advance(hours=1)
    await say(door, "t2", "I live in Oslo.")
    assert await listed(door, state="all", fact_id="user_home") == [
        ("user_home", "Oslo", "active"),
        ("user_home", "Kobe", "superseded"),
    ]
    assert await listed(door, fact_id="user_name") == [("user_name", "Ada", "active")]
    assert await listed(door, state="all", fact_id="nothing") == []


@pytest.mark.parametrize(
    ("limit", "told"), [(0, "1 or greater"), (-1, "1 or greater"), (501, "500 or less")]
)
async def test_a_page_of_no_facts_or_of_too_many_is_refused(
    door: Door, limit: int, told: str
) -> None:
    assert (
        f"limit must be {told}"
        in (await door.refuses("INVALID_ARGUMENT", LIST, limit=limit))["message"]
    )
    assert (await door(LIST, limit=500))["facts"] == []


NOW = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "W10",
        encode_cursor(NOW, 1),
        encode_cursor(NOW, 1, "1"),
        encode_cursor(NOW, 2**63, 1),
        encode_cursor(NOW, 1, 2**31),
        encode_cursor(NOW, 1, -1),
        encode_cursor("2026-01-05", 1, 1),
    ],
)
async def test_a_cursor_that_no_page_had_is_refused(door: Door, cursor: str) -> None:
    assert "cursor" in (await door.refuses("INVALID_ARGUMENT", LIST, cursor=cursor))["message"]


async def test_a_fact_is_forgotten_with_its_past_values(
    door: Door, clock: FakeClock, opened: Opened
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "My name is Ada.", user_id="u1")
    clock.advance(hours=1)
    await say(door, "t2", "My name is Eve.", user_id="u1")
    then = clock.now().isoformat()
    clock.advance(hours=1)
    done = await door(FORGET, session_id="s1", user_id="u1", fact_ids=["user_name"])
    assert done["dry_run"] is False
    assert [(one["value"], one["state"]) for one in done["facts"]] == [
        ("Ada", "superseded"),
        ("Eve", "active"),
    ]
    for more in ({}, {"as_of": then}, {"as_of": "2026-01-05T12:30:00Z"}):
        prepared = await ask(door, NAME, user_id="u1", **more)
        assert (prepared["recall_fact_ids"], values(prepared)) == ([], [])
    assert await listed(door, user_id="u1", state="all") == []


async def test_a_forgotten_fact_can_be_learnt_anew(door: Door) -> None:
    await say(door, "t1", "My name is Ada.")
    await door(FORGET, session_id="s1", fact_ids=["user_name"])
    assert (await say(door, "t2", "My name is Ada."))["fact_ids"] == ["user_name"]
    assert values(await ask(door, NAME)) == ["Ada"]


async def test_the_files_say_what_was_forgotten_and_when(door: Door) -> None:
    await say(door, "t1", "My name is Ada.")
    await door(FORGET, session_id="s1", fact_ids=["user_name"])
    learnt, gone = await file_records(door, "/memory/s1/memory_tiers/L0/2026/01/facts-202601.jsonl")
    assert (gone["type"], gone["state"], gone["of"], gone["forgotten"]) == (
        "fact_delete",
        "deleted",
        learnt["id"],
        True,
    )
    assert gone["deleted_at"] == "2026-01-05T12:00:00Z"


async def test_one_value_of_many_is_forgotten_by_its_record(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I like tea.")
    await say(door, "t2", "I like bees.")
    [tea] = [one for one in (await door(LIST, session_id="s1"))["facts"] if one["value"] == "tea"]
    await door(FORGET, session_id="s1", fact_ids=[tea["record_id"]])
    assert {value for _, value, _ in await listed(door, state="all")} == {"bees"}


async def test_a_query_shows_first_what_it_would_forget(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "My name is Ada. I prefer green tea.")
    before = await snapshot(admin)
    shown = await door(FORGET, session_id="s1", query=NAME)
    assert (shown["dry_run"], [one["value"] for one in shown["facts"]]) == (True, ["Ada"])
    assert (await door(FORGET, session_id="s1", fact_ids=["user_name"], dry_run=True))[
        "dry_run"
    ] is True
    assert await snapshot(admin) == before
    done = await door(FORGET, session_id="s1", query=NAME, dry_run=False)
    undo = {name: done[name] for name in ("forget_id", "undo_until")}
    assert done == shown | {"dry_run": False} | undo
    assert await listed(door) == [("user_preference", "green tea", "active")]


async def test_a_forgotten_turn_is_neither_recalled_nor_shown_and_what_it_taught_is_gone(
    door: Door,
) -> None:
    await say(
        door,
        "t1",
        "My name is Ada and I keep bees in Zanzibar.",
        answer="How nice, bees in Zanzibar.",
    )
    await say(door, "t2", "Something else about Zanzibar.", answer="Fine.")
    done = await door(FORGET, session_id="s1", turn_ids=["t1"])
    assert done["turns"] == [{"turn_id": "t1", "items": 2}]
    assert [one["fact_id"] for one in done["facts"]] == ["user_name", "user_statement"]
    prepared = await ask(door, "Who keeps bees in Zanzibar? What is my name?")
    assert "bees" not in str(prepared["input_items"][:-1])
    assert "Ada" not in str(prepared["input_items"])
    assert texts(prepared["input_items"])[:2] == ["Something else about Zanzibar.", "Fine."]
    lines = await events(door)
    [mark] = [line for line in lines if line["type"] == "turn_forgotten"]
    assert mark["turn_id"] == "t1"
    assert (lines[0]["turn_id"], "Ada" in str(lines)) == ("t1", False)


async def test_a_forgotten_turn_stays_a_turn_that_was_stored(door: Door) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello Ada.")
    await door(FORGET, session_id="s1", turn_ids=["t1"])
    for said in ("My name is Ada.", "Something else."):
        again = await say(door, "t1", said, answer="Hello Ada.")
        assert (again["stored_items"], again["fact_ids"], again["forgotten"]) == (0, [], True)
        assert "use a new turn_id" in again["note"]
    assert await listed(door, state="all") == []
    assert len((await ask(door, NAME))["input_items"]) == 1


async def test_forgetting_again_changes_nothing(door: Door, admin: asyncpg.Connection) -> None:
    await say(door, "t1", "My name is Ada.")
    await door(FORGET, session_id="s1", turn_ids=["t1"], fact_ids=["user_name"])
    before = await snapshot(admin)
    again = await door(FORGET, session_id="s1", turn_ids=["t1"], fact_ids=["user_name"])
    assert (again["facts"], again["turns"], again["not_found"]) == ([], [], ["user_name"])
    assert await snapshot(admin) == before


async def test_turn_ids_that_begin_alike_are_different_turns(door: Door) -> None:
    await say(door, "t", "Alpha in Zanzibar.")
    await say(door, "t-in-0", "Beta in Zanzibar.")
    await say(door, "t-out-0", "Gamma in Zanzibar.")
    await door(FORGET, session_id="s1", turn_ids=["t"])
    assert texts((await ask(door, "hi"))["input_items"]) == [
        "Beta in Zanzibar.",
        "Gamma in Zanzibar.",
        "hi",
    ]


async def test_what_is_not_there_is_named_and_nothing_is_written(
    door: Door, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "My name is Ada.")
    before = await row_counts(admin)
    done = await door(FORGET, session_id="s1", fact_ids=["no_such"], turn_ids=["t9"])
    assert (done["facts"], done["turns"], done["not_found"]) == ([], [], ["no_such", "t9"])
    assert await row_counts(admin) == before


async def test_nothing_is_forgotten_without_saying_what(door: Door) -> None:
    await door.refuses("INVALID_ARGUMENT", FORGET, session_id="s1")
    await door.refuses("INVALID_ARGUMENT", FORGET, session_id="s1", query="  ", dry_run=False)


async def test_nobody_forgets_what_is_not_theirs(door: Door, other_scope: Scope) -> None:
    await say(door, "t1", "My name is Ada.", user_id="u1")
    for stranger, given in (
        (door.as_tenant(other_scope), {"session_id": "s1", "user_id": "u1"}),
        (door, {"session_id": "s1", "user_id": "u2"}),
        (door, {"session_id": "s10", "user_id": "u1", "reach": "session"}),
        (door, {"session_id": "s1", "user_id": "u1", "project": "elsewhere"}),
    ):
        done = await stranger(FORGET, fact_ids=["user_name"], query=NAME, dry_run=False, **given)
        assert done["facts"] == []
    assert values(await ask(door, NAME, user_id="u1")) == ["Ada"]


@pytest.mark.parametrize("whose", [{}, {"user_id": "u1"}])
async def test_a_forgotten_turn_takes_the_facts_of_whoever_spoke_with_it(
    door: Door, whose: dict[str, str]
) -> None:
    await say(door, "t1", "My name is Ada.", user_id="u1")
    would = await door(FORGET, session_id="s1", turn_ids=["t1"], dry_run=True, **whose)
    done = await door(FORGET, session_id="s1", turn_ids=["t1"], **whose)
    assert (
        [fact["value"] for fact in would["facts"]]
        == [fact["value"] for fact in done["facts"]]
        == ["Ada"]
    )
    assert values(await ask(door, NAME, session="s2", user_id="u1")) == []


async def test_a_fact_that_is_named_beside_a_turn_is_the_callers_own(door: Door) -> None:
    await say(door, "t1", "My name is Ada.", user_id="u1")
    await say(door, "t2", "My favourite colour is green.", user_id="u2")
    await say(door, "t3", "My name is Bob.", user_id="u2")
    done = await door(
        FORGET, session_id="s1", user_id="u2", fact_ids=["user_name"], turn_ids=["t2"]
    )
    assert sorted(fact["value"] for fact in done["facts"]) == ["Bob", "green"]
    assert values(await ask(door, NAME, session="s2", user_id="u1")) == ["Ada"]


async def test_a_turn_is_forgotten_within_reach_alone(door: Door) -> None:
    await say(door, "t1", "My name is Ada.", user_id="u1")
    done = await door(FORGET, session_id="s1", turn_ids=["t1"], reach="session")
    assert done["facts"] == []
