"""Passages: the chunks of live files that answer a question, across one project or several."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import NamedTuple

from memsvc.core.frozen import frozen
from memsvc.core.paths import children_range
from memsvc.core.ranking import LONG_LENGTH, SHORT_LENGTH
from memsvc.core.vectors import cosines, units
from memsvc.store.database import Tx, columns_of
from memsvc.store.index import index_id_of
from memsvc.store.search import QueryEmbedding
from memsvc.store.vectors import CANDIDATES, model_number, signs_of_vector

CHECKED_FIRST = 400
"""Best chunks that are checked first; all others only where too few of them are live."""


class PassageKey(NamedTuple):
    """Chunk by project and number."""

    project: str
    entry: int


@frozen
class Passage:
    """Chunk of a file as a search returns it. `whole` says that it is all of the file."""

    path: str
    start: int
    end: int
    text: str
    whole: bool
    stream: int
    size_bytes: int
    updated_at: datetime


@frozen
class SearchRange:
    """Range of a search: an index of documents in some projects, and files at and inside a path."""

    index_name: str
    projects: Sequence[str]
    path: str

    @property
    def arguments(self) -> tuple[int, list[str], str, str, str]:
        return (
            index_id_of(self.index_name),
            list(self.projects),
            self.path,
            *children_range(self.path),
        )


async def search(
    tx: Tx, range_: SearchRange, terms: Sequence[str], *, best: int
) -> dict[PassageKey, float]:
    """Return the best live chunks for some terms by exact BM25, over statistics of all projects.

    The transaction is one over all projects (`Database.begin_tenant`).
    """
    found: dict[PassageKey, float] = {}
    for limit in (CHECKED_FIRST, None):
        rows = await tx.fetch(
            _SEARCH,
            *range_.arguments,
            terms,
            float(SHORT_LENGTH),
            float(LONG_LENGTH),
            limit,
            best,
        )
        found = {
            PassageKey(row["project"], row["entry"]): row["total"]
            for row in rows
            if row["entry"] is not None
        }
        if limit is not None and (len(found) >= best or not rows or rows[0]["scored"] < limit):
            break
    return found


# $2 index, $3 projects, $4 path, $5 and $6 the range inside it. Live is what its file still is:
# neither deleted, nor binary, nor of another stream, whatever the index still holds. Each OFFSET
# keeps a look-up by primary key what it is: without statistics the planner would rather read all
# files of the project for each chunk.
_LIVE = """
    SELECT f.path, f.size_bytes, f.stream, f.updated_at, e.start, e.size_bytes AS length_bytes,
        e.text
    FROM (SELECT project, ref::uuid AS incarnation, stream, start, size_bytes, text, length
        FROM entries
          WHERE tenant = $1 AND project = {place}.project AND book = $2
              AND entry = {place}.entry OFFSET 0) AS e
    CROSS JOIN LATERAL (
        SELECT path, size_bytes, stream, updated_at, deleted_at, is_text FROM files
        WHERE tenant = $1 AND project = e.project AND incarnation = e.incarnation OFFSET 0) AS f
    WHERE e.length >= 0 AND f.deleted_at IS NULL AND f.is_text AND f.stream = e.stream
        AND ($4 = '' OR f.path = $4 OR (f.path >= $5 AND f.path < $6))
