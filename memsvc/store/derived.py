"""Turns, sessions and facts as their files tell them: rows read whole, compared and repaired."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen
from memsvc.store import facts, guard
from memsvc.store.database import Tx
from memsvc.store.sessions import StoredSession


@frozen
class DoneTurn:
    """Turn that is done, as its guard should record it."""

    turn: str
    fingerprint: bytes
    first_entry: int
    result: Any
    at: datetime


async def done_turns(
    tx: Tx, session: str, turns: Sequence[str] | None = None
) -> dict[str, DoneTurn]:
    """Return the turns of a session that are done, by id; only some, if these are given."""
    found = await tx.fetch(
        """
        SELECT turn, fingerprint, first_entry, result, claimed_at AS at FROM guards
        WHERE tenant = $1 AND project = $2 AND session = $3 AND ($4::text[] IS NULL
            OR turn = ANY($4))
            AND done
        """,
        session,
        None if turns is None else list(turns),
    )
    return {row["turn"]: DoneTurn(**row) for row in found}


async def in_order(tx: Tx, session: str) -> bool:
    """Return whether the turns of a session have their entries in the order of their days (UTC)."""
    return await tx.fetch_bool(
        """
        SELECT NOT EXISTS (SELECT FROM (
            SELECT day, lag(day) OVER (ORDER BY first_entry, day) AS before FROM (
                SELECT first_entry, (claimed_at AT TIME ZONE 'UTC')::date AS day FROM guards
                WHERE tenant = $1 AND project = $2 AND session = $3 AND done
                    AND fingerprint <> $4) AS g) AS turns
            WHERE day < before)
        """,
        session,
        guard.ANY_CONTENT,
    )


FileSize = tuple[int, int]
"""Stream of a file and its size in bytes: appending changes the size, rewriting the stream."""


async def file_sizes(tx: Tx, paths: Sequence[str]) -> dict[str, FileSize]:
    """Return stream and size of the live files at these paths."""
    found = await tx.fetch(
        """
        SELECT path, stream, size_bytes FROM files
        WHERE tenant = $1 AND project = $2 AND path = ANY($3::text[]) AND deleted_at IS NULL
        """,
        paths,
    )
    return {row["path"]: (row["stream"], row["size_bytes"]) for row in found}


async def put_done_turns(tx: Tx, session: str, expected: Iterable[DoneTurn]) -> None:
    """Store turns as done, replacing what was stored of them before."""
    await tx.execute_each(
        """
        INSERT INTO guards (tenant, project, session, turn, done, token, fingerprint, first_entry,
            result, claimed_at)
        VALUES ($1, $2, $3, $4, true, $5, $6, $7, $8, $9)
        ON CONFLICT (tenant, project, session, turn) DO UPDATE SET done = true,
            fingerprint = EXCLUDED.fingerprint, first_entry = EXCLUDED.first_entry,
            result = EXCLUDED.result, claimed_at = EXCLUDED.claimed_at
        """,
        [
            (session, row.turn, uuid.uuid4(), row.fingerprint, row.first_entry, row.result, row.at)
            for row in expected
        ],
    )


async def drop_done_turns(tx: Tx, session: str, turns: Sequence[str]) -> None:
    """Delete the record that turns were done."""
    if turns:
        await tx.execute(
            "DELETE FROM guards WHERE tenant = $1 AND project = $2 AND session = $3 AND turn ="
            " ANY($4::text[])",
            session,
            turns,
        )


@frozen
class SessionCounts:
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


async def put_session(tx: Tx, session: str, expected: SessionCounts) -> None:
    """Give a session the counts of its files; what the files do not tell stays as it is."""
    await tx.execute(
        """
        INSERT INTO sessions AS s (tenant, project, session, user_id, latest_turn, turns,
            context_start, counters,
                                   created_at, updated_at, shared)
        VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9, $10)
        ON CONFLICT (tenant, project, session) DO UPDATE SET user_id = $4, latest_turn = $5,
            turns = $6,
            counters = s.counters || $7, created_at = $8, updated_at = $9, shared = $10
        """,
        session,
        expected.user_id,
        expected.latest_turn,
        expected.turns,
        dict(expected.counters),
        expected.created_at,
        expected.updated_at,
        expected.shared,
    )


def same_count(existing: StoredSession | None, expected: SessionCounts) -> bool:
    """Return whether a session's row agrees with its files."""
    return (
        existing is not None
        and (existing.user_id, existing.latest_turn, existing.turns)
        == (expected.user_id, expected.latest_turn, expected.turns)
        and existing.shared == expected.shared
        and expected.counters.items() <= existing.counters.items()
        and same_value(existing.created_at, expected.created_at)
        and same_value(existing.updated_at, expected.updated_at)
    )


