"""Progress of a model through each session, and the messages that it reads next."""

from dataclasses import dataclass
from datetime import datetime

from memsvc.store.database import Row, Tx


@dataclass(frozen=True, slots=True)
class TranscriptItem:
    """Message of the user or the assistant.

    `line` is its line in the event file, None when that is gone. `text` has at most one character
    more than the limit.
    """

    entry: int
    ref: str
    role: str
    speaker: str
    said_at: datetime
    tokens: int
    text: str
    line: bytes | None


async def read_position(tx: Tx, session: str) -> int | None:
    """Return the entry that a model is to read the session from; None for a missing session."""
    read: int | None = await tx.fetchval(
        "SELECT extracted_entry FROM sessions WHERE tenant = $1 AND project = $2 AND session = $3",
        session,
    )
    return read


async def read_messages(
    tx: Tx, index_id: int, entry: int, *, before: int, limit: int, chars_max: int
) -> list[TranscriptItem]:
    """Return the next messages of user and assistant from this entry on, and `before` older ones.

    They are in order.
    """
    rows = await tx.fetch(
        f"""
        WITH chosen AS (
            (SELECT {_COLUMNS} FROM entries WHERE {_MESSAGES} AND entry < $4 ORDER BY entry DESC
                LIMIT $5)
            UNION ALL
            (SELECT {_COLUMNS} FROM entries WHERE {_MESSAGES} AND entry >= $4 ORDER BY entry
                LIMIT $6)
        )
        SELECT e.entry, e.ref, e.role, e.speaker, e.said_at, e.tokens, left(e.text, $7 + 1) AS text,
            block.line
        FROM chosen AS e LEFT JOIN LATERAL (
            SELECT substring(b.content FROM (e.start - b.start + 1)::int4 FOR e.size_bytes) AS line
            FROM blocks AS b WHERE b.tenant = $1 AND b.project = $2 AND b.stream = e.stream
                AND b.start <= e.start
            ORDER BY b.start DESC LIMIT 1) AS block ON true
        ORDER BY e.entry
        """,
        index_id,
        entry,
        before,
        limit,
        chars_max,
    )
    return [_message(row) for row in rows]


_COLUMNS = "entry, ref, role, speaker, said_at, tokens, text, stream, start, size_bytes"
_MESSAGES = """tenant = $1 AND project = $2 AND book = $3 AND role IN ('user', 'assistant')
             AND length >= 0 AND text <> ''"""


async def set_read_position(tx: Tx, session: str, *, start: int, stop: int) -> bool:
    """Store that a model has read the entries from `start` to `stop` - 1.

    Return False, and store nothing, when somebody else changed the position meanwhile.
    """
    updated = await tx.execute(
        """
        UPDATE sessions SET extracted_entry = $5
        WHERE tenant = $1 AND project = $2 AND session = $3 AND extracted_entry = $4
        """,
        session,
        start,
        stop,
    )
    return bool(updated)


def _message(row: Row) -> TranscriptItem:
    return TranscriptItem(**dict(row))
