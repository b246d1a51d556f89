"""Items of stored turns, as entries of their session's index."""

from collections.abc import Sequence
from dataclasses import dataclass

from memsvc.store.database import Tx


@dataclass(frozen=True, slots=True)
class IndexedTurnItem:
    """Item of a turn: its entry, and what it was indexed with."""

    entry: int
    ref: str
    indexed: str


async def list_visible(
    tx: Tx, session: str, index_id: int, turns: Sequence[str], *, limit: int
) -> dict[str, list[IndexedTurnItem]]:
    """Return the items of these turns that were not hidden, by turn, of stored turns alone.

    A turn has up to `limit` items.
    """
    rows = await tx.fetch(
        """
        SELECT g.turn, e.entry, e.ref, CASE e.cues WHEN '' THEN e.text
            ELSE e.text || E'\\n' || e.cues END AS indexed
        FROM guards AS g LEFT JOIN LATERAL (
            SELECT entry, ref, text, cues FROM entries WHERE tenant = $1 AND project = $2
                AND book = $4
            AND entry >= g.first_entry AND entry < g.first_entry::int8 + $6 AND length >= 0
            AND regexp_replace(ref, '-(in|out)-[0-9]+$', '') = g.turn) AS e ON true
        WHERE g.tenant = $1 AND g.project = $2 AND g.session = $3 AND g.turn = ANY($5::text[])
            AND g.done
        ORDER BY e.entry
        """,
        session,
        index_id,
        list(turns),
        limit,
    )
    found: dict[str, list[IndexedTurnItem]] = {}
    for row in rows:
        items = found.setdefault(row["turn"], [])
        if row["entry"] is not None:
            items.append(IndexedTurnItem(row["entry"], row["ref"], row["indexed"]))
    return found
