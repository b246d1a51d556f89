"""Purge of turn memory: what belongs to a session or a user and goes with it.

Files, indexes, guards, and what depends on them in indexes and files that stay. A fact that its
user also stated in another session gets that session as its new source."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from memsvc.core.analysis import query_terms
from memsvc.core.facts import Fact, FactState, Merge, Statement, normalized_value
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.rules.extraction import extract
from memsvc.core.scope import Scope
from memsvc.store import (
    facts,
    file_gc,
    files,
    forgets,
    guard,
    index,
    ownership,
    placement,
    tenant_purge,
)
from memsvc.store.database import Database, Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.index import index_id_of
from memsvc.store.insights import Insight
from memsvc.store.locks import TREE_LOCK, index_lock, session_lock
from memsvc.store.ownership import OwnerData, PurgeStep, counted
from memsvc.store.search import IndexQuery, search
from memsvc.store.style_files import append
from memsvc.store.tenant_purge import TableRows
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.turns import file_layout, turn_index
from memsvc.styles.turns.file_layout import fact_file, insights_file, is_of, session_root
from memsvc.styles.turns.follow_up import FOLLOW_UP_JOB
from memsvc.styles.turns.maintenance.raw_archive import event_files, lines_of
from memsvc.styles.turns.maintenance.session_maintenance import MAINTAIN_JOB
from memsvc.styles.turns.models.model_extraction import EXTRACT_JOB
from memsvc.styles.turns.models.summary_rewrite import SUMMARISE_JOB
from memsvc.styles.turns.session_placement import PLACE_JOB

STEP: Final = 200
_JOBS: Final = (FOLLOW_UP_JOB, PLACE_JOB, EXTRACT_JOB, SUMMARISE_JOB, MAINTAIN_JOB)
_USER_FACTS_PREFIX: Final = "facts/user/"
_USER_INSIGHTS_PREFIX: Final = "insights/user/"
FACTS_MAX: Final = 10_000
CANDIDATES: Final = 200
"""Best matches of a fact, in all that its user said, among which another statement of it is sought.
"""
TEXT_CHARS_MAX: Final = 20_000
LINES: Final = "lines"
"""Name under which removed lines of such files are counted."""
_BLOCKS_A_SWEEP: Final = 1000


@frozen
class TurnOwners:
    """Owners of turn memory: sessions and users."""

    database: Database
    clock: Clock

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Yield a session with all its messages.

        Facts about its users that were learned in it go too, unless they were also stated in
        another session, which then becomes their source."""
        yield await self._session(scope, session, excluded=())

    async def _session(self, scope: Scope, session: str, *, excluded: Sequence[str]) -> OwnerData:
        """Return what belongs to a session, without the indexes `excluded`, which go as a whole."""
        async with self.database.begin_read(scope) as tx:
            fact_index_names = await ownership.indexes_with_facts(tx, session, _USER_FACTS_PREFIX)
            cited = await ownership.insights_of_session(tx, _USER_INSIGHTS_PREFIX, session)
            fact_index_names = [name for name in fact_index_names if name not in excluded]
            cited = [(name, one) for name, one in cited if name not in excluded]
            steps = []
            for name in fact_index_names:
                user = name.removeprefix(_USER_FACTS_PREFIX)
                number = index_id_of(name)
                for fact in await ownership.facts_from_session(
                    tx, number, session, limit=FACTS_MAX
                ):
                    if not fact.is_valid(self.clock.now()):
                        continue
                    statement = await _find_statement(tx, fact, user, session)
                    if statement is not None:
                        steps.append(_source_step(name, fact, statement, self.clock))
        session_indexes = turn_index.of_session(session)
        return OwnerData(
            locks=(session_lock(session),),
            directories=(session_root(session),),
            purge_steps=(
                *steps,
                *(ownership.facts_of_session(name, session) for name in fact_index_names),
                *(self._insight(name, one, session) for name, one in cited),
                _items(session, [index_id_of(name) for name in excluded]),
                _turns(session, self.clock),
            ),
            index_names=tuple(index.name for index in session_indexes),
            owners=(("session", session),),
            last=(_row(session),),
            jobs=(
                *((name, session) for name in _JOBS),
                *((EMBED_JOB, str(index.number)) for index in session_indexes),
            ),
        )

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
        """Yield the sessions in which this user alone spoke, and then what is known of the user.

        A session that several users share stays, but for the facts about this one: its messages
        belong to all of them."""
        user_indexes = [
            *turn_index.facts("", user)[1:],
            *turn_index.insights("", user)[1:],
            turn_index.said(user),
        ]
        for session in await ownership.sessions_of(self.database, scope, user, shared=False):
            yield await self._session(
                scope, session, excluded=[index.name for index in user_indexes]
            )
        fact_index = turn_index.facts("", user)[1]
        shared = await ownership.sessions_of(self.database, scope, user, shared=True)
        kept = [session for session in shared if await self._has_spoken(scope, session, user)]
        yield OwnerData(
            locks=tuple(index_lock(index.name) for index in user_indexes),
            purge_steps=(
                *(_user_facts(fact_index.name, session, self.clock) for session in shared),
                *(_forgets(session, user) for session in shared),
            ),
            index_names=tuple(index.name for index in user_indexes),
            owners=(("user_id", user),),
            jobs=tuple((EMBED_JOB, str(index.number)) for index in user_indexes),
            kept_sessions=tuple(kept),
        )

    async def _has_spoken(self, scope: Scope, session: str, user: str) -> bool:
        async with self.database.begin_read(scope) as tx:
            for file in await event_files(tx, session):
                if any(line.user == user for line in await lines_of(tx, file)):
                    return True
        return False

    def _insight(self, name: str, insight: Insight, session: str) -> PurgeStep:
        """Return the step for an insight that cites the session, and its line in other sessions."""

        async def count(tx: Tx) -> Counter[str]:
            del tx
            return Counter(insights=1, entries=1)

        async def step(tx: Tx) -> Counter[str]:
            still = [
                one
                for index_name, one in await ownership.insights_of_session(tx, name, session)
                if index_name == name and one.insight == insight.insight
            ]
            if still:
                await ownership.drop_insights(tx, still)
            now, lines = self.clock.now(), 0
            for source in sources:
                path = insights_file(source, insight.made_at)
                lines += await _drop_lines(tx, path, {insight.insight}, now=now)
            return +Counter({"insights": len(still), "entries": len(still), LINES: lines})

        sources = sorted({cited["session"] for cited in insight.evidence["turns"]} - {session})
        locks = (*map(session_lock, sources), index_lock(name))
        return PurgeStep(locks, count, step)


