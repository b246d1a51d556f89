"""Comparison of an index's postings and counters with its entries."""

from collections import Counter
from datetime import UTC, datetime
from typing import Final

from memsvc.store import derived_index
from memsvc.store.database import Tx
from memsvc.store.derived_index import HIDDEN
from memsvc.store.index import NewEntry
from memsvc.styles.turns.turn_index import TurnIndex

_ANY: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def compare_index(tx: Tx, index: TurnIndex, *, fix: bool) -> Counter[str]:
    """Return how many segments of an index, and its counters, differ from its entries.

    With `fix` they are repaired, and the index is locked until the transaction ends."""
    found: Counter[str] = Counter()
    index_row = await derived_index.read_counters(tx, index.number, for_update=fix)
    bits = derived_index.segment_bits(index_row)
    if fix and index_row is None:
        await derived_index.put_counters(
            tx, index.name, derived_index.expected_counters(bits, 0, 0, 0)
        )
    existing = await derived_index.signatures(tx, index.number)
    last, entries, length, stop = -1, 0, 0, 0
    seen = set()
    while texts := await derived_index.texts_after(tx, index.number, last, segment_bits=bits):
        last = max(texts)
        segment = last >> bits
        seen.add(segment)
        visible_entries = {
            number: NewEntry("", text, _ANY, keywords=keywords)
            for number, (text, keywords, size) in texts.items()
            if size != HIDDEN
        }
        expected = derived_index.collect_entries(visible_entries)
        entries += sum(1 for number in visible_entries if texts[number][2] > 0)
        length += sum(max(size, 0) for _, _, size in texts.values())
        stop = last + 1
        if existing.get(segment, (0, 0)) != derived_index.signature(expected):
            found["postings"] += 1
            if fix:
                await derived_index.put_segment(tx, index.number, segment, expected)
    for segment in existing.keys() - seen:
        found["postings"] += 1
        if fix:
            await derived_index.put_segment(tx, index.number, segment, {})
    if index_row is None and not stop:
        return +found
    expected_row = derived_index.expected_counters(
        bits, max(stop, index_row.next_entry if index_row else 0), entries, length
    )
    if index_row != expected_row:
        found["books"] += 1
        if fix:
            await derived_index.put_counters(tx, index.name, expected_row)
    return +found
