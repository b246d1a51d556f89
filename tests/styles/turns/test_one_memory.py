"""One memory of a person: what was said in any session is found from every other one of the user."""

from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Scope
from memsvc.styles.turns import session_placement, turn_index
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, memory, say

BEES = "Where in Zanzibar do I keep my bees?"


def shown(prepared: dict[str, Any]) -> set[tuple[str, str]]:
    """The session and the text of each past item in the block."""
    return {(one["session"], one["text"]) for one in memory(prepared)["turns"]}


def project(door: Door) -> Scope:
    return Scope(door.caller.tenant, "default")


async def searched_in(admin: asyncpg.Connection, session: str) -> list[str | None]:
    """The name of the search index of each item of a session, in order."""
    rows = await admin.fetch(
        """
        SELECT s.name FROM entries AS e JOIN books AS b USING (tenant, project, book)
        LEFT JOIN books AS s ON (s.tenant, s.project, s.book) = (e.tenant, e.project, e.search_book)
        WHERE b.name = $1 ORDER BY e.entry
        """,
        turn_index.turns(session).name,
    )
    return [row["name"] for row in rows]


async def test_every_one_of_many_short_sessions_is_found_at_once(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=0)
    for number in range(40):
        clock.advance(days=1)
        text = f"The kettle{number} came from the market{number} in town{number}."
        await say(door, "t1", text, session=f"s{number}", user_id="ada")
    for number in range(40):
        question = f"Where did the kettle{number} come from?"
        found = shown(await ask(door, question, session="new", user_id="ada"))
        assert (
            f"s{number}",
            f"The kettle{number} came from the market{number} in town{number}.",
        ) in (found)
    await door.work()
    question = "Where did the kettle3 come from?"
    assert "s3" in {session for session, _ in shown(await ask(door, question, user_id="ada"))}


async def test_neighbours_of_a_hit_are_those_of_its_session(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=0)
    for number in range(40):
        for session in ("one", "two"):  # which stand side by side in the index of their user
            clock.advance(minutes=1)
            text = f"The {session} ship{number} has a rope{number}{session}."
            answer = f"Fine, {session} {number}."
            await say(door, f"t{number}", text, answer=answer, session=session, user_id="ada")
    prepared = await ask(door, "What of rope33one?", user_id="ada", explain=True)
    near = {
        (one["session"], one["ref"])
        for one in prepared["explanation"]["candidates"]
        if one["kind"] == "turn" and one.get("parts", {}).get("near")
    }
    assert ("one", "t33-out-0") in near
    assert "two" not in {session for session, _ in near}


async def test_a_session_is_found_nowhere_else_from_when_another_user_speaks_there(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=0)
    text = "I keep bees in the garden in Zanzibar."
    await say(door, "t1", text, session="room", user_id="ada")
    assert ("room", text) in shown(await ask(door, BEES, session="new", user_id="ada"))
    await say(door, "t2", "Hello, Bob here.", session="room", user_id="bob")
    for user in ("ada", "bob"):  # before anything was moved, and after
        assert not shown(await ask(door, BEES, session="new", user_id=user))
        assert ("room", text) in shown(await ask(door, BEES, session="room", user_id=user))
    assert ("room", text) in shown(await ask(door, BEES, session="room", user_id=""))
    await door.work()
    assert set(await searched_in(admin, "room")) == {"turns/room"}
    assert not await admin.fetchval("SELECT bool_or(withheld <> '{}') FROM books")
    for user in ("ada", "bob"):
        assert not shown(await ask(door, BEES, session="new", user_id=user))
        assert ("room", text) in shown(await ask(door, BEES, session="room", user_id=user))


