"""Rebuild of the index: entries, postings and counters of an index, compared and repaired.

Every function is one short step. The signature of a segment of an index is a sum over its hits, so
that a whole index is compared in one pass without being read into memory.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final

import anyio.to_thread

from memsvc.core.analysis import TERMS_VERSION, is_question, terms
from memsvc.core.errors import invalid_content
from memsvc.core.frozen import frozen
from memsvc.core.timestamp import offset_of
from memsvc.store import index, vectors
from memsvc.store.database import Tx
from memsvc.store.derived import same_value
from memsvc.store.index import LENGTH_MAX, NewEntry, index_id_of
from memsvc.store.tables import TABLES

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
    "utc_offset": "int2",
}
_LENGTH_AT = 6
_POSITION = slice(8, 11)
_TEXTS = slice(11, 13)
_HASH = "('x' || left(md5(h.term || ':' || h.hit), 15))::bit(60)::int8"


@frozen
class IndexCounters:
    """Counters of an index."""

    analyser: int
    segment_bits: int
    next_entry: int
    entries: int
    length: int


Signature = tuple[int, int]
"""Number of hits, and the sum of their hashes."""
TermEntries = dict[str, list[int]]
"""The hits of each term, in order."""


def expected_row(entry: NewEntry, *, hidden: bool = False) -> tuple[Any, ...]:
    """Return the expected columns of an entry, in the order of `rows`."""
    length = min(sum(_term_counts(entry).values()), LENGTH_MAX)
    return (
        entry.ref,
        entry.role,
        entry.speaker,
        entry.message_at,
        entry.digest,
        is_question(entry.text),
        HIDDEN if hidden else length,
        entry.tokens,
        entry.stream,
        entry.start,
        entry.size_bytes,
        entry.text.replace("\x00", " "),
        entry.keywords.replace("\x00", " "),
        offset_of(entry.message_at),
    )


def collect_entries(entries: Mapping[int, NewEntry]) -> TermEntries:
    """Return the hits of entries by their numbers."""
    found: TermEntries = defaultdict(list)
    for number, entry in sorted(entries.items()):
        counts = _term_counts(entry)
        length = min(counts.total(), LENGTH_MAX)
        for term, times in counts.items():
            found[term].append(number << 32 | min(times, LENGTH_MAX) << 16 | length)
    return found


def signature(term_entries: TermEntries) -> Signature:
    """Return the signature of hits, as `signatures` computes it."""
    each = [(term, hit) for term, hit_list in term_entries.items() for hit in hit_list]
    return len(each), sum(
        int(hashlib.md5(f"{t}:{h}".encode(), usedforsecurity=False).hexdigest()[:15], 16)
        for t, h in each
    )


def _term_counts(entry: NewEntry) -> Counter[str]:
    return Counter(terms(index.indexed_text(entry.text, entry.keywords)))


async def read_counters(tx: Tx, index_id: int, *, for_update: bool = False) -> IndexCounters | None:
    """Return the counters of an index, or None; `for_update` locks it for the transaction."""
    return await tx.fetchrow_as(
        IndexCounters,
        f"""
        SELECT analyser, segment_bits, next_entry, entries, length FROM books
        WHERE tenant = $1 AND project = $2 AND book = $3 {"FOR UPDATE" if for_update else ""}
        """,
        index_id,
    )


async def put_counters(tx: Tx, name: str, expected: IndexCounters) -> None:
    """Store the counters of an index, creating it if missing.

    All its terms are in the postings then. Locks it for the transaction.
    """
    await index.hold(tx, index_id_of(name))
    await index.merge_fresh(tx, index_id_of(name))
    await tx.execute(
        """
        INSERT INTO books (tenant, project, book, name, analyser, segment_bits, next_entry,
            folded_entry, entries,
                           length)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9)
        ON CONFLICT (tenant, project, book) DO UPDATE SET analyser = $5, next_entry = $7,
            folded_entry = $7,
            entries = $8, length = $9
        """,
        index_id_of(name),
        name,
        expected.analyser,
        expected.segment_bits,
        expected.next_entry,
        expected.entries,
        expected.length,
    )


async def rows(tx: Tx, index_id: int, first: int, stop: int) -> dict[int, tuple[Any, ...]]:
    """Return the columns of an index's entries `first <= entry < stop` by number."""
    found = await tx.fetch(
        f"""
        SELECT entry, {", ".join(_ENTRY)} FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry >= $4 AND entry < $5
        """,
        index_id,
        first,
        stop,
    )
    return {row["entry"]: tuple(row.values())[1:] for row in found}