def _items(session: str, excluded: Sequence[int]) -> PurgeStep:
    """Return the step for items that are searched elsewhere than in the session's own index.

    They are counted with those of the session. Search indexes that are `excluded` go as a whole."""
    index_id = turn_index.turns(session).number

    async def step(tx: Tx) -> int:
        found = await placement.list_elsewhere(tx, index_id, [*excluded, index_id], limit=STEP)
        await index.remove(tx, index_id, found, searched_elsewhere=True)
        if not found:
            await placement.release(tx, index_id)
        return len(found)

    return counted(("entries",), (), None, step)


def _row(session: str) -> PurgeStep:
    """Return the step for the session's own row."""
    rows = TableRows("sessions", "session", session)

    async def step(tx: Tx) -> int:
        return (await tenant_purge.erase(tx, rows, after=None, limit=STEP))[0]

    return counted(("sessions",), (), lambda tx: tenant_purge.count(tx, rows), step)


def _turns(session: str, clock: Clock) -> PurgeStep:
    """Return the step for the guards of its turns, which are counted as rows.

    A mark that the turn existed stays: a retry of it stores nothing."""
    return counted(
        ("guards",),
        (),
        None,
        lambda tx: guard.purge_turns(tx, session, now=clock.now(), limit=STEP),
    )


def _user_facts(name: str, session: str, clock: Clock) -> PurgeStep:
    """Return the step for facts about a user from a session that stays, and their lines there."""
    number = index_id_of(name)

    async def count(tx: Tx) -> Counter[str]:
        return Counter({LINES: await ownership.count_facts(tx, number, session)})

    async def step(tx: Tx) -> Counter[str]:
        gone = await ownership.facts_from_session(tx, number, session, limit=STEP)
        lines = 0
        for fact in gone:
            path, record = fact_file(fact), fact.statement.record
            lines += await _drop_lines(tx, path, {record}, now=clock.now())
        if gone:
            await ownership.drop_facts(tx, number, gone)
        return Counter({"facts": len(gone), "entries": len(gone), LINES: lines})

    return PurgeStep((session_lock(session),), count, step)