async def test_the_move_of_a_long_session_can_be_interrupted_at_any_step(
    opened: Opened, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_placement, "ITEMS_A_STEP", 3)
    door = opened(recent_context_items=0)
    for number in range(6):
        await say(
            door, f"t{number}", f"I keep bees in hive{number}.", session="room", user_id="ada"
        )
    await say(door, "last", "Bob speaks.", session="room", user_id="bob")
    place = door.jobs["turns.place"]
    original = session_placement.SessionPlacement.place_next
    steps = 0

    async def killed(self: Any, tx: Any, session: str, **given: Any) -> int | None:
        nonlocal steps
        steps += 1
        if steps % 2 == 0:
            raise RuntimeError("killed")
        return await original(self, tx, session, **given)

    monkeypatch.setattr(session_placement.SessionPlacement, "place_next", killed)
    for _ in range(20):
        for number in range(6):  # in its own session it is found at every moment
            found = shown(await ask(door, f"What of hive{number}?", session="room", user_id="ada"))
            assert ("room", f"I keep bees in hive{number}.") in found, number
        assert not shown(await ask(door, "What of hive2?", session="new", user_id="ada"))
        if set(await searched_in(admin, "room")) == {"turns/room"}:
            break
        try:
            await place.run(project(door), "room")
        except RuntimeError:
            continue
    assert set(await searched_in(admin, "room")) == {"turns/room"}


async def test_a_session_joins_the_memory_of_a_user_who_is_named_later(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=0)
    text = "I keep bees in the garden in Zanzibar."
    await say(door, "t1", text, session="old")
    await say(door, "t2", "It is me.", session="old", user_id="ada")
    assert ("old", text) in shown(await ask(door, BEES, session="old", user_id="ada"))
    await door.work()
    assert set(await searched_in(admin, "old")) == {"said/ada"}
    assert ("old", text) in shown(await ask(door, BEES, session="new", user_id="ada"))
    assert ("old", text) in shown(await ask(door, BEES, session="old", user_id="ada"))


async def test_a_call_without_a_user_sees_its_session_alone(opened: Opened) -> None:
    door = opened(recent_context_items=0)
    mine, other = "I keep bees in the garden in Zanzibar.", "I keep bees on the roof in Zanzibar."
    await say(door, "t1", mine, session="mine", user_id="ada")
    await say(door, "t1", other, session="other", user_id="ada")
    for user in ("", "bob"):
        assert shown(await ask(door, BEES, session="mine", user_id=user)) == {("mine", mine)}
    assert shown(await ask(door, BEES, session="new")) == set()


async def test_as_of_finds_what_a_thousand_later_messages_say_better(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=0)
    text = "The Vega launch is in March, somebody said."
    await say(door, "t1", text, session="old", user_id="ada")
    clock.advance(days=1)
    then = clock.now()
    clock.advance(days=1)
    for batch in range(20):
        items = [
            {"role": "user", "content": f"The Vega launch, Vega launch {batch} {number}!"}
            for number in range(50)
        ]
        await door(
            "memory_after_turn",
            session_id=f"later{batch}",
            user_id="ada",
            turn_id="t1",
            input_items=items,
            output_items=[],
        )
    asked = {"session": "new", "user_id": "ada"}
    question = "When is the Vega launch?"
    assert shown(await ask(door, question, as_of=then.isoformat(), **asked)) == {("old", text)}


async def test_what_was_forgotten_leaves_the_index_of_its_user(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=0)
    for number in range(3):
        text = f"I keep bees in the violet{number} hive in Zanzibar."
        await say(door, f"t{number}", text, session=f"s{number}", user_id="ada")
    await door("memory_forget", session_id="s1", user_id="ada", turn_ids=["t1"], dry_run=False)
    found = shown(await ask(door, "Where is the violet1 hive in Zanzibar?", user_id="ada"))
    assert not any("violet1" in text for _, text in found)
    kept = """
        SELECT (SELECT count(*) FROM fresh_terms WHERE $1 = ANY(terms))
            + (SELECT count(*) FROM posting_lists WHERE term = $1)
    """
    assert [await admin.fetchval(kept, f"violet{number}") for number in range(3)] == [1, 0, 1]


async def test_a_turn_of_no_user_stays_with_the_user_of_its_session(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    door = opened(recent_context_items=0)
    await say(door, "t1", "Hello.", session="old", user_id="ada")
    await say(door, "t2", "I keep bees in Zanzibar.", session="old")
    assert set(await searched_in(admin, "old")) == {"said/ada"}
    assert ("old", "I keep bees in Zanzibar.") in shown(
        await ask(door, BEES, session="new", user_id="ada")
    )
