"""Recall: the facts, insights and past items relevant to a question that the prompt lacks."""

import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

from memsvc.core import ranking, relevance, time_references
from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.background import run_in_thread
from memsvc.core.ports import Meter, PassageSearch
from memsvc.core.question_kinds import (
    QuestionKind,
    is_keywords,
    kind_by_meaning,
    kind_in_memory,
    kind_of,
)
from memsvc.core.ranking import Candidate, EntryPlace, QuestionTerms
from memsvc.core.scope import Scope
from memsvc.store import recalls as stored
from memsvc.store import search
from memsvc.store.database import Tx
from memsvc.store.recalls import RecalledFilter
from memsvc.store.search import Asked, IndexMatches, IndexQuery, SearchFilter
from memsvc.styles.embedding import Embedding, embed_query
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.recall_request import USER_SOURCE, RecallRequest, passages_of
from memsvc.styles.turns.recall.recalled import (
    IN_CONTEXT,
    RankedRecall,
    name_owners,
    show_insight,
    show_passage,
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
    OVER_THE_LIMIT,
    UNDER_THE_FLOOR,
    RankedMatches,
    TurnSelection,
    following,
    mark_changes,
    once_read,
    pool_items,
    said_changes,
)
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder
from memsvc.styles.turns.turn_models import BeforeTurnArguments

SESSIONS_KEPT: Final = 4096
NAMES_KEPT: Final = 16

_Key = tuple[bytes, str, str]

EXTRA_ENTRIES: Final = 12
"""Entries read beyond recall_turns_limit, to replace known ones and duplicates."""
BEST: Final = 12
"""Of so many of the best items what was said right after them is read too."""
NOT_READ_LIMIT: Final = 20
"""Best items that are not even read which an explanation names."""
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