async def put_rows(
    tx: Tx, index_id: int, expected: Mapping[int, tuple[Any, ...]], *, searched_elsewhere: bool
) -> None:
    """Store the columns of entries, creating entries that are missing.

    One that is `searched_elsewhere` is created without a search position.
    """
    position = "NULL, NULL" if searched_elsewhere else "$3, $4"
    await tx.execute_each(
        f"""
        INSERT INTO entries (tenant, project, book, entry, {", ".join(_ENTRY)}, search_book,
            search_entry)
        VALUES ($1, $2, $3, $4, {", ".join(f"${at}" for at, _ in enumerate(_ENTRY, 5))}, {position})
        ON CONFLICT (tenant, project, book, entry) DO UPDATE SET
            {", ".join(f"{name} = EXCLUDED.{name}" for name in _ENTRY)}
        """,
        [(index_id, number, *columns) for number, columns in expected.items()],
    )


async def drop_rows(tx: Tx, index_id: int, entries: Sequence[int]) -> None:
    """Delete entries, and nothing of what finds them."""
    if entries:
        await tx.execute(
            "DELETE FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND entry ="
            " ANY($4::int4[])",
            index_id,
            entries,
        )


async def signatures(tx: Tx, index_id: int) -> dict[int, Signature]:
    """Return the signature of each segment of an index that has any hit."""
    found = await tx.fetch(
        f"""
        WITH shelf AS (SELECT segment_bits FROM books WHERE tenant = $1 AND project = $2
            AND book = $3),
        h AS (
            SELECT p.term, hit, p.segment FROM posting_lists AS p CROSS
                JOIN LATERAL unnest(p.hits) AS hit
            WHERE p.tenant = $1 AND p.project = $2 AND p.book = $3
            UNION ALL
            SELECT u.term, u.hit, f.entry >> coalesce((SELECT segment_bits FROM shelf), 10)
                FROM fresh_terms AS f
            CROSS JOIN LATERAL unnest(f.terms, f.hits) AS u (term, hit)
            WHERE f.tenant = $1 AND f.project = $2 AND f.book = $3
        )
        SELECT segment, count(*) AS hits, sum({_HASH})::text AS sum FROM h GROUP BY segment
        """,
        index_id,
    )
    return {row["segment"]: (row["hits"], int(row["sum"])) for row in found}


async def put_segment(tx: Tx, index_id: int, segment: int, expected: TermEntries) -> None:
    """Replace the hits of a segment with exactly these, all in the postings; locks the index."""
    await index.hold(tx, index_id)
    await index.merge_fresh(tx, index_id)
    await tx.execute(
        "DELETE FROM posting_lists WHERE tenant = $1 AND project = $2 AND book = $3 AND segment ="
        " $4",
        index_id,
        segment,
    )
    await _insert(tx, index_id, segment, expected)


async def _texts_after(
    tx: Tx, index_id: int, last: int, *, segment_bits: int
) -> dict[int, tuple[str, str, int]]:
    """Return text, cues and length of the next entries after `last`, up to a segment's end.

    By the numbers that they have in this search index.
    """
    found = await tx.fetch(
        """
        WITH first AS (
            SELECT min(search_entry) AS entry FROM entries
            WHERE tenant = $1 AND project = $2 AND search_book = $3 AND search_entry > $4
        )
        SELECT search_entry AS entry, text, cues, length FROM entries
        WHERE tenant = $1 AND project = $2 AND search_book = $3 AND search_entry > $4
            AND search_entry < (SELECT ((entry >> $5) + 1)::int8 << $5 FROM first)
        """,
        index_id,
        last,
        segment_bits,
    )
    return {row["entry"]: (row["text"], row["cues"], row["length"]) for row in found}


async def refs(tx: Tx, index_id: int, *, first: int = 0) -> dict[str, int]:
    """Return the numbers of an index's entries, from `first` on, by their references."""
    return await tx.fetch_pairs(
        "SELECT ref, entry FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND"
        " entry >= $4",
        index_id,
        first,
    )


@frozen
class ExpectedEntries:
    """Entries by number, and which of them are hidden.

    The position of the lines of `without_position` entries is unknown, and is left as it is.
    """

    entries: Mapping[int, NewEntry] = field(default_factory=dict)
    hidden: Collection[int] = ()
    without_position: Collection[int] = ()


