"""Rebuild of rows derived from a session's files: a check that also repairs.

Correct rows stay, so that memory is never empty in between, and a killed rebuild is simply run
again. Each step is one transaction: a file of events, the index entries, the facts of an index.
Data written between two steps is kept: the last file and what follows from all files are one
step."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

import anyio

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import decode_segment
from memsvc.core.ports import Clock, TokenCounter
from memsvc.core.scope import Scope
from memsvc.store import derived, derived_facts, derived_index, files, guard, sessions, tree, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.index import NewEntry
from memsvc.store.locks import book_lock, session_lock
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import books, budget
from memsvc.styles.turns.books import Book
from memsvc.styles.turns.layout import ROOT
from memsvc.styles.turns.migration.noted import noted_file, read_noted
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.rebuilt_facts import compare_facts, users_of
from memsvc.styles.turns.rebuild.rebuilt_index import compare_index
from memsvc.styles.turns.rebuild.walk import Onward, Walk, counted, done, resulting
from memsvc.styles.turns.turn import entry_of
from memsvc.styles.turns.upkeep.event_files import FILES_A_PAGE, EventFile, Line, event_files, forgotten_turns, lines_of
from memsvc.styles.turns.upkeep.maintenance import GUARDED_AS

WALKS_MAX: Final = 5
"""Attempts to read a session whose older files change meanwhile."""

Differences = Counter[str]
"""Rows that differ from the files, by table."""


class Rebuilding:
    """Compares derived rows with their source files, and repairs them."""

    def __init__(self, database: Database, clock: Clock, tokens: TokenCounter, options: TurnOptions) -> None:
        self._database = database
        self._clock = clock
        self._costs = budget.Costs(tokens, options)
        self._options = options

    async def sessions(self, scope: Scope) -> list[str]:
        """Return every session of a project that has files."""
        found: list[str] = []
        last = ""
        async with self._database.begin(scope, read_only=True) as tx:
            while page := await tree.walk(tx, ROOT, depth=1, after=last, most=FILES_A_PAGE):
                names = [row["path"].split("/")[2] for row in page]
                found += [name for name in map(decode_segment, names) if name is not None]
                last = f"{ROOT}/{names[-1]}/~"
        return list(dict.fromkeys(found))

    async def authors(self, scope: Scope) -> dict[str, list[str]]:
        """Return the users of a project with facts, and the sessions that these were learned in."""
        found: dict[str, list[str]] = {}
        for session in await self.sessions(scope):
            async with self._database.begin(scope, read_only=True) as tx:
                for user in await users_of(tx, session):
                    found.setdefault(user, []).append(session)
        return found

    async def check(self, scope: Scope, session: str) -> Differences:
        """Return how a session's rows differ from its files, read in one snapshot.

        Changes nothing."""
        found: Differences = Counter()
        async with self._database.begin(scope, read_only=True) as tx:
            among = await event_files(tx, session)
            walk = Walk(await derived_index.refs(tx, books.turns(session).number), await forgotten_turns(tx, among))
            for file in among:
                found += await self._events(tx, session, file, walk, mend=False)
            found += await self._session(tx, session, walk, mend=False)
            found += await compare_facts(tx, books.facts(session, "")[0], [session], mend=False)
            for book in _indexed(session):
                found += await compare_index(tx, book, mend=False)
        return found

    async def check_user(self, scope: Scope, user: str, learnt_in: Sequence[str]) -> Differences:
        """Return how the facts about a user differ from the files of their sessions."""
        book = books.facts("", user)[1]
        async with self._database.begin(scope, read_only=True) as tx:
            found = await compare_facts(tx, book, await _all_of(tx, book, learnt_in), mend=False)
            for one in (book, books.insights("", user)[1], books.digests(user)):
                found += await compare_index(tx, one, mend=False)
            return found

    async def run(self, scope: Scope, session: str, *, renumber: bool = False) -> Differences:
        """Repair the derived rows of a session; return the differences.

        RESOURCE_BUSY while the session is maintained. With `renumber` the entries of the session
        get new numbers in the order of its files, all or none, while writers wait; maintenance then
        recreates what depended on the old ones."""
        found: Differences = Counter()
        async with self._claimed(scope, session) as token:
            if renumber:
                found += await self._renumbered(scope, session, token)
            else:
                found += await self._walked(scope, session, token)
            own = books.facts(session, "")[0]
            async with self._step(scope, session, token, own) as tx:
                found += await compare_facts(tx, own, [session], mend=True)
            for book in _indexed(session):
                async with self._step(scope, session, token, book) as tx:
                    found += await compare_index(tx, book, mend=True)
        return found

    async def _walked(self, scope: Scope, session: str, token: UUID) -> Differences:
        """Repair entries, guards and the session's row.

        RESOURCE_BUSY if older files keep changing."""
        found: Differences = Counter()
        refs: dict[str, int] = {}
        for _ in range(WALKS_MAX):
            started = f"{self._clock.now():%Y%m%d}"
            async with self._step(scope, session, token) as tx:
                refs = await derived_index.refs(tx, books.turns(session).number) | refs
                walk = Walk(refs, await forgotten_turns(tx, await event_files(tx, session)))
            onward = Onward.MORE
            while onward is Onward.MORE:
                async with self._step(scope, session, token) as tx:
                    onward = await self._next(tx, session, walk, started, found)
            if onward is Onward.DONE:
                return found
        raise MemsvcError(
            Code.RESOURCE_BUSY, "older events of this session are changed again and again", retry_after_s=1.0
        )

    async def _next(self, tx: Tx, session: str, walk: Walk, started: str, found: Differences) -> Onward:
        """Repair from the next file; with the last one also the totals, in one step."""
        among = await event_files(tx, session)
        # turns forgotten meanwhile are recorded in today's files
        if not await forgotten_turns(tx, [one for one in among if one.day >= started]) <= walk.forgotten:
            return Onward.VOID
        behind = [one.path for one in among if walk.after is not None and one <= walk.after]
        ahead = among[len(behind) :]
        last = len(ahead) <= 1
        if last:
            if await derived.extents(tx, behind) != walk.read:
                return Onward.VOID
            # turns stored meanwhile keep their numbers too
            walk.refs = await derived_index.refs(tx, books.turns(session).number, first=walk.stop) | walk.refs
        for file in ahead[:1]:
            walk.read |= await derived.extents(tx, [file.path])
            found += await self._events(tx, session, file, walk, mend=True)
            walk.after = file
        if last:
            found += await self._session(tx, session, walk, mend=True)
        return Onward.DONE if last else Onward.MORE

    async def _renumbered(self, scope: Scope, session: str, token: UUID) -> Differences:
        """Renumber the entries of a session in order, in one transaction.

        An entry whose number is taken would not exist in between."""
        book = books.turns(session)
        found: Differences = Counter()
        async with self._step(scope, session, token, book) as tx:
            among = await event_files(tx, session)
            walk = Walk({}, await forgotten_turns(tx, among))
            for file in among:
                found += await self._events(tx, session, file, walk, mend=True)
            found += await self._session(tx, session, walk, mend=True)
            found += await compare_index(tx, book, mend=True)
            if found:
                await self._made_anew(tx, session)
        return found

    async def run_user(self, scope: Scope, user: str, learnt_in: Sequence[str]) -> Differences:
        """Repair the facts about a user, in one transaction; return the differences.

        No fact about the user is stored meanwhile."""
        book = books.facts("", user)[1]
        async with self._database.begin(
            scope, locks=[book_lock(book.name)], lock_timeout_ms=self._options.session_lock_timeout_ms, lasting=True
        ) as tx:
            found = await compare_facts(tx, book, await _all_of(tx, book, learnt_in), mend=True)
            for one in (book, books.insights("", user)[1], books.digests(user)):
                found += await compare_index(tx, one, mend=True)
            return found

    async def check_index(self, scope: Scope, book: str) -> Differences:
        """Return how an index differs from its entries."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await compare_index(tx, books.named(book), mend=False)

    async def run_index(self, scope: Scope, book: str) -> Differences:
        """Repair an index from its entries; return the differences."""
        async with self._database.begin(scope, lasting=True) as tx:
            return await compare_index(tx, books.named(book), mend=True)

    async def _events(self, tx: Tx, session: str, file: EventFile, walk: Walk, *, mend: bool) -> Differences:
        """Compare the entries of the items in one file, and record its turns in the walk."""
        wanted: dict[int, NewEntry] = {}
        hidden: set[int] = set()
        turns: dict[str, list[tuple[int, Line]]] = {}
        begin = walk.stop
        for line in await lines_of(tx, file):
            number = walk.number(line.event)
            walk.stop = number + 1
            wanted[number] = entry_of(line.event, line.item, line.place, self._costs, line.said_at)
            if line.turn in walk.forgotten:
                hidden.add(number)
            turns.setdefault(line.turn, []).append((number, line))
        walk.items += len(wanted)
        for turn, placed in turns.items():
            walk.users += [line.user for _, line in placed if line.user][-1:]
            walk.created_at = walk.created_at or placed[0][1].said_at
            walk.turns[turn] = done(turn, placed)
        found = await derived_index.compare_rows(
            tx,
            books.turns(session).number,
            begin,
            walk.stop,
            wanted,
            hidden=hidden,
            placeless=set(wanted) if file.packed else set(),
            mend=mend,
        )
        return +Counter(entries=found)

    async def _session(self, tx: Tx, session: str, walk: Walk, *, mend: bool) -> Differences:
        """Compare guards, entries after the last event, and the session's row."""
        book = books.turns(session).number
        found = Counter(
            entries=await derived_index.compare_rows(
                tx, book, walk.stop, ENTRY_MAX, {}, hidden=(), placeless=(), mend=mend
            )
        )
        noted = await files.find(tx, noted_file(session))
        if noted is not None:
            content = await files.read(tx, noted, 0, noted.size_bytes)
            walk.turns = {one.turn: one for one in read_noted(content.splitlines())} | walk.turns
        held = await derived.guards(tx, session)
        wanted = {turn: resulting(one, held.get(turn)) for turn, one in walk.turns.items()}
        wrong = [one for turn, one in wanted.items() if not derived.same_guard(held.get(turn), one)]
        gone = [turn for turn in held if turn not in wanted]
        # turns of days that were removed since: only their guards show that they were stored
        outlived = {turn for turn in gone if walk.created_at is None or held[turn].at < walk.created_at}
        gone = [turn for turn in gone if turn not in outlived]
        found["guards"] += len(wrong) + len(gone)
        row = await sessions.find(tx, session)
        count = counted(walk, wanted, row if outlived else None)
        off = count is not None and not derived.same_count(row, count)
        found["sessions"] += off
        if mend:
            await derived.put_guards(tx, session, wrong)
            await derived.drop_guards(tx, session, gone)
            if off and count is not None:
                await derived.put_session(tx, session, count)
        return +found

    async def _made_anew(self, tx: Tx, session: str) -> None:
        """Make maintenance recreate what depends on the numbers of entries."""
        await derived.begin_again(tx, session)
        if await vectors.available(tx):
            await vectors.drop_other_models(tx, books.turns(session).number, "")

    @asynccontextmanager
    async def _claimed(self, scope: Scope, session: str) -> AsyncIterator[UUID]:
        """Claim the session, so that maintenance does not run."""
        async with self._database.begin(scope) as tx:
            claim = await guard.claim(tx, session, GUARDED_AS, fingerprint=b"", now=self._clock.now())
        try:
            yield claim.token
        finally:
            with anyio.CancelScope(shield=True):
                async with self._database.begin(scope) as tx:
                    await guard.release(tx, session, GUARDED_AS, claim.token)

    @asynccontextmanager
    async def _step(self, scope: Scope, session: str, token: UUID, book: Book | None = None) -> AsyncIterator[Tx]:
        locks = [session_lock(session), *([book_lock(book.name)] if book else [])]
        async with self._database.begin(
            scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms, lasting=True
        ) as tx:
            await guard.hold(tx, session, GUARDED_AS, token, now=self._clock.now())
            yield tx


async def _all_of(tx: Tx, book: Book, learnt_in: Sequence[str]) -> list[str]:
    """Return these sessions and newer ones that the rows of the index name."""
    named = sorted({fact.statement.evidence.session for fact in await derived_facts.facts_of(tx, book.number)})
    return list(dict.fromkeys([*learnt_in, *named]))


def _indexed(session: str) -> list[Book]:
    """Return the indexes of a session that are derived from their entries."""
    return [books.turns(session), *books.facts(session, ""), *books.insights(session, "")]