def same_guard(existing: DoneTurn | None, expected: DoneTurn) -> bool:
    """Return whether a guard agrees with the lines of its turn."""
    if existing is None or not same_value(existing.at, expected.at):
        return False
    return (existing.fingerprint, existing.first_entry, existing.result) == (
        expected.fingerprint,
        expected.first_entry,
        expected.result,
    )


def same_value(existing: Any, expected: Any) -> bool:
    """Return whether a column holds the value of its line.

    Lines of older versions have whole seconds.
    """
    if (
        isinstance(expected, datetime)
        and isinstance(existing, datetime)
        and not expected.microsecond
    ):
        return existing.replace(microsecond=0) == expected
    return bool(existing == expected)


async def reset_progress(tx: Tx, session: str) -> None:
    """Reset the progress of everything derived from a session's entries by their numbers.

    Its context is complete again until the next compaction.
    """
    await tx.execute(
        """
        UPDATE sessions SET consolidated_entry = 0, extracted_entry = 0, context_start = 0,
            summary = NULL
        WHERE tenant = $1 AND project = $2 AND session = $3
        """,
        session,
    )


async def existing_records(
    tx: Tx, index_ids: Sequence[int], session: str, records: Sequence[str]
) -> set[str]:
    """Return which of these records of a session the indexes have as facts, in any state."""
    return set(
        await tx.fetch_column(
            """
        SELECT DISTINCT record FROM facts WHERE tenant = $1 AND project = $2
            AND book = ANY($3::int8[])
            AND record = ANY($5::text[]) AND evidence ->> 'session' = $4
        """,
            index_ids,
            session,
            records,
        )
    )


async def facts_of(tx: Tx, index_id: int) -> list[Fact]:
    """Return every fact of an index, in any state, in the order of their entries."""
    return await tx.fetch_with(
        facts.fact_of,
        f"SELECT book, {facts.COLUMNS} FROM facts WHERE tenant = $1 AND project = $2 AND book ="
        " $3 ORDER BY entry",
        index_id,
    )


async def drop_facts(tx: Tx, index_id: int, entries: Sequence[int]) -> None:
    """Delete the rows of facts, and nothing of what finds them."""
    if entries:
        await tx.execute(
            "DELETE FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND entry ="
            " ANY($4::int4[])",
            index_id,
            entries,
        )


async def forgotten(tx: Tx, index_id: int) -> set[int]:
    """Return the facts of an index, by entry, that are never to be shown again."""
    return set(
        await tx.fetch_column(
            "SELECT entry FROM facts WHERE tenant = $1 AND project = $2 AND book = $3"
            " AND forgotten",
            index_id,
        )
    )


async def set_forgotten(tx: Tx, index_id: int, states: Mapping[int, bool]) -> None:
    """Set whether facts are never to be shown again."""
    if states:
        await tx.execute(
            """
            UPDATE facts AS f SET forgotten = w.forgotten
                FROM unnest($4::int4[], $5::bool[]) AS w (entry, forgotten)
            WHERE f.tenant = $1 AND f.project = $2 AND f.book = $3 AND f.entry = w.entry
            """,
            index_id,
            list(states),
            states.values(),
        )
