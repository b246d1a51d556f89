"""Index of everything that can be recalled: exact BM25 over postings that lead with their tenant.

An entry has two positions. Its index (`book`, `entry`) keeps its order: what came before and after
it. Its search index (`search_book`, `search_entry`) has its terms and vectors: mostly the same one,
but for the items of a session that of the session's user. An entry without a search position is
found by nobody, until it gets one (`move`).

The terms of a search index's newest entries stand in a row for each entry first, which is cheap;
every FRESH_MAX entries they are put into the postings, a row for each term. A search reads both.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from memsvc.core.analysis import CHANGE_MARK, TERMS_VERSION, is_question, terms
from memsvc.core.background import in_batches, map_in_thread
from memsvc.core.frozen import frozen
from memsvc.core.timestamp import offset_of, with_offset
from memsvc.core.vectors import MeantText, TextVector, pack_texts
from memsvc.store.database import Tx, columns_of
from memsvc.store.vectors import model_number, signs_of_vector

LENGTH_MAX = 32767
FRESH_MAX = 32
"""Entries of an index whose terms may wait; more make writes cheaper and searches slower."""
TERMS_MAX = 6000
"""Terms of all its entries that one statement adds: everybody waits while they are sent."""
PART_CHARS: Final = 100_000
"""Characters of all entries whose terms are counted before the first of them are sent."""
ENTRY_TERMS: Final = 20
"""Terms that an entry itself counts as."""


@frozen
class NewEntry:
    """New entry, with the position of its source in the file store.

    Without words it is never found. `text` is displayed, `keywords` are further words that find it.
    The offset of `message_at` is kept.
    """

    ref: str
    text: str
    message_at: datetime
    role: str = ""
    speaker: str = ""
    keywords: str = ""
    digest: int = 0
    tokens: int = 0
    stream: int = 0
    start: int = 0
    size_bytes: int = 0


def index_id_of(name: str) -> int:
    """Return the number of an index, from its name."""
    return int.from_bytes(
        hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True
    )


async def add(
    tx: Tx,
    additions: Mapping[str, Sequence[NewEntry]],
    *,
    search_names: Mapping[str, str] = MappingProxyType({}),
    segment_bits: int = 10,
) -> dict[str, int]:
    """Append entries to indexes, made when missing; return the first entry's number by index.

    They are found in the search index that `search_names` has for the name of their index, or else
    in their index itself. An index made here spans 2 ** `segment_bits` entries with each of its
    postings: few for long texts, whose many terms would each rewrite a long row. One round trip for
    each TERMS_MAX terms, and one for each index that has FRESH_MAX fresh entries by now, as every
    search reads them all. The indexes' rows are locked until the transaction ends, so the numbers
    of an index have no gaps.
    """
    named = [
        (name, search_names.get(name, name), entry)
        for name, entries in additions.items()
        for entry in entries
    ]
    vectors = await _vectors(tx, [entry for *_, entry in named])
    ids = {name: index_id_of(name) for positions in named for name in positions[:2]}
    first_entries: dict[str, int] = {}
    fresh: dict[int, int] = {}
    # the terms of a whole turn at once would be half a million objects to look through for garbage
    for part in in_batches(
        zip(named, vectors, strict=True), lambda one: len(one[0][2].text), PART_CHARS
    ):
        texts = [indexed_text(entry.text, entry.keywords) for (*_, entry), _ in part]
        counted = await map_in_thread(texts, lambda text: Counter(terms(text)))
        prepared = [
            _PreparedEntry(
                *(name, search_name, ids[name], ids[search_name]),
                *(entry, counts, min(counts.total(), LENGTH_MAX), vector if counts else None),
            )
            for ((name, search_name, entry), vector), counts in zip(part, counted, strict=True)
        ]
        if tx.encoder is not None:
            tx.unembedded |= {
                one.search_id for one in prepared if one.counts and one.vector is None
            }
        for batch in in_batches(prepared, lambda one: ENTRY_TERMS + len(one.counts), TERMS_MAX):
            added = await _put(tx, batch, segment_bits)
            for one in batch:
                first_entries.setdefault(one.name, added[one.index_id][0])
                fresh[one.search_id] = added[one.search_id][1]
    await _set_offsets(tx, first_entries, additions)
    for search_id in sorted(fresh):
        if fresh[search_id] >= FRESH_MAX:
            await merge_fresh(tx, search_id)
    return first_entries


async def _set_offsets(
    tx: Tx, first_entries: Mapping[str, int], additions: Mapping[str, Sequence[NewEntry]]
) -> None:
    """Store the offsets of added entries whose times were not given in UTC, which few are."""
    offsets = [
        (index_id_of(name), first_entries[name] + at, offset)
        for name, entries in additions.items()
        for at, entry in enumerate(entries)
        if (offset := offset_of(entry.message_at)) is not None
    ]
    if offsets:
        await tx.execute(
            """
            UPDATE entries SET utc_offset = o.utc_offset
            FROM unnest($3::int8[], $4::int4[], $5::int2[]) AS o (book, entry, utc_offset)
            WHERE tenant = $1 AND project = $2 AND entries.book = o.book AND entries.entry = o.entry
            """,
            *columns_of(offsets, 3),
        )


async def _vectors(tx: Tx, entries: Sequence[NewEntry]) -> list[TextVector | None]:
    """Return the vectors that can be made at once; None for the others."""
    if tx.encoder is None:
        return [None] * len(entries)
    return await tx.encoder.encode([meant_text(one) for one in entries])


@frozen
class _PreparedEntry:
    """Entry to be added to an index and a search index, with its count of each term.

    `length` is the number of its terms, as it is stored."""

    name: str
    search_name: str
    index_id: int
    search_id: int
    entry: NewEntry
    counts: Counter[str]
    length: int
    vector: TextVector | None


async def _put(
    tx: Tx, prepared: Sequence[_PreparedEntry], segment_bits: int
) -> dict[int, tuple[int, int]]:
    """Add entries to indexes; return the first of them and the number of fresh entries of each.

    They are told by how far they are from the end that their index has with them."""
    in_order: dict[str, list[_PreparedEntry]] = {}
    in_search: dict[str, list[_PreparedEntry]] = {}
    for item in prepared:
        in_order.setdefault(item.name, []).append(item)
        in_search.setdefault(item.search_name, []).append(item)
    index_rows = []
    for name, group in (in_search | in_order).items():
        lengths = [item.length for item in in_search.get(name, ())]
        index_rows.append(
            (index_id_of(name), name, len(group), sum(map(bool, lengths)), sum(lengths))
        )
    backs = [_backs(groups) for groups in (in_order, in_search)]
    positions = [
        (item.index_id, back, item.search_id, search_back)
        for item, back, search_back in zip(
            prepared, *([of[id(item)] for item in prepared] for of in backs), strict=True
        )
    ]
    term_rows = sorted(
        (search_id, term, search_back, min(tf, LENGTH_MAX) << 16 | item.length)
        for (_, _, search_id, search_back), item in zip(positions, prepared, strict=True)
        for term, tf in item.counts.items()
    )
    added = [item.entry for item in prepared]
    rows = await tx.call(
        "add_entries",
        TERMS_VERSION,
        segment_bits,
        *columns_of(index_rows, 5),
        *columns_of(positions, 4),
        *columns_of(
            [(item.ref, item.role, item.speaker, item.message_at, item.digest) for item in added], 5
        ),
        [is_question(entry.text) for entry in added],
        [item.length for item in prepared],
        *columns_of([(item.tokens, item.stream, item.start, item.size_bytes) for item in added], 4),
        [entry.text.replace("\x00", " ") for entry in added],
        [entry.keywords.replace("\x00", " ") for entry in added],
        *columns_of(term_rows, 4),
        *_packed(tx, [item.vector for item in prepared]),
    )
    return {row["index_id"]: (row["first"], row["fresh"]) for row in rows}


def _packed(tx: Tx, vectors: Sequence[TextVector | None]) -> tuple[Any, ...]:
    """Return the model of vectors, and the signs and bytes of each; None without any."""
    made = [vector for vector in vectors if vector is not None]
    if tx.encoder is None or not made:
        return None, None, None
    packed = iter(pack_texts(made))
    return (
        model_number(tx.encoder.model),
        [None if vector is None else signs_of_vector(vector.whole) for vector in vectors],
        [None if vector is None else next(packed) for vector in vectors],
    )


def _backs(groups: Mapping[str, Sequence[_PreparedEntry]]) -> dict[int, int]:
    """Return how far each entry is from the end of its group, by identity."""
    return {id(item): len(group) - at for group in groups.values() for at, item in enumerate(group)}


async def merge_fresh(tx: Tx, index_id: int) -> None:
    """Move the terms of an index's fresh entries into its postings; the caller holds the index."""
    await tx.execute(
        """
        INSERT INTO posting_lists AS p (tenant, project, book, term, segment, hits)
        SELECT b.tenant, b.project, b.book, h.term, (h.hit >> 32)::int4 >> b.segment_bits,
            array_agg(h.hit ORDER BY h.hit)
        FROM books AS b JOIN fresh_terms AS f
            ON f.tenant = b.tenant AND f.project = b.project AND f.book = b.book
        CROSS JOIN LATERAL unnest(f.terms, f.hits) AS h (term, hit)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3
        GROUP BY b.tenant, b.project, b.book, h.term, 5 ORDER BY 4, 5
        ON CONFLICT (tenant, project, book, term, segment) DO UPDATE
            SET hits = p.hits || EXCLUDED.hits
        """,
        index_id,
    )
    await tx.execute(
        """
        WITH shelf AS (
            UPDATE books SET folded_entry = next_entry WHERE tenant = $1 AND project = $2
                AND book = $3
        )
        DELETE FROM fresh_terms WHERE tenant = $1 AND project = $2 AND book = $3
        """,
        index_id,
    )


