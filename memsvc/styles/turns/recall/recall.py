"""Recall: the facts, insights and past items relevant to a question that the prompt lacks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from memsvc.core import ranking, relevance, when
from memsvc.core.analysis import query_terms
from memsvc.core.background import computed
from memsvc.core.ports import Meter, Passages
from memsvc.core.ranking import Ranked
from memsvc.core.scope import Scope
from memsvc.store import recalled as stored
from memsvc.store import search
from memsvc.store.database import Tx
from memsvc.store.index import Text
from memsvc.store.recalled import Place, Wanted
from memsvc.store.search import Found, Meaning, Shelf
from memsvc.styles.embedding import Embedding
from memsvc.styles.turns import books
from memsvc.styles.turns.layout import turn_of
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall import shelves
from memsvc.styles.turns.recall.asking import Ask, LookedUp
from memsvc.styles.turns.recall.pieces import chunk_piece, insight_piece, ref_of, turn_piece
from memsvc.styles.turns.recall.quoting import Quote, quotes
from memsvc.styles.turns.recall.recalled import IN_CONTEXT, Dropped, Piece, Recalled
from memsvc.styles.turns.recall.recalled_facts import FactsAsked, beliefs, fact_pieces
from memsvc.styles.turns.recall.shelves import Pool
from memsvc.styles.turns.recall.speakers import Speakers

SPARE_ENTRIES: Final = 12
"""Entries read beyond recall_turns_limit, to replace known ones and duplicates."""
INSIGHTS_FOUND: Final = 10
UNREAD_TOLD: Final = 20
UNDER_THE_FLOOR: Final = "nothing is relevant enough"
OVER_THE_LIMIT: Final = "over recall_turns_limit"
TEXT_CHARS_READ: Final = 25_000

WRITTEN_LATER: Final = "written after as_of"


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches of a question by index, and the other sessions that were searched."""

    found: Mapping[int, Found]
    elsewhere: Sequence[str]


@dataclass(frozen=True, slots=True)
class RankedMatches:
    """Ranked matches of a question, best first: items with their confidence, facts, insights."""

    pool: Pool
    items: Sequence[Ranked]
    sure: relevance.Confidence
    facts: FactsAsked
    insights: Sequence[tuple[Place, Ranked]]

    @property
    def silent(self) -> bool:
        """Return whether no item is relevant enough to be shown."""
        return self.sure.total < relevance.FLOOR


