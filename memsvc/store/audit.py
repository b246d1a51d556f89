"""What an audit reads of a project: its entries and the places that recalls showed, by pages."""

from datetime import datetime
from uuid import UUID

from memsvc.core.frozen import frozen
from memsvc.store.database import Tx
from memsvc.store.recalls import EntryPlace, RecallPosition


@frozen
class StoredEntry:
    """An entry and the name of its index; `ended_at` is when its fact no longer held."""

    place: EntryPlace
    index: str
    ref: str
    role: str
    said_at: datetime
    text: str
    findable: bool
    ended_at: datetime | None


async def entries_after(tx: Tx, after: EntryPlace | None, *, limit: int) -> list[StoredEntry]:
    """Return the entries with a text behind a place, or the first: findable ones and past facts.

    In the order of indexes and, in each, of storing. Digests, which only find sessions, are left
    out."""
    rows = await tx.fetch(
        """
        SELECT e.book, e.entry, b.name, e.ref, e.role, e.said_at, e.text, e.length > 0 AS findable,
            CASE WHEN f.state <> 'active' THEN f.valid_to ELSE f.expires_at END AS ended_at
        FROM entries AS e JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = e.book
        LEFT JOIN facts AS f ON f.tenant = $1 AND f.project = $2 AND f.book = e.book
            AND f.entry = e.entry
        WHERE e.tenant = $1 AND e.project = $2
            AND ($3::int8 IS NULL OR (e.book, e.entry) > ($3, $4::int4))
            AND (e.length > 0 OR f.entry IS NOT NULL) AND e.role <> 'digest'
        ORDER BY e.book, e.entry LIMIT $5
        """,
        after.index_id if after else None,
        after.entry if after else None,
        limit,
    )
    return [
        StoredEntry(EntryPlace(row["book"], row["entry"]), *[*row.values()][2:]) for row in rows
    ]


async def shown_after(
    tx: Tx, after: tuple[str, RecallPosition] | None, *, limit: int
) -> tuple[list[tuple[EntryPlace, datetime]], tuple[str, RecallPosition] | None]:
    """Return the places that a page of recall traces showed, with their times, and its end.

    What was recalled as of another time is left out."""
    session, position = after or ("", None)
    rows = await tx.fetch(
        """
        SELECT session, recalled_at, recall, told FROM recalls WHERE tenant = $1 AND project = $2
            AND ($4::timestamptz IS NULL OR (session, recalled_at, recall) > ($3, $4, $5::uuid))
        ORDER BY session, recalled_at, recall LIMIT $6
        """,
        session,
        position.recalled_at if position else None,
        position.recall if position else UUID(int=0),
        limit,
    )
    shown = [
        (EntryPlace(*candidate["place"]), row["recalled_at"])
        for row in rows
        if "as_of" not in row["told"]["limits"]
        for candidate in row["told"]["candidates"]
        if candidate["shown"] and candidate.get("place")
    ]
    last = rows[-1] if rows else None
    return shown, (
        (last["session"], RecallPosition(last["recalled_at"], last["recall"])) if last else None
    )
