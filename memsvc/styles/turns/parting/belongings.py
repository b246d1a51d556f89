"""Ownership of turn memory: what belongs to a session or a user and goes with it.

Files, indexes, guards, and what depends on them in indexes that stay."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import digests, erasing, guard, partings
from memsvc.store.belongings import Belongings, Parting, Rows, nothing
from memsvc.store.database import Database, Tx
from memsvc.store.index import book_of
from memsvc.store.insights import Insight
from memsvc.store.locks import book_lock, session_lock
from memsvc.styles.embedding import EMBED_JOB
from memsvc.styles.turns import books
from memsvc.styles.turns.follow_up import FOLLOW_UP_JOB
from memsvc.styles.turns.layout import session_root
from memsvc.styles.turns.models.enrichment import EXTRACT_JOB
from memsvc.styles.turns.models.rewording import SUMMARISE_JOB
from memsvc.styles.turns.parting.lines import LINES, forget_fact_lines, forget_insight_lines
from memsvc.styles.turns.parting.restated import restated
from memsvc.styles.turns.recall.digests import digest_prefix
from memsvc.styles.turns.upkeep.maintenance import MAINTAIN_JOB

STEP: Final = 200
SESSIONS_A_PAGE: Final = 100
_JOBS: Final = (FOLLOW_UP_JOB, EXTRACT_JOB, SUMMARISE_JOB, MAINTAIN_JOB)
_ABOUT_USERS: Final = "facts/user/"
_INSIGHTS_ABOUT_USERS: Final = "insights/user/"


class TurnBelongings:
    """Ownership declarations of turn memory."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[Belongings]:
        """Yield a session with all its messages.

        Facts about its users that were learned in it go too, unless they were also stated in
        another session, which then becomes their source."""
        yield await self._session(scope, session, but=())

    async def _session(self, scope: Scope, session: str, *, but: Sequence[str]) -> Belongings:
        """Return what belongs to a session, without the indexes `but`, which go as a whole."""
        async with self._database.begin(scope, read_only=True) as tx:
            learnt = await partings.books_learnt_in(tx, session, _ABOUT_USERS)
            cited = await partings.insights_citing(tx, _INSIGHTS_ABOUT_USERS, session)
            learnt = [name for name in learnt if name not in but]
            cited = [(name, one) for name, one in cited if name not in but]
            again = [one for name in learnt for one in await restated(tx, name, session, self._clock)]
        own = [books.turns(session), *books.facts(session, ""), *books.insights(session, "")]
        return Belongings(
            locks=(session_lock(session),),
            directories=(session_root(session),),
            partings=(
                *again,
                *(_facts(name, session) for name in learnt),
                *(self._insight(name, one, session) for name, one in cited),
                _turns(session, self._clock),
            ),
            books=tuple(book.name for book in own),
            rows=(Rows("recalls", "session", session), Rows("guards", "session", session)),
            last=(_row(session), _digests(session, [book_of(name) for name in but])),
            jobs=(
                *((name, session) for name in _JOBS),
                *((EMBED_JOB, str(book.number)) for book in own),
            ),
        )

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[Belongings]:
        """Yield the sessions in which this user alone spoke, and then what is known of the user.

        A session that several users share stays, but for the facts about this one: its messages
        belong to all of them."""
        own = [*books.facts("", user)[1:], *books.insights("", user)[1:], books.digests(user)]
        for session in await self._sessions(scope, user, shared=False):
            yield await self._session(scope, session, but=[book.name for book in own])
        about = books.facts("", user)[1]
        shared = await self._sessions(scope, user, shared=True)
        yield Belongings(
            locks=tuple(book_lock(book.name) for book in own),
            partings=tuple(_told(about.name, session, self._clock) for session in shared),
            books=tuple(book.name for book in own),
            rows=(Rows("recalls", "user_id", user),),
            jobs=tuple((EMBED_JOB, str(book.number)) for book in own),
        )

    def of_path(self, scope: Scope, path: str) -> AsyncIterator[Belongings]:
        """Yield nothing: callers keep no files here."""
        return nothing()

    async def _sessions(self, scope: Scope, user: str, *, shared: bool) -> list[str]:
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            async with self._database.begin(scope, read_only=True) as tx:
                page = await partings.sessions_of(tx, user, shared=shared, after=after, most=SESSIONS_A_PAGE)
            found += page
            if len(page) < SESSIONS_A_PAGE:
                return found

    def _insight(self, name: str, insight: Insight, session: str) -> Parting:
        """Return the step for an insight that cites the session, and its line in other sessions."""

        async def found(tx: Tx) -> Sequence[Insight]:
            return [one for shelf, one in await partings.insights_citing(tx, name, session) if shelf == name]

        async def count(tx: Tx) -> Counter[str]:
            del tx
            return Counter(insights=1, entries=1)

        async def step(tx: Tx) -> Counter[str]:
            still = [one for one in await found(tx) if one.insight == insight.insight]
            if still:
                await partings.drop_insights(tx, still)
            return Counter(insights=len(still), entries=len(still)) + await forget_insight_lines(
                tx, insight, session, now=self._clock.now()
            )

        makers = {cited["session"] for cited in insight.evidence["turns"]} - {session}
        locks = [session_lock(one) for one in sorted(makers)]
        return Parting((*locks, book_lock(name)), count, step)


