"""What is derived from a session's files, compared with them and put right: a rebuild is a check that mends.

Rows that are right stay as they are, so nobody ever meets an empty memory in between, and a rebuild that was killed is
simply run again. Each step is one transaction: a file of events, a segment of an index, the facts of a book.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import anyio

from memsvc.core.items import fingerprint
from memsvc.core.paths import decode_segment
from memsvc.core.ports import Clock, TokenCounter
from memsvc.core.scope import Scope
from memsvc.store import derived, derived_index, files, guard, sessions, tree, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.derived import Count, Done
from memsvc.store.index import NewEntry
from memsvc.store.locks import book_lock, session_lock
from memsvc.store.sessions import ENTRY_MAX, Session
from memsvc.styles.turns import books, budget
from memsvc.styles.turns.books import Book
from memsvc.styles.turns.layout import ROOT
from memsvc.styles.turns.migration.noted import noted_file, read_noted
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.rebuilt_facts import compare_facts, users_of
from memsvc.styles.turns.rebuild.rebuilt_index import compare_index
from memsvc.styles.turns.turn import entry_of
from memsvc.styles.turns.upkeep.event_files import FILES_A_PAGE, EventFile, Line, event_files, forgotten_turns, lines_of
from memsvc.styles.turns.upkeep.maintenance import GUARDED_AS

Differences = Counter[str]
"""How many rows of which table were not what the files say."""


@dataclass(slots=True)
class _Walk:
    """How far the events of a session were read, and what they come to so far."""

    refs: dict[str, int]
    forgotten: set[str]
    stop: int = 0
    users: list[str] = field(default_factory=list)
    turns: dict[str, Done] = field(default_factory=dict)
    items: int = 0
    facts: int = 0
    created_at: datetime | None = None

    def number(self, ref: str) -> int:
        """The number of the next entry: the one that it has, unless that would be out of order."""
        return max(self.refs.get(ref, -1), self.stop)


class Rebuilding:
    """Compares derived rows with the files that they are derived from, and mends them."""

    def __init__(self, database: Database, clock: Clock, tokens: TokenCounter, options: TurnOptions) -> None:
        self._database = database
        self._clock = clock
        self._costs = budget.Costs(tokens, options.media_tok)
        self._options = options

    async def sessions(self, scope: Scope) -> list[str]:
        """Every session of a project that has files."""
        found: list[str] = []
        last = ""
        async with self._database.begin(scope, read_only=True) as tx:
            while page := await tree.walk(tx, ROOT, depth=1, after=last, most=FILES_A_PAGE):
                names = [row["path"].split("/")[2] for row in page]
                found += [name for name in map(decode_segment, names) if name is not None]
                last = f"{ROOT}/{names[-1]}/~"
        return list(dict.fromkeys(found))

    async def authors(self, scope: Scope) -> dict[str, list[str]]:
        """The users of a project about whom there are facts, and in which sessions these were learnt."""
        found: dict[str, list[str]] = {}
        for session in await self.sessions(scope):
            async with self._database.begin(scope, read_only=True) as tx:
                for user in await users_of(tx, session):
                    found.setdefault(user, []).append(session)
        return found

    async def check(self, scope: Scope, session: str) -> Differences:
        """What of a session's rows is not what its files say, changing nothing; all of one moment."""
        found: Differences = Counter()
        async with self._database.begin(scope, read_only=True) as tx:
            among = await event_files(tx, session)
            walk = _Walk(await derived_index.refs(tx, books.turns(session).number), await forgotten_turns(tx, among))
            for file in among:
                found += await self._events(tx, session, file, walk, mend=False)
            found += await self._session(tx, session, walk, mend=False)
            found += await compare_facts(tx, books.facts(session, "")[0], [session], mend=False)
            for book in _indexed(session):
                found += await compare_index(tx, book, mend=False)
        return found

    async def check_user(self, scope: Scope, user: str, learnt_in: Sequence[str]) -> Differences:
        """What of the facts about a user is not what the files of the sessions that they were learnt in say."""
        book = books.facts("", user)[1]
        async with self._database.begin(scope, read_only=True) as tx:
            found = await compare_facts(tx, book, learnt_in, mend=False)
            for one in (book, books.insights("", user)[1], books.digests(user)):
                found += await compare_index(tx, one, mend=False)
            return found

    async def run(self, scope: Scope, session: str, *, renumber: bool = False) -> Differences:
        """Put the derived rows of a session right; what was not. RESOURCE_BUSY while the session is maintained.

        With `renumber` the entries of the session get new numbers in the order of its files, and what counted on the
        old ones is made anew by maintenance.
        """
        found: Differences = Counter()
        started = f"{self._clock.now():%Y%m%d}"
        async with self._claimed(scope, session) as token:
            async with self._step(scope, session, token) as tx:
                refs = {} if renumber else await derived_index.refs(tx, books.turns(session).number)
                walk = _Walk(refs, await forgotten_turns(tx, await event_files(tx, session)))
            after = None
            while True:
                async with self._step(scope, session, token) as tx:
                    among = await event_files(tx, session)
                    # what is forgotten meanwhile is told in the files of today
                    walk.forgotten |= await forgotten_turns(tx, [file for file in among if file.day >= started])
                    file = next((one for one in among if after is None or one > after), None)
                    if file is None:
                        found += await self._session(tx, session, walk, mend=True)
                        await self._made_anew(tx, session, anew=renumber)
                        break
                    found += await self._events(tx, session, file, walk, mend=True)
                    after = file
            own = books.facts(session, "")[0]
            async with self._step(scope, session, token, own) as tx:
                found += await compare_facts(tx, own, [session], mend=True)
            for book in _indexed(session):
                async with self._step(scope, session, token, book) as tx:
                    found += await compare_index(tx, book, mend=True)
        return found

    async def run_user(self, scope: Scope, user: str, learnt_in: Sequence[str]) -> Differences:
        """Put the facts about a user right; what was not. One transaction, during which nobody learns of the user."""
        book = books.facts("", user)[1]
        async with self._database.begin(
            scope, locks=[book_lock(book.name)], lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            found = await compare_facts(tx, book, learnt_in, mend=True)
            for one in (book, books.insights("", user)[1], books.digests(user)):
                found += await compare_index(tx, one, mend=True)
            return found

    async def check_index(self, scope: Scope, book: str) -> Differences:
        """What of the index of a book does not follow from its entries."""
        async with self._database.begin(scope, read_only=True) as tx:
            return await compare_index(tx, books.named(book), mend=False)

    async def run_index(self, scope: Scope, book: str) -> Differences:
        """Let the index of a book follow from its entries; what did not."""
        async with self._database.begin(scope) as tx:
            return await compare_index(tx, books.named(book), mend=True)

    async def _events(self, tx: Tx, session: str, file: EventFile, walk: _Walk, *, mend: bool) -> Differences:
        """The entries of the items in one file, and what the file tells of their turns."""
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
            walk.turns[turn] = _done(turn, placed)
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

    async def _session(self, tx: Tx, session: str, walk: _Walk, *, mend: bool) -> Differences:
        """Guards, what is behind the last event, and the session's row."""
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
        wanted = {turn: _resulting(one, held.get(turn)) for turn, one in walk.turns.items()}
        wrong = [one for turn, one in wanted.items() if not derived.same_guard(held.get(turn), one)]
        gone = [turn for turn in held if turn not in wanted]
        # turns of days that were removed since: that they were stored is known by their guards alone
        outlived = {turn for turn in gone if walk.created_at is None or held[turn].at < walk.created_at}
        gone = [turn for turn in gone if turn not in outlived]
        found["guards"] += len(wrong) + len(gone)
        row = await sessions.find(tx, session)
        count = _count(walk, wanted, row if outlived else None)
        off = count is not None and not derived.same_count(row, count)
        found["sessions"] += off
        if mend:
            await derived.put_guards(tx, session, wrong)
            await derived.drop_guards(tx, session, gone)
            if off and count is not None:
                await derived.put_session(tx, session, count)
        return +found

    async def _made_anew(self, tx: Tx, session: str, *, anew: bool) -> None:
        """Let maintenance make what rests on entries by their numbers once more, where these changed."""
        if anew:
            await derived.begin_again(tx, session)
            if await vectors.available(tx):
                await vectors.drop_other_models(tx, books.turns(session).number, "")

    @asynccontextmanager
    async def _claimed(self, scope: Scope, session: str) -> AsyncIterator[UUID]:
        """The session, kept from maintenance."""
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
            scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
        ) as tx:
            await guard.hold(tx, session, GUARDED_AS, token, now=self._clock.now())
            yield tx


