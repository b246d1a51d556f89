"""Removal of facts and turns from recall, and the lookup of what can be removed."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memsvc.core.facts import Fact, Merge
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import digests, fact_history, facts, index, jobs, sessions, turn_items
from memsvc.store.database import Database, Tx
from memsvc.store.fact_history import Place, Wanted
from memsvc.store.journals import append
from memsvc.store.locks import book_lock, session_lock
from memsvc.store.turn_items import TurnItem
from memsvc.styles.turns import books, layout
from memsvc.styles.turns.books import Book
from memsvc.styles.turns.follow_up import FOLLOW_UP_JOB
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.asking import Ask
from memsvc.styles.turns.recall.digests import SPAN_ITEMS
from memsvc.styles.turns.recall.recall import Recall
from memsvc.styles.turns.upkeep import consolidation
from memsvc.styles.turns.upkeep.compaction import unsay

REACHES: Final = ("all", "session", "user")


@dataclass(frozen=True, slots=True)
class Whose:
    """Owner of facts: a session, a user, or both (`reach`)."""

    session: str
    user: str
    reach: str = "all"

    def shelves(self) -> list[Book]:
        """Return the indexes of these facts."""
        own, *shared = books.facts(self.session, self.user)
        return {"all": [own, *shared], "session": [own], "user": shared}[self.reach]


@dataclass(frozen=True, slots=True)
class Named:
    """Targets to forget: facts by id, facts matching a question, and whole turns.

    An id is that of a fact or of a record."""

    names: Sequence[str]
    question: str
    turns: Sequence[str]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Facts and items that were or would be forgotten; `unknown` are the ids without a match."""

    facts: list[Fact]
    items_by_turn: dict[str, list[TurnItem]]
    unknown: list[str]


class Forgetting:
    """Removes facts and turns from recall.

    The files keep the messages and a mark of the removal."""

    def __init__(self, database: Database, clock: Clock, options: TurnOptions, recall: Recall) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._recall = recall

    async def listed(
        self, scope: Scope, whose: Whose, wanted: Wanted, *, behind: Place | None, most: int
    ) -> list[Fact]:
        """Return the facts of a session and a user, newest first, up to a limit."""
        async with self._database.begin(scope, read_only=True) as tx:
            shelves = [book.number for book in whose.shelves()]
            return await fact_history.listed(tx, shelves, wanted, behind=behind, most=most)

    async def would_forget(self, scope: Scope, whose: Whose, named: Named) -> Forgotten:
        """Return what would be forgotten now; changes nothing."""
        async with self._database.begin(scope, read_only=True) as tx:
            names = await self._names(tx, whose, named)
            speakers = await sessions.speakers(tx, whose.session, named.turns) if named.turns else set()
            return await self._found(tx, whose, named, names, speakers)

    async def forget(self, scope: Scope, whose: Whose, named: Named) -> Forgotten:
        """Forget facts and turns for good, all or nothing.

        Past values of the facts go too, and so do the facts that were learned in the turns, about
        any user. Earlier messages never bring them back; stating them again makes new facts.
        RESOURCE_BUSY when the session's writer takes too long."""
        now = self._clock.now()
        async with self._database.begin(scope, read_only=True) as tx:
            names = await self._names(tx, whose, named)
            speakers = await sessions.speakers(tx, whose.session, named.turns) if named.turns else set()
        while True:
            shelves = sorted(book.name for book in {*whose.shelves(), *_shelves(whose, named, speakers)})
            resting = [books.insights_from(name) for name in shelves]
            locks = [session_lock(whose.session), *map(book_lock, shelves), *(book_lock(one.name) for one in resting)]
            async with self._database.begin(
                scope, locks=locks, lock_timeout_ms=self._options.session_lock_timeout_ms
            ) as tx:
                latest = await sessions.speakers(tx, whose.session, named.turns) if named.turns else set()
                if latest <= speakers:
                    found = await self._found(tx, whose, named, names, speakers)
                    await self._take_out(tx, whose, found, now)
                    while await consolidation.withdraw(tx, whose.session, resting, now=now):
                        pass
                    return found
            speakers |= latest  # a model found a fact about another user meanwhile: retry with that user's index

    async def _names(self, tx: Tx, whose: Whose, named: Named) -> list[str]:
        """Return the names of the targeted facts, by record id where a question found them."""
        if not named.question.strip():
            return list(named.names)
        shelves = {book.number for book in whose.shelves()}
        now, sources = self._clock.now(), frozenset({"facts"})
        ask = Ask(whose.session, "", whose.user, named.question, now, sources=sources)
        ranked = await self._recall.rank(tx.scope, ask, await self._recall.search(tx, ask))
        recalled = await self._recall.gather(tx, ask, ranked)
        records = [piece.ref for piece in recalled.pieces if piece.fact_id]
        meant = await fact_history.named(tx, sorted(shelves), names=records, session=whose.session, turns=())
        return [*named.names, *(fact.statement.record for fact in meant if fact.statement.record in records)]

    async def _found(
        self, tx: Tx, whose: Whose, named: Named, names: Sequence[str], speakers: Collection[str]
    ) -> Forgotten:
        book = books.turns(whose.session).number
        items = {}
        if named.turns:
            most = self._options.items_max * 3
            items = await turn_items.findable(tx, whose.session, book, named.turns, most=most)
        shelves = [one.number for one in whose.shelves()]
        meant = await fact_history.named(tx, shelves, names=names, session=whose.session, turns=())
        if named.turns:
            learnt_in = [one.number for one in _shelves(whose, named, speakers)]
            learnt = await fact_history.named(tx, learnt_in, names=(), session=whose.session, turns=named.turns)
            there = {(fact.book, fact.entry) for fact in meant}
            meant += [fact for fact in learnt if (fact.book, fact.entry) not in there]
        known = {name for fact in meant for name in (fact.statement.fact_id, fact.statement.record)}
        unknown = [name for name in named.names if name not in known]
        unknown += [turn for turn in named.turns if turn not in items]
        return Forgotten(meant, {turn: kept for turn, kept in items.items() if kept}, unknown)

    async def _take_out(self, tx: Tx, whose: Whose, found: Forgotten, now: datetime) -> None:
        merge = Merge((), (), 0, deleted=tuple(found.facts))
        lines = defaultdict(bytes, layout.fact_lines(merge, [], now, forgotten=True))
        for turn in found.items_by_turn:
            lines[layout.raw_events(whose.session, now)] += layout.forgotten_turn_line(turn, now)
        if not lines:
            return
        await append(tx, lines, owner=layout.OWNER, now=now)
        hidden = {item.entry: item.indexed for items in found.items_by_turn.values() for item in items}
        await index.hide(tx, books.turns(whose.session).number, hidden)
        if hidden:
            await digests.outdate(tx, whose.session, min(hidden), span=SPAN_ITEMS)
            await jobs.enqueue(tx, FOLLOW_UP_JOB, whose.session, now=now)
        values = [fact.statement.value for fact in found.facts]
        await unsay(tx, whose.session, list(hidden.values()), values, now=now)
        if found.facts:
            await facts.apply(tx, found.facts[0].book, 0, merge, [], now)
            await fact_history.forget(tx, found.facts)


def _shelves(whose: Whose, named: Named, speakers: Collection[str]) -> list[Book]:
    """Return the indexes of facts learned in the turns, of the session and its speakers.

    Only those within reach."""
    if not named.turns:
        return []
    reached = {*whose.shelves()}
    if whose.reach != "session":
        reached |= {books.facts_learnt(whose.session, user) for user in speakers}
    return sorted(reached, key=lambda book: book.name)