def _facts(name: str, session: str) -> Parting:
    """Return the step for the facts of an index that were learned in a session."""
    number = book_of(name)

    async def count(tx: Tx) -> Counter[str]:
        facts = await partings.count_facts(tx, number, session)
        return Counter(facts=facts, entries=facts)

    async def step(tx: Tx) -> Counter[str]:
        gone = await partings.facts_learnt_in(tx, number, session, most=STEP)
        if gone:
            await partings.drop_facts(tx, number, gone)
        return Counter(facts=len(gone), entries=len(gone))

    return Parting((book_lock(name),), count, step)


def _digests(session: str, but: Sequence[int]) -> Parting:
    """Return the step for the digests of a session; none are written once its row is gone."""
    prefix = digest_prefix(session)

    async def count(tx: Tx) -> Counter[str]:
        return Counter(entries=await digests.count(tx, prefix, but=but))

    async def step(tx: Tx) -> Counter[str]:
        return Counter(entries=await digests.remove(tx, prefix, but=but, limit=STEP))

    return Parting((), count, step)


def _row(session: str) -> Parting:
    """Return the step for the session's own row, which the digest job checks."""
    rows = Rows("sessions", "session", session)

    async def count(tx: Tx) -> Counter[str]:
        return Counter(sessions=await erasing.count(tx, rows))

    async def step(tx: Tx) -> Counter[str]:
        return Counter(sessions=(await erasing.erase(tx, rows, after=None, most=STEP))[0])

    return Parting((), count, step)


def _turns(session: str, clock: Clock) -> Parting:
    """Return the step for the guards of its turns.

    A mark that the turn existed stays: a retry of it stores nothing."""

    async def count(tx: Tx) -> Counter[str]:
        del tx
        return Counter()  # counted as rows

    async def step(tx: Tx) -> Counter[str]:
        return Counter(guards=await guard.bury(tx, session, now=clock.now(), most=STEP))

    return Parting((), count, step)


def _told(name: str, session: str, clock: Clock) -> Parting:
    """Return the step for facts about a user from a session that stays, and their lines there."""
    number = book_of(name)

    async def count(tx: Tx) -> Counter[str]:
        return Counter({LINES: await partings.count_facts(tx, number, session)})

    async def step(tx: Tx) -> Counter[str]:
        gone = await partings.facts_learnt_in(tx, number, session, most=STEP)
        lines = sum([await forget_fact_lines(tx, fact, now=clock.now()) for fact in gone])
        if gone:
            await partings.drop_facts(tx, number, gone)
        return Counter({"facts": len(gone), "entries": len(gone), LINES: lines})

    return Parting((session_lock(session),), count, step)
