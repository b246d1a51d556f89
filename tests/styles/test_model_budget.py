"""What a tenant may have a model asked a day holds for everything that asks; what is over is done
without it."""

from collections.abc import Callable
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.adapters.models import llm
from memsvc.adapters.options import ModelOptions
from memsvc.core.scope import Scope
from memsvc.gateway.limits import LimitsOptions
from memsvc.store.database import Database
from memsvc.styles.turns.options import HeuristicOptions, TurnOptions
from tests.door import Door, Refused, open_door
from tests.endpoints import provider
from tests.fakes import FakeClock, RecordingMeter, ScriptedLlm

pytestmark = pytest.mark.anyio
BOARD = {"user_id": "alice", "conversation_id": "c"}
FACTS, CHANGES = (
    orjson.dumps({"facts": ["Loves tea"]}).decode(),
    orjson.dumps({"memory": []}).decode(),
)
Opened = Callable[..., Door]


@pytest.fixture
def model() -> ScriptedLlm:
    return ScriptedLlm()


@pytest.fixture
def opened(
    database: Database, clock: FakeClock, tokens: Any, meter: RecordingMeter, scope: Scope
) -> Opened:
    """Makes a service whose tenants have so many questions a day: `opened(2, model)`."""

    def made(calls_a_day: int, model: Any) -> Door:
        limits = LimitsOptions(model_calls_a_day=calls_a_day)
        turns = TurnOptions(heuristic=HeuristicOptions(enabled=True))
        return open_door(
            database, clock, tokens, meter, scope, llm=model, limits=limits, turns=turns
        )

    return made


async def counted(admin: asyncpg.Connection) -> dict[str, int]:
    return {
        row["purpose"]: row["times"]
        for row in await admin.fetch("SELECT purpose, times FROM allowances")
    }


async def note(door: Door, text: str) -> dict[str, Any]:
    await door("context_update", **BOARD, entries=[{"role": "user", "content": text}])
    return await door("whiteboard_get", **BOARD)


async def tell(door: Door, text: str) -> list[str]:
    added = await door("memories_add", user_id="alex", messages=[{"role": "user", "content": text}])
    return [one["memory"] for one in added["results"]]


async def test_a_board_over_the_budget_is_written_by_rules_and_says_so(
    opened: Opened, model: ScriptedLlm, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    door, model.always = opened(1, model), "By the model."
    assert (await note(door, "We meet on Monday."))["made_by"] == "model"
    board = await note(door, "The budget is 400 euros.")
    assert board["made_by"] == "rules"
    assert "400 euros" in board["text"]
    assert len(model.asked) == 1
    assert await counted(admin) == {"model": 1}
    clock.advance(days=1)
    assert (await note(door, "It rains."))["made_by"] == "model"


async def test_memories_over_the_budget_are_found_by_rules(
    opened: Opened, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    door = opened(2, model)
    model.answers += [FACTS, CHANGES]
    # what the second answer forgets is added
    assert await tell(door, "I am Ada and I live in Rome.") == ["Loves tea"]
    assert any("Rome" in text for text in await tell(door, "I live in Rome."))
    assert len(model.asked) == 2
    assert await counted(admin) == {"model": 2}


async def test_a_budget_that_ends_between_two_questions_leaves_the_rest_to_rules(
    opened: Opened, model: ScriptedLlm
) -> None:
    door = opened(1, model)
    model.answers.append(FACTS)
    assert any("Rome" in text for text in await tell(door, "I live in Rome."))
    assert len(model.asked) == 1


async def test_everything_that_asks_counts_together(
    opened: Opened, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    door = opened(100, model)
    model.always = lambda question: (
        {"alignment": 0.9}
        if "identity" in question.text
        else "By the model, as told."
        if question.text
        else []
    )
    await note(door, "We meet on Monday.")
    await door("file_write", project="default", path="/a", content="A long story. " * 200)
    await door.work()
    await door("elfmem_remember", content="Ada drinks tea.")
    await door("elfmem_dream")
    model.always = None
    await door(
        "memory_after_turn",
        session_id="s",
        turn_id="t",
        input_items=[{"role": "user", "content": "Hi."}],
    )
    await door.work()
    times = await counted(admin)
    assert times == {"model": len(model.asked), "summary": 1, "judgement": 1, "turns": 1}
    assert times["model"] == 4


async def test_a_tenant_s_budget_is_its_own(
    opened: Opened, model: ScriptedLlm, other_scope: Scope
) -> None:
    door, model.always = opened(1, model), "By the model."
    await note(door, "One.")
    assert (await note(door, "Two."))["made_by"] == "rules"
    assert (await note(door.as_tenant(other_scope), "Three."))["made_by"] == "model"


async def test_a_key_that_the_endpoint_refuses_keeps_every_entry_waiting_and_costs_nothing(
    opened: Opened, meter: RecordingMeter, admin: asyncpg.Connection
) -> None:
    async with provider() as there:
        there.always = "refuses the key"
        options = ModelOptions(model="openai:m", base_url=there.url, api_key="sk-1", retries=0)
        async with llm(options, meter) as asked:
            assert asked is not None
            door = opened(100, asked)
            for _ in range(5):
                with pytest.raises(Refused) as refused:
                    await note(door, "We meet on Monday.")
                body = refused.value.body
                assert (body["code"], body["retryable"]) == ("UNAVAILABLE", False)
            with pytest.raises(Refused, match="401"):
                await tell(door, "I live in Rome.")
            assert asked.refused
            assert await counted(admin) == {"model": 0}
            there.always = "fine"
            assert (await note(door, "It rains."))["made_by"] == "model"
            shown = str(there.calls[-1].body)
            assert "Monday" in shown
            assert "It rains" in shown
    assert meter.total("memsvc_model_refusals_total") == 6
