"""What is recalled from elsewhere than the session: the user's other sessions, insights, files, and
the past."""

from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.question_kinds import QuestionKind
from memsvc.core.ranking import Candidate, QuestionTerms
from memsvc.core.scope import Scope
from memsvc.store import insights
from memsvc.store.database import Database
from memsvc.store.insights import NewInsight
from memsvc.store.search import IndexMatches
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.recall.recalled_facts import rank_entries
from tests.door import Door, open_door
from tests.fakes import FakeClock, FakeEmbedder, RecordingMeter
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, say, user, values

BEES = "Where in Zanzibar do I keep my bees?"


def shown(prepared: dict[str, Any]) -> list[tuple[str, str]]:
    """The session and the text of each past item in the block."""
    return [(one["session"], one["text"]) for one in memory(prepared)["turns"]]


def ranked(prepared: dict[str, Any]) -> list[tuple[str, str]]:
    """The session, if it is another one, and the event of each past item, most relevant first."""
    candidates = prepared["explanation"]["candidates"]
    turns = [one for one in candidates if one["shown"] and one["kind"] == "turn"]
    turns.sort(key=lambda one: int(one["position"]))
    return [(one.get("session", ""), one["ref"]) for one in turns]


async def test_what_a_user_said_in_another_session_is_recalled_and_says_where_it_is_from(
    door: Door,
) -> None:
    await say(door, "t1", "I keep bees in the garden in Zanzibar.", session="old", user_id="ada")
    prepared = await ask(door, BEES, session="new", user_id="ada", explain=True)
    assert shown(prepared) == [("old", "I keep bees in the garden in Zanzibar.")]
    [candidate] = [one for one in prepared["explanation"]["candidates"] if one["kind"] == "turn"]
    assert candidate["session"] == "old"
    assert candidate["parts"]["elsewhere"] < 0