async def compare_rows(
    tx: Tx,
    index_id: int,
    first: int,
    stop: int,
    expected: ExpectedEntries,
    *,
    searched_elsewhere: bool,
    fix: bool,
) -> int:
    """Return how many entries `first <= entry < stop` are wrong; with `fix` repair them.

    With `searched_elsewhere`, what is repaired has no search position until it gets one.
    """
    existing = await rows(tx, index_id, first, stop)
    expected_rows: dict[int, tuple[Any, ...]] = {}
    for number, entry in expected.entries.items():
        columns = expected_row(entry, hidden=number in expected.hidden)
        if number in expected.without_position:
            position = (
                existing[number][_POSITION] if number in existing else (0, 0, entry.size_bytes)
            )
            columns = (*columns[: _POSITION.start], *position, *columns[_POSITION.stop :])
        expected_rows[number] = columns
    changed_rows = {
        number: columns
        for number, columns in expected_rows.items()
        if number not in existing or not all(map(same_value, existing[number], columns))
    }
    extra_rows = [number for number in existing if number not in expected_rows]
    if fix and (changed_rows or extra_rows):
        if not searched_elsewhere and any(
            existing[number][_TEXTS] != columns[_TEXTS]
            for number, columns in changed_rows.items()
            if number in existing
        ):
            await _forget_vectors(tx, index_id)
        if searched_elsewhere:
            stale = {
                number: _indexed(existing[number])
                for number, columns in changed_rows.items()
                if number in existing and _searched(existing[number]) != _searched(columns)
            }
            await index.withdraw(tx, index_id, stale)
            extra = {number: _indexed(existing[number]) for number in extra_rows}
            await index.remove(tx, index_id, extra, searched_elsewhere=True)
        else:
            await drop_rows(tx, index_id, extra_rows)
        await put_rows(tx, index_id, changed_rows, searched_elsewhere=searched_elsewhere)
    return len(changed_rows) + len(extra_rows)


