"""Search: the best entries of some books for some terms, in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal

from memsvc.core.bm25 import LONG_LENGTH, SHORT_LENGTH
from memsvc.core.ranking import Candidate
from memsvc.store.database import Tx
from memsvc.store.vectors import COARSE_FACTOR, COARSE_MIN, model_number

SESSIONS_MOST: Final = 4
"""Sessions of a visitor that a search names."""

_Kind = Literal["none", "active", "among"]
"""Which sessions of a visitor a search is to name."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """A book to search: the best so many entries of it by words, `reach` neighbours on either side of the first
    `reaching` of them, and the `near` best by meaning, where there is a vector."""

    book: int
    best: int
    reach: int
    reaching: int
    near: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What a search of one book found: how many entries it has, how many have each term, and the candidates."""

    entries: int
    counts_by_term: dict[str, int]
    candidates: list[Candidate]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is asked as a vector, and the model that made it."""

    vector: Sequence[float]
    model: str


async def search(
    tx: Tx, shelves: Sequence[Shelf], asked: Sequence[str], meaning: Meaning | None = None
) -> dict[int, Found]:
    """The best entries of each book for some terms by exact BM25 (`bm25.bm25_scores` in SQL), and their neighbours.

    One round trip, reading the postings of the asked terms, the fresh terms of the books, and the rows of what it
    returns, nothing else of the books; with a meaning, which takes a database that keeps vectors, those of the model as
    well. Books without any of the terms are left out, unless by their meaning. Neighbours come without scores of their
    own.
    """
    found, _ = await _search(tx, shelves, asked, meaning, None)
    return found


async def search_as(
    tx: Tx, shelves: Sequence[Shelf], asked: Sequence[str], meaning: Meaning | None, *, user: str, session: str
) -> tuple[dict[int, Found], list[str]]:
    """As `search`, and in the same round trip the other sessions of this user alone in the project that were active
    last, the latest first."""
    return await _search(tx, shelves, asked, meaning, ("active", user, session))


async def search_among(
    tx: Tx, shelves: Sequence[Shelf], asked: Sequence[str], meaning: Meaning | None, *, user: str, sessions: list[str]
) -> tuple[dict[int, Found], list[str]]:
    """As `search`, and in the same round trip which of some sessions are of this user alone: of the books of the others
    nothing may be shown."""
    return await _search(tx, shelves, asked, meaning, ("among", user, sessions))


async def _search(
    tx: Tx,
    shelves: Sequence[Shelf],
    asked: Sequence[str],
    meaning: Meaning | None,
    visitor: tuple[_Kind, str, str | list[str]] | None,
) -> tuple[dict[int, Found], list[str]]:
    arguments: list[Any] = [
        [shelf.book for shelf in shelves],
        [shelf.best for shelf in shelves],
        [shelf.reach for shelf in shelves],
        list(asked),
        float(SHORT_LENGTH),
        float(LONG_LENGTH),
        [shelf.reaching for shelf in shelves],
    ]
    if visitor is not None:
        arguments += visitor[1:]
    if meaning is not None:
        near = [shelf.near for shelf in shelves]
        arguments += [near, list(meaning.vector), model_number(meaning.model), len(meaning.vector)]
    rows = await tx.fetch(_STATEMENTS[meaning is not None, visitor[0] if visitor else "none"], *arguments)
    found: dict[int, Found] = {}
    sessions: list[str] = []
    for row in rows:
        book, entries, counts, entry, numbers, scores, length, speaker, role, said_at, asks, ref, cosine = list(
            row.values()
        )[:13]
        if book is None:
            sessions = row["sessions"]
            continue
        shelf = found.get(book)
        if shelf is None:
            held = zip(*counts, strict=True) if counts and counts[0] else ()
            shelf = found[book] = Found(entries, {asked[number - 1]: count for number, count in held}, [])
        own = {asked[number - 1]: score for number, score in zip(numbers, scores, strict=True)} if numbers else {}
        known = cosine if cosine is not None and isfinite(cosine) else None
        shelf.candidates.append(Candidate(entry, own, length, speaker, role, said_at, asks, ref, known))
    return found, sessions


# Shaped so that the plan does not hang on estimates: one index scan for each book and term and one for the fresh terms
# of each book, one hash table and one bounded heap for each book, a hashed look-up for what the best entries matched
# (`IS TRUE` keeps the IN from becoming a join), and one index look-up for each entry returned.
_SEARCH = """
    WITH fresh AS MATERIALIZED (
        SELECT shelf.book, h.term, h.hit FROM unnest($3::int8[]) AS shelf (book) CROSS JOIN LATERAL (
            SELECT terms, hits FROM fresh_terms WHERE tenant = $1 AND project = $2 AND book = shelf.book OFFSET 0
        ) AS f CROSS JOIN LATERAL unnest(f.terms, f.hits) AS h (term, hit) WHERE h.term = ANY($6::text[])
    ), terms AS MATERIALIZED (
        SELECT b.book, b.entries, shelf.best, shelf.reach, shelf.reaching, asked.number::int4 AS number, m.held, m.hits,
               ln(1 + (b.entries - m.held + 0.5::float8) / (m.held + 0.5::float8)) * 1.9 AS weight,
               0.9 * (1 - tuned.b) AS bare, 0.9 * tuned.b / tuned.average AS each
        FROM unnest($3::int8[], $4::int4[], $5::int4[], $9::int4[]) AS shelf (book, best, reach, reaching)
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = shelf.book
        CROSS JOIN LATERAL (SELECT greatest(b.length, 1)::float8 / greatest(b.entries, 1) AS average) AS mean
        CROSS JOIN LATERAL (
            SELECT average, 0.4::float8 + 0.6 * least(1, greatest(0, (average - $7) / ($8 - $7::float8))) AS b) AS tuned
        CROSS JOIN unnest($6::text[]) WITH ORDINALITY AS asked (term, number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS held, array_agg(hit) AS hits FROM (
                SELECT hit FROM postings AS p CROSS JOIN LATERAL unnest(p.hits) AS hit
                WHERE p.tenant = $1 AND p.project = $2 AND p.book = b.book AND p.term = asked.term COLLATE "C"
                UNION ALL SELECT hit FROM fresh WHERE fresh.book = b.book AND fresh.term = asked.term) AS said) AS m
        WHERE m.held > 0
    ), {shelves}, best AS MATERIALIZED (
        SELECT s.book, heap.entry, CASE
            WHEN row_number() OVER (PARTITION BY s.book ORDER BY heap.total DESC, heap.entry DESC) <= s.reaching
            THEN s.reach ELSE 0 END AS reach
        FROM shelves AS s CROSS JOIN LATERAL (
            SELECT (hit >> 32)::int4 AS entry, sum(
                t.weight * (hit >> 16 & 65535) / ((hit >> 16 & 65535) + t.bare + t.each * (hit & 65535))) AS total
            FROM terms AS t CROSS JOIN LATERAL unnest(t.hits) AS hit
            WHERE t.book = s.book GROUP BY 1 ORDER BY total DESC, entry DESC LIMIT s.best
        ) AS heap
    ), wide AS (
        SELECT book, entry, max(numbers) AS numbers, max(scores) AS scores, max(cosine) AS cosine
        FROM (
            SELECT t.book, (hit >> 32)::int4 AS entry, array_agg(t.number) AS numbers, array_agg(
                t.weight * (hit >> 16 & 65535) / ((hit >> 16 & 65535) + t.bare + t.each * (hit & 65535))) AS scores,
                NULL::float8 AS cosine
            FROM terms AS t CROSS JOIN LATERAL unnest(t.hits) AS hit
            WHERE ((t.book, (hit >> 32)::int4) IN ({chosen})) IS TRUE GROUP BY 1, 2
            UNION ALL
            SELECT book, entry + step, NULL, NULL, NULL
            FROM best CROSS JOIN LATERAL generate_series(-reach, reach) AS step
            WHERE step <> 0{alike}
        ) AS all_kinds GROUP BY book, entry
    )
    SELECT s.book, s.entries, s.counts, e.entry, wide.numbers, wide.scores, e.length, e.speaker, e.role, e.said_at,
           e.asks, e.ref, wide.cosine{no_sessions}
    FROM wide JOIN shelves AS s USING (book) CROSS JOIN LATERAL (
        SELECT entry, length, speaker, role, said_at, asks, ref FROM entries
        WHERE tenant = $1 AND project = $2 AND book = wide.book AND entry = wide.entry AND length >= 0 OFFSET 0
    ) AS e{sessions}
