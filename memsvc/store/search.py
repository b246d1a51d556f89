"""Search: the best entries of some books for some terms, in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass

from memsvc.core.ranking import LONG_LENGTH, SHORT_LENGTH, Candidate
from memsvc.store.database import Tx


@dataclass(frozen=True, slots=True)
class Shelf:
    """A book to search: the best so many entries of it, and `reach` neighbours on either side of the first `reaching`
    of them."""

    book: int
    best: int
    reach: int
    reaching: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a search of one book found: how many entries it has, how many have each term, and the candidates."""

    entries: int
    counts_by_term: dict[str, int]
    candidates: list[Candidate]


async def search(tx: Tx, shelves: Sequence[Shelf], asked: Sequence[str]) -> dict[int, Found]:
    """The best entries of each book for some terms by exact BM25 (`ranking.bm25_scores` in SQL), and their neighbours.

    One round trip, reading the postings of the asked terms, the fresh terms of the books, and the rows of what it
    returns, nothing else of the books.
    Books without any of the terms are left out. Neighbours come without scores of their own.
    """
    rows = await tx.fetch(
        _SEARCH,
        [shelf.book for shelf in shelves],
        [shelf.best for shelf in shelves],
        [shelf.reach for shelf in shelves],
        list(asked),
        float(SHORT_LENGTH),
        float(LONG_LENGTH),
        [shelf.reaching for shelf in shelves],
    )
    found: dict[int, Found] = {}
    for row in rows:
        book, entries, counts, entry, numbers, scores, length, speaker, role, said_at, asks = row.values()
        shelf = found.get(book)
        if shelf is None:
            counts_by_term = {asked[number - 1]: held for number, held in zip(counts[0], counts[1], strict=True)}
            shelf = found[book] = Found(entries, counts_by_term, [])
        own = {asked[number - 1]: score for number, score in zip(numbers, scores, strict=True)} if numbers else {}
        shelf.candidates.append(Candidate(entry, own, length, speaker, role, said_at, asks))
    return found


# Shaped so that the plan does not hang on estimates: one index scan for each book and term and one
# for the fresh terms of each book, one hash table and one
# bounded heap for each book, a hashed look-up for what the best entries matched (`IS TRUE` keeps the IN from becoming a
# join), and one index look-up for each entry returned.
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
    ), shelves AS (
        SELECT book, entries, best, reach, reaching, ARRAY[array_agg(number), array_agg(held::int4)] AS counts
        FROM terms GROUP BY book, entries, best, reach, reaching
    ), best AS MATERIALIZED (
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
        SELECT book, entry, max(numbers) AS numbers, max(scores) AS scores FROM (
            SELECT t.book, (hit >> 32)::int4 AS entry, array_agg(t.number) AS numbers, array_agg(
                t.weight * (hit >> 16 & 65535) / ((hit >> 16 & 65535) + t.bare + t.each * (hit & 65535))) AS scores
            FROM terms AS t CROSS JOIN LATERAL unnest(t.hits) AS hit
            WHERE ((t.book, (hit >> 32)::int4) IN (SELECT book, entry FROM best)) IS TRUE GROUP BY 1, 2
            UNION ALL
            SELECT book, entry + step, NULL, NULL FROM best CROSS JOIN LATERAL generate_series(-reach, reach) AS step
            WHERE step <> 0
        ) AS both_kinds GROUP BY book, entry
    )
    SELECT s.book, s.entries, s.counts, e.entry, wide.numbers, wide.scores, e.length, e.speaker, e.role, e.said_at,
           e.asks
    FROM wide JOIN shelves AS s USING (book) CROSS JOIN LATERAL (
        SELECT entry, length, speaker, role, said_at, asks FROM entries
        WHERE tenant = $1 AND project = $2 AND book = wide.book AND entry = wide.entry AND length >= 0 OFFSET 0
    ) AS e
"""
