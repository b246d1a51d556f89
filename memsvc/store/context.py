"""Running context of a session.

Its latest items, and the event that summarises those before them.
"""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Final, NamedTuple

from memsvc.core.frozen import frozen
from memsvc.store.database import Tx
from memsvc.store.sessions import COUNTED

LINES_BYTES_MAX: Final = 4 * 1024 * 1024
"""How many bytes are read at once of the lines of a session's latest items."""


class StoredItem(NamedTuple):
    """Stored item with its line in the event file, which is empty if it was too long to read."""

    entry: int
    ref: str
    role: str
    digest: int
    tokens: int
    line: bytes


@frozen
class SummaryPosition:
    """Position of the event that replaces older context.

    It has the event's id, its file and place there, and the entries `first` to `next_entry` - 1
    that it stands for. A model may reword it under the same id.
    """

    event: str
    path: str
    stream: int
    start: int
    size_bytes: int
    first: int
    next_entry: int


@frozen
class Context:
    """Running context of a session: its items, and the line of the summary of older ones."""

    summary: bytes | None
    items: list[StoredItem]


async def read(
    tx: Tx,
    session: str,
    index_id: int,
    *,
    limit: int,
    until: datetime | None = None,
    tokens_max: int | None = None,
) -> Context:
    """Return the running context of a session: its latest items, oldest first, in one round trip.

    With `until`, the latest items said by then, whether or not a summary stands for them now. Items
    that were forgotten are left out. With `tokens_max`, lines are read of items of as many tokens,
    and from the latest on LINES_BYTES_MAX in all.
    """
    rows = await tx.fetch_prepared(
        """
        WITH s AS MATERIALIZED (
            SELECT context_start, (summary ->> 'stream')::int8 AS stream,
                (summary ->> 'start')::int8 AS start,
                   (summary ->> 'size_bytes')::int4 AS size_bytes
            FROM sessions WHERE tenant = $1 AND project = $2 AND session = $3
        ), place AS (
            SELECT -1 AS entry, '' AS ref, '' AS role, 0::int8 AS digest, 0 AS tokens, stream,
                start, size_bytes FROM s
            WHERE stream IS NOT NULL AND $6::timestamptz IS NULL
            UNION ALL
            (SELECT entry, ref, role, digest, tokens, stream, start, size_bytes FROM entries
             WHERE tenant = $1 AND project = $2 AND book = $4 AND length >= 0
                AND ($6 IS NULL AND entry >= coalesce((SELECT context_start FROM s), 0)
                    OR said_at <= $6)
             ORDER BY entry DESC LIMIT $5)
        ), weighed AS (
            SELECT *, entry < 0 OR $7::int8 IS NULL OR tokens <= $7 AND $8 >= sum(size_bytes)
                FILTER (WHERE tokens <= $7) OVER (ORDER BY entry DESC) AS is_read FROM place
        )
        SELECT e.entry, e.ref, e.role, e.digest, e.tokens, block.line FROM weighed AS e CROSS
            JOIN LATERAL (
            SELECT CASE WHEN e.is_read
                THEN substring(b.content FROM (e.start - b.start + 1)::int4 FOR e.size_bytes)
                    ELSE '' END AS line
            FROM blocks AS b WHERE b.tenant = $1 AND b.project = $2 AND b.stream = e.stream
                AND b.start <= e.start
            ORDER BY b.start DESC LIMIT 1) AS block
        ORDER BY e.entry
        """,
        session,
        index_id,
        limit,
        until,
        tokens_max,
        LINES_BYTES_MAX,
    )
    summary = rows[0]["line"] if rows and rows[0]["entry"] < 0 else None
    return Context(summary, [StoredItem(*row.values()) for row in rows if row["entry"] >= 0])


