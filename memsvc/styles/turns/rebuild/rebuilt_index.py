"""Comparison of an index's postings and counters with its entries."""

from collections import Counter
from datetime import UTC, datetime
from typing import Final

from memsvc.store import derived_index
from memsvc.store.database import Tx
from memsvc.store.derived_index import HIDDEN
from memsvc.store.index import NewEntry
from memsvc.styles.turns.books import Book

_ANY: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def compare_index(tx: Tx, book: Book, *, mend: bool) -> Counter[str]:
    """Return how many segments of an index, and its counters, differ from its entries.

    With `mend` they are repaired, and the index is locked until the transaction ends."""
    found: Counter[str] = Counter()
    shelf = await derived_index.shelf(tx, book.number, for_update=mend)
    bits = derived_index.segment_bits(shelf)
    if mend and shelf is None:
        await derived_index.put_shelf(tx, book.name, derived_index.counted(bits, 0, 0, 0))
    held = await derived_index.signatures(tx, book.number)
    last, entries, length, stop = -1, 0, 0, 0
    seen = set()
    while texts := await derived_index.texts_behind(tx, book.number, last, segment_bits=bits):
        last = max(texts)
        segment = last >> bits
        seen.add(segment)
        shown = {
            number: NewEntry("", text, _ANY, cues=cues)
            for number, (text, cues, size) in texts.items()
            if size != HIDDEN
        }
        wanted = derived_index.hits(shown)
        entries += sum(1 for number in shown if texts[number][2] > 0)
        length += sum(max(size, 0) for _, _, size in texts.values())
        stop = last + 1
        if held.get(segment, (0, 0)) != derived_index.signature(wanted):
            found["postings"] += 1
            if mend:
                await derived_index.put_segment(tx, book.number, segment, wanted)
    for segment in held.keys() - seen:
        found["postings"] += 1
        if mend:
            await derived_index.put_segment(tx, book.number, segment, {})
    if shelf is None and not stop:
        return +found
    right = derived_index.counted(bits, max(stop, shelf.next_entry if shelf else 0), entries, length)
    if shelf != right:
        found["books"] += 1
        if mend:
            await derived_index.put_shelf(tx, book.name, right)
    return +found
