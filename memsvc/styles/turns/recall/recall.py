"""Recall: the facts, insights and past items relevant to a question that the prompt lacks."""

import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from memsvc.core import ranking, relevance, time_references
from memsvc.core.analysis import CHANGE_MARK, query_terms
from memsvc.core.background import run_in_thread
from memsvc.core.frozen import frozen
from memsvc.core.ports import Meter, PassageSearch
from memsvc.core.question_kinds import QuestionKind, kind_by_meaning, kind_in_memory
from memsvc.core.scope import Scope
from memsvc.store import recalls as stored
from memsvc.store import search
from memsvc.store.database import Tx
from memsvc.store.recalls import EntryPlace, RecalledFilter
from memsvc.store.search import IndexMatches, IndexQuery, SearchFilter
from memsvc.styles.embedding import Embedding, embed_query
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall import recall_request
from memsvc.styles.turns.recall.recall_request import QuestionLookup, Quote, RecallRequest, quotes
from memsvc.styles.turns.recall.recalled import (
    DroppedCandidate,
    RankedRecall,
    RecalledChunk,
    insight_chunk,
    passage_chunk,
    ref_of,
)
from memsvc.styles.turns.recall.recalled_facts import (
    FactRequest,
    fact_chunks,
    rank_entries,
    told_once,
    told_profile,
    within_share,
)
from memsvc.styles.turns.recall.recalled_turns import (
    CHANGES_READ,
    RankedMatches,
    TurnSelection,
    following,
    not_loaded,
    once_read,
    said_changes,
    with_changes,
    without_change_terms,
)
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder

SESSIONS_KEPT: Final = 4096
NAMES_KEPT: Final = 16

_Key = tuple[bytes, str, str]

EXTRA_ENTRIES: Final = 12
"""Entries read beyond recall_turns_limit, to replace known ones and duplicates."""
BEST: Final = 12
"""Of so many of the best items what was said right after them is read too."""
INSIGHTS_FOUND: Final = 10
TEXT_CHARS_READ: Final = 25_000

WRITTEN_LATER: Final = "written after as_of"


class Speakers:
    """Cache of speaker names seen in searches, for recently used sessions.

    A text rarely holds its speaker's name, so a name in the question makes its vector similar to
    messages to or about that person. Word matching does not need this: the ranking knows its
    candidates' speakers. A missing entry, also on another server, only costs a little quality."""

    def __init__(self) -> None:
        self._names: OrderedDict[_Key, frozenset[str]] = OrderedDict()

    def note(self, scope: Scope, session: str, names: Iterable[str]) -> None:
        """Remember the speakers."""
        key = (scope.tenant, scope.project, session)
        known = self._names.pop(key, frozenset())
        self._names[key] = frozenset(sorted(known | {name for name in names if name})[:NAMES_KEPT])
        if len(self._names) > SESSIONS_KEPT:
            self._names.popitem(last=False)

    def left_out(self, scope: Scope, session: str, question: str) -> str:
        """Return the question without the session's speakers, unless nothing else is left."""
        names = self._names.get((scope.tenant, scope.project, session), frozenset())
        words = sorted(
            {word for name in names for word in [name, *name.split()]}, key=len, reverse=True
        )
        if not words:
            return question
        pattern = rf"\b(?:{'|'.join(map(re.escape, words))})(?:['’]s)?\b"
        rest = " ".join(re.sub(pattern, " ", question).split())
        return rest if re.search(r"\w", rest) else question


@frozen
class RecallMatches:
    """Matches of a question: of items; of facts and insights, by index; and messages of change."""

    items: Sequence[IndexMatches]
    others: Mapping[int, IndexMatches]
    changes: Sequence[EntryPlace] = ()