def _indexed(session: str) -> list[Book]:
    """The books of a session whose index follows from their entries."""
    return [books.turns(session), *books.facts(session, ""), *books.insights(session, "")]


def _done(turn: str, placed: Sequence[tuple[int, Line]]) -> Done:
    """The guard of a turn, from its lines."""
    inputs = [line.item for _, line in placed if line.way == "in"]
    outputs = [line.item for _, line in placed if line.way == "out"]
    last = placed[-1][1]
    return Done(turn, fingerprint([inputs, outputs]), placed[0][0], last.result, last.said_at)


def _resulting(one: Done, held: Done | None) -> Done:
    """Lines that were written before they held a turn's result leave it as it is, or as much as they tell."""
    if one.result is not None:
        return one
    told: dict[str, Any] = held.result if held else {"turn_id": one.turn, "stored_items": 0, "fact_ids": []}
    return Done(one.turn, one.fingerprint, one.first_entry, told, one.at)


def _count(walk: _Walk, wanted: dict[str, Done], before: Session | None) -> Count | None:
    """What the files say of the session's row; None when they hold no turn. Where days of it were removed, what is
    counted from the beginning stays as it was `before`."""
    stored = [one for one in wanted.values() if one.fingerprint != guard.ANY_CONTENT]
    if not stored or walk.created_at is None:
        return None
    counters = {"items": walk.items, "facts": sum(len(one.result["fact_ids"]) for one in stored)}
    return Count(
        user_id=walk.users[-1] if walk.users else before.user_id if before else "",
        latest_turn=stored[-1].turn,
        turns=before.turns if before else len(stored),
        counters={name: before.counters.get(name, 0) for name in counters} if before else counters,
        created_at=before.created_at if before else walk.created_at,
        updated_at=max(one.at for one in stored),
    )
