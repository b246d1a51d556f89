"""Turns and sessions as their files tell them: rows compared and repaired."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memsvc.store import guard
from memsvc.store.database import Tx
from memsvc.store.sessions import Session


@dataclass(frozen=True, slots=True)
class Done:
    """Turn that is done, as its guard should record it."""

    turn: str
    fingerprint: bytes
    first_entry: int
    result: Any
    at: datetime


async def guards(tx: Tx, session: str, turns: Sequence[str] | None = None) -> dict[str, Done]:
    """Return the turns of a session that are done, by id; only some, if these are given."""
    found = await tx.fetch(
        """
        SELECT turn, fingerprint, first_entry, result, claimed_at AS at FROM guards
        WHERE tenant = $1 AND project = $2 AND session = $3 AND ($4::text[] IS NULL OR turn = ANY($4))
            AND done
        """,
        session,
        None if turns is None else list(turns),
    )
    return {one["turn"]: Done(**dict(one)) for one in found}


async def in_order(tx: Tx, session: str) -> bool:
    """Return whether the turns of a session have their entries in the order of their days (UTC)."""
    ordered: bool = await tx.fetchval(
        """
        SELECT NOT EXISTS (SELECT FROM (
            SELECT day, lag(day) OVER (ORDER BY first_entry, day) AS before FROM (
                SELECT first_entry, (claimed_at AT TIME ZONE 'UTC')::date AS day FROM guards
                WHERE tenant = $1 AND project = $2 AND session = $3 AND done AND fingerprint <> $4) AS g) AS turns
            WHERE day < before)
        """,
        session,
        guard.ANY_CONTENT,
    )
    return ordered


Extent = tuple[int, int]
"""Stream of a file and its size in bytes: appending changes the size, rewriting the stream."""


async def extents(tx: Tx, paths: Sequence[str]) -> dict[str, Extent]:
    """Return stream and size of the live files at these paths."""
    found = await tx.fetch(
        """
        SELECT path, stream, size_bytes FROM files
        WHERE tenant = $1 AND project = $2 AND path = ANY($3::text[]) AND deleted_at IS NULL
        """,
        list(paths),
    )
    return {one["path"]: (one["stream"], one["size_bytes"]) for one in found}


async def put_guards(tx: Tx, session: str, wanted: Iterable[Done]) -> None:
    """Store turns as done, replacing what was stored of them before."""
    done = list(wanted)
    if done:
        await tx.execute(
            """
            INSERT INTO guards (tenant, project, session, turn, done, token, fingerprint, first_entry, result,
                                claimed_at)
            SELECT $1, $2, $3, g.turn, true, g.token, g.fingerprint, g.first_entry, g.result, g.at
            FROM unnest($4::text[], $5::uuid[], $6::bytea[], $7::int4[], $8::jsonb[], $9::timestamptz[])
                AS g (turn, token, fingerprint, first_entry, result, at)
            ON CONFLICT (tenant, project, session, turn) DO UPDATE SET done = true, fingerprint = EXCLUDED.fingerprint,
                first_entry = EXCLUDED.first_entry, result = EXCLUDED.result, claimed_at = EXCLUDED.claimed_at
            """,
            session,
            [one.turn for one in done],
            [uuid.uuid4() for _ in done],
            [one.fingerprint for one in done],
            [one.first_entry for one in done],
            [one.result for one in done],
            [one.at for one in done],
        )


async def drop_guards(tx: Tx, session: str, turns: Sequence[str]) -> None:
    """Delete the record that turns were done."""
    if turns:
        await tx.execute(
            "DELETE FROM guards WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = ANY($4::text[])",
            session,
            list(turns),
        )


@dataclass(frozen=True, slots=True)
class Count:
    """Counts of a session's row, as its files tell.

    `shared` where the speakers were not checked.
    """

    user_id: str
    latest_turn: str
    turns: int
    counters: Mapping[str, int]
    created_at: datetime
    updated_at: datetime
    shared: bool = True


async def put_session(tx: Tx, session: str, wanted: Count) -> None:
    """Give a session the counts of its files; what the files do not tell stays as it is."""
    await tx.execute(
        """
        INSERT INTO sessions AS s (tenant, project, session, user_id, latest_turn, turns, context_start, counters,
                                   created_at, updated_at, shared)
        VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9, $10)
        ON CONFLICT (tenant, project, session) DO UPDATE SET user_id = $4, latest_turn = $5, turns = $6,
            counters = s.counters || $7, created_at = $8, updated_at = $9, shared = $10
        """,
        session,
        wanted.user_id,
        wanted.latest_turn,
        wanted.turns,
        dict(wanted.counters),
        wanted.created_at,
        wanted.updated_at,
        wanted.shared,
    )


def same_count(held: Session | None, wanted: Count) -> bool:
    """Return whether a session's row agrees with its files."""
    return (
        held is not None
        and (held.user_id, held.latest_turn, held.turns) == (wanted.user_id, wanted.latest_turn, wanted.turns)
        and held.shared == wanted.shared
        and wanted.counters.items() <= held.counters.items()
        and same_value(held.created_at, wanted.created_at)
        and same_value(held.updated_at, wanted.updated_at)
    )


def same_guard(held: Done | None, wanted: Done) -> bool:
    """Return whether a guard agrees with the lines of its turn."""
    return (
        held is not None
        and (held.fingerprint, held.first_entry, held.result) == (wanted.fingerprint, wanted.first_entry, wanted.result)
        and same_value(held.at, wanted.at)
    )


def same_value(held: Any, wanted: Any) -> bool:
    """Return whether a column holds the value of its line.

    Lines of older versions have whole seconds.
    """
    if isinstance(wanted, datetime) and isinstance(held, datetime) and not wanted.microsecond:
        return held.replace(microsecond=0) == wanted
    return bool(held == wanted)


async def begin_again(tx: Tx, session: str) -> None:
    """Reset the progress of everything derived from a session's entries by their numbers.

    Its context is complete again until the next compaction.
    """
    await tx.execute(
        """
        UPDATE sessions SET consolidated_entry = 0, digested_entry = 0, extracted_entry = 0, context_start = 0,
                            summary = NULL
        WHERE tenant = $1 AND project = $2 AND session = $3
        """,
        session,
    )
