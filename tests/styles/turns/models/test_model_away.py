"""A model that is away, slow, wrong or used up changes nothing but what it would have told."""

from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import pytest

from memsvc.adapters.models import llm
from memsvc.adapters.options import ModelOptions
from memsvc.core.errors import Code, MemsvcError, ModelOutputError
from memsvc.styles.turns.models.model_budget import PAUSE_S
from tests.door import Door
from tests.endpoints import Fault, Provider, provider
from tests.fakes import FakeClock, RecordingMeter, ScriptedLlm
from tests.styles.turns.models.conftest import Made
from tests.styles.turns.models.proposals import adds, believed, extract, waiting
from tests.styles.turns.talk import ask, events, say, unblocked, values

pytestmark = pytest.mark.anyio
AWAY = MemsvcError(Code.UNAVAILABLE, "the model endpoint cannot be reached")
REFUSED = MemsvcError(Code.INTERNAL_ERROR, "the model endpoint answered with status 401")
NONSENSE = ModelOutputError(
    Code.INTERNAL_ERROR, "the model endpoint returned an answer in an unexpected format"
)


@pytest.mark.parametrize("failure", [AWAY, REFUSED])
async def test_a_model_that_fails_loses_nothing(
    door: Door,
    model: ScriptedLlm,
    admin: asyncpg.Connection,
    clock: FakeClock,
    failure: MemsvcError,
) -> None:
    model.answers.extend([failure, [adds("dog_name", "Rex")]])
    await say(door, "t1", "The dog answers to Rex.")
    with pytest.raises(MemsvcError) as raised:
        await extract(door)
    assert raised.value is failure
    clock.advance(seconds=PAUSE_S)
    await extract(door)
    assert await believed(admin) == {"dog_name": "Rex"}


async def test_a_model_that_is_away_is_left_alone_for_a_while(
    door: Door, model: ScriptedLlm, clock: FakeClock
) -> None:
    model.answers.append(AWAY)
    for session in ("s1", "s2"):
        await say(door, "t1", "Hello.", session=session)
        with pytest.raises(MemsvcError, match="reach"):
            await extract(door, session)
    assert len(model.asked) == 1
    clock.advance(seconds=PAUSE_S)
    await extract(door, "s2")
    assert len(model.asked) == 2


async def test_what_a_model_cannot_answer_to_is_halved_and_then_passed_over(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    for turn in range(4):
        await say(door, f"t{turn}", f"Blue thing {turn}.")
    await admin.execute("DELETE FROM job_refs")
    model.answers.extend([NONSENSE, NONSENSE, [adds("colour", "blue")]])
    await extract(door)
    assert [len(question.shown["messages"]) for question in model.asked] == [4, 2]
    assert await waiting(admin) == ["s1"]
    await extract(door)
    assert [one["text"] for one in model.asked[2].shown["messages"]] == [
        "Blue thing 2.",
        "Blue thing 3.",
    ]
    assert await believed(admin) == {"colour": "blue"}


async def test_a_tenants_day_has_so_many_calls(
    made: Made, model: ScriptedLlm, admin: asyncpg.Connection, clock: FakeClock
) -> None:
    door = made(model, calls_a_day=2)
    for session in ("s1", "s2", "s3"):
        await say(door, "t1", "Hello.", session=session)
    await admin.execute("DELETE FROM job_refs")
    for session in ("s1", "s2", "s3"):
        await extract(door, session)
    assert len(model.asked) == 2
    assert await waiting(admin) == ["s3"]
    clock.advance(days=1)
    await extract(door, "s3")
    assert len(model.asked) == 3


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as running:
        yield running


@pytest.mark.parametrize(
    "fault",
    ["fine", "slow", "hang up", "busy", "broken", "truncated", "garbage", "a list", "half", "huge",
     "compressed", "redirect", "refuses", "refuses the key", "says why not"],
)  # fmt: skip
async def test_turns_are_the_same_whatever_the_endpoint_does(
    made: Made, there: Provider, meter: RecordingMeter, fault: Fault
) -> None:
    there.always = fault
    there.finds = {"changes": [adds("dog_name", "Rex")]}
    options = ModelOptions(
        model="openai:m", base_url=there.url, api_key="sk-1", retries=0, timeout_ms=2000
    )
    if fault == "slow":
        options = options.model_copy(update={"timeout_ms": 100})
    async with llm(options, meter) as asked:
        assert asked is not None
        door = made(asked)
        stored = await say(door, "t1", "My name is Ada. Rex barks.", answer="Hello.")
        assert stored["fact_ids"] == ["user_name"]
        with suppress(MemsvcError):
            await extract(door)
        prepared = await ask(door, "What is my name?")
        assert values(prepared)[0] == "Ada"
        assert [event["turn_id"] for event in await events(door)] == ["t1", "t1"]
        assert len(unblocked(prepared)) == 3
        assert ("Rex" in values(await ask(door, "And my dog name?"))) == (fault == "fine")
        assert await say(door, "t1", "My name is Ada. Rex barks.", answer="Hello.") == stored


async def test_an_answer_that_is_not_unicode_is_made_so_or_refused(
    made: Made, there: Provider, admin: asyncpg.Connection
) -> None:
    there.finds = {"changes": [adds("dog_name", "Re\ud800x"), adds("colour", "blue")]}
    async with llm(
        ModelOptions(model="openai:m", base_url=there.url, retries=0), RecordingMeter()
    ) as asked:
        assert asked is not None
        door = made(asked)
        await say(door, "t1", "Hello there.")
        with suppress(MemsvcError):
            await extract(door)
    assert set((await believed(admin)).values()) <= {"Rex", "blue"}
