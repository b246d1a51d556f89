"""Rebuild of the index: entries, postings and counters of an index, compared and repaired.

Every function is one short step. The signature of a segment of an index is a sum over its hits, so
that a whole index is compared in one pass without being read into memory.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memsvc.core.analysis import ANALYSER_VERSION, asks, terms
from memsvc.store import index, vectors
from memsvc.store.database import Tx
from memsvc.store.derived import same_value
from memsvc.store.index import LENGTH_MAX, NewEntry, book_of

HIDDEN = -1
"""Length of an entry that is kept and never found."""
_ENTRY = {
    "ref": "text",
    "role": "text",
    "speaker": "text",
    "said_at": "timestamptz",
    "digest": "int8",
    "asks": "bool",
    "length": "int2",
    "tokens": "int4",
    "stream": "int8",
    "start": "int8",
    "size_bytes": "int4",
    "text": "text",
    "cues": "text",
}
_PLACE = slice(8, 11)
_WORDS = slice(11, 13)
_HASH = "('x' || left(md5(h.term || ':' || h.hit), 15))::bit(60)::int8"


@dataclass(frozen=True, slots=True)
class Shelf:
    """Counters of an index."""

    analyser: int
    segment_bits: int
    next_entry: int
    entries: int
    length: int


Signature = tuple[int, int]
"""Number of hits, and the sum of their hashes."""
Hits = dict[str, list[int]]
"""The hits of each term, in order."""


def row(entry: NewEntry, *, hidden: bool = False) -> tuple[Any, ...]:
    """Return the expected columns of an entry, in the order of `rows`."""
    length = min(sum(_counted(entry).values()), LENGTH_MAX)
    return (
        entry.ref,
        entry.role,
        entry.speaker,
        entry.said_at,
        entry.digest,
        asks(entry.text),
        HIDDEN if hidden else length,
        entry.tokens,
        entry.stream,
        entry.start,
        entry.size_bytes,
        entry.text.replace("\x00", " "),
        entry.cues.replace("\x00", " "),
    )


def hits(entries: Mapping[int, NewEntry]) -> Hits:
    """Return the hits of entries by their numbers."""
    found: Hits = defaultdict(list)
    for number, entry in sorted(entries.items()):
        counts = _counted(entry)
        length = min(counts.total(), LENGTH_MAX)
        for term, times in counts.items():
            found[term].append(number << 32 | min(times, LENGTH_MAX) << 16 | length)
    return found


def signature(found: Hits) -> Signature:
    """Return the signature of hits, as `signatures` computes it."""
    each = [(term, hit) for term, some in found.items() for hit in some]
    return len(each), sum(
        int(hashlib.md5(f"{t}:{h}".encode(), usedforsecurity=False).hexdigest()[:15], 16) for t, h in each
    )


def _counted(entry: NewEntry) -> Counter[str]:
    return Counter(terms(f"{entry.text}\n{entry.cues}" if entry.cues else entry.text))


async def shelf(tx: Tx, book: int, *, for_update: bool = False) -> Shelf | None:
    """Return the counters of an index, or None; `for_update` locks it for the transaction."""
    found = await tx.fetchrow(
        f"""
        SELECT analyser, segment_bits, next_entry, entries, length FROM books
        WHERE tenant = $1 AND project = $2 AND book = $3 {"FOR UPDATE" if for_update else ""}
        """,
        book,
    )
    return Shelf(**dict(found)) if found else None


async def put_shelf(tx: Tx, name: str, wanted: Shelf) -> None:
    """Store the counters of an index, creating it if missing.

    All its terms are in the postings then.
    """
    await index.fold(tx, book_of(name))
    await tx.execute(
        """
        INSERT INTO books (tenant, project, book, name, analyser, segment_bits, next_entry, folded_entry, entries,
                           length)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9)
        ON CONFLICT (tenant, project, book) DO UPDATE SET analyser = $5, next_entry = $7, folded_entry = $7,
            entries = $8, length = $9
        """,
        book_of(name),
        name,
        wanted.analyser,
        wanted.segment_bits,
        wanted.next_entry,
        wanted.entries,
        wanted.length,
    )


async def rows(tx: Tx, book: int, first: int, stop: int) -> dict[int, tuple[Any, ...]]:
    """Return the columns of an index's entries `first <= entry < stop` by number."""
    found = await tx.fetch(
        f"""
        SELECT entry, {", ".join(_ENTRY)} FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry >= $4 AND entry < $5
        """,
        book,
        first,
        stop,
    )
    return {one["entry"]: tuple(one.values())[1:] for one in found}


async def put_rows(tx: Tx, book: int, wanted: Mapping[int, tuple[Any, ...]]) -> None:
    """Store the columns of entries, creating entries that are missing."""
    if not wanted:
        return
    columns = [list(column) for column in zip(*wanted.values(), strict=True)]
    arrays = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(_ENTRY.values(), 5))
    await tx.execute(
        f"""
        INSERT INTO entries (tenant, project, book, entry, {", ".join(_ENTRY)})
        SELECT $1, $2, $3, e.* FROM unnest($4::int4[], {arrays}) AS e
        ON CONFLICT (tenant, project, book, entry) DO UPDATE SET
            {", ".join(f"{name} = EXCLUDED.{name}" for name in _ENTRY)}
        """,
        book,
        list(wanted),
        *columns,
    )


