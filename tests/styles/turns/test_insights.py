"""What facts and turns show together: found once, cited, and gone as soon as it is no longer
true."""

from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.store import index, insights
from memsvc.store.database import Database
from memsvc.store.insights import Insight
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.maintenance.consolidation import insight_id
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, file_records, say

RUN = "memory_run_maintenance"
FILE = "/memory/s1/insights/2026/01/05/insights-20260105.jsonl"


@pytest.fixture
def kept(database: Database, scope: Scope, clock: FakeClock) -> Any:
    """Looks up what stands of the insights of a session and a user."""

    async def look(session: str = "s1", user: str = "") -> list[Insight]:
        shelves = [book.number for book in turn_index.insights(session, user)]
        async with database.begin(scope, read_only=True) as tx:
            return await insights.list_valid(tx, shelves, clock.now())

    return look


async def chat(door: Door, *said: str, first: int = 0, **more: str) -> None:
    for turn, text in enumerate(said, first):
        await say(door, f"t{turn}", text, answer="Noted.", **more)


FILLER = ("It rains.", "The tram was late.", "Lunch was fine.")


async def over_three_days(door: Door, clock: FakeClock) -> None:
    """A chat that comes back to one thing a day."""
    days = (
        ("Monday rain", "A late tram"),
        ("Cold soup", "Loud neighbours"),
        ("Blue paint", "Two parcels"),
    )
    for day, others in enumerate(days):
        await chat(
            door, "The sourdough bubbled.", *(f"{other}." for other in others), first=day * 10
        )
        clock.advance(days=1)


async def test_a_value_is_not_stable_that_another_one_interrupted(
    door: Door, kept: Any, clock: FakeClock
) -> None:
    for turn, home in enumerate(("Rome", "Oslo", "Rome")):
        await chat(door, f"I live in {home}.", "Lunch was fine.", first=turn * 10, user_id="u1")
        clock.advance(days=1)
    await door(RUN, session_id="s1")
    assert "fact_stability" not in {insight.kind for insight in await kept(user="u1")}
    await chat(door, "I live in Rome, as I said.", *FILLER, first=40, user_id="u1")
    await door(RUN, session_id="s1")
    assert "fact_stability" in {insight.kind for insight in await kept(user="u1")}


async def test_a_value_that_is_stated_again_is_stable(door: Door, kept: Any) -> None:
    await chat(door, "My name is Ada.", *FILLER, "As I said, my name is ada.", user_id="u1")
    done = await door(RUN, session_id="s1")
    assert done["insights_written"] == 1
    [stable] = await kept(user="u1")
    assert (stable.kind, stable.summary) == (
        "fact_stability",
        "Stated again and unchanged: name: Ada",
    )
    assert stable.confidence == pytest.approx(0.84)
    assert stable.evidence["turns"] == [
        {"session": "s1", "turn": "t0"},
        {"session": "s1", "turn": "t4"},
    ]
    [line] = await file_records(door, FILE)
    assert (line["id"], line["type"], line["status"]) == (
        stable.insight,
        "fact_stability",
        "consolidated",
    )
    assert (line["related_fact_ids"], line["related_turn_ids"]) == (["user_name"], ["t0", "t4"])


async def test_what_another_user_repeats_is_not_taken_for_the_words_of_the_latest(
    door: Door, clock: FakeClock, kept: Any
) -> None:
    for turn in range(4):
        await chat(door, "I like tea.", first=turn, user_id="u1")
        clock.advance(hours=1)
    await chat(door, "I like tea.", first=4, user_id="u2")
    await door(RUN, session_id="s1")
    assert await kept(user="u2") == []


async def test_a_value_that_changed_is_told_with_its_days(
    door: Door, clock: FakeClock, kept: Any
) -> None:
    await chat(door, "I prefer tea.")
    clock.advance(days=2)
    await chat(door, "I prefer coffee.", *FILLER, first=1)
    await door(RUN, session_id="s1")
    [changed] = await kept()
    assert changed.kind == "fact_evolution"
    assert changed.summary == "preference changed from tea (2026-01-05) to coffee (2026-01-07)"


async def test_an_insight_is_made_once_and_looking_again_needs_new_events(
    door: Door, kept: Any
) -> None:
    await chat(door, "My name is Ada.", *FILLER, "My name is Ada.")
    assert (await door(RUN, session_id="s1"))["insights_written"] == 1
    assert (await door(RUN, session_id="s1"))["insights_written"] == 0
    await chat(door, "My name is Ada.", *FILLER, first=10)
    assert (await door(RUN, session_id="s1"))["insights_written"] == 0
    assert len(await kept()) == 1


async def test_too_few_new_events_are_not_looked_at(door: Door, kept: Any) -> None:
    await chat(door, "My name is Ada.", "My name is Ada.")
    assert (await door(RUN, session_id="s1"))["insights_written"] == 0
    await chat(door, *FILLER, first=2)
    assert (await door(RUN, session_id="s1"))["insights_written"] == 1