def _searched(columns: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what an entry is found by."""
    return (columns[_LENGTH_AT] == HIDDEN, *columns[_TEXTS])


def _indexed(columns: tuple[Any, ...]) -> str:
    """Return what an entry was indexed with."""
    return index.indexed_text(*columns[_TEXTS])


async def _forget_vectors(tx: Tx, index_id: int) -> None:
    """Delete the vectors of entries whose text changed.

    The job for missing vectors makes them anew.
    """
    await vectors.drop_other_models(tx, index_id, "")


SEGMENT_BITS_MAX: Final = 10
_ANY: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH: Final = 0xFFFF
_NAMED: Final = (
    " UNION ALL ".join(
        f"SELECT book, {table.next_entry} AS stop FROM {name} WHERE tenant = $1 AND project = $2"
        " GROUP BY book"
        for name, table in TABLES.items()
        if table.next_entry
    )
    + """ UNION ALL SELECT search_book, max(search_entry) + 1 FROM entries
    WHERE tenant = $1 AND project = $2 GROUP BY search_book"""
)
"""First entry number of each index that no row names."""


async def build(tx: Tx) -> None:
    """Index every index of a project that has entries and no postings yet.

    An entry without a search position is found in its own index. INVALID_CONTENT for an
    inconsistent index.
    """
    await tx.execute(
        """
        UPDATE entries SET search_book = book, search_entry = entry
        WHERE tenant = $1 AND project = $2 AND search_book IS NULL
        """
    )
    # an archive of before revision 0026 has digests, by which sessions were found
    await tx.execute("DELETE FROM entries WHERE tenant = $1 AND project = $2 AND role = 'digest'")
    await tx.execute(
        "DELETE FROM books WHERE tenant = $1 AND project = $2 AND starts_with(name, 'digests/')"
    )
    index_rows = await tx.fetch(
        f"""
        SELECT b.book, b.name, b.segment_bits, greatest(b.next_entry, max(named.stop)) AS next_entry
        FROM books AS b LEFT JOIN ({_NAMED}) AS named ON named.book = b.book
        WHERE b.tenant = $1 AND b.project = $2
        GROUP BY b.tenant, b.project, b.book ORDER BY b.book
        """
    )
    for row in index_rows:
        if (
            index_id_of(row["name"]) != row["book"]
            or not 0 <= row["segment_bits"] <= SEGMENT_BITS_MAX
        ):
            raise invalid_content(
                "the archive is not valid: the id of a search index does not match its name"
            )
    known = {row["book"] for row in index_rows}
    searched = await tx.fetch_column(
        "SELECT DISTINCT search_book FROM entries WHERE tenant = $1 AND project = $2"
    )
    if not known.issuperset(searched):
        raise invalid_content(
            "the archive is not valid: it contains entries of a search index, but not the"
            " index itself"
        )
    for row in index_rows:
        await _build(tx, row["book"], row["name"], row["segment_bits"], row["next_entry"])


@frozen
class _SegmentTexts:
    """Last entry of a segment, stored lengths of its entries by number, and hits of their terms."""

    last: int
    sizes: dict[int, int]
    hits: TermEntries


async def _segments(tx: Tx, index_id: int, bits: int) -> AsyncIterator[_SegmentTexts]:
    """Yield the segments of an index that have entries, with the terms of those that are found.

    Terms are found in a thread: a segment of long texts takes a while.
    """
    last = -1
    while texts := await _texts_after(tx, index_id, last, segment_bits=bits):
        last = max(texts)
        visible = {
            number: NewEntry("", text, _ANY, keywords=keywords)
            for number, (text, keywords, length) in texts.items()
            if length != HIDDEN
        }
        sizes = {number: texts[number][2] for number in visible}
        yield _SegmentTexts(last, sizes, await anyio.to_thread.run_sync(collect_entries, visible))


async def _build(tx: Tx, index_id: int, name: str, bits: int, next_entry: int) -> None:
    entries, length = 0, 0
    async for segment in _segments(tx, index_id, bits):
        term_counts = {hit >> 32: hit & _LENGTH for some in segment.hits.values() for hit in some}
        entries, length = entries + len(term_counts), length + sum(term_counts.values())
        await _set_term_counts(
            tx,
            index_id,
            {
                number: term_counts.get(number, 0)
                for number, stored in segment.sizes.items()
                if stored != term_counts.get(number, 0)
            },
        )
        await _insert(tx, index_id, segment.last >> bits, segment.hits)
    await put_counters(tx, name, IndexCounters(TERMS_VERSION, bits, next_entry, entries, length))


async def compare_index(tx: Tx, name: str, *, fix: bool) -> Counter[str]:
    """Return how many segments of an index, and its counters, differ from its entries.

    With `fix` they are repaired, and the index is locked until the transaction ends.
    """
    index_id, found = index_id_of(name), Counter[str]()
    counters = await read_counters(tx, index_id, for_update=fix)
    bits = counters.segment_bits if counters else SEGMENT_BITS_MAX
    if fix and counters is None:
        await put_counters(tx, name, IndexCounters(TERMS_VERSION, bits, 0, 0, 0))
    stored = await signatures(tx, index_id)
    entries, length, stop = 0, 0, 0
    async for segment in _segments(tx, index_id, bits):
        number, stop = segment.last >> bits, segment.last + 1
        entries += sum(1 for size in segment.sizes.values() if size > 0)
        length += sum(segment.sizes.values())
        if stored.pop(number, (0, 0)) != signature(segment.hits):
            found["postings"] += 1
            if fix:
                await put_segment(tx, index_id, number, segment.hits)
    found["postings"] += len(stored)
    if fix:
        for number in stored:
            await put_segment(tx, index_id, number, {})
    stop = max(stop, await _stop_of_order(tx, index_id), counters.next_entry if counters else 0)
    if counters is not None or stop:
        expected = IndexCounters(TERMS_VERSION, bits, stop, entries, length)
        if counters != expected:
            found["books"] += 1
            if fix:
                await put_counters(tx, name, expected)
    return +found


async def _stop_of_order(tx: Tx, index_id: int) -> int:
    """Return the number after the last entry of an index, wherever its entries are searched."""
    return await tx.fetch_int(
        """
        SELECT coalesce(max(entry) + 1, 0) FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3
        """,
        index_id,
    )


async def _insert(tx: Tx, index_id: int, segment: int, term_entries: TermEntries) -> None:
    """Add the postings of a segment that has none."""
    await tx.execute(
        """
        INSERT INTO posting_lists (tenant, project, book, term, segment, hits)
        SELECT b.tenant, b.project, b.book, h.term, $4, array_agg(h.hit ORDER BY h.hit)
        FROM books AS b, unnest($5::text[], $6::int8[]) AS h (term, hit)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3 GROUP BY 1, 2, 3, 4
        """,
        index_id,
        segment,
        [term for term, hit_list in term_entries.items() for _ in hit_list],
        [hit for hit_list in term_entries.values() for hit in hit_list],
    )


async def _set_term_counts(tx: Tx, index_id: int, term_counts: dict[int, int]) -> None:
    """Set the lengths of entries to the number of terms that this version finds in them."""
    if term_counts:
        await tx.execute(
            """
            UPDATE entries AS e SET length = w.length
                FROM unnest($4::int4[], $5::int2[]) AS w (entry, length)
            WHERE e.tenant = $1 AND e.project = $2 AND e.search_book = $3
                AND e.search_entry = w.entry
            """,
            index_id,
            list(term_counts),
            term_counts.values(),
        )
