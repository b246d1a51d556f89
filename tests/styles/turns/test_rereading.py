"""Facts of older versions get the words that say them, and those that nothing says go."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.facts import Claim, Statement
from memsvc.core.rules import extraction, sentences
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.styles.turns import policy
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.rebuilt_facts import REREAD_JOB
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.talk import ask, file_records, say, values

PASTED = "Translate into French:\n\nI live in Rome. I like opera."
U1 = {"session_id": "s1", "user_id": "u1"}


@pytest.fixture
def older_rules(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Rules that keep no words, cut a negation off, take an employer for an origin, and what is
    pasted for the user's own."""
    claims_of = extraction.claims_of

    def read_by_older_rules(*args: Any, **named: Any) -> list[Claim]:
        claims = [
            replace(claim, statement="", value=claim.value.removeprefix("never "))
            if isinstance(claim, Statement)
            else claim
            for claim in claims_of(*args, **named)
        ]
        return [
            replace(claim, fact_id="user_origin", key="origin")
            if isinstance(claim, Statement) and claim.value == "Acme"
            else claim
            for claim in claims
        ]

    monkeypatch.setattr(extraction, "claims_of", read_by_older_rules)
    monkeypatch.setattr(sentences, "pasted_spans", lambda _: [])
    return monkeypatch


async def reread(door: Door) -> None:
    await door.jobs[REREAD_JOB].run(Scope(door.caller.tenant, "default"), "")


async def test_facts_get_their_words_and_what_nobody_said_goes(
    door: Door,
    clock: FakeClock,
    older_rules: pytest.MonkeyPatch,
    database: Database,
    tokens: O200kCounter,
    scope: Scope,
) -> None:
    await say(door, "t1", "My name is Ada. I prefer never flying at night.", user_id="u1")
    await say(door, "t2", PASTED, user_id="u1")
    await say(door, "t4", "I work for Acme.", user_id="u1")
    await say(door, "t3", "My dog is called Rex.", user_id="u1", session="s2")
    listed = (await door("memory_list_facts", **U1))["facts"]
    assert len(listed) == 6
    rex = next(fact for fact in listed if fact["value"] == "Rex")
    await door("memory_correct_fact", **U1, record_id=rex["record_id"], value="Max")
    clock.advance(days=1)
    older_rules.undo()
    for _ in range(2):  # a second run finds nothing to do
        await reread(door)
    after = (await door("memory_list_facts", **U1, state="all"))["facts"]
    told = {fact["value"]: (fact["state"], fact["statement"]) for fact in after}
    assert told["Rome"] == told["opera"] == ("deleted", "")
    assert told["Max"] == ("active", "")  # a person's
    assert told["Acme"] == ("active", "I work for Acme.")
    assert {fact["key"] for fact in after if fact["value"] == "Acme"} == {"employer"}
    assert told["Ada"] == ("active", "My name is Ada.")
    assert told["never flying at night"] == ("active", "I prefer never flying at night.")
    before = {fact["record_id"]: fact["valid_from"] for fact in listed}
    assert all(
        before.get(fact["record_id"], fact["valid_from"]) == fact["valid_from"] for fact in after
    )
    assert "Rome" not in values(await ask(door, "Where do I live?", user_id="u1"))
    records = await file_records(door, "/memory/s1/memory_tiers/L0/2026/01/facts-202601.jsonl")
    assert Counter(one["type"] for one in records)["fact_reread"] == 3
    rebuilding = TurnRebuild(database, clock, tokens, TurnOptions())
    for session in ("s1", "s2"):
        assert await rebuilding.check(scope, session) == Counter()
    assert await rebuilding.check_user(scope, "u1", ["s1", "s2"]) == Counter()


async def test_a_fact_whose_turn_is_gone_stays_as_it_is(
    door: Door, clock: FakeClock, older_rules: pytest.MonkeyPatch
) -> None:
    await say(door, "t1", PASTED, user_id="u1")
    policy = {"path": "/memory/s1/meta/policy.json", "content": '{"ttl_days": 1}'}
    await door("file_write", project="default", **policy, mode="TRUNCATE")
    clock.advance(days=3)
    assert (await door("memory_run_maintenance", session_id="s1"))["expired_items"] == 1
    before = (await door("memory_list_facts", **U1))["facts"]
    assert {fact["value"] for fact in before} == {"Rome", "opera"}
    older_rules.undo()
    await reread(door)
    assert (await door("memory_list_facts", **U1))["facts"] == before


async def swept(door: Door, clock: FakeClock, *said: tuple[str, str]) -> None:
    """Say sentences to an older version, a day apart, and let it remove what expired."""
    with pytest.MonkeyPatch.context() as older:
        older.setattr(policy, "LASTING_IDS", frozenset())
        for number, (session, text) in enumerate(said):
            await say(door, f"t{number}", text, user_id="u1", session=session)
            clock.advance(days=1)
        clock.advance(days=10)
        for session, _ in said:
            await door("memory_run_maintenance", session_id=session)


async def lasting(door: Door) -> dict[str, str]:
    """Return the user's current facts: the day each began, by value."""
    listed = (await door("memory_list_facts", **U1))["facts"]
    return {fact["value"]: fact["valid_from"][:10] for fact in listed}


async def test_removed_likes_are_read_again_in_the_order_in_which_they_were_said(
    door: Door, clock: FakeClock, database: Database, tokens: O200kCounter, scope: Scope
) -> None:
    await swept(
        door,
        clock,
        ("s1", "I like jazz."),
        ("s2", "I like opera. I hate coriander."),
        ("s1", "I don't like opera anymore."),
        ("s2", "I like tennis."),
        ("s1", "I need milk today."),
    )
    assert await lasting(door) == {}
    await say(door, "t9", "I hate tennis.", user_id="u1", session="s3")
    for _ in range(2):  # a second run finds nothing to do
        await reread(door)
        found = await lasting(door)
        assert {name: found[name] for name in ("jazz", "coriander")} == {
            "jazz": "2026-01-05",
            "coriander": "2026-01-06",
        }
        listed = (await door("memory_list_facts", **U1))["facts"]
        likes = sorted(fact["value"] for fact in listed if fact["fact_id"] == "user_like")
        assert likes == ["jazz"]
    rebuilding = TurnRebuild(database, clock, tokens, TurnOptions())
    assert await rebuilding.check_user(scope, "u1", ["s1", "s2", "s3"]) == Counter()


async def test_removed_like_is_read_once_and_not_again_after_it_was_forgotten(
    door: Door, clock: FakeClock
) -> None:
    await swept(door, clock, ("s1", "I like jazz."), ("s1", "I like opera."))
    await door("memory_forget", **U1, query="opera", dry_run=False)
    await reread(door)
    assert await lasting(door) == {"jazz": "2026-01-05"}
    await door("memory_forget", **U1, query="jazz", dry_run=False)
    await reread(door)
    assert await lasting(door) == {}