async def test_an_insight_about_what_changed_since_is_hidden_at_once_and_then_withdrawn(
    door: Door, kept: Any
) -> None:
    await chat(door, "My name is Ada.", *FILLER, "My name is Ada.")
    await door(RUN, session_id="s1")
    [stable] = await kept()
    await chat(door, "My name is Grace.", first=10)
    assert await kept() == []
    assert (await door(RUN, session_id="s1"))["insights_withdrawn"] == 1
    assert [line["status"] for line in await file_records(door, FILE)] == [
        "consolidated",
        "withdrawn",
        "consolidated",  # a change, for which two new items are enough
    ]
    await chat(door, *FILLER, first=20)
    await door(RUN, session_id="s1")
    assert [one.kind for one in await kept()] == ["fact_evolution"]
    assert stable.insight not in {one.insight for one in await kept()}


async def test_an_insight_about_a_fact_of_the_week_goes_with_the_fact(
    door: Door, clock: FakeClock, admin: asyncpg.Connection, kept: Any
) -> None:
    await chat(door, "This week I need a plan.", *FILLER, "This week I need a plan.")
    await door(RUN, session_id="s1")
    assert len(await kept()) == 1
    clock.advance(days=8)
    assert await kept() == []
    done = await door(RUN, session_id="s1")
    assert (done["expired_facts"], done["insights_withdrawn"]) == (1, 1)
    assert await admin.fetchval("SELECT count(*) FROM insights") == 0


async def test_an_insight_is_recalled_until_a_newer_fact_of_whichever_book_makes_it_stale(
    door: Door, clock: FakeClock, kept: Any
) -> None:
    await chat(door, "My name is Ada.", *FILLER, "My name is Ada.", user_id="u1")
    await door(RUN, session_id="s1")
    [stable] = await kept(user="u1")
    clock.advance(minutes=1)
    for session, recalled in (("s1", [stable.insight]), ("s2", [stable.insight]), ("s3", [])):
        if session == "s3":
            await chat(door, "My name is Grace.", first=10, session=session)
        prepared = await ask(door, "Was my name stated again?", session=session, user_id="u1")
        assert prepared["recall_insight_ids"] == recalled


async def test_what_is_said_in_one_breath_is_told_together_in_its_words(
    door: Door, kept: Any
) -> None:
    await chat(door, "My name is Ada. I prefer tea.", *FILLER)
    await door(RUN, session_id="s1")
    assert [(one.kind, one.summary) for one in await kept()] == [
        ("fact_cooccurrence", "Said together on 2026-01-05: My name is Ada; I prefer tea")
    ]


@pytest.mark.parametrize(
    "said",
    [
        "My name in commits is 'R. Meier'. Commit messages must be in English.",
        "Always answer in German. Never use emojis. I prefer tea.",
        "I like tea. I like coffee.",
        "I prefer tea.",
    ],
)
async def test_instructions_and_lists_said_together_are_no_insight(
    door: Door, kept: Any, said: str
) -> None:
    await chat(door, said, *FILLER)
    await door(RUN, session_id="s1")
    assert await kept() == []


async def test_change_over_short_sessions_is_an_insight(
    door: Door, kept: Any, clock: FakeClock
) -> None:
    for number, home in enumerate(("Rome", "Rome", "Oslo")):
        session = f"s{number}"
        await say(door, "t1", f"I live in {home}.", session=session, user_id="u1")
        assert (await door(RUN, session_id=session))["insights_written"] == (home == "Oslo")
        assert (await door(RUN, session_id=session))["insights_written"] == 0
        clock.advance(days=1)
    assert [one.summary for one in await kept("s2", "u1")] == [
        "home changed from Rome (2026-01-05) to Oslo (2026-01-07)"
    ]


async def test_what_the_user_comes_back_to_on_several_days_is_a_topic(
    opened: Opened, clock: FakeClock, kept: Any
) -> None:
    door = opened()
    await over_three_days(door, clock)
    await door(RUN, session_id="s1")
    topic = next(one for one in await kept() if "sourdough" in one.summary)
    assert topic.kind == "recurring_topic"
    assert [cited["turn"] for cited in topic.evidence["turns"]] == ["t0", "t10", "t20"]


async def test_a_topic_goes_with_what_it_cites(
    opened: Opened, clock: FakeClock, kept: Any, database: Database, scope: Scope
) -> None:
    door = opened()
    await over_three_days(door, clock)
    await door(RUN, session_id="s1")
    async with database.begin(scope) as tx:
        await index.hide(tx, turn_index.turns("s1").number, {0: "The sourdough bubbled."})
    assert not any("sourdough" in one.summary for one in await kept())


async def test_another_tenant_has_none_of_it(
    door: Door, database: Database, other_scope: Scope, clock: FakeClock
) -> None:
    await chat(door, "My name is Ada.", *FILLER, "My name is Ada.")
    await door(RUN, session_id="s1")
    async with database.begin(other_scope, read_only=True) as tx:
        assert (
            await insights.list_valid(
                tx, [book.number for book in turn_index.insights("s1", "")], clock.now()
            )
            == []
        )


def test_the_id_of_an_insight_never_changes() -> None:
    made = insight_id(
        "fact_stability", ["user_name", "name", ""], "Stated again and unchanged: name: Ada"
    )
    assert made == insight_id(
        "fact_stability", ["user_name", "name", ""], "Stated again and unchanged: name: Ada"
    )
    assert made == "insight-" + made.removeprefix("insight-")
    assert len(made) == len("insight-") + 16
    assert made != insight_id(
        "fact_evolution", ["user_name", "name", ""], "Stated again and unchanged: name: Ada"
    )
