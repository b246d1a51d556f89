"""The turn guard: a turn is stored once, and work that spans transactions is fenced by a token."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from memsvc.core.errors import resource_busy
from memsvc.core.frozen import frozen
from memsvc.store.database import Tx

STALE_AFTER = timedelta(minutes=2)
SESSIONS_MAX: Final = 20
"""Latest sessions of a user in which a second copy of a turn is looked for."""
ANY_CONTENT = b""
"""Fingerprint of a turn known only to be stored: any content sent under its id matches."""


FORGOTTEN_RESULT: Final[Mapping[str, Any]] = {
    "stored_items": 0,
    "fact_ids": [],
    "forgotten": True,
}
"""Answer to a retry of a turn that was forgotten or purged."""


@frozen
class Guard:
    """State of a turn: who works on it since when, or its result."""

    done: bool
    token: uuid.UUID
    fingerprint: bytes
    first_entry: int
    result: Any
    claimed_at: datetime


async def claim(tx: Tx, session: str, turn: str, *, fingerprint: bytes, now: datetime) -> Guard:
    """Begin work that spans transactions.

    Return the claim with a fresh token, or the guard if it is done. A claim younger than two
    minutes makes this RESOURCE_BUSY; an older one is taken over with its token, so that its holder
    can no longer finish.
    """
    token = uuid.uuid4()
    claimed = await tx.fetchrow_as(
        Guard,
        """
        INSERT INTO guards AS g (tenant, project, session, turn, done, token, fingerprint,
            first_entry, claimed_at)
        VALUES ($1, $2, $3, $4, false, $5, $6, 0, $7)
        ON CONFLICT (tenant, project, session, turn) DO UPDATE SET token = $5, fingerprint = $6,
            claimed_at = $7
            WHERE NOT g.done AND g.claimed_at <= $8
        RETURNING done, token, fingerprint, first_entry, result, claimed_at
        """,
        session,
        turn,
        token,
        fingerprint,
        now,
        now - STALE_AFTER,
    )
    if claimed is not None:
        return claimed
    existing = await find(tx, session, turn)
    if existing is not None and existing.done:
        return existing
    raise resource_busy(
        "another call is already running maintenance of this session", retry_after_s=1.0
    )


async def find(tx: Tx, session: str, turn: str) -> Guard | None:
    """Return the guard of a turn, if there is one."""
    return await tx.fetchrow_as(
        Guard,
        """
        SELECT done, token, fingerprint, first_entry, result, claimed_at FROM guards
        WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = $4
        """,
        session,
        turn,
    )


async def find_session(tx: Tx, turn: str, user: str) -> str | None:
    """Return which of a user's latest sessions has a turn that is stored; None without one."""
    row = await tx.fetchrow(
        """
        SELECT g.session FROM guards AS g
        WHERE g.tenant = $1 AND g.project = $2 AND g.turn = $3 AND g.done AND g.session IN (
            SELECT s.session FROM sessions AS s
            WHERE s.tenant = $1 AND s.project = $2 AND s.user_id = $4 AND s.user_id <> ''
            ORDER BY s.updated_at DESC LIMIT $5
        )
        LIMIT 1
        """,
        turn,
        user,
        SESSIONS_MAX,
    )
    return None if row is None else str(row["session"])


async def hold(tx: Tx, session: str, turn: str, token: uuid.UUID, *, now: datetime) -> None:
    """Prove in a later transaction of the work that the claim is still ours, and renew it.

    Raises RESOURCE_BUSY otherwise.
    """
    await _update_claim(tx, session, turn, token, "claimed_at = $6", now)


async def finish(tx: Tx, session: str, turn: str, token: uuid.UUID, *, result: Any) -> None:
    """End the work; RESOURCE_BUSY, to roll the transaction back, when the claim was taken over."""
    await _update_claim(tx, session, turn, token, "done = true, result = $6", result)


async def release(tx: Tx, session: str, turn: str, token: uuid.UUID) -> None:
    """Release a claim, so that the next attempt need not wait; do nothing if it was taken over."""
    await tx.execute(
        """
        DELETE FROM guards WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = $4
            AND token = $5 AND NOT done
        """,
        session,
        turn,
        token,
    )


async def set_forgotten(tx: Tx, session: str, turns: Sequence[str]) -> None:
    """Make any retry of these turns, whatever its content, return FORGOTTEN_RESULT."""
    await tx.execute(
        """
        UPDATE guards SET fingerprint = $5, result = $6
        WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = ANY($4::text[]) AND done
        """,
        session,
        turns,
        ANY_CONTENT,
        dict(FORGOTTEN_RESULT),
    )


async def forgotten_turns(tx: Tx) -> dict[str, list[str]]:
    """Return the turns of a project that were forgotten, by session."""
    return await tx.fetch_pairs(
        """
        SELECT session, array_agg(turn ORDER BY turn) FROM guards
        WHERE tenant = $1 AND project = $2 AND session <> '' AND fingerprint = $3
            AND result ? 'forgotten'
        GROUP BY session ORDER BY session
        """,
        ANY_CONTENT,
    )


async def accept_any_content(tx: Tx, session: str, turns: Sequence[str]) -> None:
    """Make any retry of these turns return the stored result, whatever its content.

    Their stored text was redacted, so a true retry would no longer match its fingerprint.
    """
    await tx.execute(
        """
        UPDATE guards SET fingerprint = $5
        WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = ANY($4::text[]) AND done
        """,
        session,
        turns,
        ANY_CONTENT,
    )


async def purge_turns(tx: Tx, session: str, *, now: datetime, limit: int) -> int:
    """Replace some turns of a session by tombstones; return how many.

    A tombstone keeps a hash of the turn's name, by which a repeated turn is answered as not stored.
    """
    rows = await tx.fetch(
        """
        DELETE FROM guards WHERE tenant = $1 AND project = $2 AND session = $3
            AND turn = ANY(ARRAY(
            SELECT turn FROM guards WHERE tenant = $1 AND project = $2 AND session = $3 AND done
            ORDER BY turn LIMIT $4))
        RETURNING turn
        """,
        session,
        limit,
    )
    await tx.execute_each(
        """
        INSERT INTO guards (tenant, project, session, turn, done, token, fingerprint, first_entry,
            result, claimed_at)
        VALUES ($1, $2, '', $3, true, '00000000-0000-0000-0000-000000000000', $4, 0, $5, $6)
        ON CONFLICT (tenant, project, session, turn) DO NOTHING
        """,
        [
            (purge_marker(session, row["turn"]), ANY_CONTENT, dict(FORGOTTEN_RESULT), now)
            for row in rows
        ],
    )
    return len(rows)


def purge_marker(session: str, turn: str) -> str:
    """Return the name of a purged turn's tombstone (in the session "", which nobody has)."""
    return hashlib.sha256(f"{session}\n{turn}".encode()).hexdigest()


async def _update_claim(
    tx: Tx, session: str, turn: str, token: uuid.UUID, change: str, value: Any
) -> None:
    updated = await tx.execute(
        f"""
        UPDATE guards SET {change}
        WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = $4 AND token = $5
            AND NOT done
        """,
        session,
        turn,
        token,
        value,
    )
    if not updated:
        raise resource_busy(
            "another call took over the maintenance of this session", retry_after_s=1.0
        )
