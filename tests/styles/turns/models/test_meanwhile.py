"""What people do while a model thinks comes first: what was changed, forgotten or is not to be kept
stays so."""

import asyncpg
import pytest

from tests.door import Door
from tests.fakes import FakeClock, ScriptedLlm
from tests.styles.turns.models.proposals import adds, believed, deletes, extract, updates
from tests.styles.turns.talk import say

pytestmark = pytest.mark.anyio


async def test_a_fact_that_changed_while_the_model_thought_is_left_alone(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    await say(door, "t1", "My name is Ada.")
    await extract(door)
    await say(door, "t2", "Ada it is no longer.")

    async def changed() -> None:
        clock.advance(seconds=1)
        await say(door, "t3", "My name is Eve.")

    model.meanwhile = changed
    model.answers.append([deletes("f1"), updates("f1", "Bob")])
    await extract(door)
    assert await believed(admin) == {"name": "Eve"}


async def test_what_was_forgotten_while_the_model_thought_stays_forgotten(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    model.answers.append([adds("name", "Ada"), adds("called", "Ada")])
    await say(door, "t1", "My name is Ada.")

    async def forgotten() -> None:
        clock.advance(seconds=1)
        await door("memory_forget", session_id="s1", fact_ids=["user_name"])

    model.meanwhile = forgotten
    await extract(door)
    assert "name" not in await believed(admin)


@pytest.mark.parametrize("gone", [["t2"], ["t1"]])
async def test_a_turn_that_was_forgotten_while_the_model_thought_stays_forgotten_and_the_rest_is_read_again(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, gone: list[str]
) -> None:
    await say(door, "t1", "The dog eats a lot.")
    await say(door, "t2", "The dog answers to Rex.")

    async def forgotten() -> None:
        model.meanwhile = nothing
        await door("memory_forget", session_id="s1", turn_ids=gone)

    async def nothing() -> None:
        pass

    model.meanwhile = forgotten
    model.answers.append([adds("dog_name", "Rex", evidence=["m2"])])
    await extract(door)
    assert await believed(admin) == {}
    first, second = (
        [one["text"] for one in question.shown["messages"]] for question in model.asked
    )
    assert len(first) == 2
    assert len(second) == 1


async def test_an_earlier_message_that_was_forgotten_meanwhile_gives_no_fact_either(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    await say(door, "t1", "The dog answers to Rex.")
    await extract(door)
    await say(door, "t2", "He eats a lot.")

    async def forgotten() -> None:
        await door("memory_forget", session_id="s1", turn_ids=["t1"])

    model.meanwhile = forgotten
    model.answers.append([adds("dog_name", "Rex")])
    await extract(door)
    assert await believed(admin) == {}


async def keep_nothing(door: Door) -> None:
    path = "/memory/s1/meta/policy.json"
    await door(
        "file_write", project="default", path=path, content='{"store": false}', mode="TRUNCATE"
    )


async def test_of_a_session_that_keeps_nothing_any_more_the_model_is_told_nothing(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    model.answers.append([adds("dog_name", "Rex")])
    await say(door, "t1", "The dog answers to Rex.", answer="Nice.")
    await keep_nothing(door)
    await door.work()
    assert model.asked == []
    assert await believed(admin) == {}


async def test_what_the_model_finds_is_not_kept_when_nothing_is_to_be_kept_by_then(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    model.answers.append([adds("dog_name", "Rex")])
    await say(door, "t1", "The dog answers to Rex.", answer="Nice.")
    model.meanwhile = lambda: keep_nothing(door)
    await extract(door)
    assert len(model.asked) == 1
    assert await believed(admin) == {}


async def test_what_a_person_corrected_is_not_undone_by_a_model(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    await say(door, "t1", "My name is Ada. I like jazz.")
    await extract(door)
    for fact in (await door("memory_list_facts", session_id="s1"))["facts"]:
        clock.advance(seconds=1)
        await door(
            "memory_correct_fact",
            session_id="s1",
            record_id=fact["record_id"],
            value={"Ada": "Eve", "jazz": "opera"}[fact["value"]],
        )
    model.answers.append(
        [
            *(deletes(name) for name in ("f1", "f2")),
            *(updates(name, "Mallory") for name in ("f1", "f2")),
            adds("name", "Ada"),
            adds("like", "jazz", evidence=["m1"]),
        ]
    )
    await say(door, "t2", "Ada plays jazz.", answer="Ada likes jazz.")
    await extract(door)
    believed_now = await believed(admin)
    assert (believed_now["name"], believed_now["like"]) == ("Eve", "opera")