async def hold(tx: Tx, *index_ids: int) -> None:
    """Lock indexes against changes until the transaction ends; earlier changes are seen."""
    await tx.execute(
        """
        SELECT true FROM books WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[])
        ORDER BY book FOR UPDATE
        """,
        list(index_ids),
    )


def meant_text(entry: NewEntry) -> MeantText:
    """Return the text whose meaning the vector of an entry holds: the mark of changes has none."""
    keywords = "" if entry.keywords == CHANGE_MARK else entry.keywords
    return MeantText(indexed_text(entry.text, keywords), entry.role)


def indexed_text(text: str, keywords: str) -> str:
    """Return the words that an entry of this text and these keywords is found by."""
    return f"{text}\n{keywords}" if keywords else text


def hits_of(number: int, counts: Counter[str]) -> list[tuple[str, int]]:
    """Return the terms of an entry, each with its hit."""
    length = min(counts.total(), LENGTH_MAX)
    return [
        (term, number << 32 | min(times, LENGTH_MAX) << 16 | length)
        for term, times in counts.items()
    ]


class _Change(NamedTuple):
    """What becomes of the row of an entry whose terms are removed: a statement in two parts."""

    of_entries: str
    among: str
    condition: str = ""


_HIDE: Final = _Change("UPDATE entries AS e SET length = -1", "FROM", "AND e.length >= 0")
_DELETE: Final = _Change("DELETE FROM entries AS e", "USING")
_WITHDRAW: Final = _Change(
    "UPDATE entries AS e SET search_book = NULL, search_entry = NULL", "FROM"
)