def _forgets(session: str, user: str) -> PurgeStep:
    """Return the step for what a user may still take back in a session that stays."""
    counted_rows = partial(forgets.count_of, session=session, user=user)
    removed_rows = partial(forgets.remove_of, session=session, user=user)
    return counted(("forgets",), (), counted_rows, removed_rows)


async def _find_statement(tx: Tx, fact: Fact, user: str, excluded: str) -> Statement | None:
    """Return the latest statement of a fact in another session of its user, as rules read it."""
    query = query_terms(fact.statement.value)
    if not query:
        return None
    search_id, own = turn_index.said(user).number, turn_index.turns(excluded).number
    query_of_user = IndexQuery(search_id, CANDIDATES, neighbours=0, expand_count=0)
    matches = (await search(tx, [query_of_user], query)).get(search_id)
    if matches is None:
        return None
    latest_first = sorted(
        (one for one in matches.candidates if one.term_scores and one.index_id != own),
        key=lambda one: (one.said_at, one.entry),
        reverse=True,
    )
    for one in latest_first:
        if one.role != "user":
            continue
        texts = await index.texts(tx, one.index_id, [one.entry], chars_max=TEXT_CHARS_MAX)
        for text in texts.values():
            claims = extract(
                [(text.ref, text.text)],
                session=turn_index.session_of(matches.names[one.index_id]),
                turn=file_layout.turn_of(text.ref),
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


def _source_step(name: str, fact: Fact, statement: Statement, clock: Clock) -> PurgeStep:
    """Return the step that makes the session of another statement the source of a fact."""
    number, other = index_id_of(name), statement.evidence.session

    async def count(tx: Tx) -> Counter[str]:
        del tx
        return Counter()

    async def step(tx: Tx) -> Counter[str]:
        session = fact.statement.evidence.session
        still = await ownership.facts_from_session(tx, number, session, limit=FACTS_MAX)
        old = [one for one in still if one.entry == fact.entry and one.state is FactState.ACTIVE]
        if not old:
            return Counter()
        now = clock.now()
        await ownership.drop_facts(tx, number, old)
        kept = replace(
            statement,
            tier=fact.statement.tier,
            confidence=fact.statement.confidence,
        )
        new_facts = [StatementWithExpiry(kept, fact.expires_at)]
        merge = Merge((kept,))
        first = (await index.add(tx, {name: facts.entries(new_facts, now)}))[name]
        await facts.apply(tx, number, first, merge, new_facts, now)
        await append(
            tx, file_layout.fact_lines(merge, new_facts, now), owner=file_layout.OWNER, now=now
        )
        return Counter(facts=1, entries=1)

    return PurgeStep((session_lock(other), index_lock(name)), count, step)


async def _drop_lines(tx: Tx, path: str, ids: Collection[str], *, now: datetime) -> int:
    """Remove the lines of these records, and of their changes, from a file and its history.

    Returns how many. A file that is left empty is deleted. The caller holds the session's lock."""
    file = await files.find(tx, path, for_update=True)
    if file is None:
        return 0
    lines = (await files.read(tx, file)).splitlines(keepends=True)
    kept = [line for line in lines if not is_of(line, ids)]
    if len(kept) == len(lines):
        return 0
    if kept:
        await files.rewrite(tx, file, b"".join(kept), is_text=True, now=now)
        keep = file_gc.FileRetention(cutoff=now, past_states=0, deleted_before=now)
        await file_gc.hide_old(tx, file.incarnation, keep)
    else:
        await tx.lock(TREE_LOCK)
        await files.delete(tx, path, recursive=False, now=now, keep_style_files=False)
        await file_gc.hide_all(tx, file.incarnation)
    while not await file_gc.sweep(tx, file.incarnation, limit=_BLOCKS_A_SWEEP):
        pass
    if not kept:
        await file_gc.forget(tx, file.incarnation)
    return len(lines) - len(kept)
