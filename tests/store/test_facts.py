"""A merge adds facts where there are none, and a put writes over those that are there."""

import random
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from memsvc.core.facts import Doubt, Evidence, Fact, FactState, FactTier, Merge, Statement
from memsvc.core.scope import Scope
from memsvc.store import fact_history, facts
from memsvc.store.database import Database
from memsvc.store.facts import CurrentFact, StatementWithExpiry
from memsvc.store.index import index_id_of
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio
BOOK = index_id_of("turns/s1")


def statement(value: str) -> Statement:
    evidence = Evidence("s1", "t1", "t1-in-0", "u1", "rule")
    return Statement(f"r-{value}", "name", "name", value, value, FactTier.L0, 1, "", evidence)


async def test_facts_of_a_merge_never_write_over_others(
    database: Database, scope: Scope, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    old = Fact(1, statement("Ada"), FactState.ACTIVE, clock.now(), None, None, None, BOOK)
    async with database.begin(scope) as tx:
        await facts.put(tx, [old])
    merge = Merge((), (), 0, deleted=(old,))
    new = [StatementWithExpiry(statement(value), None) for value in ("Bo", "Cy")]
    with pytest.raises(asyncpg.UniqueViolationError):
        async with database.begin(scope) as tx:
            await facts.apply(tx, BOOK, 0, merge, new, clock.now())
    held = "SELECT entry, value, state FROM facts ORDER BY entry"
    assert [tuple(row) for row in await admin.fetch(held)] == [(1, "Ada", "active")]
    async with database.begin(scope) as tx:
        await facts.put(tx, [replace(old, statement=statement("Dee"))])
        await facts.apply(tx, BOOK, 2, Merge((), (), 0), new, clock.now())
    found = [tuple(row) for row in await admin.fetch(held)]
    assert found == [(1, "Dee", "active"), (2, "Bo", "active"), (3, "Cy", "active")]


def latest_of(fact: Fact) -> CurrentFact:
    said = fact.statement
    return CurrentFact(
        fact.entry,
        said.fact_id,
        said.key,
        said.told,
        fact.valid_from,
        fact.doubt and fact.doubt.text,
        said.evidence.session,
        said.record,
    )


async def test_the_latest_facts_are_those_that_are_asked_for_first_and_then_the_newest(
    database: Database, scope: Scope, clock: FakeClock
) -> None:
    chance, now = random.Random(5), clock.now()
    stored = [
        Fact(
            entry,
            replace(statement(f"v{entry}"), fact_id=chance.choice(("name", "diet", "other"))),
            chance.choice((FactState.ACTIVE, FactState.ACTIVE, *FactState)),
            now + timedelta(days=chance.randrange(9)),  # many at the same time
            None,
            chance.choice((None, None, now, now - timedelta(1), now + timedelta(1))),
            None,
            BOOK,
            chance.choice((None, Doubt("not any more", now, "s2", "t2"))),
        )
        for entry in range(60)
    ]
    current = [fact for fact in stored if fact.is_valid(now)]
    async with database.begin(scope) as tx:
        await facts.put(tx, [*stored, replace(stored[0], index_id=BOOK + 1)])
        deleted = [fact for fact in stored if fact.state is FactState.DELETED]
        await fact_history.forget(tx, deleted)
        for first in ((), ("diet", "none"), ("diet", "name", "other")):
            wanted = sorted(
                current,
                key=lambda fact: (fact.statement.fact_id in first, fact.valid_from, fact.entry),
                reverse=True,
            )
            for limit in (1, 7, 200):
                found = await facts.latest_facts(tx, BOOK, now, first=first, limit=limit)
                assert found == (list(map(latest_of, wanted[:limit])), len(current))
        assert await facts.latest_facts(tx, BOOK + 2, now, first=(), limit=9) == ([], 0)