class TurnRecall:
    """Reader of memory relevant to a question: of a session, its user and other sessions.

    On request also from `passages`: of files, boards and documents, by source. Beside those it
    takes at most three statements."""

    def __init__(
        self,
        meter: Meter,
        options: TurnOptions,
        costs: Costs,
        *,
        embedding: Embedding | None = None,
        passages: Mapping[str, PassageSearch] | None = None,
    ) -> None:
        self._meter = meter
        self._options = options
        self._costs = costs
        self._embedding = embedding
        self._passages = passages or {}
        self._speakers = Speakers()

    async def look_up(
        self, scope: Scope, session: str, user: str, question: str, sources: Collection[str]
    ) -> QuestionLookup:
        """Return the embedding and passages of a question, before its transaction.

        INVALID_ARGUMENT for an unknown source, and for boards without a user."""
        embedding = await embed_query(
            self._embedding, self._speakers.left_out(scope, session, question)
        )
        quoted = await quotes(
            self._passages, scope, user, question, sources, self._options.search_limit
        )
        return QuestionLookup(embedding, quoted)

    async def search(self, tx: Tx, request: RecallRequest) -> RecallMatches:
        """Return the matches in every index of the request."""
        embedding, query = request.lookup.embedding, query_terms(request.question)
        limit = self._options.recall_facts_limit
        first = [
            IndexQuery(number, limit, 0, 0, best_by_embedding=limit)
            for number in request.fact_index_ids()
        ]
        first += [
            IndexQuery(number, INSIGHTS_FOUND, 0, 0, best_by_embedding=INSIGHTS_FOUND)
            for number in request.insight_index_ids()
        ]
        item_ids = request.item_index_ids()
        if (not query and embedding is None) or not (first or item_ids):
            return RecallMatches([], {})
        if not item_ids:
            return RecallMatches([], await search.search(tx, first, query, embedding))
        query, own = [*query, CHANGE_MARK], item_ids[0]
        found, unsearched = await search.search_in_order(
            tx,
            [*first, *map(recall_request.item_query, item_ids)],
            query,
            embedding,
            SearchFilter(request.as_of),
            own,
        )
        items = [found.pop(index_id) for index_id in item_ids if index_id in found]
        if unsearched is not None:
            # the session is somebody else's, or is on its way to another index
            queries = [recall_request.item_query(unsearched)]
            within = SearchFilter(request.as_of, own)
            items += (await search.search(tx, queries, query, embedding, within)).values()
        items, changes = without_change_terms(items)
        return RecallMatches(items, found, changes)

    async def rank(
        self, scope: Scope, request: RecallRequest, matches: RecallMatches
    ) -> RankedMatches:
        """Rank the matches; pure computation, done while the database works on the next query."""
        found = matches.others
        searched = [*matches.items, *found.values()]
        known = {term for one in searched for term in one.counts_by_term}
        kind = kind_by_meaning(request.kind, request.lookup.asks)
        request = replace(request, kind=kind_in_memory(request.question, kind, known))
        self._meter.add(
            "memsvc_recall_candidates",
            sum(len(one.candidates) for one in searched),
        )
        pool = recall_request.pool_matches(
            matches.items,
            request.session,
            request.question,
            time_references.read(request.question, request.now),
            counts_unknown=request.kind is QuestionKind.GENERAL,
            unrelated=request.lookup.unrelated,
        )
        self._speakers.note(
            scope, request.session, {one.speaker for one in pool.candidates if one.weight == 1}
        )
        items = ranking.rank(pool.candidates, pool.question, ranking.DEFAULT_WEIGHTS)
        names_speaker = ranking.names_speaker(pool.candidates, pool.question)
        kind = QuestionKind.PERSONAL if names_speaker else request.kind
        return RankedMatches(
            pool,
            items,
            relevance.confidence(items, kind, request.lookup.asks),
            await run_in_thread(
                len(request.question),
                FactRequest.of,
                request.question,
                request.kind,
                request.fact_index_ids(),
                found,
                request.lookup.unrelated,
            ),
            rank_entries(
                request.question,
                request.kind,
                request.insight_index_ids(),
                found,
                request.lookup.unrelated,
            ),
            matches.changes,
        )

    async def gather(self, tx: Tx, request: RecallRequest, ranked: RankedMatches) -> RankedRecall:
        """Return the memory relevant to a question that the prompt does not already show."""
        pool = ranked.pool
        # explanations cover all ranked entries; a prompt needs a few more than it shows
        limit = 0 if ranked.silent else self._options.recall_turns_limit + EXTRA_ENTRIES
        in_context = request.in_context(pool)
        new_entries = relevance.order_by_days(
            entry for entry in ranked.items if entry.entry not in in_context
        )
        selected = list(new_entries if request.with_reasons else islice(new_entries, limit))
        if request.with_reasons:
            selected += [entry for entry in ranked.items if entry.entry in in_context]
        places = [pool.place(entry.entry) for entry in selected]
        best = places[:BEST]
        answers = [place._replace(entry=place.entry + 1) for place in best]
        places = list(dict.fromkeys([*places, *answers]))
        if places or ranked.facts.ranked or ranked.facts.needs_all:
            places = list(dict.fromkeys([*places, *ranked.changes[:CHANGES_READ]]))
        read = await self._read(tx, request, ranked, places)
        ranked = ranked.with_sessions(read.names)
        by_score = [(pool.place(entry.entry), entry) for entry in selected]
        dropped = not_loaded(ranked, selected, request, in_context)
        of_facts = fact_chunks(ranked.facts, read.facts, as_of=request.as_of)
        asked = {chunk.id: chunk for chunk in of_facts}
        result = [
            replace(chunk, score=found.score, parts=found.parts)
            if (found := asked.get(chunk.id))
            else chunk
            for chunk in told_profile(request.user, read, self._options, self._costs)
        ]
        told = {chunk.id for chunk in result}
        of_facts = [chunk for chunk in of_facts if chunk.id not in told]
        quote_finder = QuoteFinder(pool.question.idf_by_term)
        selection = TurnSelection(self._options, request, ranked, quote_finder)
        turns = selection.chunks(by_score, read.items, dropped)
        turns += selection.answers(turns, read.items, request.as_of)
        facts_first, later = within_share(
            of_facts[: self._options.recall_facts_limit], self._options.recall_tok_max
        )
        result += facts_first
        result += [
            insight_chunk(read.insights[place], entry.score, entry.parts)
            for place, entry in ranked.insights
            if place in read.insights
        ][: self._options.recall_insights_limit]
        chars_max = self._options.snippet_chars_max * 2 // 3
        passage_chunks = [
            passage_chunk(entry, quote_finder, chars_max=chars_max)
            for entry in _valid_at_time(request, dropped)
        ]
        result += _within(passage_chunks, self._options.recall_tok_max // 2, dropped)
        limit = self._options.recall_turns_limit
        result += [*turns[:limit], *later, *turns[limit:]]
        result = self._told_with_changes(result, ranked, read, request, selection)
        result = told_once(result, read.facts, self._options.recall_tok_max, dropped)
        confidence = {
            name: value.value if isinstance(value, QuestionKind) else round(value, 3)
            for name, value in ranked.confidence._asdict().items()
            if value is not None
        }
        floor = {"total": round(ranked.confidence.total, 3), "floor": relevance.FLOOR}
        return RankedRecall(result, dropped, confidence | floor if ranked.items else None)

    def _told_with_changes(
        self,
        chunks: Sequence[RecalledChunk],
        ranked: RankedMatches,
        read: stored.RecallContent,
        request: RecallRequest,
        selection: TurnSelection,
    ) -> list[RecalledChunk]:
        """Return the chunks with what later messages change about them."""
        pool, changes = ranked.pool, said_changes(ranked.changes, read.items)
        words_of = once_read()
        result = list(with_changes(chunks, read.items, changes, read.outdated, words_of))
        facts = {EntryPlace(fact.index_id, fact.entry): fact for fact in read.facts}
        for said in following(result, read.items, changes, facts, words_of):
            is_other = pool.sessions[said.place.index_id] != request.session
            if selection.why_not(said.text, is_other_session=is_other) is None:
                entry = ranking.Ranked(said.place.entry, 0.0, {"change": 0.0}, 0.0)
                result.append(selection.chunk(said.place, said.text, entry))
        return result

    async def _read(
        self,
        tx: Tx,
        request: RecallRequest,
        ranked: RankedMatches,
        items: Sequence[EntryPlace],
    ) -> stored.RecallContent:
        facts_asked, insights = ranked.facts, ranked.insights
        index_ids = [one.number for one in turn_index.facts(request.session, request.user)]
        needs_all = facts_asked.needs_all or (
            request.as_of is not None and bool(facts_asked.index_ids)
        )
        with_facts = bool(facts_asked.index_ids)
        with_profile = with_facts and self._options.profile_tok_max > 0
        if not (with_profile or needs_all or facts_asked.ranked or insights or items):
            return stored.RecallContent([], {}, {})
        places = RecalledFilter(
            [place for place, _ in facts_asked.ranked],
            [place for place, _ in insights],
            items,
            index_ids,
            needs_all,
            request.session if with_profile else None,
        )
        as_of = request.as_of
        return await stored.read(
            tx, places, now=request.now, as_of=as_of, chars_max=TEXT_CHARS_READ
        )


def _valid_at_time(request: RecallRequest, dropped: list[DroppedCandidate]) -> list[Quote]:
    """Return the passages unchanged since the requested time; add the others to `dropped`."""
    kept: list[Quote] = []
    for quote in request.lookup.quotes:
        if request.as_of is None or quote.cited.updated_at <= request.as_of:
            kept.append(quote)
        else:
            dropped.append(
                DroppedCandidate("chunk", ref_of(quote), quote.cited.score, WRITTEN_LATER)
            )
    return kept


def _within(
    chunks: Sequence[RecalledChunk], remaining: int, dropped: list[DroppedCandidate]
) -> list[RecalledChunk]:
    """Return the first chunks within a token limit; add the others to `dropped`."""
    kept: list[RecalledChunk] = []
    for chunk in chunks:
        remaining -= chunk.tokens
        if remaining < 0:
            reason = "over half of recall_tok_max"
            dropped.append(
                DroppedCandidate(chunk.kind, chunk.ref, chunk.score, reason, place=chunk.place)
            )
        else:
            kept.append(chunk)
    return kept