async def drop_rows(tx: Tx, book: int, entries: Sequence[int]) -> None:
    """Delete entries, and nothing of what finds them."""
    if entries:
        await tx.execute(
            "DELETE FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = ANY($4::int4[])",
            book,
            list(entries),
        )


async def signatures(tx: Tx, book: int) -> dict[int, Signature]:
    """Return the signature of each segment of an index that has any hit."""
    found = await tx.fetch(
        f"""
        WITH shelf AS (SELECT segment_bits FROM books WHERE tenant = $1 AND project = $2 AND book = $3),
        h AS (
            SELECT p.term, hit, p.segment FROM postings AS p CROSS JOIN LATERAL unnest(p.hits) AS hit
            WHERE p.tenant = $1 AND p.project = $2 AND p.book = $3
            UNION ALL
            SELECT u.term, u.hit, f.entry >> coalesce((SELECT segment_bits FROM shelf), 10) FROM fresh_terms AS f
            CROSS JOIN LATERAL unnest(f.terms, f.hits) AS u (term, hit)
            WHERE f.tenant = $1 AND f.project = $2 AND f.book = $3
        )
        SELECT segment, count(*) AS hits, sum({_HASH})::text AS sum FROM h GROUP BY segment
        """,
        book,
    )
    return {one["segment"]: (one["hits"], int(one["sum"])) for one in found}


async def put_segment(tx: Tx, book: int, segment: int, wanted: Hits) -> None:
    """Replace the hits of a segment with exactly these, all of them in the postings."""
    await index.fold(tx, book)
    await tx.execute(
        "DELETE FROM postings WHERE tenant = $1 AND project = $2 AND book = $3 AND segment = $4", book, segment
    )
    await tx.execute(
        """
        INSERT INTO postings (tenant, project, book, term, segment, hits)
        SELECT b.tenant, b.project, b.book, h.term, $4, array_agg(h.hit ORDER BY h.hit)
        FROM books AS b, unnest($5::text[], $6::int8[]) AS h (term, hit)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3 GROUP BY 1, 2, 3, 4
        """,
        book,
        segment,
        [term for term, some in wanted.items() for _ in some],
        [hit for some in wanted.values() for hit in some],
    )


def segment_bits(held: Shelf | None) -> int:
    """Return how many bits of an entry's number give its place in its segment."""
    return held.segment_bits if held else 10


def counted(bits: int, next_entry: int, entries: int, length: int) -> Shelf:
    """Return the expected counters of an index."""
    return Shelf(ANALYSER_VERSION, bits, next_entry, entries, length)


async def texts_behind(tx: Tx, book: int, last: int, *, segment_bits: int) -> dict[int, tuple[str, str, int]]:
    """Return text, cues and length of the next entries after `last`, up to a segment's end."""
    found = await tx.fetch(
        """
        SELECT entry, text, cues, length FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND entry > $4
            AND entry >> $5 = (SELECT min(entry) >> $5 FROM entries
                               WHERE tenant = $1 AND project = $2 AND book = $3 AND entry > $4)
            AND entry < (SELECT ((min(entry) >> $5) + 1)::int8 << $5 FROM entries
                         WHERE tenant = $1 AND project = $2 AND book = $3 AND entry > $4)
        """,
        book,
        last,
        segment_bits,
    )
    return {one["entry"]: (one["text"], one["cues"], one["length"]) for one in found}


async def refs(tx: Tx, book: int, *, first: int = 0) -> dict[str, int]:
    """Return the numbers of an index's entries, from `first` on, by their references."""
    found = await tx.fetch(
        "SELECT ref, entry FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND entry >= $4", book, first
    )
    return {one["ref"]: one["entry"] for one in found}


async def compare_rows(
    tx: Tx,
    book: int,
    first: int,
    stop: int,
    wanted: Mapping[int, NewEntry],
    *,
    hidden: Collection[int],
    placeless: Collection[int],
    mend: bool,
) -> int:
    """Return how many entries `first <= entry < stop` are wrong; with `mend` repair them.

    The position of the lines of `placeless` entries is unknown, and is left as it is.
    """
    held = await rows(tx, book, first, stop)
    right: dict[int, tuple[Any, ...]] = {}
    for number, entry in wanted.items():
        columns = row(entry, hidden=number in hidden)
        if number in placeless:
            place = held[number][_PLACE] if number in held else (0, 0, entry.size_bytes)
            columns = (*columns[: _PLACE.start], *place, *columns[_PLACE.stop :])
        right[number] = columns
    wrong = {
        number: columns
        for number, columns in right.items()
        if number not in held or not all(map(same_value, held[number], columns))
    }
    gone = [number for number in held if number not in right]
    if mend and (wrong or gone):
        if any(held[number][_WORDS] != columns[_WORDS] for number, columns in wrong.items() if number in held):
            await _forget_vectors(tx, book)
        await drop_rows(tx, book, gone)
        await put_rows(tx, book, wrong)
    return len(wrong) + len(gone)


async def _forget_vectors(tx: Tx, book: int) -> None:
    """Delete the vectors of entries whose text changed.

    The job for missing vectors makes them anew.
    """
    if await vectors.available(tx):
        await vectors.drop_other_models(tx, book, "")
