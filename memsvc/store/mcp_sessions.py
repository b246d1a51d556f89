"""Sessions of MCP clients that subscribed to resources: what any replica needs to resume them.

Also the questions to their users, which any replica may get the answers to, and the questions of
replicas to the one that has the events of a stream.
"""

from datetime import datetime
from typing import Any

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.frozen import frozen
from memsvc.core.paths import prefix_range
from memsvc.store.changes import notify
from memsvc.store.database import Tx


@frozen
class SubscribedSession:
    """The stream that gets the session's events, the last event, and the subscriptions.

    Those are the stamp that was last sent and the number of that event, by URI.
    """

    stream: int
    event: int
    subscriptions: dict[str, tuple[str, int]]


def session_uri(session: bytes) -> str:
    """Return the URI under which changes of a session itself are announced."""
    return f"mcp-session:{session.hex()}"


async def subscribe(
    tx: Tx,
    session: bytes,
    uri: str,
    stamp: str,
    *,
    now: datetime,
    expires_at: datetime,
    sessions_max: int,
    uris_max: int,
) -> None:
    """Add a subscription that has seen this stamp, and remove the tenant's expired sessions.

    RATE_LIMITED beyond so many sessions of the tenant, INVALID_ARGUMENT beyond so many URIs. Takes
    a transaction of the whole tenant, like all functions here.
    """
    await tx.execute("DELETE FROM mcp_sessions WHERE tenant = $1 AND expires_at <= $2", now)
    subscriptions: dict[str, tuple[str, int]] = await tx.fetchval(
        """
        INSERT INTO mcp_sessions (tenant, session_hash, stream, event, subscriptions, expires_at)
        VALUES ($1, $2, 0, 0, '{}', $3)
        ON CONFLICT (tenant, session_hash) DO UPDATE SET expires_at = excluded.expires_at
        RETURNING subscriptions
        """,
        session,
        expires_at,
    )
    if await tx.fetchval("SELECT count(*) FROM mcp_sessions WHERE tenant = $1") > sessions_max:
        raise MemsvcError(
            Code.RATE_LIMITED,
            f"this tenant already has the maximum of {sessions_max} MCP sessions with"
            " subscriptions",
            retry_after_s=60.0,
            recovery="end a session that is no longer needed: send DELETE to /mcp with its"
            " Mcp-Session-Id",
        )
    subscriptions.setdefault(uri, (stamp, 0))
    if len(subscriptions) > uris_max:
        raise invalid(f"a client can subscribe to at most {uris_max} resources")
    await tx.execute(
        "UPDATE mcp_sessions SET subscriptions = $3 WHERE tenant = $1 AND session_hash = $2",
        session,
        subscriptions,
    )
    await notify(tx, session_uri(session))


async def unsubscribe(tx: Tx, session: bytes, uri: str) -> None:
    """Remove a subscription, if there is one."""
    await tx.execute(
        "UPDATE mcp_sessions SET subscriptions = subscriptions - $3::text"
        " WHERE tenant = $1 AND session_hash = $2",
        session,
        uri,
    )
    await notify(tx, session_uri(session))


async def resume(
    tx: Tx, session: bytes, stream: int, *, is_new: bool, now: datetime, expires_at: datetime
) -> SubscribedSession | None:
    """Return the session, kept until `expires_at`; None when nothing is subscribed to.

    Events go to the latest stream alone: to this one if it is new, or if its number is the highest.
    """
    row = await tx.fetchrow(
        """
        UPDATE mcp_sessions SET stream = greatest(stream + $4::int, $3::bigint), expires_at = $6
        WHERE tenant = $1 AND session_hash = $2 AND expires_at > $5
        RETURNING stream, event, subscriptions
        """,
        session,
        stream,
        int(is_new),
        now,
        expires_at,
    )
    if row is None:
        return None
    if is_new:
        await notify(tx, session_uri(session))
    subscriptions = {uri: (stamp, event) for uri, (stamp, event) in row["subscriptions"].items()}
    return SubscribedSession(row["stream"], row["event"], subscriptions)


