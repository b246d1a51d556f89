"""Search: the best entries of some indexes for some terms, in one statement."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cache
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.frozen import frozen
from memsvc.core.ranking import LONG_LENGTH, SHORT_LENGTH, Candidate
from memsvc.core.vectors import stored_cosines
from memsvc.store import facts
from memsvc.store.database import Row, Tx
from memsvc.store.vectors import CANDIDATES, CANDIDATES_MIN, model_number, signs_of_vector

K = TypeVar("K")


@frozen
class IndexQuery:
    """Index to search for its `best` entries by words, and `best_by_embedding` best by meaning.

    `best_by_embedding` takes a vector. `neighbours` neighbours on either side of the first
    `expand_count` entries are added, as the index that keeps their order has them.
    """

    index_id: int
    best: int
    neighbours: int = 0
    expand_count: int = 0
    best_by_embedding: int = 0


@frozen
class IndexMatches:
    """Result of a search of one index.

    Its number of entries, the counts by term, and the candidates. `names` are those of the indexes
    that candidates stand in, beside the searched one itself, by number.
    """

    entries: int
    counts_by_term: dict[str, int]
    candidates: list[Candidate]
    names: Mapping[int, str] = field(default_factory=dict)


@frozen
class SearchFilter:
    """What may be found at all: messages until `as_of`, entries that stand in the index `within`.

    It applies before the best are taken, and words count as rare or common among these alone. What
    is withheld from an index is found with `within`.
    """

    as_of: datetime | None = None
    within: int | None = None


@frozen
class Asked:
    """Where a question is asked: the user, the session, and the index of the session's items.

    Without a session no facts are withheld."""

    session: str | None
    user: str
    index_id: int


class OrderedMatches(NamedTuple):
    """Matches by index.

    `unsearched` is the index in which the session's items are found if it was not among those
    searched, or does not show them. `is_shared` says whether other users speak in the session;
    private facts are not found then."""

    found: dict[int, IndexMatches]
    unsearched: int | None
    is_shared: bool


MEANT_MIN: Final = 0.13
"""How far above that of unrelated texts a cosine has to be that finds a text by itself."""


@frozen
class QueryEmbedding:
    """Vector of a query, and the model that made it.

    `unrelated` is the cosine of what has nothing to do with it, `asks` the log-odds that it is a
    question about what the user told before; None where the model does not tell. `specific` is the
    vector without what all questions have in common, by which what is found is ordered; empty: the
    vector itself."""

    vector: Sequence[float]
    model: str
    unrelated: float | None = None
    asks: float | None = None
    specific: Sequence[float] = ()

    @property
    def ordering(self) -> Sequence[float]:
        """Return the vector by which what is found is ordered."""
        return self.specific or self.vector

    def is_near(self, cosine: float) -> bool:
        """Return whether a cosine alone, without a word in common, says that a text is meant."""
        return self.unrelated is None or cosine >= self.unrelated + MEANT_MIN

    def standing_out(self, cosines: Mapping[K, float], *, near: float, clear: float) -> K | None:
        """Return the key of the greatest cosine, if it is near and clearly above all others.

        That is `near` above unrelated texts and `clear` above the next; None where it is not, and
        for a model whose unrelated texts were not measured."""
        if self.unrelated is None or not cosines:
            return None
        (key, best), *others = sorted(cosines.items(), key=itemgetter(1), reverse=True)
        second = others[0][1] if others else 0.0
        return key if best >= self.unrelated + near and best - second >= clear else None


NO_FILTER: Final = SearchFilter()
WINDOW_LENGTH: Final = 2 * SHORT_LENGTH
"""Terms up to which the vector of a message is taken together with those of its neighbours."""


async def search(
    tx: Tx,
    queries: Sequence[IndexQuery],
    terms: Sequence[str],
    embedding: QueryEmbedding | None = None,
    only: SearchFilter = NO_FILTER,
) -> dict[int, IndexMatches]:
    """Return the best entries of each index by exact BM25, and their neighbours.

    As `bm25.bm25_scores`, in SQL. One round trip, reading the postings of the asked terms, the
    fresh terms of the indexes, and the rows of what it returns, nothing else of the indexes; with a
    meaning, which takes a database with vectors, those of the model as well. Indexes without any of
    the terms are left out, unless by their meaning. Neighbours come without scores of their own.
    The mark of changes finds entries only after all others.
    """
    return (await search_in_order(tx, queries, terms, embedding, only)).found


async def search_in_order(
    tx: Tx,
    queries: Sequence[IndexQuery],
    terms: Sequence[str],
    embedding: QueryEmbedding | None,
    only: SearchFilter,
    asked: Asked | None = None,
) -> OrderedMatches:
    """Search like `search` for a question asked in a session, in one round trip."""
    arguments: list[Any] = [
        [query.index_id for query in queries],
        [query.best for query in queries],
        [query.neighbours for query in queries],
        list(terms),
        float(SHORT_LENGTH),
        float(LONG_LENGTH),
        [query.expand_count for query in queries],
    ]
    filter_kind = "as_of" if only.as_of is not None else "none"
    if only.within is not None:
        filter_kind = "within"
    if asked is not None:
        arguments += (asked.index_id, asked.session, asked.user)
    if filter_kind != "none":
        arguments += (only.as_of, only.within)
    if embedding is not None:
        best_by_embedding = [query.best_by_embedding for query in queries]
        arguments += [
            best_by_embedding,
            signs_of_vector(embedding.ordering),
            model_number(embedding.model),
            len(embedding.vector),
        ]
    statement = _statement(
        with_embedding=embedding is not None, with_first=asked is not None, filter_kind=filter_kind
    )
    rows = await tx.fetch_prepared(statement, *arguments)
    by_index = {query.index_id: query for query in queries}
    found = {
        row["shelf"]: _found(row, terms, embedding, by_index[row["shelf"]])
        for row in rows
        if row["entries"]
    }
    return OrderedMatches(found, rows[0]["unsearched"], bool(rows[0]["is_shared"]))


def _found(
    row: Row, terms: Sequence[str], embedding: QueryEmbedding | None, query: IndexQuery
) -> IndexMatches:
    """Return the result of one index, from a row that holds it as arrays."""
    scores_by_number: dict[int, dict[str, float]] = {}
    for number, term_number, score in zip(
        row["scored"] or (), row["numbers"] or (), row["scores"] or (), strict=True
    ):
        scores_by_number.setdefault(number, {})[terms[term_number - 1]] = score
    scores = [scores_by_number.get(number, _NO_SCORES) for number in row["search_entries"]]
    nothing: Sequence[float | None] = [None] * len(scores)
    cosine, specific = nothing, nothing
    kept: Iterable[int] = range(len(scores))
    if embedding is not None and row["alike"]:
        cosine, specific = _similarity(row, embedding, windows=query.neighbours > 0)
        kept = _kept(row, scores, specific, query)
    columns = [row[name] for name in ("length", "speaker", "role", "said_at", "asks", "ref")]
    columns += [cosine, specific, repeat(1.0), row["feedback"], row["books"]]
    found = [*zip(row["entries"], scores, *columns, strict=False)]
    counts = {
        terms[number - 1]: count
        for number, count in zip(row["held_by"] or (), row["held"] or (), strict=True)
    }
    names = dict(zip(row["named"] or (), row["names"] or (), strict=True))
    return IndexMatches(row["book_entries"], counts, [Candidate(*found[at]) for at in kept], names)


def _kept(
    row: Row,
    scores: Sequence[Mapping[str, float]],
    specific: Sequence[float | None],
    query: IndexQuery,
) -> list[int]:
    """Return the positions to keep: matches by words, their neighbours, and the nearest others."""
    places = [*zip(row["books"], row["entries"], strict=True)]
    steps = range(-query.neighbours, query.neighbours + 1)
    beside = {
        (book, entry + step)
        for (book, entry), by_term in zip(places, scores, strict=True)
        if by_term
        for step in steps
    }
    alone = [at for at, place in enumerate(places) if place not in beside]
    alone.sort(key=lambda at: specific[at] or 0.0, reverse=True)
    far = set(alone[query.best_by_embedding :])
    return [at for at in range(len(places)) if at not in far]


def _similarity(
    row: Row, embedding: QueryEmbedding, *, windows: bool
) -> tuple[Sequence[float | None], Sequence[float | None]]:
    """Return the cosine of each entry to the query, and to what is specific in it.

    None for an entry without a vector. With `windows`, that of a short message is of the mean of it
    and its neighbours, as an answer means little without its question. What is specific is compared
    with the nearest sentence as well, as a message may say several things."""
    at = {number: place for place, number in enumerate(row["alike"])}
    places = [at.get(number, -1) for number in row["search_entries"]]
    neighbours: list[tuple[int, int, int]] = []
    if windows:
        entries = [*zip(row["books"], row["entries"], strict=True)]
        place_of = dict(zip(entries, places, strict=True)).get
        neighbours = [
            (place, place_of((book, entry - 1), -1), place_of((book, entry + 1), -1))
            for (book, entry), place, length in zip(entries, places, row["length"], strict=True)
            if place >= 0 and length <= WINDOW_LENGTH
        ]
    cosine, specific = stored_cosines(
        embedding.vector, embedding.ordering, row["vectors"], row["sizes"], neighbours
    )
    return [cosine[place] for place in places], [specific[place] for place in places]


_NO_SCORES: Final[dict[str, float]] = {}

# Shaped so that the plan does not hang on estimates: one index scan for each index and term and one
# for the fresh terms of each index, one hash table and one bounded heap for each index, a hashed
# look-up for what the best entries matched (`IS TRUE` keeps the IN from becoming a join), one index
# scan for where the best entries of an index stand, and one for those and their neighbours in each
# of the indexes that keep their order. What is found in an index comes as arrays: a row for each
# entry is dearer to make here and twice as dear to read there.
_SEARCH = """
    WITH {filter}, fresh AS MATERIALIZED (
        SELECT book, term, hit FROM (
            SELECT shelf.book, unnest(f.terms) AS term, unnest(f.hits) AS hit
            FROM unnest($3::int8[]) AS shelf (book) CROSS JOIN LATERAL (
                SELECT terms, hits FROM fresh_terms WHERE tenant = $1 AND project = $2
                    AND book = shelf.book OFFSET 0
            ) AS f OFFSET 0) AS h
        WHERE term = ANY($6::text[])
    ), terms AS MATERIALIZED (
        SELECT b.book, b.entries, shelf.best, shelf.reach, shelf.reaching,
            asked.number::int4 AS number, m.held,
               m.hits,
               ln(1 + (b.entries - m.held + 0.5::float8) / (m.held + 0.5::float8)) * 1.9
                   * CASE asked.term WHEN '{mark}' THEN 1e-3 ELSE 1 END AS weight,
               0.9 * (1 - tuned.b) AS bare, 0.9 * tuned.b / tuned.average AS each
        FROM unnest($3::int8[], $4::int4[], $5::int4[], $9::int4[]) AS shelf (book, best, reach,
            reaching)
        CROSS JOIN LATERAL ({counters}) AS b CROSS JOIN LATERAL (
            SELECT greatest(b.length, 1)::float8 / greatest(b.entries, 1) AS average) AS mean
        CROSS JOIN LATERAL (
            SELECT average, 0.4::float8 + 0.6 * least(1, greatest(0,
                (average - $7) / ($8 - $7::float8))) AS b) AS tuned
        CROSS JOIN unnest($6::text[]) WITH ORDINALITY AS asked (term, number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS held, array_agg(hit) AS hits FROM (
                SELECT unnest(hits) AS hit FROM posting_lists
                WHERE tenant = $1 AND project = $2 AND book = b.book
                    AND term = asked.term COLLATE "C"
                UNION ALL SELECT hit FROM fresh WHERE fresh.book = b.book
                    AND fresh.term = asked.term) AS said
            WHERE {unless_none}(b.book, (hit >> 32)::int4) {passes}) AS m
        WHERE m.held > 0
    ), {shelves}, best AS MATERIALIZED (
        SELECT s.book, heap.entry, CASE
            WHEN row_number() OVER (PARTITION BY s.book
                ORDER BY heap.total DESC, heap.entry DESC) <= s.reaching
            THEN s.reach ELSE 0 END AS reach
        FROM shelves AS s CROSS JOIN LATERAL (
            SELECT (hit >> 32)::int4 AS entry,
                   sum(weight * (hit >> 16 & 65535) / ((hit >> 16 & 65535) + bare + each * (hit &
                       65535))) AS total
            FROM (SELECT weight, bare, each, unnest(hits) AS hit FROM terms
                WHERE book = s.book OFFSET 0) AS h
            GROUP BY 1 ORDER BY total DESC, entry DESC LIMIT s.best
        ) AS heap
    ), matched AS (
        SELECT book, array_agg((hit >> 32)::int4) AS scored, array_agg(number) AS numbers,
            array_agg(
                weight * (hit >> 16 & 65535) / ((hit >> 16 & 65535) + bare + each * (hit & 65535))
            ) AS scores
        FROM (SELECT book, number, weight, bare, each, unnest(hits) AS hit FROM terms OFFSET 0) AS h
        WHERE ((book, (hit >> 32)::int4) IN ({chosen})) IS TRUE GROUP BY book
    ), placed AS MATERIALIZED (
        SELECT wanted.book AS shelf, e.book, e.entry, e.search_entry FROM (
            SELECT book, array_agg(entry) AS entries FROM ({chosen}) AS every GROUP BY book
        ) AS wanted CROSS JOIN LATERAL (
            SELECT book, entry, search_entry FROM entries WHERE tenant = $1 AND project = $2
                AND search_book = wanted.book AND search_entry = ANY(wanted.entries) OFFSET 0) AS e
    ), places AS (
        SELECT shelf, book, array_agg(entry) AS entries FROM (
            SELECT shelf, book, entry FROM placed
            UNION ALL SELECT p.shelf, p.book, p.entry + step FROM best JOIN placed AS p
                ON p.shelf = best.book AND p.search_entry = best.entry
                CROSS JOIN LATERAL generate_series(-reach, reach) AS step
            WHERE reach > 0{beside}) AS every GROUP BY shelf, book
    ), rows AS (
        SELECT places.shelf, array_agg(e.book) AS books, array_agg(e.entry) AS entries,
            array_agg(CASE WHEN e.search_book = places.shelf THEN e.search_entry END)
                AS search_entries, array_agg(length) AS length,
            array_agg(speaker) AS speaker, array_agg(role) AS role, array_agg(said_at) AS said_at,
            array_agg(asks) AS asks, array_agg(ref) AS ref, array_agg(feedback) AS feedback
        FROM places CROSS JOIN LATERAL (
            SELECT * FROM entries WHERE tenant = $1 AND project = $2 AND book = places.book
                AND entry = ANY(places.entries) AND length >= 0{until} OFFSET 0) AS e
        GROUP BY places.shelf
    ), found AS (
        SELECT rows.*, s.entries AS book_entries, s.held_by, s.held, scored, numbers, scores,
            {cosines}, titles.*
        FROM rows JOIN shelves AS s ON s.book = rows.shelf
            LEFT JOIN matched ON matched.book = rows.shelf{joined} CROSS JOIN LATERAL (
            SELECT array_agg(b.book) AS named, array_agg(b.name) AS names FROM (
                SELECT DISTINCT book FROM placed WHERE shelf = rows.shelf AND book <> shelf
            ) AS other CROSS JOIN LATERAL (SELECT book, name FROM books WHERE tenant = $1
                AND project = $2 AND book = other.book OFFSET 0) AS b) AS titles
    )
    SELECT * FROM (SELECT {unsearched} AS unsearched, {shared} AS is_shared) AS first
        LEFT JOIN found ON true
