"""Sessions: their counters, their policies, and the progress of maintenance."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from memsvc.core.errors import resource_busy
from memsvc.core.frozen import frozen
from memsvc.core.paths import prefix_range
from memsvc.store.database import Row, Tx
from memsvc.store.guard import Guard, purge_marker

ENTRY_MAX = 2**31 - 1

# The counters of a session `s` with others, given as an object, added to them.
COUNTED = """s.counters || (
    SELECT coalesce(jsonb_object_agg(c.key, c.value::int8 + coalesce((s.counters ->> c.key)::int8,
        0)), '{{}}')
    FROM jsonb_each_text({}) AS c)"""


@frozen
class StoredSession:
    """Counters and progress of a session.

    `context_start` is the entry that the recent context begins with, and `summary` the position of
    the event that replaces older ones (`SummaryPosition`). `policy` is what the owner sets
    otherwise than the options. `user_id` is the last speaker; `shared` says that others spoke too.
    """

    session: str
    user_id: str
    latest_turn: str
    turns: int
    context_start: int
    counters: Mapping[str, int]
    created_at: datetime
    updated_at: datetime
    last_maintenance_at: datetime | None
    policy: dict[str, Any] | None
    summary: dict[str, Any] | None
    compacted_at: datetime | None
    consolidated_at: datetime | None
    consolidated_entry: int
    shared: bool


class StoredDigest(NamedTuple):
    """Entry and digest of a stored item, and whether the whole item was forgotten."""

    entry: int
    digest: int
    is_hidden: bool


@frozen
class SessionStatus:
    """State of a session for a new turn: the turn's guard if it was stored, and more.

    `latest` are the items before the turn, oldest first, `user_id` is the last speaker, `shared`
    whether others spoke.
    """

    guard: Guard | None
    latest: list[StoredDigest]
    policy: dict[str, Any] | None
    user_id: str
    shared: bool


async def read_status(
    tx: Tx, session: str, turn: str, index_id: int, *, limit: int
) -> SessionStatus:
    """Return the state that a turn meets, in one round trip.

    Its guard is found also where the turn was purged since; there are up to `limit` latest items.
    """
    [row] = await tx.fetch_prepared(
        """
        SELECT g.done, g.token, g.fingerprint, g.first_entry, g.result, g.claimed_at,
            s.policy, coalesce(s.user_id, '') AS user_id, coalesce(s.shared, false) AS shared,
            ARRAY(SELECT (e.entry, e.digest, e.length < 0) FROM entries AS e
                WHERE e.tenant = $1 AND e.project = $2 AND e.book = $5
                  AND e.entry < coalesce(g.first_entry, $7) ORDER BY e.entry DESC
                      LIMIT $6) AS latest
        FROM (SELECT) AS one LEFT JOIN LATERAL (
            SELECT found.* FROM (VALUES ($3, $4), ('', $8)) AS named (session, turn) CROSS
                JOIN LATERAL (
                SELECT done, token, fingerprint, first_entry, result, claimed_at FROM guards
                WHERE tenant = $1 AND project = $2 AND session = named.session COLLATE "C"
                    AND turn = named.turn COLLATE "C" OFFSET 0) AS found LIMIT 1) AS g ON true
        LEFT JOIN sessions AS s ON s.tenant = $1 AND s.project = $2 AND s.session = $3
        """,
        session,
        turn,
        index_id,
        limit,
        ENTRY_MAX,
        purge_marker(session, turn),
    )
    fields = dict(row)
    latest, *session_fields = (
        fields.pop(name) for name in ("latest", "policy", "user_id", "shared")
    )
    return SessionStatus(
        Guard(**fields) if fields["token"] is not None else None,
        [StoredDigest(*one) for one in reversed(latest)],
        *session_fields,
    )


async def set_consolidated(
    tx: Tx, session: str, entry: int, *, counters: Mapping[str, int], now: datetime
) -> None:
    """Store that entries before this one were consolidated; `counters` are added."""
    await tx.execute(
        f"""
        UPDATE sessions AS s SET consolidated_entry = $4, consolidated_at = $5,
            counters = {COUNTED.format("$6")}
        WHERE tenant = $1 AND project = $2 AND session = $3
        """,
        session,
        entry,
        now,
        dict(counters),
    )


async def count(tx: Tx, session: str, counters: Mapping[str, int]) -> None:
    """Add to the counters of a session."""
    await tx.execute(
        f"""
        UPDATE sessions AS s SET counters = {COUNTED.format("$4")}
        WHERE tenant = $1 AND project = $2 AND session = $3
        """,
        session,
        dict(counters),
    )


async def set_policy(
    tx: Tx, session: str, policy: Mapping[str, Any] | None, *, now: datetime
) -> None:
    """Store a session's policy, None for the options; it may have no turns yet."""
    await tx.execute(
        """
        INSERT INTO sessions AS s (tenant, project, session, user_id, latest_turn, turns,
            context_start, counters,
                                   created_at, updated_at, policy)
        VALUES ($1, $2, $3, '', '', 0, 0, '{}', $5, $5, $4)
        ON CONFLICT (tenant, project, session) DO UPDATE SET policy = $4, updated_at = $5
        """,
        session,
        dict(policy) if policy else None,
        now,
    )