"""
_SHELVES_BY_WORDS = """shelves AS (
        SELECT book, entries, best, reach, reaching, ARRAY[array_agg(number), array_agg(held::int4)] AS counts
        FROM terms GROUP BY book, entries, best, reach, reaching
    )"""
# As `vectors.nearest` has them of one book: by how many signs differ, then exactly.
_SHELVES_BY_MEANING = f"""shelves AS (
        SELECT shelf.book, b.entries, shelf.best, shelf.reach, shelf.reaching, (
            SELECT ARRAY[array_agg(number), array_agg(held::int4)] FROM terms WHERE terms.book = shelf.book) AS counts
        FROM unnest($3::int8[], $4::int4[], $5::int4[], $9::int4[]) AS shelf (book, best, reach, reaching)
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = shelf.book
    ), meant AS MATERIALIZED (
        SELECT {{vector}}::float4[]::halfvec AS vector, binary_quantize({{vector}}::float4[]::halfvec) AS signs
    ), coarse AS MATERIALIZED (
        SELECT shelf.book, shelf.near, one.entry
        FROM unnest($3::int8[], {{near}}::int4[]) AS shelf (book, near) CROSS JOIN LATERAL (
            SELECT entry FROM embeddings
            WHERE tenant = $1 AND project = $2 AND book = shelf.book AND model = {{model}}
                AND length(signs) = {{dimensions}}
            ORDER BY signs <~> (SELECT signs FROM meant), entry DESC
            LIMIT greatest({COARSE_MIN}, {COARSE_FACTOR} * shelf.near)) AS one
        WHERE shelf.near > 0
    ), near AS MATERIALIZED (
        SELECT book, entry, 1 - distance AS cosine, place FROM (
            SELECT coarse.book, coarse.near, coarse.entry, one.distance,
                   row_number() OVER (PARTITION BY coarse.book ORDER BY one.distance, coarse.entry DESC) AS place
            FROM coarse CROSS JOIN LATERAL (
                SELECT vector <=> (SELECT vector FROM meant) AS distance FROM embeddings
                WHERE tenant = $1 AND project = $2 AND book = coarse.book AND model = {{model}}
                    AND entry = coarse.entry OFFSET 0) AS one) AS ordered
        WHERE place <= near
    )"""
_ALIKE = """
            UNION ALL SELECT book, entry, NULL, NULL, cosine FROM near
            UNION ALL SELECT book, entry + step, NULL, NULL, NULL FROM near CROSS JOIN (VALUES (-1), (1)) AS s (step)
            WHERE place <= 20"""
_SESSIONS = """
    UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ARRAY(
        SELECT session FROM sessions
        WHERE tenant = $1 AND project = $2 AND user_id = $10 AND user_id <> '' AND NOT shared AND """
_WHICH: Final[dict[_Kind, str]] = {
    "none": "",
    "active": f"{_SESSIONS}session <> $11 ORDER BY updated_at DESC LIMIT {SESSIONS_MOST})",
    "among": f"{_SESSIONS}session = ANY($11::text[]))",
}


def _statement(*, by_meaning: bool, which: _Kind) -> str:
    with_sessions = which != "none"
    first = 12 if with_sessions else 10
    places = ("near", "vector", "model", "dimensions")
    numbers = {name: f"${first + at}" for at, name in enumerate(places)}
    both = "SELECT book, entry FROM best UNION ALL SELECT book, entry FROM near"
    return _SEARCH.format(
        shelves=_SHELVES_BY_MEANING.format(**numbers) if by_meaning else _SHELVES_BY_WORDS,
        chosen=both if by_meaning else "SELECT book, entry FROM best",
        alike=_ALIKE if by_meaning else "",
        no_sessions=", NULL::text[] AS sessions" if with_sessions else "",
        sessions=_WHICH[which],
    )


_STATEMENTS: Final = {
    (by_meaning, which): _statement(by_meaning=by_meaning, which=which)
    for by_meaning in (False, True)
    for which in _WHICH
}