async def hide(
    tx: Tx, index_id: int, indexed: Mapping[int, str], *, searched_elsewhere: bool = False
) -> None:
    """Make entries unfindable (length -1).

    `indexed` are the texts and keywords they were added with. `searched_elsewhere`: their terms
    may be in other indexes than this one.
    """
    await _remove_terms(tx, index_id, indexed, _HIDE, searched_elsewhere=searched_elsewhere)


async def remove(
    tx: Tx, index_id: int, indexed: Mapping[int, str], *, searched_elsewhere: bool = False
) -> None:
    """Remove entries from the index for good, text and all; arguments as `hide`."""
    await _remove_terms(tx, index_id, indexed, _DELETE, searched_elsewhere=searched_elsewhere)


async def withdraw(tx: Tx, index_id: int, indexed: Mapping[int, str]) -> None:
    """Take the search position from entries, which keep their place in the order of the index.

    Nobody finds them until they get another one. Arguments as `hide`."""
    await _remove_terms(tx, index_id, indexed, _WITHDRAW, searched_elsewhere=True)


async def search_positions(
    tx: Tx, index_id: int, entries: Sequence[int]
) -> dict[int, dict[int, int]]:
    """Return where entries of an index are searched: by search index, their numbers there.

    Entries without a position are left out.
    """
    rows = await tx.fetch(
        """
        SELECT entry, search_book, search_entry FROM entries WHERE tenant = $1 AND project = $2
            AND book = $3 AND entry = ANY($4::int4[]) AND search_book IS NOT NULL
        ORDER BY search_book
        """,
        index_id,
        entries,
    )
    found: dict[int, dict[int, int]] = {}
    for row in rows:
        found.setdefault(row["search_book"], {})[row["entry"]] = row["search_entry"]
    return found