async def streams(tx: Tx, session: str, index_id: int, *, limit: int) -> set[int]:
    """Return the streams that the latest items of a session's running context are read from."""
    return set(
        await tx.fetch_column(
            """
        SELECT DISTINCT stream FROM (
            SELECT stream FROM entries WHERE tenant = $1 AND project = $2 AND book = $4
                AND entry >= coalesce(
                (SELECT context_start FROM sessions WHERE tenant = $1 AND project = $2
                    AND session = $3), 0)
            ORDER BY entry DESC LIMIT $5) AS latest
        """,
            session,
            index_id,
            limit,
        )
    )


@frozen
class ContextSize:
    """Size of a running context: its items and tokens, and where it begins and ends."""

    items: int
    tokens: int
    start: int
    next_entry: int


async def read_size(tx: Tx, session: str, index_id: int) -> ContextSize:
    """Return the size of a session's running context, in one statement over its entries alone."""
    row = await tx.fetchrow(
        """
        SELECT count(*) AS items, coalesce(sum(e.tokens), 0)::int8 AS tokens,
               coalesce(min(s.context_start), 0) AS start,
                   coalesce(max(e.entry) + 1, 0) AS next_entry
        FROM sessions AS s JOIN entries AS e
            ON e.tenant = $1 AND e.project = $2 AND e.book = $4 AND e.entry >= s.context_start
        WHERE s.tenant = $1 AND s.project = $2 AND s.session = $3
        """,
        session,
        index_id,
    )
    assert row is not None
    return ContextSize(**row)


@frozen
class IndexedItem:
    """Item with its text as the index keeps it."""

    entry: int
    ref: str
    role: str
    speaker: str
    said_at: datetime
    text: str


async def read_items(
    tx: Tx, index_id: int, first: int, stop: int, *, limit: int | None = None, chars_max: int
) -> list[IndexedItem]:
    """Return the items `first <= entry < stop` of a session's index in order, at most `limit`.

    Items that were made unfindable are left out; texts are cut to `chars_max` characters.
    """
    return await tx.fetch_as(
        IndexedItem,
        """
        SELECT entry, ref, role, speaker, said_at, left(text, $6) AS text FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry >= $4 AND entry < $5
            AND length >= 0
        ORDER BY entry LIMIT $7
        """,
        index_id,
        first,
        stop,
        chars_max,
        limit,
    )


async def written_before(
    tx: Tx, session: str, index_id: int, before: datetime, *, limit: int
) -> dict[int, str]:
    """Return the text and cues of a session's first entries that were written before this time."""
    return await tx.fetch_pairs(
        r"""
        SELECT entry, text || E'\n' || cues AS indexed FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $4 AND entry < coalesce(
            (SELECT min(first_entry) FROM guards WHERE tenant = $1 AND project = $2 AND session = $3
                AND done
                AND fingerprint <> ''::bytea AND claimed_at >= $5), 2147483647)
        ORDER BY entry LIMIT $6
        """,
        session,
        index_id,
        before,
        limit,
    )


async def next_entry(tx: Tx, index_id: int) -> int:
    """Return the number that the next entry of an index will have."""
    next_number: int | None = await tx.fetchval(
        "SELECT next_entry FROM books WHERE tenant = $1 AND project = $2 AND book = $3", index_id
    )
    return next_number or 0


async def set_compacted(
    tx: Tx, session: str, position: SummaryPosition, *, counters: Mapping[str, int], now: datetime
) -> None:
    """Let the running context of a session begin after what the summary stands for.

    Add `counters`.
    """
    await tx.execute(
        f"""
        UPDATE sessions AS s SET context_start = $4, summary = $5, compacted_at = $6,
            counters = {COUNTED.format("$7")}
        WHERE tenant = $1 AND project = $2 AND session = $3
        """,
        session,
        position.next_entry,
        asdict(position),
        now,
        dict(counters),
    )


async def replace_summary(tx: Tx, session: str, position: SummaryPosition) -> bool:
    """Replace the position of a summary of the same id.

    Return False when the session has another one.
    """
    updated = await tx.execute(
        """
        UPDATE sessions SET summary = $4
        WHERE tenant = $1 AND project = $2 AND session = $3 AND summary ->> 'event' = $5
        """,
        session,
        asdict(position),
        position.event,
    )
    return bool(updated)
