"""What helped is recalled sooner and what was wrong later; a wrong fact is in doubt, and nothing is
deleted."""

from typing import Any

import pytest

from memsvc.core.ranking import DEFAULT_WEIGHTS, Candidate, QuestionTerms, rank
from memsvc.core.scope import Scope
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from tests.door import Door
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio

ADA = {"session_id": "s", "user_id": "ada"}
ASKED = "Which bakery in the old town sells rye bread?"
SAID = [f"The {name} bakery in the old town sells rye bread" for name in ("Linden", "Harbour")]


async def keep(call: Door, *texts: str) -> None:
    for at, text in enumerate(texts):
        said = {"type": "message", "role": "user", "content": text}
        await call("memory_after_turn", **ADA, turn_id=f"t{at}", input_items=[said])


async def recalled(call: Door, question: str = ASKED) -> list[tuple[str, float]]:
    """The past items, best first, with their scores."""
    prepared = await call(
        "memory_before_turn", session_id="s2", user_id="ada", current_input=question, explain=True
    )
    candidates = prepared["explanation"]["candidates"]
    return [(one["ref"], one["score"]) for one in candidates if one["kind"] == "turn"]


async def facts(call: Door) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await call("memory_list_facts", **ADA))["facts"]
    return listed


@pytest.mark.parametrize("verdict", ["helped", "wrong"])
async def test_a_turn_moves_in_the_ranking_by_a_bounded_factor(call: Door, verdict: str) -> None:
    await keep(call, *SAID)
    before = dict(await recalled(call))
    (first, _), (second, _) = await recalled(call)
    moved = second if verdict == "helped" else first
    rated = ADA | {"turn_id": moved.removesuffix("-in-0"), "verdict": verdict}
    assert await call("memory_feedback", **rated) == {"changed": True}
    assert await call("memory_feedback", **rated) == {"changed": False}
    after = await recalled(call)
    assert [ref for ref, _ in after] == [second, first]
    factor = dict(after)[moved] / before[moved]
    assert factor == pytest.approx(1.15 if verdict == "helped" else 0.7, abs=0.01)
    opposite = {"verdict": "wrong" if verdict == "helped" else "helped"}
    assert await call("memory_feedback", **rated | opposite) == {"changed": True}
    assert [ref for ref, _ in await recalled(call)] == [first, second]


def test_feedback_never_lifts_what_shares_no_word_above_what_does() -> None:
    question = QuestionTerms.of("rye bread").in_index(10, {"rye": 2, "bread": 2})
    ranked = rank(
        [Candidate(1, {"rye": 1.0}, 8, feedback=-1), Candidate(9000, {}, 8, feedback=1)],
        question,
        DEFAULT_WEIGHTS,
    )
    assert [one.entry for one in ranked] == [1]


async def test_a_wrong_fact_is_questioned_until_it_helps(
    call: Door, scope: Scope, clock: FakeClock, tokens: Any
) -> None:
    await keep(call, "I live in Rome.")
    [fact] = await facts(call)
    rated = ADA | {"record_id": fact["record_id"]}
    for _ in range(2):
        await call("memory_feedback", **rated, verdict="wrong")
        [told] = await facts(call)
        assert (told["state"], told["doubt"]["text"]) == ("questioned", "reported as wrong")
    prompt = await call(
        "memory_before_turn", session_id="s2", user_id="ada", current_input="Where do I live?"
    )
    assert "questioned" in str(prompt["input_items"])
    assert "Rome" in str(prompt["input_items"])
    assert call.database is not None
    rebuilding = TurnRebuild(call.database, clock, tokens, TurnOptions())
    assert not await rebuilding.check_user(scope, "ada", ["s"])
    await call("memory_feedback", **rated, verdict="helped")
    [told] = await facts(call)
    assert (told["state"], told["doubt"]) == ("active", None)
    assert not await rebuilding.check_user(scope, "ada", ["s"])
    assert not await rebuilding.check(scope, "s")


async def test_a_doubt_of_the_users_own_words_stays(call: Door) -> None:
    await keep(call, "I work at Acme.", "I quit my job.")
    questioned = [fact for fact in await facts(call) if fact["doubt"]]
    for fact in questioned:
        for verdict in ("wrong", "helped"):
            await call("memory_feedback", **ADA, record_id=fact["record_id"], verdict=verdict)
    assert [fact["doubt"] for fact in await facts(call) if fact["doubt"]] == [
        fact["doubt"] for fact in questioned
    ]


async def test_another_tenant_rates_nothing_here(call: Door, other_call: Door) -> None:
    await keep(call, *SAID, "I live in Rome.")
    await keep(other_call, *SAID)
    [fact] = await facts(call)
    before = await recalled(call)
    record = {"record_id": fact["record_id"], "verdict": "wrong"}
    await other_call.refuses("NOT_FOUND", "memory_feedback", **ADA, **record)
    await other_call("memory_feedback", **ADA, turn_id="t0", verdict="wrong")
    assert await recalled(call) == before
    assert (await facts(call))[0]["state"] == "active"


async def test_what_is_not_there_or_not_clear_is_refused(call: Door) -> None:
    await keep(call, *SAID)
    await call.refuses("NOT_FOUND", "memory_feedback", **ADA, turn_id="t9", verdict="helped")
    await call("memory_forget", **ADA, turn_ids=["t0"])
    await call.refuses("NOT_FOUND", "memory_feedback", **ADA, turn_id="t0", verdict="helped")
    for given in ({}, {"turn_id": "t1", "record_id": "0" * 12}):
        await call.refuses("INVALID_ARGUMENT", "memory_feedback", **ADA, **given, verdict="wrong")