# The postings of some entries taken out, by the terms ($4) and entries ($5) that they were added
# under. What is looked at row by row is looked at for the rows that are meant alone, however these
# are found.
_REMOVE_TERMS: Final = """
    place AS (
        SELECT p.term COLLATE "C" AS term, p.entry >> shelf.segment_bits AS segment,
            array_agg(p.entry) AS entries
        FROM shelf, unnest($4::text[], $5::int4[]) AS p (term, entry)
            WHERE p.entry < shelf.folded_entry GROUP BY 1, 2
    ), emptied AS (
        DELETE FROM posting_lists AS p USING place
        WHERE p.tenant = $1 AND p.project = $2 AND p.book = $3
            AND p.term = place.term AND p.segment = place.segment
            AND NOT EXISTS (SELECT FROM unnest(p.hits) AS hit WHERE hit >> 32 <> ALL(place.entries))
    ), shortened AS (
        UPDATE posting_lists AS p
        SET hits = ARRAY(SELECT hit FROM unnest(p.hits) AS hit
            WHERE hit >> 32 <> ALL(place.entries))
        FROM place WHERE p.tenant = $1 AND p.project = $2 AND p.book = $3
            AND p.term = place.term AND p.segment = place.segment
            AND EXISTS (SELECT FROM unnest(p.hits) AS hit WHERE hit >> 32 <> ALL(place.entries))
    )
"""


async def _remove_terms(
    tx: Tx, index_id: int, indexed: Mapping[int, str], change: _Change, *, searched_elsewhere: bool
) -> None:
    counted = await map_in_thread(list(indexed.values()), lambda text: set(terms(text)))
    for batch in in_batches(
        zip(indexed, counted, strict=True), lambda entry_terms: len(entry_terms[1]), TERMS_MAX
    ):
        named = dict(batch)
        if not searched_elsewhere:
            own = {entry: entry for entry in named}
            await _remove_batch(tx, index_id, index_id, own, named, change)
            continue
        positions = await search_positions(tx, index_id, list(named))
        nowhere = named.keys() - {entry for numbers in positions.values() for entry in numbers}
        for search_id, numbers in positions.items():
            if not await _remove_batch(tx, index_id, search_id, numbers, named, change):
                nowhere |= numbers.keys()
        if nowhere:
            await tx.execute(
                f"""
                {change.of_entries} WHERE e.tenant = $1 AND e.project = $2 AND e.book = $3
                    AND e.entry = ANY($4::int4[]) {change.condition}
                """,
                index_id,
                nowhere,
            )


async def _remove_batch(
    tx: Tx,
    index_id: int,
    search_id: int,
    numbers: Mapping[int, int],
    indexed: Mapping[int, set[str]],
    change: _Change,
) -> bool:
    """Remove the terms of entries from a search index, where they have these numbers.

    Returns False, and changes nothing, if the search index was purged."""
    term_entries = [(term, number) for entry, number in numbers.items() for term in indexed[entry]]
    args = [search_id, *columns_of(term_entries, 2)]
    # A transaction that waits here for a fold sees its row of the index, but none of its postings.
    merged_since = await tx.fetchval(
        f"""
        WITH shelf AS MATERIALIZED (
            SELECT book, segment_bits, folded_entry FROM books
            WHERE tenant = $1 AND project = $2 AND book = $3 FOR UPDATE
        ), {_REMOVE_TERMS}, unnoted AS (
            DELETE FROM fresh_terms AS f USING shelf
            WHERE f.tenant = $1 AND f.project = $2 AND f.book = $3 AND f.entry = ANY($6::int4[])
        ), gone AS (
            {change.of_entries} {change.among} shelf, entries AS was
            WHERE e.tenant = $1 AND e.project = $2 AND e.book = $7
                AND e.entry = ANY($8::int4[]) {change.condition}
                AND was.tenant = $1 AND was.project = $2 AND was.book = $7
                    AND was.entry = ANY($8::int4[])
                AND was.entry = e.entry AND was.search_book = $3
            RETURNING was.length
        ), counted AS (
            UPDATE books SET entries = books.entries - sizes.entries,
                length = books.length - sizes.length
            FROM (SELECT count(*) FILTER (WHERE length > 0) AS entries,
                coalesce(sum(greatest(length, 0)), 0) AS length
                  FROM gone) AS sizes
            WHERE tenant = $1 AND project = $2 AND book = $3
        )
        SELECT shelf.folded_entry <> (
            SELECT folded_entry FROM books WHERE tenant = $1 AND project = $2 AND book = $3)
                FROM shelf
        """,
        *args,
        numbers.values(),
        index_id,
        list(numbers),
    )
    if merged_since:
        await tx.execute(
            f"""
            WITH shelf AS MATERIALIZED (
                SELECT book, segment_bits, folded_entry FROM books WHERE tenant = $1
                    AND project = $2 AND book = $3
            ), {_REMOVE_TERMS} SELECT true
            """,
            *args,
        )
    return merged_since is not None