"""
_SEARCH = f"""
    WITH shelves AS MATERIALIZED (
        SELECT project, entries, greatest(length, 1)::float8 AS length FROM books
        WHERE tenant = $1 AND book = $2 AND project = ANY($3::text[])
    ), whole AS MATERIALIZED (
        SELECT entries, average, 0.4::float8 + 0.6 * least(1, greatest(0,
            (average - $8) / ($9 - $8::float8))) AS b
        FROM (SELECT sum(entries)::float8 AS entries, sum(length) / greatest(sum(entries),
            1)::float8 AS average
              FROM shelves) AS sums
    ), fresh AS MATERIALIZED (
        SELECT s.project, h.term, h.hit FROM shelves AS s CROSS JOIN LATERAL (
            SELECT terms, hits FROM fresh_terms WHERE tenant = $1 AND project = s.project
                AND book = $2 OFFSET 0
        ) AS f CROSS JOIN LATERAL unnest(f.terms, f.hits) AS h (term, hit)
            WHERE h.term = ANY($7::text[])
    ), matched AS MATERIALIZED (
        SELECT s.project, asked.number, m.held, m.hits
        FROM shelves AS s CROSS JOIN unnest($7::text[]) WITH ORDINALITY AS asked (term, number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS held, array_agg(hit) AS hits FROM (
                SELECT hit FROM posting_lists AS p CROSS JOIN LATERAL unnest(p.hits) AS hit
                WHERE p.tenant = $1 AND p.project = s.project AND p.book = $2
                    AND p.term = asked.term COLLATE "C"
                UNION ALL SELECT hit FROM fresh WHERE fresh.project = s.project
                    AND fresh.term = asked.term
            ) AS said) AS m
        WHERE m.held > 0
    ), terms AS MATERIALIZED (
        SELECT matched.project, matched.hits, weights.weight, 0.9 * (1 - whole.b) AS bare,
               0.9 * whole.b / whole.average AS each
        FROM whole CROSS JOIN matched JOIN (
            SELECT number, ln(1 + (max(whole.entries) - sum(held) + 0.5::float8) / (sum(held) +
                0.5::float8)) * 1.9
                AS weight FROM matched CROSS JOIN whole GROUP BY number) AS weights USING (number)
    ), heap AS MATERIALIZED (
        SELECT t.project, (hit >> 32)::int4 AS entry, sum(
            t.weight * (hit >> 16 & 65535) / ((hit >> 16 & 65535) + t.bare + t.each * (hit &
                65535))) AS total
        FROM terms AS t CROSS JOIN LATERAL unnest(t.hits) AS hit
        GROUP BY 1, 2 ORDER BY total DESC, entry DESC LIMIT $10
    )
    SELECT n.scored, found.* FROM (SELECT count(*) AS scored FROM heap) AS n LEFT JOIN (
        SELECT h.project, h.entry, h.total
        FROM (SELECT * FROM heap ORDER BY total DESC, entry DESC OFFSET 0) AS h
        CROSS JOIN LATERAL ({_LIVE.format(place="h")} OFFSET 0) AS live LIMIT $11
    ) AS found ON true
"""


async def match_embedding(
    tx: Tx, where: SearchRange, embedding: QueryEmbedding, *, best: int
) -> dict[PassageKey, float]:
    """Return the cosines of the best live chunks by their vectors.

    Within a directory ten times as many are compared by their signs, as most may be elsewhere.
    """
    if not where.projects:
        return {}
    candidates = max(CANDIDATES, best)
    rows = await tx.fetch(
        _MATCH_EMBEDDING,
        *where.arguments,
        model_number(embedding.model),
        signs_of_vector(embedding.vector),
        len(embedding.vector),
        candidates * (10 if where.path else 1),
        candidates,
    )
    vectors = units(b"".join(row["vector"] for row in rows), len(embedding.vector))
    found = cosines(embedding.vector, vectors)
    keys = [PassageKey(row["project"], row["entry"]) for row in rows]
    nearest = sorted(
        ((cosine, key) for cosine, key in zip(found, keys, strict=True) if isfinite(cosine)),
        reverse=True,
    )[:best]
    return {key: cosine for cosine, key in nearest}


_MATCH_EMBEDDING = f"""
    WITH coarse AS MATERIALIZED (
        SELECT p.project, one.entry, one.differ FROM unnest($3::text[]) AS p (project)
        CROSS JOIN LATERAL (
            SELECT entry, bit_count(signs # $8::varbit) AS differ FROM embeddings
            WHERE tenant = $1 AND project = p.project AND book = $2 AND model = $7
                AND length(signs) = $9
            ORDER BY differ, entry DESC LIMIT $10) AS one
    ), found AS MATERIALIZED (
        SELECT coarse.project, coarse.entry FROM (
            SELECT * FROM coarse ORDER BY differ, entry DESC OFFSET 0) AS coarse
        CROSS JOIN LATERAL ({_LIVE.format(place="coarse")} OFFSET 0) AS live LIMIT $11
    )
    SELECT found.project, found.entry, one.vector FROM found CROSS JOIN LATERAL (
        SELECT substring(vector FOR $9) AS vector FROM embeddings
        WHERE tenant = $1 AND project = found.project AND book = $2 AND model = $7
            AND entry = found.entry OFFSET 0) AS one
"""


async def read(
    tx: Tx, where: SearchRange, keys: Sequence[PassageKey]
) -> Mapping[PassageKey, Passage]:
    """Return these chunks with their texts, without those that are not live or outside."""
    rows = await tx.fetch(
        f"""
        SELECT place.project, place.entry, live.path, live.start,
            live.start + live.length_bytes AS end, live.text,
            live.start = 0 AND live.length_bytes = live.size_bytes AS whole, live.stream,
            live.size_bytes, live.updated_at
        FROM unnest($7::text[], $8::int4[]) AS place (project, entry)
        CROSS JOIN LATERAL ({_LIVE.format(place="place")} OFFSET 0) AS live
            WHERE place.project = ANY($3::text[])
        """,
        *where.arguments,
        *columns_of(keys, 2),
    )
    return {
        PassageKey(project, entry): Passage(*passage)
        for project, entry, *passage in (row.values() for row in rows)
    }
