"""Search: the best entries of some indexes for some terms, in one statement."""

from collections.abc import Sequence
from itertools import repeat
from math import isfinite
from typing import Any, Final, Literal

from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.frozen import frozen
from memsvc.core.ranking import LONG_LENGTH, SHORT_LENGTH, Candidate
from memsvc.store.database import Row, Tx
from memsvc.store.vectors import CANDIDATE_FACTOR, CANDIDATES_MIN, model_number

SESSIONS_MAX: Final = 4
"""Sessions of a visitor that a search names."""

_Kind = Literal["none", "active", "among"]
"""Kind of a visitor's sessions that a search names."""


@frozen
class IndexQuery:
    """Index to search for its `best` entries by words, and `best_by_embedding` best by meaning.

    `best_by_embedding` takes a vector. `neighbours` neighbours on either side of the first
    `expand_count` entries are added.
    """

    index_id: int
    best: int
    neighbours: int = 0
    expand_count: int = 0
    best_by_embedding: int = 0


@frozen
class IndexMatches:
    """Result of a search of one index.

    Its number of entries, the counts by term, and the candidates.
    """

    entries: int
    counts_by_term: dict[str, int]
    candidates: list[Candidate]


@frozen
class QueryEmbedding:
    """Vector of a query, and the model that made it."""

    vector: Sequence[float]
    model: str


async def search(
    tx: Tx,
    queries: Sequence[IndexQuery],
    terms: Sequence[str],
    embedding: QueryEmbedding | None = None,
) -> dict[int, IndexMatches]:
    """Return the best entries of each index by exact BM25, and their neighbours.

    As `bm25.bm25_scores`, in SQL. One round trip, reading the postings of the asked terms, the
    fresh terms of the indexes, and the rows of what it returns, nothing else of the indexes; with a
    meaning, which takes a database with vectors, those of the model as well. Indexes without any of
    the terms are left out, unless by their meaning. Neighbours come without scores of their own.
    The mark of changes finds entries only after all others.
    """
    found, _ = await search_visited(tx, queries, terms, embedding, None)
    return found


@frozen
class VisitedSessions:
    """Which sessions of one user alone a search is to name.

    The others than this one, the latest active first, or those among some.
    """

    user: str
    sessions: str | list[str]


async def search_visited(
    tx: Tx,
    queries: Sequence[IndexQuery],
    terms: Sequence[str],
    embedding: QueryEmbedding | None,
    visited: VisitedSessions | None,
) -> tuple[dict[int, IndexMatches], list[str]]:
    """Search as `search`, and name sessions of a user, in one round trip.

    Nothing of other sessions' indexes may be displayed.
    """
    arguments: list[Any] = [
        [query.index_id for query in queries],
        [query.best for query in queries],
        [query.neighbours for query in queries],
        list(terms),
        float(SHORT_LENGTH),
        float(LONG_LENGTH),
        [query.expand_count for query in queries],
    ]
    kind: _Kind = "none"
    if visited is not None:
        arguments += (visited.user, visited.sessions)
        kind = "active" if isinstance(visited.sessions, str) else "among"
    if embedding is not None:
        best_by_embedding = [query.best_by_embedding for query in queries]
        arguments += [
            best_by_embedding,
            list(embedding.vector),
            model_number(embedding.model),
            len(embedding.vector),
        ]
    rows = await tx.fetch_prepared(_STATEMENTS[embedding is not None, kind], *arguments)
    sessions: list[str] = (rows[0]["sessions"] or []) if rows else []
    return {row["book"]: _found(row, terms) for row in rows if row["entries"]}, sessions