async def set_feedback(tx: Tx, index_id: int, entries: Sequence[int], feedback: int) -> int:
    """Store that entries helped (1) or were wrong (-1); return how many that changed."""
    return await tx.execute(
        """
        UPDATE entries SET feedback = $5 WHERE tenant = $1 AND project = $2 AND book = $3
            AND entry = ANY($4::int4[]) AND feedback <> $5 RETURNING 1
        """,
        index_id,
        entries,
        feedback,
    )


class Text(NamedTuple):
    """Entry as it is displayed."""

    entry: int
    ref: str
    text: str
    role: str
    speaker: str
    message_at: datetime
    digest: int
    tokens: int

    @classmethod
    def of(cls, *columns: Any) -> "Text":
        """Return the entry in its columns and, as the last one, the offset of its time."""
        text = cls(*columns[:-1])
        return text._replace(message_at=with_offset(text.message_at, columns[-1]))


async def texts(
    tx: Tx, index_id: int, entries: Sequence[int], *, chars_max: int
) -> dict[int, Text]:
    """Return these entries of an index by number, with texts cut to `chars_max` characters."""
    rows = await tx.fetch(
        """
        SELECT entry, ref, left(text, $5) AS text, role, speaker, said_at, digest, tokens,
            utc_offset
        FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = ANY($4::int4[])
        """,
        index_id,
        entries,
        chars_max,
    )
    return {row["entry"]: Text.of(*row.values()) for row in rows}


async def name_of(tx: Tx, index_id: int) -> str:
    """Return the name of an index, which exists."""
    name: str = await tx.fetchval(
        "SELECT name FROM books WHERE tenant = $1 AND project = $2 AND book = $3", index_id
    )
    return name


async def entries_of(tx: Tx, index_id: int, refs: Sequence[str]) -> dict[str, int]:
    """Return the entries of an index with these references, by reference."""
    return await tx.fetch_pairs(
        """
        SELECT ref, entry FROM entries WHERE tenant = $1 AND project = $2 AND book = $3
            AND ref = ANY($4::text[])
        """,
        index_id,
        refs,
    )


async def indexed_texts(
    tx: Tx, index_id: int, entries: Sequence[int]
) -> dict[int, tuple[str, str]]:
    """Return text and keywords of entries, by number."""
    rows = await tx.fetch(
        """
        SELECT entry, text, cues FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = ANY($4::int4[])
        """,
        index_id,
        entries,
    )
    return {row["entry"]: (row["text"], row["cues"]) for row in rows}


@frozen
class IndexedTurnItem:
    """Item of a turn: its entry, and what it was indexed with."""

    entry: int
    ref: str
    indexed: str


async def list_visible(
    tx: Tx,
    session: str,
    index_id: int,
    turns: Sequence[str],
    *,
    limit: int,
    also_hidden: bool = False,
) -> dict[str, list[IndexedTurnItem]]:
    """Return the items of these turns that were not hidden, by turn, of stored turns alone.

    A turn has up to `limit` items. With `also_hidden`, hidden ones that have words are among them.
    """
    rows = await tx.fetch(
        """
        SELECT g.turn, e.entry, e.ref, CASE e.cues WHEN '' THEN e.text
            ELSE e.text || E'\\n' || e.cues END AS indexed
        FROM guards AS g LEFT JOIN LATERAL (
            SELECT entry, ref, text, cues FROM entries WHERE tenant = $1 AND project = $2
                AND book = $4
            AND entry >= g.first_entry AND entry < g.first_entry::int8 + $6
            AND (length >= 0 OR $7 AND text <> '')
            AND regexp_replace(ref, '-(in|out)-[0-9]+$', '') = g.turn) AS e ON true
        WHERE g.tenant = $1 AND g.project = $2 AND g.session = $3 AND g.turn = ANY($5::text[])
            AND g.done
        ORDER BY e.entry
        """,
        session,
        index_id,
        turns,
        limit,
        also_hidden,
    )
    found: dict[str, list[IndexedTurnItem]] = {}
    for row in rows:
        items = found.setdefault(row["turn"], [])
        if row["entry"] is not None:
            items.append(IndexedTurnItem(row["entry"], row["ref"], row["indexed"]))
    return found