Found = tuple[list[IndexMatches], dict[int, IndexMatches]]
"""Matches of a question: of items; of facts and insights, by index."""


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

    async def request(
        self,
        scope: Scope,
        args: BeforeTurnArguments,
        question: str,
        now: datetime,
        as_of: datetime | None,
    ) -> RecallRequest:
        """Return the request for a question: all that is known of it before its transaction.

        INVALID_ARGUMENT for an unknown source, and for boards without a user."""
        session, user, sources = args.session_id, args.user_id, frozenset(args.sources)
        rest = self._speakers.left_out(scope, session, question)
        embedding = await embed_query(self._embedding, rest)
        limit = self._options.search_limit
        return RecallRequest(
            session,
            args.turn_id,
            user,
            QuestionTerms.of(question),
            now,
            session,
            kind_of(question),
            embedding,
            await passages_of(self._passages, scope, user, question, sources, limit),
            args.explain,
            as_of,
            sources,
        )

    async def search(self, tx: Tx, request: RecallRequest) -> Found:
        """Return the matches in every index of the request.

        If several users speak in the session, the index of the asking user's own messages and the
        insights about that user are left out."""
        embedding, query = request.embedding, request.question.uncommon
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
            return [], {}
        query, own = [*query, CHANGE_MARK], turn_index.turns(request.session).number
        found, unsearched, is_shared = await search.search_in_order(
            tx,
            [*first, *map(_item_query, item_ids)],
            query,
            embedding,
            SearchFilter(request.as_of),
            Asked(request.told_in, request.user, own),
        )
        if is_shared:
            for index_id in (*item_ids[1:], *request.insight_index_ids()[1:]):
                found.pop(index_id, None)
        items = [found.pop(index_id) for index_id in item_ids if index_id in found]
        if item_ids and unsearched is not None:
            # the session is somebody else's, or is on its way to another index
            within = SearchFilter(request.as_of, own)
            queries = [_item_query(unsearched)]
            items += (await search.search(tx, queries, query, embedding, within)).values()
        return items, found

    async def rank(self, scope: Scope, request: RecallRequest, matches: Found) -> RankedMatches:
        """Rank the matches; pure computation, done while the database works on the next query."""
        of_items, found = matches
        asked, unrelated = request.question, request.unrelated
        pool = pool_items(of_items, request.session)
        known = set(pool.counts_by_term).union(*(one.counts_by_term for one in found.values()))
        meant = kind_by_meaning(asked.text, request.kind, request.asks)
        kind = kind_in_memory(asked.text, meant, known)
        self._meter.add(
            "memsvc_recall_candidates",
            len(pool.candidates) + sum(len(one.candidates) for one in found.values()),
        )
        question = asked.in_index(
            pool.entries,
            pool.counts_by_term,
            time_references.read(asked.text, request.now),
            counts_unknown=kind is QuestionKind.GENERAL,
            unrelated=unrelated,
        )
        self._speakers.note(
            scope, request.session, {one.speaker for one in pool.candidates if one.weight == 1}
        )
        items = ranking.rank(pool.candidates, question, ranking.DEFAULT_WEIGHTS)
        names_speaker = ranking.names_speaker(pool.candidates, question)
        own_kind = QuestionKind.PERSONAL if names_speaker else kind
        of_facts = await run_in_thread(
            len(asked.text), FactRequest.of, asked, kind, request.fact_index_ids(), found, unrelated
        )
        insights = rank_entries(asked, kind, request.insight_index_ids(), found, unrelated)
        asks, content = request.asks, set(asked.content)
        if is_keywords(asked.text, asked.content) and any(
            content <= one.term_scores.keys() for one in items[: relevance.TOP]
        ):
            asks, own_kind = None, QuestionKind.OPEN
        confidence = relevance.confidence(items, own_kind, asks)
        sessions, weights = confidence.sessions(items), question.idf_by_term
        return RankedMatches(pool, items, confidence, of_facts, insights, weights, sessions)

    async def gather(
        self,
        tx: Tx,
        request: RecallRequest,
        ranked: RankedMatches,
        *,
        known: Collection[int] = (),
        prompt: Collection[int] = (),
    ) -> RankedRecall:
        """Return the memory relevant to a question that the prompt does not already show.

        `known` and `prompt` are those of `TurnSelection`."""
        selected, not_read = self._selected(request, ranked, prompt)
        read = await self._read(tx, request, ranked, selected)
        selected = [one for one in selected if one.place in read.items]
        quote_finder = QuoteFinder(ranked.weights)
        selection = TurnSelection(
            self._options,
            request,
            quote_finder,
            known=known,
            prompt=prompt,
            ranked=ranked,
        )
        filter_secrets = request.told_in is not None
        of_facts = fact_chunks(
            ranked.facts, read.facts, as_of=request.as_of, filter_secrets=filter_secrets
        )
        profile = told_profile(read, of_facts, self._options, self._costs)
        turns = selection.chunks(selected)
        turns += selection.answers(turns, read.items)
        turns = selection.without_repeats(turns)
        facts_first, later = within_share(
            [one for one in of_facts if one.kind == "fact" and not one.reason][
                : self._options.recall_facts_limit
            ],
            self._options.recall_tok_max,
        )
        insights = [
            show_insight(one, read.insights[one.place])
            for one in ranked.insights
            if one.place in read.insights
        ]
        passages = _shown_passages(
            request, quote_finder, self._options, is_shared=read.audience.is_shared
        )
        limit = self._options.recall_turns_limit
        result = [
            *profile,
            *facts_first,
            *insights[: self._options.recall_insights_limit],
            *passages,
            *turns[:limit],
            *later,
            *turns[limit:],
        ]
        result += _tell_changes(result, ranked, read, selection)
        result = told_once(result, read.facts, self._options.recall_tok_max)
        if read.audience.is_shared:
            name_owners(result, read.facts)
        considered = [*not_read, *selected, *request.passages, *of_facts]
        return RankedRecall(
            request.session,
            result,
            [one for one in considered if one.reason],
            _explained(ranked.confidence) if ranked.items else None,
        )

    def _selected(
        self, request: RecallRequest, ranked: RankedMatches, prompt: Collection[int]
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return the items to read, and the best of the others, each with a reason."""
        own = turn_index.turns(request.session).number
        new, in_context = list[Candidate](), list[Candidate]()
        for one in ranked.items:
            is_in_context = one.index_id == own and one.entry in prompt
            (in_context if is_in_context else new).append(one)
        # explanations cover all ranked entries; a prompt needs a few more than it shows
        limit = self._options.recall_turns_limit + EXTRA_ENTRIES if ranked.sessions else 0
        by_days = relevance.order_by_days(new)
        if request.with_reasons:
            return [*by_days, *in_context], []
        selected = list(islice(by_days, limit))
        numbers = {one.number for one in selected}
        not_read = [one for one in ranked.items if one.number not in numbers][:NOT_READ_LIMIT]
        for one in not_read:
            one.reason = OVER_THE_LIMIT if ranked.sessions else UNDER_THE_FLOOR
        for one in in_context:
            one.reason = IN_CONTEXT
        return selected, not_read

    async def _read(
        self, tx: Tx, request: RecallRequest, ranked: RankedMatches, selected: Sequence[Candidate]
    ) -> stored.RecallContent:
        """Read facts, insights, the selected items, their answers, and messages of change."""
        of_facts, pool = ranked.facts, ranked.pool
        items = {one.place: one for one in selected}
        if selected:
            found = {one.place: one for one in (*pool.changes, *pool.candidates)}
            for one in selected[:BEST]:
                place = EntryPlace(one.index_id, one.entry + 1)
                answer = found.get(place) or Candidate.at(place, session=one.session)
                items.setdefault(place, answer)
        if items or of_facts.ranked or of_facts.needs_all:
            items |= {one.place: one for one in pool.changes[:CHANGES_READ]}
        needs_all = of_facts.needs_all or (request.as_of is not None and bool(of_facts.index_ids))
        with_profile = bool(of_facts.index_ids) and self._options.profile_tok_max > 0
        boards = any(one.fields["source"] == USER_SOURCE for one in request.passages)
        if not (with_profile or needs_all or of_facts.ranked or ranked.insights or items or boards):
            return stored.RecallContent([], {}, {})
        places = RecalledFilter(
            [one.place for one in of_facts.ranked],
            [one.place for one in ranked.insights],
            list(items.values()),
            turn_index.fact_ids(request.session, request.user),
            request.told_in,
            request.user,
            needs_all,
            with_profile,
        )
        as_of = request.as_of
        return await stored.read(
            tx, places, now=request.now, as_of=as_of, chars_max=TEXT_CHARS_READ
        )


def _explained(confidence: relevance.Confidence) -> dict[str, Any]:
    """Return the confidence and the floor as they are shown in an explanation."""
    known = {
        name: value.value if isinstance(value, QuestionKind) else round(value, 3)
        for name, value in confidence._asdict().items()
        if value is not None
    }
    return known | {"total": round(confidence.total, 3), "floor": relevance.FLOOR}


def _item_query(index_id: int) -> IndexQuery:
    """Return the query of the items in a search index."""
    return IndexQuery(index_id, best=80, neighbours=2, expand_count=40, best_by_embedding=60)


def _tell_changes(
    chunks: Sequence[Candidate],
    ranked: RankedMatches,
    read: stored.RecallContent,
    selection: TurnSelection,
) -> list[Candidate]:
    """Mark what later messages change about the chunks; return such messages to show beside."""
    changes = said_changes([one for one in ranked.pool.changes if one.place in read.items])
    words_of = once_read()
    mark_changes(chunks, changes, read.outdated, words_of, selection.can_quote)
    facts = {fact.place: fact for fact in read.facts}
    result = []
    for message in following(chunks, changes, facts, words_of):
        if not selection.why_not(message) and selection.show(message):
            message.score, message.parts = 0.0, {"change": 0.0}
            result.append(message)
    return result


def _shown_passages(
    request: RecallRequest, quote_finder: QuoteFinder, options: TurnOptions, *, is_shared: bool
) -> list[Candidate]:
    """Return the first passages within half of a block; others get a reason.

    Those that were written since the requested time are not shown, and no boards of the user in a
    session of several users."""
    remaining = options.recall_tok_max // 2
    for one in request.passages:
        if request.as_of and one.message_at and one.message_at > request.as_of:
            one.reason = WRITTEN_LATER
        elif is_shared and one.fields["source"] == USER_SOURCE:
            one.reason = "several users speak in this session"
        else:
            show_passage(one, quote_finder, chars_max=options.snippet_chars_max * 2 // 3)
            remaining -= one.tokens
            if remaining < 0:
                one.reason = "longer than half of recall_tok_max"
    return [one for one in request.passages if not one.reason]