def _found(row: Row, terms: Sequence[str]) -> IndexMatches:
    """Return the result of one index, from a row that holds it as arrays."""
    scores: dict[int, dict[str, float]] = {}
    for entry, number, score in zip(
        row["scored"] or (), row["numbers"] or (), row["scores"] or (), strict=True
    ):
        scores.setdefault(entry, {})[terms[number - 1]] = score
    similarity = {
        entry: cosine
        for entry, cosine in zip(row["alike"] or (), row["cosines"] or (), strict=True)
        if isfinite(cosine)
    }
    entries = row["entries"]
    columns = [row[name] for name in ("length", "speaker", "role", "said_at", "asks", "ref")]
    candidates = [
        *map(
            Candidate,
            entries,
            [scores.get(entry, _NO_SCORES) for entry in entries],
            *columns,
            map(similarity.get, entries),
            repeat(1.0),
            row["feedback"],
        )
    ]
    counts = {
        terms[number - 1]: count
        for number, count in zip(row["held_by"] or (), row["held"] or (), strict=True)
    }
    return IndexMatches(row["book_entries"], counts, candidates)


_NO_SCORES: Final[dict[str, float]] = {}

# Shaped so that the plan does not hang on estimates: one index scan for each index and term and one
# for the fresh terms of each index, one hash table and one bounded heap for each index, a hashed
# look-up for what the best entries matched (`IS TRUE` keeps the IN from becoming a join), and one
# index scan for all the entries of an index that are returned. What is found in an index comes as
# arrays: a row for each entry is dearer to make here and twice as dear to read there.
_SEARCH = """
    WITH fresh AS MATERIALIZED (
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
        CROSS JOIN LATERAL (
            SELECT book, entries, length FROM books WHERE tenant = $1 AND project = $2
                AND book = shelf.book OFFSET 0
        ) AS b CROSS JOIN LATERAL (SELECT greatest(b.length, 1)::float8 / greatest(b.entries,
            1) AS average) AS mean
        CROSS JOIN LATERAL (
            SELECT average, 0.4::float8 + 0.6 * least(1, greatest(0,
                (average - $7) / ($8 - $7::float8))) AS b) AS tuned
        CROSS JOIN unnest($6::text[]) WITH ORDINALITY AS asked (term, number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS held, array_agg(hit) AS hits FROM (
                SELECT unnest(hits) AS hit FROM postings
                WHERE tenant = $1 AND project = $2 AND book = b.book
                    AND term = asked.term COLLATE "C"
                UNION ALL SELECT hit FROM fresh WHERE fresh.book = b.book
                    AND fresh.term = asked.term) AS said) AS m
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
    ), places AS (
        SELECT book, array_agg(entry) AS entries FROM (
            {chosen}
            UNION ALL SELECT book, entry + step FROM best CROSS
                JOIN LATERAL generate_series(-reach, reach) AS step
            WHERE reach > 0{beside}) AS every GROUP BY book
    ), found AS (
        SELECT book, s.entries AS book_entries, s.held_by, s.held, scored, numbers, scores,
            {cosines}, e.*
        FROM places JOIN shelves AS s USING (book) LEFT JOIN matched USING (book){joined} CROSS
            JOIN LATERAL (
            SELECT array_agg(entry) AS entries, array_agg(length) AS length,
                array_agg(speaker) AS speaker,
                   array_agg(role) AS role, array_agg(said_at) AS said_at, array_agg(asks) AS asks,
                   array_agg(ref) AS ref, array_agg(feedback) AS feedback
            FROM entries WHERE tenant = $1 AND project = $2 AND book = s.book
                AND entry = ANY(places.entries)
                AND length >= 0) AS e
    )
    SELECT * FROM (SELECT {sessions} AS sessions) AS visited LEFT JOIN found ON true
"""
_INDEXES_BY_TERMS = """shelves AS (
        SELECT book, entries, best, reach, reaching, array_agg(number) AS held_by,
            array_agg(held::int4) AS held
        FROM terms GROUP BY book, entries, best, reach, reaching
    )"""
