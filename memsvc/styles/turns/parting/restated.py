"""Facts of a purged session that their user also stated in another one, their new source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memsvc.core.analysis import query_terms
from memsvc.core.facts import Fact, Merge, State, Statement, normalised_value
from memsvc.core.items import user_message
from memsvc.core.ports import Clock
from memsvc.core.rules.extraction import extract
from memsvc.store import facts, index, partings
from memsvc.store.belongings import Parting
from memsvc.store.database import Tx
from memsvc.store.facts import Dated
from memsvc.store.index import book_of
from memsvc.store.journals import append
from memsvc.store.locks import book_lock, session_lock
from memsvc.store.search import Shelf, search
from memsvc.styles.turns import books, layout

FACTS_MAX: Final = 10_000
SESSIONS_MAX: Final = 200
"""Latest sessions of a user that are searched for a fact of the purged session."""
SHELVES_AT_ONCE: Final = 20
CANDIDATES: Final = 20
TEXT_CHARS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Again:
    """A fact, and the statement of it in another session."""

    fact: Fact
    statement: Statement


async def restated(tx: Tx, name: str, session: str, clock: Clock) -> list[Parting]:
    """Return a purge step for each valid fact of a user that another session states too.

    The step makes that session the source of the fact."""
    user = name.removeprefix("facts/user/")
    held = await partings.facts_learnt_in(tx, book_of(name), session, most=FACTS_MAX)
    current = [fact for fact in held if fact.holds(clock.now())]
    others = await partings.latest_sessions(tx, user, but=session, most=SESSIONS_MAX) if current else []
    found = []
    for fact in current:
        statement = await _elsewhere(tx, fact, user, others)
        if statement is not None:
            found.append(_resting(name, _Again(fact, statement), clock))
    return found


async def _elsewhere(tx: Tx, fact: Fact, user: str, others: Sequence[str]) -> Statement | None:
    """Return the latest statement of a fact in one of these sessions, as rules read it there."""
    asked = query_terms(fact.statement.value)
    for start in range(0, len(others) if asked else 0, SHELVES_AT_ONCE):
        some = {books.turns(one).number: one for one in others[start : start + SHELVES_AT_ONCE]}
        shelves = [Shelf(book, CANDIDATES, reach=0, reaching=0) for book in some]
        for book, shown in (await search(tx, shelves, asked)).items():
            entries = [one.entry for one in shown.candidates if one.term_scores]
            texts = await index.texts(tx, book, entries, chars_max=TEXT_CHARS_MAX)
            for text in sorted(texts.values(), key=lambda one: -one.entry):
                if text.role != "user":
                    continue
                turn = layout.turn_of(text.ref)
                claims = extract([(text.ref, user_message(text.text))], session=some[book], turn=turn, user=user)
                for claim in claims:
                    if isinstance(claim, Statement) and _same(claim, fact.statement):
                        return claim
    return None


def _same(one: Statement, other: Statement) -> bool:
    return one.identity == other.identity and normalised_value(one.value) == normalised_value(other.value)


def _resting(name: str, again: _Again, clock: Clock) -> Parting:
    number, other = book_of(name), again.statement.evidence.session

    async def count(tx: Tx) -> Counter[str]:
        del tx
        return Counter()

    async def step(tx: Tx) -> Counter[str]:
        session = again.fact.statement.evidence.session
        still = await partings.facts_learnt_in(tx, number, session, most=FACTS_MAX)
        old = [one for one in still if one.entry == again.fact.entry and one.state is State.ACTIVE]
        if not old:
            return Counter()
        now = clock.now()
        await partings.drop_facts(tx, number, old)
        kept = replace(again.statement, tier=again.fact.statement.tier, confidence=again.fact.statement.confidence)
        dated = [Dated(kept, again.fact.expires_at)]
        merge = Merge((kept,), (), 0)
        first = (await index.add(tx, {name: facts.entries(dated, now)}))[name]
        await facts.apply(tx, number, first, merge, dated, now)
        await append(tx, layout.fact_lines(merge, dated, now), owner=layout.OWNER, now=now)
        return Counter(facts=1, entries=1)

    return Parting((session_lock(other), book_lock(name)), count, step)
