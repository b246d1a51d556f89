"""Facts of a purged session that their user also stated in another one, their new source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memsvc.core.analysis import query_terms
from memsvc.core.facts import Fact, FactState, Merge, Statement, normalized_value
from memsvc.core.items import user_message
from memsvc.core.ports import Clock
from memsvc.core.rules.extraction import extract
from memsvc.store import facts, index, purge_steps
from memsvc.store.append_log import append
from memsvc.store.database import Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.index import index_id_of
from memsvc.store.locks import index_lock, session_lock
from memsvc.store.ownership import PurgeStep
from memsvc.store.search import IndexQuery, search
from memsvc.styles.turns import file_layout, turn_index

FACTS_MAX: Final = 10_000
SESSIONS_MAX: Final = 200
"""Latest sessions of a user that are searched for a fact of the purged session."""
INDEXES_AT_ONCE: Final = 20
CANDIDATES: Final = 20
TEXT_CHARS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class _OtherStatement:
    """A fact, and the statement of it in another session."""

    fact: Fact
    statement: Statement


async def repeated_facts(tx: Tx, name: str, session: str, clock: Clock) -> list[PurgeStep]:
    """Return a purge step for each valid fact of a user that another session states too.

    The step makes that session the source of the fact."""
    user = name.removeprefix("facts/user/")
    session_facts = await purge_steps.facts_from_session(
        tx, index_id_of(name), session, limit=FACTS_MAX
    )
    current = [fact for fact in session_facts if fact.is_valid(clock.now())]
    others = (
        await purge_steps.latest_sessions(tx, user, excluded=session, limit=SESSIONS_MAX)
        if current
        else []
    )
    found = []
    for fact in current:
        statement = await _find_statement(tx, fact, user, others)
        if statement is not None:
            found.append(_source_step(name, _OtherStatement(fact, statement), clock))
    return found


async def _find_statement(tx: Tx, fact: Fact, user: str, others: Sequence[str]) -> Statement | None:
    """Return the latest statement of a fact in one of these sessions, as rules read it there."""
    query = query_terms(fact.statement.value)
    for start in range(0, len(others) if query else 0, INDEXES_AT_ONCE):
        session_by_index = {
            turn_index.turns(one).number: one for one in others[start : start + INDEXES_AT_ONCE]
        }
        queries = [
            IndexQuery(index_id, CANDIDATES, neighbours=0, expand_count=0)
            for index_id in session_by_index
        ]
        for index_id, result in (await search(tx, queries, query)).items():
            entries = [one.entry for one in result.candidates if one.term_scores]
            texts = await index.texts(tx, index_id, entries, chars_max=TEXT_CHARS_MAX)
            for text in sorted(texts.values(), key=lambda one: -one.entry):
                if text.role != "user":
                    continue
                turn = file_layout.turn_of(text.ref)
                claims = extract(
                    [(text.ref, user_message(text.text))],
                    session=session_by_index[index_id],
                    turn=turn,
                    user=user,
                )
                for claim in claims:
                    if isinstance(claim, Statement) and _same(claim, fact.statement):
                        return claim
    return None


def _same(one: Statement, other: Statement) -> bool:
    return one.identity == other.identity and normalized_value(one.value) == normalized_value(
        other.value
    )


def _source_step(name: str, other_statement: _OtherStatement, clock: Clock) -> PurgeStep:
    number, other = index_id_of(name), other_statement.statement.evidence.session

    async def count(tx: Tx) -> Counter[str]:
        del tx
        return Counter()

    async def step(tx: Tx) -> Counter[str]:
        session = other_statement.fact.statement.evidence.session
        still = await purge_steps.facts_from_session(tx, number, session, limit=FACTS_MAX)
        old = [
            one
            for one in still
            if one.entry == other_statement.fact.entry and one.state is FactState.ACTIVE
        ]
        if not old:
            return Counter()
        now = clock.now()
        await purge_steps.drop_facts(tx, number, old)
        kept = replace(
            other_statement.statement,
            tier=other_statement.fact.statement.tier,
            confidence=other_statement.fact.statement.confidence,
        )
        new_facts = [StatementWithExpiry(kept, other_statement.fact.expires_at)]
        merge = Merge((kept,), (), 0)
        first = (await index.add(tx, {name: facts.entries(new_facts, now)}))[name]
        await facts.apply(tx, number, first, merge, new_facts, now)
        await append(
            tx, file_layout.fact_lines(merge, new_facts, now), owner=file_layout.OWNER, now=now
        )
        return Counter(facts=1, entries=1)

    return PurgeStep((session_lock(other), index_lock(name)), count, step)