# By how many signs differ (in the index alone), then exactly over ten times as many as requested.
# Vectors of another length than the query's are left out.
_INDEXES_BY_EMBEDDING = f"""shelves AS (
        SELECT shelf.book, b.entries, shelf.best, shelf.reach, shelf.reaching, t.held_by, t.held
        FROM unnest($3::int8[], $4::int4[], $5::int4[], $9::int4[]) AS shelf (book, best, reach,
            reaching)
        CROSS JOIN LATERAL (
            SELECT entries FROM books WHERE tenant = $1 AND project = $2
                AND book = shelf.book OFFSET 0) AS b
        CROSS JOIN LATERAL (
            SELECT array_agg(number) AS held_by, array_agg(held::int4) AS held FROM terms
                WHERE book = shelf.book) AS t
    ), meant AS MATERIALIZED (
        SELECT {{vector}}::float4[]::halfvec AS vector,
            binary_quantize({{vector}}::float4[]::halfvec) AS signs
    ), coarse AS MATERIALIZED (
        SELECT shelf.book, shelf.near, one.entry
        FROM unnest($3::int8[], {{near}}::int4[]) AS shelf (book, near) CROSS JOIN LATERAL (
            SELECT entry FROM embeddings
            WHERE tenant = $1 AND project = $2 AND book = shelf.book AND model = {{model}}
                AND length(signs) = {{dimensions}}
            ORDER BY signs <~> (SELECT signs FROM meant), entry DESC
            LIMIT greatest({CANDIDATES_MIN}, {CANDIDATE_FACTOR} * shelf.near)) AS one
        WHERE shelf.near > 0
    ), near AS MATERIALIZED (
        SELECT book, entry, 1 - distance AS cosine, place FROM (
            SELECT coarse.book, coarse.near, coarse.entry, one.distance,
                   row_number() OVER (PARTITION BY coarse.book
                       ORDER BY one.distance, coarse.entry DESC) AS place
            FROM coarse CROSS JOIN LATERAL (
                SELECT vector <=> (SELECT vector FROM meant) AS distance FROM embeddings
                WHERE tenant = $1 AND project = $2 AND book = coarse.book AND model = {{model}}
                    AND entry = coarse.entry OFFSET 0) AS one) AS ordered
        WHERE place <= near
    )"""
_EMBEDDING_NEIGHBOURS = """
            UNION ALL SELECT book, entry + step FROM near CROSS JOIN (VALUES (-1), (1)) AS s (step)
                WHERE place <= 20"""
_SIMILARITY = """ LEFT JOIN (
            SELECT book, array_agg(entry) AS alike, array_agg(cosine) AS cosines FROM near
                GROUP BY book
        ) AS meanings USING (book)"""
_SESSIONS = """ARRAY(
        SELECT session FROM sessions
        WHERE tenant = $1 AND project = $2 AND user_id = $10 AND user_id <> '' AND NOT shared
            AND """
_VISITOR_SESSIONS: Final[dict[_Kind, str]] = {
    "none": "NULL::text[]",
    "active": f"{_SESSIONS}session <> $11 ORDER BY updated_at DESC LIMIT {SESSIONS_MAX})",
    "among": f"{_SESSIONS}session = ANY($11::text[]))",
}


def _statement(*, with_embedding: bool, session_kind: _Kind) -> str:
    first = 10 if session_kind == "none" else 12
    numbers = {
        name: f"${first + at}" for at, name in enumerate(("near", "vector", "model", "dimensions"))
    }
    all_matches = "SELECT book, entry FROM best UNION ALL SELECT book, entry FROM near"
    return _SEARCH.format(
        mark=CHANGE_MARK,
        shelves=_INDEXES_BY_EMBEDDING.format(**numbers) if with_embedding else _INDEXES_BY_TERMS,
        chosen=all_matches if with_embedding else "SELECT book, entry FROM best",
        beside=_EMBEDDING_NEIGHBOURS if with_embedding else "",
        cosines="alike, cosines"
        if with_embedding
        else "NULL::int4[] AS alike, NULL::float8[] AS cosines",
        joined=_SIMILARITY if with_embedding else "",
        sessions=_VISITOR_SESSIONS[session_kind],
    )


_STATEMENTS: Final = {
    (with_embedding, session_kind): _statement(
        with_embedding=with_embedding, session_kind=session_kind
    )
    for with_embedding in (False, True)
    for session_kind in _VISITOR_SESSIONS
}
