"""What is recalled in a session of several users, and what of it is recalled elsewhere."""

from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store import insights
from memsvc.store.database import Database
from memsvc.store.insights import NewInsight
from memsvc.styles.turns import turn_index
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, profile, say, texts, values

BEES = "Where in Zanzibar do I keep my bees?"
SECRET = "I keep bees in the garden in Zanzibar."
ROOM = "room"


def told(prepared: dict[str, Any]) -> str:
    """Return all text of a prepared input."""
    return "\n".join(texts(prepared["input_items"]))


async def share(door: Door, session: str = ROOM) -> None:
    """Store a turn of Ada, and then one of Bo, in a session."""
    await say(door, "t-ada", "Good morning.", session=session, user_id="ada")
    await say(door, "t-bo", "Good morning to you.", session=session, user_id="bo")


async def add_insight(database: Database, scope: Scope, clock: FakeClock, index: str) -> None:
    made = NewInsight(f"i-{index}", "pattern", f"Keeps bees in Zanzibar: {index}.", "", 0.7, {})
    async with database.begin(Scope(scope.tenant, "default")) as tx:
        await insights.put(tx, index, [made], clock.now())


@pytest.mark.parametrize("works", [False, True])
async def test_messages_of_other_sessions_are_not_quoted_once_a_second_user_spoke(
    opened: Opened, works: bool
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", SECRET, session="private", user_id="ada")
    await say(door, "t1", "In Zanzibar I keep bees on the roof.", session=ROOM, user_id="ada")
    before = await ask(door, BEES, session=ROOM, user_id="ada")
    assert {one["session"] for one in memory(before)["turns"]} == {ROOM, "private"}
    await say(door, "t2", "Hello there.", session=ROOM, user_id="bo")
    if works:
        await door.work()
    for _ in range(2):
        there = await ask(door, BEES, session=ROOM, user_id="ada", explain=True)
        assert [one["session"] for one in memory(there)["turns"]] == [ROOM]
        assert "private" not in str(there["explanation"])
        elsewhere = await ask(door, BEES, session="new", user_id="ada")
        assert [one["session"] for one in memory(elsewhere)["turns"]] == ["private"]
        await say(door, "t3", "It is me again.", session=ROOM, user_id="ada")


async def test_a_user_who_has_only_asked_is_quoted_nothing_of_other_sessions(door: Door) -> None:
    await say(door, "t1", SECRET, session="private", user_id="ada")
    await say(door, "t1", "Good morning.", session=ROOM, user_id="bo")
    assert "garden" not in told(await ask(door, BEES, session=ROOM, user_id="ada"))


async def test_what_was_said_at_a_time_is_no_exception(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", f"{SECRET} I live in Kiel.", session="private", user_id="ada")
    await say(door, "t2", "I'm allergic to peanuts.", session="private", user_id="ada")
    await share(door)
    as_of = clock.advance(minutes=1).isoformat()
    clock.advance(minutes=1)
    for question in (BEES, "What do you know about me?", "What am I allergic to?"):
        there = told(await ask(door, question, session=ROOM, user_id="ada", as_of=as_of))
        assert "garden" not in there
        assert "peanuts" not in there
    alone = await ask(door, "What am I allergic to?", session="own", user_id="ada", as_of=as_of)
    assert "peanuts" in told(alone)


async def test_other_words_do_not_find_messages_of_other_sessions(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
) -> None:
    alike = {"canine": "hound", "sneeze": "allergy: peanuts i'm allergic to peanuts."}
    embedder = FakeEmbedder(alike=alike)
    embedder.unrelated_cosine = 0.0
    door = open_door(database, clock, tokens, meter, scope, embedder=embedder)
    for turn in range(12):
        await say(door, f"t{turn}", f"Remark {turn} about ship{turn} weather.", session="private")
    await say(door, "t98", "I'm allergic to peanuts.", session="private", user_id="ada")
    await say(door, "t99", "hound", session="private", user_id="ada")
    await share(door)
    await door.work()
    alone = await ask(door, "canine", session="new", user_id="ada")
    assert "hound" in told(alone)
    assert "hound" not in told(await ask(door, "canine", session=ROOM, user_id="ada"))
    alone = await ask(door, "sneeze", session="new", user_id="ada")
    assert len(alone["recall_fact_ids"]) == 1
    there = await ask(door, "sneeze", session=ROOM, user_id="ada", explain=True)
    assert "peanuts" not in told(there)
    assert {one["kind"] for one in there["explanation"]["candidates"]} == {"turn"}


PRIVATE = {
    "What am I allergic to?": ("I'm allergic to peanuts.", "peanuts"),
    "Do I have asthma or another condition?": ("I have asthma.", "asthma"),
    "Do I take metformin?": ("I take metformin.", "metformin"),
    "Am I a vegetarian?": ("I am a vegetarian.", "vegetarian"),
}


@pytest.mark.parametrize("question", PRIVATE)
async def test_facts_about_health_and_diet_are_not_found_there(door: Door, question: str) -> None:
    said, value = PRIVATE[question]
    await say(door, "t1", said, session="private", user_id="ada")
    await share(door)
    for profile_question in (question, "What do you know about me?"):
        alone = await ask(door, profile_question, session="new", user_id="ada")
        assert value in told(alone)
        for sources in (["turns", "facts", "insights"], ["facts"]):
            there = await ask(
                door, profile_question, session=ROOM, user_id="ada", sources=sources, explain=True
            )
            assert value not in told(there).removesuffix(profile_question)
            assert "t1" not in str(there["explanation"])
    forgotten = await door(
        "memory_forget", session_id=ROOM, user_id="ada", query=said, dry_run=True
    )
    assert value in str(forgotten)  # the user may still name it there, to have it forgotten


async def test_private_facts_do_not_take_the_place_of_others(opened: Opened) -> None:
    door = opened(recall_facts_limit=3)
    await say(door, "t0", "My name is Ada.", session="private", user_id="ada")
    for number in range(70):
        await say(
            door,
            f"t2-{number}",
            f"I'm allergic to peanuts number{number}.",
            session="private",
            user_id="ada",
        )
    await share(door)
    await say(door, "t1", "I like peanuts in soup.", session=ROOM, user_id="ada")
    there = await ask(door, "Peanuts?", session=ROOM, user_id="ada")
    assert [fact["value"] for fact in memory(there)["facts"]] == ["peanuts in soup"]
    assert profile(there) == [("name", "name: Ada")]


async def test_facts_from_other_sessions_are_not_told_in_a_shared_one(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "I live in Kiel since my divorce.", session="private", user_id="ada")
    await say(
        door, "t2", "Remember that my sister plans a divorce.", session="private", user_id="ada"
    )
    await share(door)
    await say(door, "t3", "I work as a potter.", session=ROOM, user_id="ada")
    question = "Where do I live, what is my job, and what does my sister plan?"
    alone = await ask(door, question, session="new", user_id="ada")
    assert told(alone).count("divorce") >= 2
    there = await ask(door, question, session=ROOM, user_id="ada")
    assert "divorce" not in told(there)
    assert not any("Kiel" in value for value in values(there))
    assert any("potter" in str(fact) for fact in memory(there)["facts"])
    # what was learned in the shared session is the user's everywhere; its message is not
    elsewhere = memory(await ask(door, "What is my job?", session="new", user_id="ada"))
    assert any("potter" in str(fact) for fact in elsewhere["facts"])
    assert elsewhere["turns"] == []


async def test_a_later_change_is_told_without_the_sentence_of_another_session(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I live in Kiel.", session=ROOM, user_id="ada")
    await say(door, "t2", "Hello there.", session=ROOM, user_id="bo")
    clock.advance(days=1)
    await say(
        door, "t3", "I moved to Rome because of the divorce.", session="private", user_id="ada"
    )
    question = "Do I live in Kiel?"
    assert "divorce" in told(await ask(door, question, session="new", user_id="ada"))
    there = await ask(door, question, session=ROOM, user_id="ada")
    assert "divorce" not in told(there)
    [kiel] = [one for one in memory(there)["turns"] if "Kiel" in one["text"]]
    assert "2026-01-06" in str(told(there))
    assert kiel["session"] == ROOM


async def test_a_doubt_from_another_session_is_told_by_its_day_alone(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I live in Kiel.", session=ROOM, user_id="ada")
    await say(door, "t2", "Hello there.", session=ROOM, user_id="bo")
    [kiel] = (await door("memory_list_facts", session_id=ROOM, user_id="ada"))["facts"]
    person = {"session_id": ROOM, "user_id": "ada", "record_id": kiel["record_id"]}
    await door("memory_correct_fact", **person, value="Oslo")
    clock.advance(days=1)
    await say(
        door, "t3", "I moved to Rome because of the divorce.", session="private", user_id="ada"
    )
    question = "Where do I live?"
    [fact] = memory(await ask(door, question, session="new", user_id="ada"))["facts"]
    assert "divorce" in fact["questioned"]["text"]
    there = await ask(door, question, session=ROOM, user_id="ada")
    assert "divorce" not in told(there)
    [fact] = memory(there)["facts"]
    assert (fact["value"], fact["questioned"]) == ("Oslo", {"time": "2026-01-06"})


async def test_insights_of_the_user_are_not_told_there(
    door: Door, database: Database, scope: Scope, clock: FakeClock
) -> None:
    for index in turn_index.insights(ROOM, "ada"):
        await add_insight(database, scope, clock, index.name)
    before = memory(await ask(door, BEES, session=ROOM, user_id="ada"))["insights"]
    assert len(before) == 2
    await share(door)
    [one] = memory(await ask(door, BEES, session=ROOM, user_id="ada"))["insights"]
    assert ROOM in one["summary"]


@pytest.mark.parametrize("sources", [["whiteboard"], ["turns", "facts", "whiteboard"]])
async def test_a_whiteboard_of_the_user_is_not_quoted_there(door: Door, sources: list[str]) -> None:
    await door(
        "context_update",
        project="default",
        user_id="ada",
        conversation_id="c1",
        entries=[{"role": "user", "content": f"We decided: {SECRET}", "type": "message"}],
    )
    await door.work()
    alone = await ask(door, BEES, session=ROOM, user_id="ada", sources=sources)
    assert "garden" in told(alone)
    await share(door)
    assert "garden" not in told(await ask(door, BEES, session=ROOM, user_id="ada", sources=sources))


async def test_recalled_messages_and_facts_name_their_users(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I keep bees in Zanzibar.", session=ROOM, user_id="ada")
    alone = await ask(door, BEES, session=ROOM, user_id="ada")
    assert '"ada"' not in told(alone)
    await say(door, "t2", "My bees are in Zanzibar, too.", session=ROOM, user_id="bo")
    named = {
        "role": "user",
        "content": "Bees sting in Zanzibar.",
        "metadata": {"speaker": "Captain Cy"},
    }
    await door(
        "memory_after_turn", session_id=ROOM, turn_id="t3", user_id="cy", input_items=[named]
    )
    await say(door, "t4", "My job is beekeeper.", session=ROOM, user_id="ada")
    prepared = await ask(door, f"{BEES} What is my job?", session=ROOM, user_id="ada")
    body = memory(prepared)
    speakers = {item["text"]: item["speaker"] for item in body["turns"]}
    assert speakers == {
        "I keep bees in Zanzibar.": "ada",
        "My bees are in Zanzibar, too.": "bo",
        "Bees sting in Zanzibar.": "Captain Cy",
        "My job is beekeeper.": "ada",
    }
    told_facts = [*body["facts"], *body.get("profile", [])]
    assert told_facts
    assert {fact["user"] for fact in told_facts} == {"ada"}
    elsewhere = memory(await ask(door, "What is my job?", session="new", user_id="ada"))
    assert elsewhere["facts"]
    assert not any("user" in fact for fact in elsewhere["facts"])


FORGET = "memory_forget"


@pytest.mark.parametrize("dry_run", [True, False])
async def test_user_cannot_forget_turns_of_another_users_session(door: Door, dry_run: bool) -> None:
    await say(door, "t1", "I live in Kiel.", session="private", user_id="bo")
    ada: dict[str, Any] = {"session_id": "private", "user_id": "ada"}
    for given in ({"turn_ids": ["t1"]}, {"query": "I live in Kiel"}, {"fact_ids": ["user_home"]}):
        found = await door(FORGET, **ada, **given, dry_run=dry_run)
        assert (found["facts"], found["turns"], found["sentences"]) == ([], [], [])
        assert "I live" not in str(found)
        assert found["not_found"] == [*given.get("turn_ids", ()), *given.get("fact_ids", ())]
    [fact] = (await door("memory_list_facts", session_id="private", user_id="bo"))["facts"]
    await door.refuses(
        "NOT_FOUND", "memory_correct_fact", **ada, record_id=fact["record_id"], value="Rome"
    )
    for rated in ({"turn_id": "t1"}, {"record_id": fact["record_id"]}):
        await door.refuses("NOT_FOUND", "memory_feedback", **ada, **rated, verdict="wrong")
    done = await door(FORGET, session_id="private", user_id="bo", turn_ids=["t1"], dry_run=dry_run)
    assert [one["turn_id"] for one in done["turns"]] == ["t1"]
    assert len(done["facts"]) == 1


async def test_user_cannot_reach_facts_without_a_user_in_another_users_session(door: Door) -> None:
    await say(door, "t1", "I live in Kiel.", session="private")
    await say(door, "t2", "Hello.", session="private", user_id="bo")
    [fact] = (await door("memory_list_facts", session_id="private"))["facts"]
    ada = {"session_id": "private", "user_id": "ada"}
    record = fact["record_id"]
    found = await door(FORGET, **ada, fact_ids=[record], dry_run=True)
    assert (found["facts"], found["not_found"]) == ([], [record])
    await door.refuses("NOT_FOUND", "memory_correct_fact", **ada, record_id=record, value="Rome")


@pytest.mark.parametrize("said", ["I live in Kiel.", "Hello there."])
async def test_user_forgets_only_own_turns_of_a_shared_session(door: Door, said: str) -> None:
    await say(door, "t1", said, answer="Fine.", session=ROOM, user_id="bo")
    await say(door, "t2", said, answer="Fine.", session=ROOM, user_id="ada")
    await say(door, "t3", "Good morning.", session=ROOM)
    turns = ["t1", "t2", "t3"]
    for dry_run in (True, False):
        found = await door(FORGET, session_id=ROOM, user_id="ada", turn_ids=turns, dry_run=dry_run)
        assert [one["turn_id"] for one in found["turns"]] == ["t2", "t3"]
        assert found["not_found"] == ["t1"]
        assert {one["evidence"]["user_id"] for one in found["facts"]} <= {"ada"}
        assert {one["turn_id"] for one in found["sentences"]} <= {"t2", "t3"}
    rest = await door(FORGET, session_id=ROOM, turn_ids=turns)
    assert [one["turn_id"] for one in rest["turns"] if one["items"]] == ["t1"]


@pytest.mark.parametrize("said", ["The door code is 4417.", "I live in Kiel."])
@pytest.mark.parametrize("packed", [False, True])
async def test_user_forgets_own_sentence_of_a_shared_session_by_a_query(
    door: Door, clock: FakeClock, said: str, packed: bool
) -> None:
    await say(door, "t1", said, answer=f"Noted: {said}", session=ROOM, user_id="bo")
    await say(door, "t2", f"Bo told me. {said}", session=ROOM, user_id="ada")
    if packed:
        clock.advance(days=40)
        await say(door, "t3", "Hello again.", session=ROOM, user_id="ada")
        await door("memory_run_maintenance", session_id=ROOM)
    eve = await door(FORGET, session_id=ROOM, user_id="eve", query=said, dry_run=False)
    assert (eve["sentences"], eve["candidates"]) == ([], [])
    done = await door(FORGET, session_id=ROOM, user_id="bo", query=said, dry_run=False)
    assert {one["turn_id"] for one in done["sentences"]} == {"t1"}
    again = await door(FORGET, session_id=ROOM, user_id="bo", query=said)
    assert (again["sentences"], again["candidates"]) == ([], [])
    others = await door(FORGET, session_id=ROOM, user_id="ada", query=said)
    assert [(one["turn_id"], one["text"]) for one in others["sentences"]] == [("t2", said)]
    await door(FORGET, session_id=ROOM, user_id="bo", undo=done["forget_id"])
    again = await door(FORGET, session_id=ROOM, user_id="bo", query=said)
    assert again["sentences"] == done["sentences"]


async def test_user_cannot_forget_packed_turns_of_others(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", "Hello there.", session=ROOM, user_id="bo")
    await say(door, "t2", "Hello to you.", session=ROOM, user_id="ada")
    clock.advance(days=40)
    await say(door, "t3", "Hello again.", session=ROOM, user_id="ada")
    await door("memory_run_maintenance", session_id=ROOM)
    found = await door(FORGET, session_id=ROOM, user_id="ada", turn_ids=["t1", "t2"])
    assert ([one["turn_id"] for one in found["turns"]], found["not_found"]) == (["t2"], ["t1"])


async def test_user_is_offered_own_sentences_of_a_shared_session(encoding_door: Door) -> None:
    door = encoding_door
    await say(door, "t1", "they put me up to 52,300", session=ROOM, user_id="bo")
    await say(door, "t2", "I earn 48,000 a year", session=ROOM, user_id="ada")
    found = await door(FORGET, session_id=ROOM, user_id="bo", query="my salary")
    assert {one["turn_id"] for one in (*found["candidates"], *found["sentences"])} == {"t1"}
