"""Ownership of turn memory: what belongs to a session or a user and goes with it.

Files, indexes, guards, and what depends on them in indexes that stay."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import digests, guard, purge_steps, tenant_purge
from memsvc.store.database import Database, Tx
from memsvc.store.index import index_id_of
from memsvc.store.insights import Insight
from memsvc.store.locks import index_lock, session_lock
from memsvc.store.ownership import OwnerData, PurgeStep, TableRows, nothing
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import session_root
from memsvc.styles.turns.follow_up import FOLLOW_UP_JOB
from memsvc.styles.turns.maintenance.session_maintenance import MAINTAIN_JOB
from memsvc.styles.turns.models.model_extraction import EXTRACT_JOB
from memsvc.styles.turns.models.summary_rewrite import SUMMARISE_JOB
from memsvc.styles.turns.purge.file_lines import LINES, forget_fact_lines, forget_insight_lines
from memsvc.styles.turns.purge.repeated_facts import repeated_facts
from memsvc.styles.turns.recall.digests import digest_prefix

STEP: Final = 200
SESSIONS_A_PAGE: Final = 100
_JOBS: Final = (FOLLOW_UP_JOB, EXTRACT_JOB, SUMMARISE_JOB, MAINTAIN_JOB)
_USER_FACTS_PREFIX: Final = "facts/user/"
_USER_INSIGHTS_PREFIX: Final = "insights/user/"


class TurnOwnership:
    """Ownership declarations of turn memory."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Yield a session with all its messages.

        Facts about its users that were learned in it go too, unless they were also stated in
        another session, which then becomes their source."""
        yield await self._session(scope, session, excluded=())

    async def _session(self, scope: Scope, session: str, *, excluded: Sequence[str]) -> OwnerData:
        """Return what belongs to a session, without the indexes `excluded`, which go as a whole."""
        async with self._database.begin(scope, read_only=True) as tx:
            fact_index_names = await purge_steps.indexes_with_facts(tx, session, _USER_FACTS_PREFIX)
            cited = await purge_steps.insights_of_session(tx, _USER_INSIGHTS_PREFIX, session)
            fact_index_names = [name for name in fact_index_names if name not in excluded]
            cited = [(name, one) for name, one in cited if name not in excluded]
            repeated_steps = [
                one
                for name in fact_index_names
                for one in await repeated_facts(tx, name, session, self._clock)
            ]
        session_indexes = [
            turn_index.turns(session),
            *turn_index.facts(session, ""),
            *turn_index.insights(session, ""),
        ]
        return OwnerData(
            locks=(session_lock(session),),
            directories=(session_root(session),),
            purge_steps=(
                *repeated_steps,
                *(_facts(name, session) for name in fact_index_names),
                *(self._insight(name, one, session) for name, one in cited),
                _turns(session, self._clock),
            ),
            index_names=tuple(index.name for index in session_indexes),
            owners=(("session", session),),
            last=(_row(session), _digests(session, [index_id_of(name) for name in excluded])),
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
            turn_index.digests(user),
        ]
        for session in await self._sessions(scope, user, shared=False):
            yield await self._session(
                scope, session, excluded=[index.name for index in user_indexes]
            )
        fact_index = turn_index.facts("", user)[1]
        shared = await self._sessions(scope, user, shared=True)
        yield OwnerData(
            locks=tuple(index_lock(index.name) for index in user_indexes),
            purge_steps=tuple(
                _user_facts(fact_index.name, session, self._clock) for session in shared
            ),
            index_names=tuple(index.name for index in user_indexes),
            owners=(("user_id", user),),
            jobs=tuple((EMBED_JOB, str(index.number)) for index in user_indexes),
        )

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[OwnerData]:
        """Yield nothing: callers keep no files here."""
        return nothing()

    async def _sessions(self, scope: Scope, user: str, *, shared: bool) -> list[str]:
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            async with self._database.begin(scope, read_only=True) as tx:
                page = await purge_steps.sessions_of(
                    tx, user, shared=shared, after=after, limit=SESSIONS_A_PAGE
                )
            found += page
            if len(page) < SESSIONS_A_PAGE:
                return found

    def _insight(self, name: str, insight: Insight, session: str) -> PurgeStep:
        """Return the step for an insight that cites the session, and its line in other sessions."""

        async def found(tx: Tx) -> Sequence[Insight]:
            return [
                one
                for index_name, one in await purge_steps.insights_of_session(tx, name, session)
                if index_name == name
            ]

        async def count(tx: Tx) -> Counter[str]:
            del tx
            return Counter(insights=1, entries=1)

        async def step(tx: Tx) -> Counter[str]:
            still = [one for one in await found(tx) if one.insight == insight.insight]
            if still:
                await purge_steps.drop_insights(tx, still)
            return Counter(insights=len(still), entries=len(still)) + await forget_insight_lines(
                tx, insight, session, now=self._clock.now()
            )

        source_sessions = {cited["session"] for cited in insight.evidence["turns"]} - {session}
        locks = [session_lock(one) for one in sorted(source_sessions)]
        return PurgeStep((*locks, index_lock(name)), count, step)


def _facts(name: str, session: str) -> PurgeStep:
    """Return the step for the facts of an index that were learned in a session."""
    number = index_id_of(name)

    async def count(tx: Tx) -> Counter[str]:
        facts = await purge_steps.count_facts(tx, number, session)
        return Counter(facts=facts, entries=facts)

    async def step(tx: Tx) -> Counter[str]:
        gone = await purge_steps.facts_from_session(tx, number, session, limit=STEP)
        if gone:
            await purge_steps.drop_facts(tx, number, gone)
        return Counter(facts=len(gone), entries=len(gone))

    return PurgeStep((index_lock(name),), count, step)


def _digests(session: str, excluded: Sequence[int]) -> PurgeStep:
    """Return the step for the digests of a session; none are written once its row is gone."""
    prefix = digest_prefix(session)

    async def count(tx: Tx) -> Counter[str]:
        return Counter(entries=await digests.count(tx, prefix, excluded=excluded))

    async def step(tx: Tx) -> Counter[str]:
        return Counter(entries=await digests.remove(tx, prefix, excluded=excluded, limit=STEP))

    return PurgeStep((), count, step)


def _row(session: str) -> PurgeStep:
    """Return the step for the session's own row, which the digest job checks."""
    rows = TableRows("sessions", "session", session)

    async def count(tx: Tx) -> Counter[str]:
        return Counter(sessions=await tenant_purge.count(tx, rows))

    async def step(tx: Tx) -> Counter[str]:
        return Counter(sessions=(await tenant_purge.erase(tx, rows, after=None, limit=STEP))[0])

    return PurgeStep((), count, step)


def _turns(session: str, clock: Clock) -> PurgeStep:
    """Return the step for the guards of its turns.

    A mark that the turn existed stays: a retry of it stores nothing."""

    async def count(tx: Tx) -> Counter[str]:
        del tx
        return Counter()  # counted as rows

    async def step(tx: Tx) -> Counter[str]:
        return Counter(guards=await guard.purge_turns(tx, session, now=clock.now(), limit=STEP))

    return PurgeStep((), count, step)


def _user_facts(name: str, session: str, clock: Clock) -> PurgeStep:
    """Return the step for facts about a user from a session that stays, and their lines there."""
    number = index_id_of(name)

    async def count(tx: Tx) -> Counter[str]:
        return Counter({LINES: await purge_steps.count_facts(tx, number, session)})

    async def step(tx: Tx) -> Counter[str]:
        gone = await purge_steps.facts_from_session(tx, number, session, limit=STEP)
        lines = sum([await forget_fact_lines(tx, fact, now=clock.now()) for fact in gone])
        if gone:
            await purge_steps.drop_facts(tx, number, gone)
        return Counter({"facts": len(gone), "entries": len(gone), LINES: lines})

    return PurgeStep((session_lock(session),), count, step)
