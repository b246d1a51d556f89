"""A recall request: its question, the indexes and passages searched for it, and their matches."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import Final

from memsvc.core import ranking
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.ports import CitedPassage, PassageSearch
from memsvc.core.question_kinds import QuestionKind, is_greeting_phrase
from memsvc.core.ranking import Candidate, Question, bm25_idf
from memsvc.core.scope import Scope
from memsvc.core.time_references import TimeReferences
from memsvc.store.recalls import EntryPlace
from memsvc.store.search import IndexMatches, IndexQuery, QueryEmbedding
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.turn_items import TurnItem

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
OTHER_SESSION_WEIGHT: Final = 0.8
"""Factor of items of other sessions: an equal match of the session itself comes first, and one from
elsewhere has to match by a quarter better."""
ENTRIES_PER_INDEX: Final = 1 << 32
"""Distance of indexes in the ids of candidates, so that none are neighbours."""


QUOTED_SOURCES: Final = ("files", "whiteboard", "notebook")
"""Sources of passages, as before_turn names them."""
USER_SOURCE: Final = "whiteboard"
TURN_SOURCES: Final = ("turns", "facts", "insights")
SEARCH_BYTES_MAX: Final = 8_000

QUESTION_CHARS_MAX: Final = 20_000
DEFAULT_SOURCES: Final = frozenset({"turns", "facts", "insights"})


def item_query(index_id: int) -> IndexQuery:
    """Return the query of the items in a search index."""
    return IndexQuery(index_id, best=80, neighbours=2, expand_count=40, best_by_embedding=60)


@frozen
class CandidatePool:
    """Candidates of several sessions as one index, and the question for it.

    `sessions` is by index, `order` the indexes that have candidates."""

    candidates: list[Candidate]
    question: Question
    sessions: dict[int, str]
    order: Sequence[int]

    def place(self, entry: int) -> EntryPlace:
        """Return the place of a candidate."""
        return EntryPlace(self.order[entry // ENTRIES_PER_INDEX], entry % ENTRIES_PER_INDEX)

    def numbers(self, index_id: int, entries: Collection[int]) -> set[int]:
        """Return the numbers that entries of an index have among the candidates."""
        if index_id not in self.order:
            return set()
        first = self.order.index(index_id) * ENTRIES_PER_INDEX
        return {first + entry for entry in entries}


def pool_matches(
    found: Sequence[IndexMatches],
    session: str,
    text: str,
    when: TimeReferences,
    *,
    counts_unknown: bool = True,
    unrelated: float | None = None,
) -> CandidatePool:
    """Return the matches of a session and of others, in the indexes that were searched for items.

    The idf of a term is computed over all these, so that a rare word of a small one does not count
    for more. Among equals the later session comes first, and the session itself before all."""
    own = turn_index.turns(session).number
    entries = sum(matches.entries for matches in found)
    counts: Counter[str] = Counter()
    sessions, latest = {own: session}, dict[int, datetime]()
    for matches in found:
        counts.update(matches.counts_by_term)
        sessions |= {number: turn_index.session_of(name) for number, name in matches.names.items()}
        for candidate in matches.candidates:
            message_at = candidate.message_at or EARLIEST
            latest[candidate.index_id] = max(message_at, latest.get(candidate.index_id, EARLIEST))
    order = sorted(latest, key=lambda index_id: (index_id == own, latest[index_id], index_id))
    first = {index_id: at * ENTRIES_PER_INDEX for at, index_id in enumerate(order)}
    candidates = []
    for matches in found:
        scale = {
            term: bm25_idf(counts[term], entries) / bm25_idf(term_count, matches.entries)
            for term, term_count in matches.counts_by_term.items()
        }
        for candidate in matches.candidates:
            scores = candidate.term_scores
            if len(found) > 1:
                scores = {term: score * scale[term] for term, score in scores.items()}
            candidates.append(
                candidate._replace(
                    entry=first[candidate.index_id] + candidate.entry,
                    term_scores=scores,
                    weight=1.0 if candidate.index_id == own else OTHER_SESSION_WEIGHT,
                )
            )
    question = ranking.read_question(
        text, entries, counts, when, counts_unknown=counts_unknown, unrelated=unrelated
    )
    return CandidatePool(candidates, question, sessions, order)


@frozen
class Quote:
    """A passage, and its source."""

    source: str
    cited: CitedPassage


async def quotes(
    passages: Mapping[str, PassageSearch],
    scope: Scope,
    user: str,
    question: str,
    sources: Collection[str],
    limit: int,
) -> Sequence[Quote]:
    """Return the best `limit` passages of each requested source, searched concurrently.

    Ordered as the best of each source, then the second of each, as scores of two sources are not
    comparable. Boards are those of the user alone. INVALID_ARGUMENT for a source that this service
    does not have, and for boards without a user. An error of one source is the error of all."""
    requested = [name for name in QUOTED_SOURCES if name in sources]
    if missing := [name for name in requested if name not in passages]:
        available = ", ".join(
            [*TURN_SOURCES, *(name for name in QUOTED_SOURCES if name in passages)]
        )
        raise invalid(
            f"sources: this service does not provide {missing[0]}; available: {available}"
        )
    if USER_SOURCE in requested and not user:
        raise invalid(f"sources: {USER_SOURCE} needs user_id, because each board belongs to a user")
    query = question.encode(errors="ignore")[-SEARCH_BYTES_MAX:].decode(errors="ignore").strip()
    if not query:
        return []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_of(passages[name], name, scope, user, query, limit))
                for name in requested
            ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    quotes_by_rank = zip_longest(*(task.result() for task in tasks))
    return [quote for quote in chain.from_iterable(quotes_by_rank) if quote is not None]


async def _of(
    passages: PassageSearch, source: str, scope: Scope, user: str, query: str, limit: int
) -> list[Quote]:
    return [Quote(source, cited) for cited in await passages(scope, query, limit, user=user)]


@frozen
class QuestionLookup:
    """Embedding and passages of a question, obtained before its transaction."""

    embedding: QueryEmbedding | None = None
    quotes: Sequence[Quote] = ()

    @property
    def unrelated(self) -> float | None:
        """Return the cosine of unrelated texts, where it is known."""
        return self.embedding.unrelated if self.embedding is not None else None

    @property
    def asks(self) -> float | None:
        """Return the log-odds that the question is about memory, where they are known."""
        return self.embedding.asks if self.embedding is not None else None


@frozen
class RecallRequest:
    """A recall request.

    `known` are digests of items that the caller has, `prompt` the entries of items in the recent
    context; neither is recalled again, nor is what the turn itself has already stored. `as_of` asks
    for the state at that time, `sources` selects kinds of memory. `kind` is the question's."""

    session: str
    turn: str
    user: str
    question: str
    now: datetime
    with_reasons: bool = False
    as_of: datetime | None = None
    sources: frozenset[str] = DEFAULT_SOURCES
    lookup: QuestionLookup = QuestionLookup()
    known: Collection[int] = frozenset()
    prompt: Collection[int] = frozenset()
    kind: QuestionKind = QuestionKind.OPEN

    def fact_index_ids(self) -> list[int]:
        """Return the fact indexes to search."""
        return (
            [index.number for index in turn_index.facts(self.session, self.user)]
            if "facts" in self.sources
            else []
        )

    def insight_index_ids(self) -> list[int]:
        """Return the insight indexes to search."""
        return (
            [index.number for index in turn_index.insights(self.session, self.user)]
            if "insights" in self.sources
            else []
        )

    def item_index_ids(self) -> list[int]:
        """Return the indexes to search for items: the session's and, if given, the user's."""
        if "turns" not in self.sources:
            return []
        user_ids = [turn_index.said(self.user).number] if self.user else []
        return [turn_index.turns(self.session).number, *user_ids]

    def in_context(self, pool: CandidatePool) -> set[int]:
        """Return the numbers of the candidates that the recent context shows."""
        return pool.numbers(turn_index.turns(self.session).number, self.prompt)


def question_of(items: Sequence[TurnItem]) -> str:
    """Return the question in the items: their texts, or "" for thanks, greetings and the like.

    Of a long text the start and the end, where people put their question."""
    text = "\n".join(filter(None, (item.text for item in items)))
    if is_greeting_phrase(text):
        return ""
    side_chars = QUESTION_CHARS_MAX // 2
    if len(text) > QUESTION_CHARS_MAX:
        return f"{text[:side_chars]}\n{text[-side_chars:]}"
    return text