class Recall:
    """Reader of memory relevant to a question: of a session, its user and other sessions.

    On request also from `passages`: of files, boards and documents, by source. Beside those it
    takes at most three statements."""

    def __init__(
        self,
        meter: Meter,
        options: TurnOptions,
        *,
        embedding: Embedding | None = None,
        passages: Mapping[str, Passages] | None = None,
    ) -> None:
        self._meter = meter
        self._options = options
        self._embedding = embedding
        self._passages = passages or {}
        self._speakers = Speakers()

    async def look_up(self, scope: Scope, session: str, user: str, question: str, sources: Collection[str]) -> LookedUp:
        """Return the embedding and passages of a question, before its transaction.

        INVALID_ARGUMENT for an unknown source, and for boards without a user."""
        meaning = None
        if self._embedding is not None:
            vector = await self._embedding.question(self._speakers.left_out(scope, session, question))
            meaning = Meaning(vector, self._embedding.model) if vector is not None else None
        quoted = await quotes(self._passages, scope, user, question, sources, self._options.search_limit)
        return LookedUp(meaning, quoted)

    async def search(self, tx: Tx, ask: Ask) -> Matches:
        """Return the matches in every index of the request."""
        meaning, asked = ask.looked_up.meaning, query_terms(ask.question)
        most = self._options.recall_facts_limit
        first = [Shelf(number, most, 0, 0, near=most) for number in ask.fact_books()]
        first += [Shelf(number, INSIGHTS_FOUND, 0, 0, near=INSIGHTS_FOUND) for number in ask.insight_books()]
        turns = "turns" in ask.sources
        if (not asked and meaning is None) or not (first or turns):
            return Matches({}, [])
        if not turns:
            return Matches(await search.search(tx, first, asked, meaning), [])
        first.append(shelves.own(ask.session))
        if not ask.user:
            return Matches(await search.search(tx, first, asked, meaning), [])
        digests = shelves.digest(ask.user)
        found, active = await search.search_as(
            tx, [*first, digests], asked, meaning, user=ask.user, session=ask.session
        )
        elsewhere = shelves.others(ask.session, active, found.pop(digests.book, None))
        if elsewhere:
            there, own = await search.search_among(
                tx, [shelves.other(name) for name in elsewhere], asked, meaning, user=ask.user, sessions=elsewhere
            )
            elsewhere = [name for name in elsewhere if name in own]  # the session of a digest may be shared by now
            found |= {book: there[book] for name in elsewhere if (book := books.turns(name).number) in there}
        return Matches(found, elsewhere)

    async def rank(self, scope: Scope, ask: Ask, matches: Matches) -> RankedMatches:
        """Rank the matches; pure computation, done while the database works on the next query."""
        found = matches.found
        self._meter.add("memsvc_recall_candidates", sum(len(one.candidates) for one in found.values()))
        read = when.read(ask.question, ask.now)
        pool = shelves.pooled(found, ask.session, matches.elsewhere, ask.question, read, ask.as_of)
        self._speakers.note(scope, ask.session, {one.speaker for one in pool.candidates if one.weight == 1})
        items = ranking.rank(pool.candidates, pool.question, ranking.DEFAULT_WEIGHTS)
        personal = pool.question.personal or ranking.names_someone(pool.candidates, pool.question)
        return RankedMatches(
            pool,
            items,
            relevance.confidence(items, personal=personal),
            await computed(len(ask.question), FactsAsked.of, ask.question, ask.fact_books(), found),
            beliefs(ask.question, ask.insight_books(), found),
        )

    async def gather(self, tx: Tx, ask: Ask, ranked: RankedMatches) -> Recalled:
        """Return the memory relevant to a question that the prompt does not already show."""
        pool, sure = ranked.pool, ranked.sure
        # explanations cover all ranked entries; a prompt needs a few more than it shows
        most = 0 if ranked.silent else self._options.recall_turns_limit + SPARE_ENTRIES
        unseen = relevance.spread(one for one in ranked.items if not ask.in_context(pool.place(one.entry)))
        wanted = list(unseen if ask.explain else islice(unseen, most))
        if ask.explain:
            wanted += [one for one in ranked.items if ask.in_context(pool.place(one.entry))]
        read = await self._read(tx, ask, ranked, [pool.place(one.entry) for one in wanted])
        dropped = _unread(ranked, wanted, ask)
        held = fact_pieces(ranked.facts, read.facts, as_of=ask.as_of)[: self._options.recall_facts_limit]
        pieces = _within(held, self._options.recall_tok_max // 2, dropped)
        pieces += [
            insight_piece(read.insights[place], one.score, one.parts)
            for place, one in ranked.insights
            if place in read.insights
        ][: self._options.recall_insights_limit]
        chars_max = self._options.snippet_chars_max
        quoted = [
            chunk_piece(one, pool.question.idf_by_term, chars_max=chars_max) for one in _as_they_stood(ask, dropped)
        ]
        pieces += _within(quoted, self._options.recall_tok_max // 2, dropped)
        pieces += self._turns(ranked, wanted, read.items, ask, dropped=dropped)
        confidence = {name: round(float(value), 3) for name, value in sure._asdict().items()}
        floor = {"total": round(sure.total, 3), "floor": relevance.FLOOR}
        return Recalled(pieces, dropped, confidence | floor if ranked.items else None)

    async def _read(
        self,
        tx: Tx,
        ask: Ask,
        ranked: RankedMatches,
        items: Sequence[Place],
    ) -> stored.Recalled:
        facts_asked, insights = ranked.facts, ranked.insights
        fact_books = [one.number for one in books.facts(ask.session, ask.user)]
        every = facts_asked.every or (ask.as_of is not None and bool(facts_asked.books))
        if not (every or facts_asked.ranked or insights or items):
            return stored.Recalled([], {}, {})
        wanted = Wanted(
            [place for place, _ in facts_asked.ranked], [place for place, _ in insights], items, fact_books, every
        )
        as_of = ask.as_of
        return await stored.read(tx, wanted, now=ask.now, as_of=as_of, chars_max=TEXT_CHARS_READ)

    def _turns(
        self,
        ranked: RankedMatches,
        wanted: Sequence[Ranked],
        items: Mapping[Place, Text],
        ask: Ask,
        *,
        dropped: list[Dropped],
    ) -> list[Piece]:
        """Return the items to show, in this order.

        The others are added to `dropped` with reasons."""
        pool, silent = ranked.pool, ranked.silent
        distinct = relevance.Distinct()
        pieces: list[Piece] = []
        for one in wanted:
            place = pool.place(one.entry)
            if place not in items:
                continue
            text, session = items[place], pool.sessions[place.book]
            elsewhere = session != ask.session
            reason = UNDER_THE_FLOOR if silent else self._why_not(text, ask, len(pieces), elsewhere=elsewhere)
            if reason is None and not distinct.admits(text.text.casefold().split()):
                reason = "nearly the same as one that comes before"
            if reason is None:
                asked, chars_max = pool.question.idf_by_term, self._options.snippet_chars_max
                pieces.append(
                    turn_piece(session, text, one, asked, place=place, chars_max=chars_max, elsewhere=elsewhere)
                )
            else:
                dropped.append(Dropped("turn", text.ref, one.score, reason, session if elsewhere else "", place))
        return pieces

    def _why_not(self, text: Text, ask: Ask, shown: int, *, elsewhere: bool) -> str | None:
        if not elsewhere and turn_of(text.ref) == ask.turn:
            return "stored by this very turn"
        if not text.text.strip():
            return "no text"
        if not elsewhere and text.entry in ask.prompt:
            return IN_CONTEXT
        if text.digest in ask.known:
            return "in the caller's input"
        return OVER_THE_LIMIT if shown >= self._options.recall_turns_limit else None


def _unread(ranked: RankedMatches, wanted: Sequence[Ranked], ask: Ask) -> list[Dropped]:
    """Return the best items that were not even read, by their places, with reasons."""
    pool, read = ranked.pool, {one.entry for one in wanted}
    other = UNDER_THE_FLOOR if ranked.silent else OVER_THE_LIMIT
    dropped: list[Dropped] = []
    for one in islice((one for one in ranked.items if one.entry not in read), UNREAD_TOLD):
        place = pool.place(one.entry)
        session = pool.sessions[place.book]
        reason = IN_CONTEXT if ask.in_context(place) else other
        dropped.append(Dropped("turn", "", one.score, reason, session if session != ask.session else "", place))
    return dropped


def _as_they_stood(ask: Ask, dropped: list[Dropped]) -> list[Quote]:
    """Return the passages unchanged since the requested time; add the others to `dropped`."""
    kept: list[Quote] = []
    for quote in ask.looked_up.quotes:
        if ask.as_of is None or quote.cited.updated_at <= ask.as_of:
            kept.append(quote)
        else:
            dropped.append(Dropped("chunk", ref_of(quote), quote.cited.score, WRITTEN_LATER))
    return kept


def _within(pieces: Sequence[Piece], room: int, dropped: list[Dropped]) -> list[Piece]:
    """Return the first chunks within a token limit; add the others to `dropped`."""
    kept: list[Piece] = []
    for piece in pieces:
        room -= piece.tokens
        if room < 0:
            reason = "over half of recall_tok_max"
            dropped.append(Dropped(piece.kind, piece.ref, piece.score, reason, place=piece.place))
        else:
            kept.append(piece)
    return kept