"""
_INDEXES_BY_TERMS = """shelves AS (
        SELECT book, entries, best, reach, reaching, array_agg(number) AS held_by,
            array_agg(held::int4) AS held
        FROM terms GROUP BY book, entries, best, reach, reaching
    )"""
# By how many signs differ, which the index alone tells; what is found that way or by words is
# compared exactly by the caller. Vectors of another length than the query's are left out.
_INDEXES_BY_EMBEDDING = """shelves AS (
        SELECT shelf.book, b.entries, shelf.best, shelf.reach, shelf.reaching, t.held_by, t.held
        FROM unnest($3::int8[], $4::int4[], $5::int4[], $9::int4[]) AS shelf (book, best, reach,
            reaching)
        CROSS JOIN LATERAL (
{counters}) AS b
        CROSS JOIN LATERAL (
            SELECT array_agg(number) AS held_by, array_agg(held::int4) AS held FROM terms
                WHERE book = shelf.book) AS t
    ), near AS MATERIALIZED (
        SELECT shelf.book, one.entry, one.place
        FROM unnest($3::int8[], {near}::int4[]) AS shelf (book, near) CROSS JOIN LATERAL (
            SELECT entry, row_number() OVER () AS place FROM (
                SELECT entry FROM embeddings
                WHERE tenant = $1 AND project = $2 AND book = shelf.book AND model = {model}
                    AND length(signs) = {dimensions} AND ({unless_none}(book, entry) {passes})
                ORDER BY bit_count(signs # {signs}::varbit), entry DESC
                LIMIT greatest(shelf.near, least({most}, {least} + 3 * shelf.near))
            ) AS nearest) AS one
        WHERE shelf.near > 0
    )"""
_EMBEDDING_NEIGHBOURS = """
            UNION ALL SELECT p.shelf, p.book, p.entry + step FROM near JOIN placed AS p
                ON p.shelf = near.book AND p.search_entry = near.entry
                CROSS JOIN (VALUES (-1), (1)) AS s (step) WHERE place <= 20"""
_SIMILARITY = """ LEFT JOIN LATERAL (
            SELECT array_agg(entry) AS alike, array_agg(octet_length(vector)) AS sizes,
                string_agg(vector, ''::bytea) AS vectors
            FROM (SELECT entry, vector FROM embeddings
                WHERE tenant = $1 AND project = $2 AND book = rows.shelf AND model = {model}
                    AND entry = ANY(rows.search_entries)
                    AND length(signs) = {dimensions} OFFSET 0) AS kept
        ) AS meanings ON true"""
# The search index of the first entry of an index, unless it is searched and shows that entry.
_UNSEARCHED: Final = """(SELECT b.book FROM (
            SELECT search_book FROM entries WHERE tenant = $1 AND project = $2 AND book = $10
            ORDER BY entry LIMIT 1) AS e CROSS JOIN LATERAL (
            SELECT book, withheld FROM books WHERE tenant = $1 AND project = $2
                AND book = e.search_book OFFSET 0) AS b
        WHERE b.book <> ALL($3::int8[]) OR $10 = ANY(b.withheld))"""
_SHARED: Final = """(SELECT shared OR user_id NOT IN ('', $12) FROM sessions
        WHERE tenant = $1 AND project = $2 AND session = $11)"""
_HIDDEN: Final = """hidden AS MATERIALIZED (
        SELECT b.book, e.search_entry FROM unnest($3::int8[]) AS shelf (book) CROSS JOIN LATERAL (
            SELECT book, unnest(withheld) AS other FROM books WHERE tenant = $1 AND project = $2
                AND book = shelf.book AND withheld <> '{}' OFFSET 0
        ) AS b CROSS JOIN LATERAL (
            SELECT search_entry FROM entries WHERE tenant = $1 AND project = $2
                AND book = b.other AND search_book = b.book OFFSET 0) AS e{private})"""
_PRIVATE: Final = f"""
        UNION ALL SELECT f.book, f.entry FROM unnest($3::int8[]) AS shelf (book)
        CROSS JOIN LATERAL (
            SELECT book, entry FROM facts WHERE tenant = $1 AND project = $2
                AND book = shelf.book AND state = 'active' AND {facts.is_withheld("$11")} OFFSET 0
        ) AS f WHERE {_SHARED}"""
_ALLOWED: Final = """allowed AS MATERIALIZED (
        SELECT shelf.book, e.search_entry, e.length
        FROM unnest($3::int8[]) AS shelf (book) CROSS JOIN LATERAL ({entries}) AS e
        WHERE ({as_of}::timestamptz IS NULL OR said_at <= {as_of})
    ), allowed_counts AS MATERIALIZED (
        SELECT book, count(*) AS entries, sum(length) AS length FROM allowed GROUP BY book
    )"""
_OF_SEARCH_INDEX: Final = """
            SELECT search_entry, length, said_at FROM entries WHERE tenant = $1 AND project = $2
                AND search_book = shelf.book AND length >= 0 AND {within}::int8 IS NULL
                AND book <> ALL(coalesce((SELECT withheld FROM books WHERE tenant = $1
                    AND project = $2 AND book = shelf.book), '{{}}')) OFFSET 0"""
_WITHIN: Final = """
            SELECT search_entry, length, said_at FROM (
                SELECT search_book, search_entry, length, said_at FROM entries WHERE tenant = $1
                    AND project = $2 AND book = {within} AND length >= 0 OFFSET 0) AS own
            WHERE search_book = shelf.book"""
_COUNTERS: Final = """
            SELECT book, entries, length FROM books WHERE tenant = $1 AND project = $2
                AND book = shelf.book AND entries > 0 OFFSET 0"""
_ALLOWED_COUNTERS: Final = """
            SELECT book, entries::int4 AS entries, length FROM allowed_counts
            WHERE book = shelf.book"""


@cache
def _statement(*, with_embedding: bool, with_first: bool, filter_kind: str) -> str:
    parameters = iter(range(13 if with_first else 10, 20))
    only = (
        {}
        if filter_kind == "none"
        else {name: f"${next(parameters)}" for name in ("as_of", "within")}
    )
    numbers = {name: f"${next(parameters)}" for name in ("near", "signs", "model", "dimensions")}
    given = _HIDDEN.replace("{private}", _PRIVATE if with_first else "")
    counters, passes, until = _COUNTERS, "NOT IN (SELECT * FROM hidden)", ""
    # looked at once, and not for each entry
    unless_none = "(SELECT count(*) = 0 FROM hidden) OR "
    if only:
        entries = (_WITHIN if filter_kind == "within" else _OF_SEARCH_INDEX).format(**only)
        given, counters = _ALLOWED.format(entries=entries, **only), _ALLOWED_COUNTERS
        passes, unless_none = "IN (SELECT book, search_entry FROM allowed)", ""
        until = " AND ({as_of} IS NULL OR said_at <= {as_of})".format(**only)
    all_matches = "SELECT book, entry FROM best UNION ALL SELECT book, entry FROM near"
    by_embedding = _INDEXES_BY_EMBEDDING.format(
        counters=counters,
        passes=passes,
        unless_none=unless_none,
        most=CANDIDATES,
        least=CANDIDATES_MIN,
        **numbers,
    )
    return _SEARCH.format(
        mark=CHANGE_MARK,
        filter=given,
        counters=counters,
        passes=passes,
        unless_none=unless_none,
        shelves=by_embedding if with_embedding else _INDEXES_BY_TERMS,
        chosen=all_matches if with_embedding else "SELECT book, entry FROM best",
        beside=_EMBEDDING_NEIGHBOURS if with_embedding else "",
        until=until,
        cosines="alike, sizes, vectors"
        if with_embedding
        else "NULL::int4[] AS alike, NULL::int4[] AS sizes, NULL::bytea AS vectors",
        joined=_SIMILARITY.format(**numbers) if with_embedding else "",
        unsearched=_UNSEARCHED if with_first else "NULL::int8",
        shared=_SHARED if with_first else "false",
    )
