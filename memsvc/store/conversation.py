"""Sessions and their messages, a page at a time, and the progress of a model through them."""

from datetime import datetime
from typing import Annotated, NamedTuple

from memsvc.core.frozen import frozen
from memsvc.core.tool_methods import result
from memsvc.store.context import IndexedItem
from memsvc.store.database import Tx

_LINE = """LEFT JOIN LATERAL (
            SELECT substring(b.content FROM (e.start - b.start + 1)::int4 FOR e.size_bytes) AS line
            FROM blocks AS b WHERE b.tenant = $1 AND b.project = $2 AND b.stream = e.stream
                AND b.start <= e.start {}
            ORDER BY b.start DESC LIMIT 1) AS block ON true"""
SEARCH_SESSIONS_MAX = 10_000
"""Latest sessions that a search by name reads."""


class SessionPosition(NamedTuple):
    """End of a page of sessions: the next one has what was written before it."""

    updated_at: datetime
    session: str


@result
class ListedSession:
    session_id: Annotated[str, "id of the session"]
    user_id: Annotated[str, "user who spoke last, if known"]
    shared: Annotated[bool, "whether several users spoke in the session"]
    turns: Annotated[int, "number of stored turns"]
    items: Annotated[int, "number of items stored in the session"]
    facts: Annotated[int, "number of facts that the session's turns stated or changed"]
    created_at: Annotated[datetime, "time when the session started"]
    updated_at: Annotated[datetime, "time of the last write to the session"]
    last_maintenance_at: Annotated[datetime | None, "time of the last maintenance of the session"]


async def sessions(
    tx: Tx, *, named: str, user: str, before: SessionPosition | None, limit: int
) -> list[ListedSession]:
    """Return the sessions of the project, or of a user, by name, the latest first.

    Their names have `named` in them. A search by name reads the latest LOOKED_THROUGH.
    """
    return await tx.fetch_as(
        ListedSession,
        """
        SELECT session AS session_id, user_id, shared, turns,
            coalesce((counters ->> 'items')::int8, 0) AS items,
            coalesce((counters ->> 'facts')::int8, 0) AS facts, created_at, updated_at,
            last_maintenance_at FROM (
            SELECT * FROM sessions
            WHERE tenant = $1 AND project = $2 AND (updated_at,
                session) < (coalesce($5::timestamptz, 'infinity'), $6)
                AND ($4 = '' OR user_id = $4)
            ORDER BY updated_at DESC, session DESC LIMIT $8
        ) AS latest
        WHERE $3 = '' OR strpos(lower(session), lower($3)) > 0
        ORDER BY updated_at DESC, session DESC LIMIT $7
        """,
        named,
        user,
        before.updated_at if before else None,
        before.session if before else "",
        limit,
        SEARCH_SESSIONS_MAX if named else limit,
    )


@frozen
class TranscriptItem(IndexedItem):
    """Message of the user or the assistant.

    `line` is its line in the event file, None when that is gone. `text` has at most one character
    more than the limit.
    """

    tokens: int
    line: bytes | None


@frozen
class SessionItem(TranscriptItem):
    """Item of a session with the length of its whole text.

    `line` is None also where that is packed or too long.
    """

    chars: int


async def entry_after(tx: Tx, session: str, index_id: int, turn: str, *, limit: int) -> int:
    """Return the entry after the last item of a turn in the index of its session.

    0 for a turn that was never stored, or of which nothing is left. A turn has up to `limit` items.
    """
    return await tx.fetch_int(
        """
        SELECT coalesce(max(e.entry) + 1, 0)
        FROM guards AS g CROSS JOIN LATERAL (
            SELECT entry FROM entries
            WHERE tenant = $1 AND project = $2 AND book = $4
                AND entry >= g.first_entry AND entry < g.first_entry::int8 + $6
                AND regexp_replace(ref, '-(in|out)-[0-9]+$', '') = g.turn AND length >= 0) AS e
        WHERE g.tenant = $1 AND g.project = $2 AND g.session = $3 AND g.turn = $5 AND g.done
        """,
        session,
        index_id,
        turn,
        limit,
    )


async def items(
    tx: Tx, index_id: int, *, before: int, limit: int, chars_max: int, line_bytes_max: int
) -> list[SessionItem]:
    """Return the items before an entry of a session's index, the latest first.

    Each has up to `chars_max` characters; forgotten ones are left out.
    """
    return await tx.fetch_as(
        SessionItem,
        f"""
        SELECT e.entry, e.ref, e.role, e.speaker, e.said_at, e.tokens, left(e.text, $6) AS text,
               char_length(e.text) AS chars, block.line
        FROM (SELECT * FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 AND entry < $4
            AND length >= 0
              ORDER BY entry DESC LIMIT $5) AS e
        {_LINE.format("AND e.size_bytes <= $7")}
        ORDER BY e.entry DESC
        """,
        index_id,
        before,
        limit,
        chars_max,
        line_bytes_max,
    )


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
    return await tx.fetch_as(
        TranscriptItem,
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
        FROM chosen AS e {_LINE.format("")}
        ORDER BY e.entry
        """,
        index_id,
        entry,
        before,
        limit,
        chars_max,
    )


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
