"""The one index of everything that can be recalled: exact BM25 over postings that lead with their tenant."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.analysis import ANALYSER_VERSION, asks, terms
from memsvc.store.database import Tx

LENGTH_MAX = 32767


@dataclass(frozen=True, slots=True)
class NewEntry:
    """Something to make findable. `stream`, `start` and `size_bytes` say where its source stands in the file store.

    `text` is what is shown, `cues` are further words under which it is found; an entry without either is kept in
    order with the others but never found.
    """

    ref: str
    text: str
    said_at: datetime
    role: str = ""
    speaker: str = ""
    cues: str = ""
    digest: int = 0
    tokens: int = 0
    stream: int = 0
    start: int = 0
    size_bytes: int = 0


def book_of(name: str) -> int:
    """The number of a book, from its name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


async def add(tx: Tx, name: str, entries: Sequence[NewEntry]) -> int:
    """Put entries at the end of a book, which is made when missing; the number of the first, the others follow it.

    One round trip. The book's row is held until the transaction ends, so the numbers of a book have no gaps.
    """
    counted = [Counter(terms(f"{entry.text}\n{entry.cues}" if entry.cues else entry.text)) for entry in entries]
    lengths = [min(counts.total(), LENGTH_MAX) for counts in counted]
    hits = sorted(
        (term, offset, min(tf, LENGTH_MAX) << 16 | lengths[offset])
        for offset, counts in enumerate(counted)
        for term, tf in counts.items()
    )
    first: int = await tx.fetchval(
        """
        WITH shelf AS (
            INSERT INTO books AS b (tenant, project, book, name, analyser, next_entry, entries, length)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (tenant, project, book) DO UPDATE SET
                next_entry = b.next_entry + $6, entries = b.entries + $7, length = b.length + $8
            RETURNING next_entry - $6 AS first
        ), kept AS (
            INSERT INTO entries (tenant, project, book, entry, ref, role, speaker, said_at, digest, asks, length,
                                 tokens, stream, start, size_bytes, text)
            SELECT $1, $2, $3, shelf.first + e.number - 1, e.ref, e.role, e.speaker, e.said_at, e.digest, e.asks,
                   e.length, e.tokens, e.stream, e.start, e.size_bytes, e.text
            FROM shelf, unnest($9::text[], $10::text[], $11::text[], $12::timestamptz[], $13::int8[], $14::bool[],
                               $15::int2[], $16::int4[], $17::int8[], $18::int8[], $19::int4[],
                               $20::text[]) WITH ORDINALITY
                 AS e (ref, role, speaker, said_at, digest, asks, length, tokens, stream, start, size_bytes, text,
                       number)
        ), found AS (
            INSERT INTO postings AS p (tenant, project, book, term, segment, hits)
            SELECT $1, $2, $3, h.term, (shelf.first + h.number) >> 10,
                   array_agg((shelf.first + h.number)::int8 << 32 | h.counts ORDER BY h.number)
            FROM shelf, unnest($21::text[], $22::int4[], $23::int8[]) AS h (term, number, counts) GROUP BY 4, 5
            ON CONFLICT (tenant, project, book, term, segment) DO UPDATE SET hits = p.hits || EXCLUDED.hits
        )
        SELECT first FROM shelf
        """,
        book_of(name),
        name,
        ANALYSER_VERSION,
        len(entries),
        sum(1 for length in lengths if length),
        sum(lengths),
        [entry.ref for entry in entries],
        [entry.role for entry in entries],
        [entry.speaker for entry in entries],
        [entry.said_at for entry in entries],
        [entry.digest for entry in entries],
        [asks(entry.text) for entry in entries],
        lengths,
        [entry.tokens for entry in entries],
        [entry.stream for entry in entries],
        [entry.start for entry in entries],
        [entry.size_bytes for entry in entries],
        [entry.text.replace("\x00", "") for entry in entries],
        *([list(column) for column in zip(*hits, strict=True)] or [[], [], []]),
    )
    return first


async def hide(tx: Tx, book: int, indexed: Mapping[int, str]) -> None:
    """Make entries unfindable (their length is -1 from now on); their text stays for whoever reads them by number.

    `indexed` is what each was added with, text and cues, so that its postings are found again.
    """
    if not indexed:
        return
    places = sorted({(term, entry >> 10) for entry, text in indexed.items() for term in terms(text)})
    await tx.execute(
        """
        WITH shelf AS MATERIALIZED (
            SELECT book FROM books WHERE tenant = $1 AND project = $2 AND book = $3 FOR UPDATE
        ), place AS (
            SELECT shelf.book, p.term, p.segment FROM shelf, unnest($5::text[], $6::int4[]) AS p (term, segment)
        ), emptied AS (
            DELETE FROM postings AS p USING place WHERE p.tenant = $1 AND p.project = $2 AND p.book = place.book
                AND p.term = place.term COLLATE "C" AND p.segment = place.segment
                AND NOT EXISTS (SELECT FROM unnest(p.hits) AS hit WHERE hit >> 32 <> ALL($4::int8[]))
        ), shortened AS (
            UPDATE postings AS p
            SET hits = ARRAY(SELECT hit FROM unnest(p.hits) AS hit WHERE hit >> 32 <> ALL($4::int8[]))
            FROM place WHERE p.tenant = $1 AND p.project = $2 AND p.book = place.book
                AND p.term = place.term COLLATE "C" AND p.segment = place.segment
                AND EXISTS (SELECT FROM unnest(p.hits) AS hit WHERE hit >> 32 <> ALL($4::int8[]))
        ), hidden AS (
            UPDATE entries AS e SET length = -1 FROM shelf, entries AS was
            WHERE e.tenant = $1 AND e.project = $2 AND e.book = shelf.book AND e.entry = ANY($4::int8[])
                AND e.length >= 0
                AND was.tenant = $1 AND was.project = $2 AND was.book = shelf.book AND was.entry = e.entry
            RETURNING was.length
        )
        UPDATE books SET entries = books.entries - sizes.entries, length = books.length - sizes.length
        FROM (SELECT count(*) FILTER (WHERE length > 0) AS entries, coalesce(sum(length), 0) AS length
              FROM hidden) AS sizes
        WHERE tenant = $1 AND project = $2 AND book = $3
        """,
        book,
        list(indexed),
        [term for term, _ in places],
        [segment for _, segment in places],
    )


async def remove(tx: Tx, book: int, indexed: Mapping[int, str]) -> None:
    """Take entries out of the book for good, text and all."""
    await hide(tx, book, indexed)
    if indexed:
        await tx.execute(
            "DELETE FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = ANY($4::int4[])",
            book,
            list(indexed),
        )


@dataclass(frozen=True, slots=True)
class Text:
    """An entry as it is shown."""

    entry: int
    ref: str
    text: str
    role: str
    speaker: str
    said_at: datetime
    digest: int
    tokens: int


async def texts(tx: Tx, book: int, entries: Sequence[int], *, chars_max: int) -> dict[int, Text]:
    """These entries of a book by number, each with at most so many characters of its text."""
    rows = await tx.fetch(
        """
        SELECT entry, ref, left(text, $5) AS text, role, speaker, said_at, digest, tokens FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = ANY($4::int4[])
        """,
        book,
        list(entries),
        chars_max,
    )
    return {row["entry"]: Text(*row.values()) for row in rows}