async def add_event(tx: Tx, session: bytes, stream: int, uri: str, stamp: str) -> int | None:
    """Return the number of a new event: the resource at this URI has this stamp now.

    None where that was sent, or where the event is another stream's to send.
    """
    row = await tx.fetchrow(
        "SELECT event, subscriptions FROM mcp_sessions"
        " WHERE tenant = $1 AND session_hash = $2 AND stream = $3 FOR UPDATE",
        session,
        stream,
    )
    if row is None or row["subscriptions"].get(uri, (stamp,))[0] == stamp:
        return None
    number: int = row["event"] + 1
    await tx.execute(
        "UPDATE mcp_sessions SET event = $3, subscriptions = $4"
        " WHERE tenant = $1 AND session_hash = $2",
        session,
        number,
        row["subscriptions"] | {uri: (stamp, number)},
    )
    return number


async def end(tx: Tx, session: bytes) -> None:
    """Remove a session, and announce that it is gone."""
    await tx.execute("DELETE FROM mcp_sessions WHERE tenant = $1 AND session_hash = $2", session)
    await notify(tx, session_uri(session))


def question_uri(question: str) -> str:
    """Return the URI under which the answer to a question is announced."""
    return f"mcp-question:{question}"


async def add_question(
    tx: Tx, session: bytes, question: str, stream: str = "", *, now: datetime, expires_at: datetime
) -> None:
    """Store a question that a session may answer, and remove the tenant's expired ones.

    One about a `stream` is announced.
    """
    await tx.execute("DELETE FROM mcp_questions WHERE tenant = $1 AND expires_at <= $2", now)
    await tx.execute(
        "INSERT INTO mcp_questions (tenant, question, session_hash, expires_at)"
        " VALUES ($1, $2, $3, $4)",
        question,
        session,
        expires_at,
    )
    if stream:
        await notify(tx, stream_uri(stream))


def stream_uri(stream: str) -> str:
    """Return the URI under which questions about a stream are announced."""
    return f"mcp-stream:{stream}"


async def questions(tx: Tx, session: bytes, prefix: str, now: datetime) -> list[str]:
    """Return the questions of a session with this prefix that have no answer yet."""
    return await tx.fetch_column(
        "SELECT question FROM mcp_questions WHERE tenant = $1 AND session_hash = $2"
        " AND question >= $3 AND question < $4 AND answer IS NULL AND expires_at > $5",
        session,
        *prefix_range(prefix),
        now,
    )


async def answer(
    tx: Tx, session: bytes, question: str, result: dict[str, Any], now: datetime
) -> bool:
    """Store and announce an answer; return False where this session has no such open question."""
    changed = await tx.execute(
        "UPDATE mcp_questions SET answer = $4 WHERE tenant = $1 AND question = $2"
        " AND session_hash = $3 AND answer IS NULL AND expires_at > $5",
        question,
        session,
        result,
        now,
    )
    if changed:
        await notify(tx, question_uri(question))
    return bool(changed)


async def pop_answer(tx: Tx, question: str) -> dict[str, Any] | None:
    """Return the answer to a question, which is then removed; None before there is one."""
    result: dict[str, Any] | None = await tx.fetchval(
        "DELETE FROM mcp_questions WHERE tenant = $1 AND question = $2 AND answer IS NOT NULL"
        " RETURNING answer",
        question,
    )
    return result


async def remove_question(tx: Tx, question: str) -> None:
    """Remove a question, with the answer if there is one."""
    await tx.execute("DELETE FROM mcp_questions WHERE tenant = $1 AND question = $2", question)


async def remove_expired(tx: Tx, now: datetime) -> None:
    """Remove the tenant's expired sessions and questions, whoever left them."""
    await tx.execute("DELETE FROM mcp_questions WHERE tenant = $1 AND expires_at <= $2", now)
    await tx.execute("DELETE FROM mcp_sessions WHERE tenant = $1 AND expires_at <= $2", now)