async def list_pending_maintenance(
    tx: Tx, *, after: str, settle_time: timedelta, limit: int
) -> list[str]:
    """Return the next sessions after `after`, by name, that may need maintenance now or soon.

    They were never maintained, or changed up to `settle_time` before they last were, or have a
    policy.
    """
    return await tx.fetch_column(
        """
        SELECT session FROM sessions WHERE tenant = $1 AND project = $2 AND session > $3
            AND (last_maintenance_at IS NULL OR last_maintenance_at < updated_at + $4::interval
                OR policy IS NOT NULL)
        ORDER BY session LIMIT $5
        """,
        after,
        settle_time,
        limit,
    )


async def with_expiry(tx: Tx, *, after: str, since: datetime, limit: int) -> list[str]:
    """Return the next sessions after `after`, by name, whose policy has a time to live.

    Those that were maintained since `since` are left out.
    """
    return await tx.fetch_column(
        """
        SELECT session FROM sessions
        WHERE tenant = $1 AND project = $2 AND session > $3 AND policy IS NOT NULL
            AND policy ->> 'ttl_days' IS NOT NULL
            AND (last_maintenance_at IS NULL OR last_maintenance_at < $4)
        ORDER BY session LIMIT $5
        """,
        after,
        since,
        limit,
    )


async def names(tx: Tx, *, prefix: str = "", after: str = "", limit: int) -> list[Row]:
    """Return `session` and `updated_at` of the next sessions after `after`, in byte order."""
    return await tx.fetch(
        """
        SELECT session, updated_at FROM sessions
        WHERE tenant = $1 AND project = $2 AND session >= $3 AND session < $4 AND session > $5
        ORDER BY session LIMIT $6
        """,
        *prefix_range(prefix),
        after,
        limit,
    )


async def find(tx: Tx, session: str) -> StoredSession | None:
    """Return a session's counters, if it has any turn."""
    return (await find_all(tx, [session])).get(session)


async def find_all(tx: Tx, names: Sequence[str]) -> dict[str, StoredSession]:
    """Return the counters of each of these sessions that has any turn."""
    rows = await tx.fetch(
        """
        SELECT session, user_id, latest_turn, turns, context_start, counters, created_at,
            updated_at,
               last_maintenance_at, policy, summary, compacted_at, consolidated_at,
                   consolidated_entry,
               shared
        FROM sessions WHERE tenant = $1 AND project = $2 AND session = ANY ($3)
        """,
        names,
    )
    return {row["session"]: StoredSession(**row) for row in rows}


@frozen
class StoredTurn:
    """Stored turn: its fingerprint, the first of its entries, and its result."""

    session: str
    turn: str
    user: str
    fingerprint: bytes
    first_entry: int
    result: Any


async def finish_turn(
    tx: Tx, done: StoredTurn, *, counters: Mapping[str, int], now: datetime
) -> None:
    """Store a turn as done and count it, in its transaction; the first begins the session.

    RESOURCE_BUSY, so that all of it rolls back, when somebody else stored the turn meanwhile.
    """
    (row,) = await tx.call(
        "finish_turn",
        done.session,
        done.user,
        done.turn,
        dict(counters),
        now,
        uuid.uuid4(),
        done.fingerprint,
        done.first_entry,
        done.result,
    )
    if not row["finish_turn"]:
        raise resource_busy("another call is writing this turn", retry_after_s=0.1)


async def speakers(tx: Tx, session: str, turns: Sequence[str]) -> set[str]:
    """Return the users about whom facts, past ones included, were learned in these turns.

    One statement over the facts of the project.
    """
    return set(
        await tx.fetch_column(
            """
        SELECT DISTINCT evidence ->> 'user' AS speaker FROM facts
        WHERE tenant = $1 AND project = $2 AND NOT forgotten AND evidence ->> 'session' = $3
          AND evidence ->> 'turn' = ANY($4::text[]) AND evidence ->> 'user' <> ''
        """,
            session,
            turns,
        )
    )


async def set_maintenance_time(
    tx: Tx, session: str, *, counters: Mapping[str, int], now: datetime
) -> None:
    """Store that a session was maintained; add `counters` to its own."""
    await tx.execute(
        f"""
        UPDATE sessions AS s SET last_maintenance_at = $4, counters = {COUNTED.format("$5")}
        WHERE tenant = $1 AND project = $2 AND session = $3
        """,
        session,
        now,
        dict(counters),
    )


async def processed_turns(tx: Tx, session: str, *, limit: int) -> list[str]:
    """Return the latest stored turns, oldest first."""
    rows = await tx.fetch(
        """
        SELECT turn FROM guards WHERE tenant = $1 AND project = $2 AND session = $3 AND done
        ORDER BY claimed_at DESC, first_entry DESC LIMIT $4
        """,
        session,
        limit,
    )
    return [row["turn"] for row in rows[::-1]]
