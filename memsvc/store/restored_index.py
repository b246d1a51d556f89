"""Index of entries restored from an archive: postings, lengths and counters as for new entries.

The counters of an index are counted from its rows, whatever the archive says. Only the number of
its next entry cannot be: the newest may be gone. It is at least after every number that a row
names, so that none is given twice.
"""

from datetime import UTC, datetime
from typing import Final

import anyio.to_thread

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import derived_index
from memsvc.store.database import Tx
from memsvc.store.derived_index import HIDDEN
from memsvc.store.index import NewEntry, index_id_of

SEGMENT_BITS_MAX: Final = 10
_ANY: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH: Final = 0xFFFF
_STOPS: Final = dict.fromkeys(("entries", "facts", "insights", "notions"), "max(entry) + 1")
_NAMED: Final = " UNION ALL ".join(
    f"SELECT book, {stop} AS stop FROM {table} WHERE tenant = $1 AND project = $2 GROUP BY book"
    for table, stop in (_STOPS | {"memory_findings": "max(first_entry + entries)"}).items()
)
"""First entry number of each index that no row names."""


async def build(tx: Tx) -> None:
    """Index every index of a project that has entries and no postings yet.

    INVALID_CONTENT for an inconsistent index. Terms are found in a thread: a segment of long texts
    takes a while.
    """
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
            raise MemsvcError(
                Code.INVALID_CONTENT, "a book of the archive has another number than its name gives"
            )
        await _build(tx, row["book"], row["name"], row["segment_bits"], row["next_entry"])


async def _build(tx: Tx, index_id: int, name: str, bits: int, next_entry: int) -> None:
    last, entries, length = -1, 0, 0
    while texts := await derived_index.texts_after(tx, index_id, last, segment_bits=bits):
        last = max(texts)
        visible = {
            number: NewEntry("", text, _ANY, keywords=keywords)
            for number, (text, keywords, length_stored) in texts.items()
            if length_stored != HIDDEN
        }
        term_entries = await anyio.to_thread.run_sync(derived_index.collect_entries, visible)
        term_counts = {hit >> 32: hit & _LENGTH for some in term_entries.values() for hit in some}
        entries, length = entries + len(term_counts), length + sum(term_counts.values())
        await _set_term_counts(
            tx,
            index_id,
            {
                number: term_counts.get(number, 0)
                for number in visible
                if texts[number][2] != term_counts.get(number, 0)
            },
        )
        await _insert(tx, index_id, last >> bits, term_entries)
    await derived_index.put_counters(
        tx, name, derived_index.expected_counters(bits, next_entry, entries, length)
    )


async def _insert(
    tx: Tx, index_id: int, segment: int, term_entries: derived_index.TermEntries
) -> None:
    """Add the postings of a segment that has none."""
    await tx.execute(
        """
        INSERT INTO postings (tenant, project, book, term, segment, hits)
        SELECT $1, $2, $3, h.term, $4, array_agg(h.hit ORDER BY h.hit)
        FROM unnest($5::text[], $6::int8[]) AS h (term, hit) GROUP BY h.term RETURNING 1
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
            WHERE e.tenant = $1 AND e.project = $2 AND e.book = $3 AND e.entry = w.entry
            """,
            index_id,
            list(term_counts),
            list(term_counts.values()),
        )
