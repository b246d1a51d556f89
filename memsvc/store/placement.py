"""Moving entries from one search index to another, and withholding them until they are moved.

What a person said in one session is found from all of them, as the items of these sessions share a
search index. Where that is another one from now on, items are withheld from the old one at once,
and moved by jobs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from memsvc.core.analysis import TERMS_VERSION, is_question, terms
from memsvc.core.background import map_in_thread
from memsvc.core.frozen import frozen
from memsvc.store import index, vectors
from memsvc.store.database import Row, Tx, columns_of
from memsvc.store.index import LENGTH_MAX, index_id_of
from memsvc.store.sessions import ENTRY_MAX


@frozen
class Rewritten:
    """What an entry was indexed with, and its text, keywords, tokens and digest now.

    Tokens and digest that are None stay as they are. An entry that was hidden is found again if it
    `is_shown`."""

    indexed: str
    text: str
    keywords: str = ""
    tokens: int | None = None
    digest: int | None = None
    is_shown: bool = False


async def withhold(tx: Tx, search_id: int, index_id: int) -> None:
    """Let a search index not find the entries of another index any more, from this commit on."""
    await tx.execute(
        """
        UPDATE books SET withheld = withheld || $4::int8
        WHERE tenant = $1 AND project = $2 AND book = $3 AND $4 <> ALL(withheld)
        """,
        search_id,
        index_id,
    )


async def release(tx: Tx, index_id: int) -> None:
    """Withhold the entries of an index from no search index of the project any more."""
    await tx.execute(
        """
        UPDATE books SET withheld = ARRAY(SELECT one FROM unnest(withheld) AS one WHERE one <> $3)
        WHERE tenant = $1 AND project = $2 AND $3 = ANY(withheld)
        """,
        index_id,
    )


async def first_search_index(tx: Tx, index_id: int) -> int | None:
    """Return the search index that holds the first entry of an index, None if there is none.

    The first entry moves last, so until then a move of the index is not finished.
    """
    found: int | None = await tx.fetchval(
        """
        SELECT search_book FROM entries WHERE tenant = $1 AND project = $2 AND book = $3
        ORDER BY entry LIMIT 1
        """,
        index_id,
    )
    return found


async def count_elsewhere(tx: Tx, index_id: int, search_id: int) -> int:
    """Return how many entries of an index are not in a search index."""
    return await tx.fetch_int(
        """
        SELECT count(*) FROM entries WHERE tenant = $1 AND project = $2 AND book = $3
            AND search_book IS DISTINCT FROM $4::int8
        """,
        index_id,
        search_id,
    )


async def list_elsewhere(
    tx: Tx, index_id: int, search_ids: Sequence[int], *, limit: int
) -> dict[int, str]:
    """Return the next entries of an index that are in none of these search indexes.

    By number, with what they were indexed with; without those that are in none at all.
    """
    return await tx.fetch_pairs(
        """
        SELECT entry, CASE cues WHEN '' THEN text ELSE text || E'\n' || cues END FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND search_book <> ALL($4::int8[])
        ORDER BY entry LIMIT $5
        """,
        index_id,
        search_ids,
        limit,
    )


async def move(
    tx: Tx, index_id: int, target: str, *, below: int = ENTRY_MAX, limit: int
) -> int | None:
    """Move the next `limit` entries of an index before `below` to a search index, the last first.

    Return where to go on, None when there are no more. The caller holds what its writers hold.
    """
    search_id = index_id_of(target)
    rows = await tx.fetch(
        """
        SELECT entry, search_book, search_entry, length,
            CASE cues WHEN '' THEN text ELSE text || E'\\n' || cues END AS indexed
        FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND entry < $5
            AND search_book IS DISTINCT FROM $4::int8
        ORDER BY entry DESC LIMIT $6
        """,
        index_id,
        search_id,
        below,
        limit,
    )
    if not rows:
        return None
    await _create(tx, target)
    placed = [row for row in rows if row["search_book"] is not None]
    sources = sorted({row["search_book"] for row in placed})
    await index.hold(tx, *sources, search_id)
    await index.withdraw(tx, index_id, {row["entry"]: row["indexed"] for row in placed})
    numbers = await _put(tx, index_id, search_id, rows)
    for source in sources:
        of_source = {
            row["search_entry"]: numbers[row["entry"]]
            for row in placed
            if row["search_book"] == source
        }
        await vectors.move(tx, source, search_id, of_source)
    return int(rows[-1]["entry"])


async def rewrite(tx: Tx, index_id: int, target: str, changed: Mapping[int, Rewritten]) -> None:
    """Give entries of an index other texts, hide those with none, and forget their vectors.

    `target` is the search index that they belong to, which lacks vectors then. The caller holds
    what its writers hold."""
    if not changed:
        return
    if tx.encoder is not None:
        tx.unembedded.add(index_id_of(target))
    for source, numbers in (await index.search_positions(tx, index_id, list(changed))).items():
        await vectors.forget(tx, source, list(numbers.values()))
    await index.withdraw(tx, index_id, {entry: one.indexed for entry, one in changed.items()})
    await tx.execute(
        """
        UPDATE entries AS e SET text = w.text, cues = w.cues, asks = w.asks,
            tokens = coalesce(w.tokens, e.tokens), digest = coalesce(w.digest, e.digest),
            length = CASE WHEN w.text = '' THEN -1 WHEN w.is_shown THEN 0 ELSE e.length END
        FROM unnest($4::int4[], $5::text[], $6::text[], $7::int4[], $8::bool[], $9::int8[],
            $10::bool[]) AS w (entry, text, cues, tokens, asks, digest, is_shown)
        WHERE e.tenant = $1 AND e.project = $2 AND e.book = $3 AND e.entry = w.entry
        """,
        index_id,
        list(changed),
        [one.text for one in changed.values()],
        [one.keywords for one in changed.values()],
        [one.tokens for one in changed.values()],
        [is_question(one.text) for one in changed.values()],
        [one.digest for one in changed.values()],
        [one.is_shown for one in changed.values()],
    )
    below: int | None = max(changed) + 1
    while below is not None:
        below = await move(tx, index_id, target, below=below, limit=len(changed))


async def _create(tx: Tx, name: str) -> None:
    """Make an index where there is none of this name."""
    await tx.execute(
        """
        INSERT INTO books (tenant, project, book, name, analyser, next_entry, entries, length)
        VALUES ($1, $2, $3, $4, $5, 0, 0, 0) ON CONFLICT (tenant, project, book) DO NOTHING
        """,
        index_id_of(name),
        name,
        TERMS_VERSION,
    )


async def _put(tx: Tx, index_id: int, search_id: int, rows: list[Row]) -> dict[int, int]:
    """Give entries, the last first, positions in a search index, and it their terms.

    Return the positions. In the index itself an entry has the number that it has in its order.
    Hidden entries get a position too, but no terms."""
    indexed = [row["indexed"] if row["length"] >= 0 else "" for row in rows]
    counted = await map_in_thread(indexed, lambda text: Counter(terms(text)))
    lengths = [min(counts.total(), LENGTH_MAX) for counts in counted]
    is_own = search_id == index_id
    stop = await tx.fetch_int(
        """
        UPDATE books SET next_entry = next_entry + $4, entries = entries + $5, length = length + $6
        WHERE tenant = $1 AND project = $2 AND book = $3 RETURNING next_entry
        """,
        search_id,
        0 if is_own else len(rows),
        sum(map(bool, lengths)),
        sum(lengths),
    )
    entries = [row["entry"] for row in rows]
    numbers = entries if is_own else [stop - at for at, _ in enumerate(entries, 1)]
    lengths = [
        -1 if row["length"] < 0 else length for length, row in zip(lengths, rows, strict=True)
    ]
    await tx.execute(
        """
        UPDATE entries AS e SET search_book = $4, search_entry = moved.number, length = moved.length
        FROM unnest($5::int4[], $6::int4[], $7::int2[]) AS moved (entry, number, length)
        WHERE e.tenant = $1 AND e.project = $2 AND e.book = $3 AND e.entry = moved.entry
        """,
        index_id,
        search_id,
        entries,
        numbers,
        lengths,
    )
    hits = [
        (number, term, hit)
        for number, counts in zip(numbers, counted, strict=True)
        for term, hit in index.hits_of(number, counts)
    ]
    await tx.execute(
        """
        INSERT INTO fresh_terms (tenant, project, book, entry, terms, hits)
        SELECT b.tenant, b.project, b.book, h.entry, array_agg(h.term), array_agg(h.hit)
        FROM books AS b, unnest($4::int4[], $5::text[], $6::int8[]) AS h (entry, term, hit)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3 GROUP BY 1, 2, 3, 4
        """,
        search_id,
        *columns_of(hits, 3),
    )
    await index.merge_fresh(tx, search_id)
    return dict(zip(entries, numbers, strict=True))