async def test_the_session_itself_comes_first(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I keep bees in the garden in Zanzibar.", session="own", user_id="ada")
    await say(door, "t1", "I keep bees on the roof in Zanzibar.", session="old", user_id="ada")
    prepared = await ask(door, BEES, session="own", user_id="ada", explain=True)
    assert ranked(prepared) == [("", "t1-in-0"), ("old", "t1-in-0")]


async def test_after_the_best_comes_what_was_said_on_another_day(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=0, recall_turns_limit=20)
    for number in range(18):
        await say(
            door,
            f"t{number}",
            f"In Zanzibar I keep bees: hive{number}, house{number}, hill{number}.",
        )
    for number in range(5):  # so that nothing of the next day stands beside what was said of bees
        await say(door, f"t-ship-{number}", f"The ship {number} is late again.")
    clock.advance(days=1)
    await say(door, "t-shed", "I keep more bees in a shed.")
    clock.advance(days=1)
    prepared = await ask(door, BEES, explain=True)
    assert ranked(prepared)[10] == ("", "t-shed-in-0")
    assert shown(prepared)[-1] == ("s1", "I keep more bees in a shed.")
    turns = [
        one
        for one in prepared["explanation"]["candidates"]
        if one["shown"] and one["kind"] == "turn"
    ]
    assert turns[-1]["ref"].startswith("t-shed")  # the lowest score, and yet the eleventh


@pytest.mark.parametrize(
    "other", ["", "ad", "adaa", "Ada", "ada/", "ada%", "ad_", "../ada", "ada x", "*", "アダ"]
)
async def test_no_session_of_another_user_or_of_none_is_shown(opened: Opened, other: str) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I keep bees in the garden in Zanzibar.", session="theirs", user_id=other)
    await door.work()
    for session in ("new", "thei", "theirs2"):
        assert shown(await ask(door, BEES, session=session, user_id="ada")) == []
    await say(door, "t1", "I keep bees in the attic in Zanzibar.", session="mine", user_id="ada")
    for asking in (other, ""):
        assert shown(await ask(door, BEES, session="new", user_id=asking)) == (
            [("theirs", "I keep bees in the garden in Zanzibar.")] if asking else []
        )


async def test_another_project_and_another_tenant_are_not_looked_into(
    door: Door, other_scope: Scope
) -> None:
    await say(door, "t1", "I keep bees in the garden in Zanzibar.", session="old", user_id="ada")
    assert shown(await ask(door, BEES, session="new", user_id="ada", project="other")) == []
    assert shown(await ask(door.as_tenant(other_scope), BEES, session="new", user_id="ada")) == []


async def test_an_insight_is_recalled_with_what_kind_it_is_of(
    door: Door, database: Database, scope: Scope, clock: FakeClock
) -> None:
    made = [
        NewInsight(f"i{number}", "pattern", f"Keeps bees in Zanzibar, house {number}.", "", 0.7, {})
        for number in range(7)
    ]
    for place in turn_index.insights("s1", "ada"):  # of the session and of the user: said once
        async with database.begin(Scope(scope.tenant, "default")) as tx:
            await insights.put(tx, place.name, made, clock.now())
    prepared = await ask(door, BEES, user_id="ada")
    recalled = memory(prepared)["insights"]
    assert len(recalled) == 5
    assert set(recalled[0]) == {"id", "type", "summary", "confidence", "time"}
    assert prepared["recall_insight_ids"] == [one["id"] for one in recalled]
    assert len(set(prepared["recall_insight_ids"])) == 5
    for nobody in (
        await ask(door, BEES, session="other", user_id="bo"),
        await ask(door, BEES, session="other"),
    ):
        assert nobody["recall_insight_ids"] == []
    assert (
        memory(await ask(door, BEES, user_id="ada", sources=["turns", "facts"])).get("insights", [])
        == []
    )


async def test_files_are_quoted_only_where_they_are_asked_for(door: Door) -> None:
    content = "# Bees\n\nThe bees in Zanzibar need sugar water in winter.\n"
    await door("file_write", project="default", path="/notes/bees.md", content=content)
    question = "What do the bees in Zanzibar need in winter?"
    assert "chunks" not in memory(await ask(door, question))
    [chunk] = memory(await ask(door, question, sources=["files"]))["chunks"]
    assert (chunk["path"], chunk["start_bytes"], chunk["end_bytes"]) == (
        "/notes/bees.md",
        0,
        len(content.encode()),
    )
    assert "sugar water" in chunk["text"]
    assert (
        memory(await ask(door, question, sources=["files"], project="other")).get("chunks") is None
    )


async def test_facts_are_as_they_were_believed_at_a_time_and_otherwise_never_stale(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "My name is Ada.", user_id="u")
    then = clock.now()
    clock.advance(days=1)
    await say(door, "t2", "My name is Bea.", user_id="u")
    question = "What is my name?"
    assert values(await ask(door, question, user_id="u")) == ["Bea"]
    assert values(await ask(door, question, user_id="u", as_of=then.isoformat())) == ["Ada"]
    assert values(await ask(door, question, user_id="u", as_of="2020-01-01T00:00:00Z")) == []
    assert values(await ask(door, question, user_id="u", as_of=clock.now().isoformat())) == ["Bea"]


async def test_what_was_said_later_is_not_recalled_as_of_a_time(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I keep bees in the garden in Zanzibar.")
    then = clock.now()
    clock.advance(days=1)
    await say(door, "t2", "I keep bees on the roof in Zanzibar.")
    assert len(shown(await ask(door, BEES))) == 2
    assert shown(await ask(door, BEES, as_of=then.isoformat())) == [
        ("s1", "I keep bees in the garden in Zanzibar.")
    ]


async def test_explain_says_how_sure_recall_is(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I keep bees in the garden in Zanzibar.")
    for question, sure in (
        (BEES, True),
        ("How do bees see ultraviolet light in the open desert?", False),
    ):
        prepared = await ask(door, question, explain=True)
        confidence = prepared["explanation"]["confidence"]
        assert (confidence["total"] >= confidence["floor"]) is sure is bool(shown(prepared))


async def test_with_an_embedder_what_shares_no_word_is_found(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
) -> None:
    alike = {"hound": "dog", "canine": "dog"}
    door = open_door(database, clock, tokens, meter, scope, embedder=FakeEmbedder(alike=alike))
    for turn in range(12):
        await say(
            door,
            f"t{turn}",
            f"Remark {turn} about ship{turn} weather.",
            session="old",
            user_id="ada",
        )
    await say(door, "t99", "hound", session="old", user_id="ada")
    await door.work()
    prepared = await ask(door, "canine", session="new", user_id="ada", explain=True)
    assert ranked(prepared)[0] == ("old", "t99-in-0")


@pytest.mark.parametrize(
    "text", ["Thanks!", "ok great", "Danke dir", "Hello, good morning!", "谢谢你", "了解です"]
)
async def test_thanks_and_greetings_recall_nothing(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    meter: RecordingMeter,
    scope: Scope,
    text: str,
) -> None:
    door = open_door(database, clock, tokens, meter, scope, embedder=FakeEmbedder())
    for turn in range(4):
        await say(door, f"t{turn}", text, f"{text} I live in {text}", session="old", user_id="ada")
    await say(door, "t9", "I keep bees in the garden in Zanzibar.", session="old", user_id="ada")
    await door("file_write", project="default", path="/notes", content=text)
    await door.work()
    asked = await ask(door, text, session="new", user_id="ada", sources=["turns", "facts", "files"])
    assert asked["input_items"] == [user(text)]
    more = await ask(door, f"{text} {BEES}", session="new", user_id="ada")
    assert ("old", "I keep bees in the garden in Zanzibar.") in shown(more)


async def test_every_source_may_be_left_out(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I live in Oslo. I keep bees in the garden in Zanzibar.", user_id="ada")
    question = "Where do I live, and where do I keep my bees in Zanzibar?"
    facts = memory(await ask(door, question, user_id="ada", sources=["facts"]))
    turns = memory(await ask(door, question, user_id="ada", sources=["turns"]))
    assert (bool(facts["facts"]), facts["turns"]) == (True, [])
    assert (turns["facts"], bool(turns["turns"])) == ([], True)
    assert (await ask(door, question, user_id="ada", sources=[]))["input_items"] == [user(question)]


async def test_a_session_of_several_users_is_recalled_in_none_of_their_other_sessions(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "I keep bees in the garden in Zanzibar.", session="shared", user_id="ada")
    assert shown(await ask(door, BEES, session="own", user_id="ada"))
    clock.advance(minutes=1)
    await say(door, "t2", "Hello there.", session="shared", user_id="bob")
    clock.advance(minutes=1)
    for who in ("ada", "bob"):
        assert shown(await ask(door, BEES, session="own", user_id=who)) == []
    await say(door, "t3", "It is me again.", session="shared", user_id="ada")
    assert shown(await ask(door, BEES, session="own", user_id="ada")) == []


async def test_in_a_session_of_several_users_each_is_told_what_was_said_there(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "I keep bees in the garden in Zanzibar.", session="shared", user_id="ada")
    await say(door, "t2", "Hello there.", session="shared", user_id="bob")
    prepared = await ask(door, BEES, session="shared", user_id="bob")
    assert ("shared", "I keep bees in the garden in Zanzibar.") in shown(prepared)


async def test_a_turn_of_nobody_leaves_a_session_to_its_user(door: Door) -> None:
    await say(door, "t1", "I keep bees in the garden in Zanzibar.", session="old", user_id="ada")
    await say(door, "t2", "Hello there.", session="old")
    await say(door, "t3", "Hello again.", session="old", user_id="ada")
    prepared = await ask(door, BEES, session="new", user_id="ada")
    assert ("old", "I keep bees in the garden in Zanzibar.") in shown(prepared)


async def test_facts_leave_room_for_messages_and_do_not_repeat_them(opened: Opened) -> None:
    door = opened(recent_context_items=0, recall_tok_max=600)
    for number in range(20):
        await say(
            door,
            f"t{number}",
            f"I like bees in Zanzibar by hive{number}. lake{number}, hill{number}",
        )
    await say(door, "t-ride", "I ride a steel Koga to the bees in Zanzibar.")
    told = memory(await ask(door, "Which bees in Zanzibar do I ride to?"))
    said = str(told["turns"])
    assert "steel Koga" in said
    assert "steel Koga" not in str(told["facts"])
    assert len(str(told["facts"])) < len(said)


async def test_an_answer_in_other_words_is_recalled_from_an_agents_work(
    opened: Opened,
) -> None:
    door = opened(recent_context_items=0, recall_turns_limit=5)
    work = [
        ("the Zanzibar meter eats its battery", "R7 stays hot since poll() never returns."),
        ("show me the map of the depots", "Drawn into depots.svg with eleven pins."),
        ("print the labels for the crates", "Sent 40 labels to the printer in hall 3."),
        ("colour the poster of the fair", "Made the sky dark and the letters white."),
        ("anything else before we stop?", "Remaining: rotate the keys, drop the old cron."),
    ]
    for number, (text, answer) in enumerate(work):
        await say(door, f"t{number}", text, answer=answer, session="old", user_id="ada")
    question = "why was the battery of the Zanzibar meter empty?"
    prepared = await ask(door, question, session="new", user_id="ada")
    assert "poll() never returns" in str(shown(prepared))


@pytest.mark.parametrize(("kind", "told"), [("general", 0), ("open", 1), ("personal", 1)])
def test_one_word_of_a_fact_is_no_evidence_for_general_knowledge(kind: str, told: int) -> None:
    found = {7: IndexMatches(30, {"use": 1}, [Candidate(3, {"use": 4.0}, 9)])}
    question = "What is Kubernetes used for?"
    assert len(rank_entries(QuestionTerms.of(question), QuestionKind(kind), [7], found)) == told
