"""Recall trace: results and reasons of each before_turn, as references and scores.

It is written after the answer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from memsvc.core.scope import Scope
from memsvc.store.database import Tx
from memsvc.store.recall_content import EntryPlace

REMOVED_FIELDS: Final = {"ref": "", "session": "", "reason": "purged"}
"""Fields of a candidate in a trace that was purged since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRecord:
    """Trace of one recall.

    `told` says of each candidate what it is and why it was displayed or not, and nothing of its
    content; `recall` makes a repeated insert harmless. `tokens` are those of the whole input.
    """

    scope: Scope
    at: datetime
    recall: UUID
    session: str
    turn: str
    user_id: str
    tokens: int
    details: dict[str, Any]


class RecallPosition(NamedTuple):
    """End of a page: the next one has what was recalled before it."""

    recalled_at: datetime
    recall: UUID


@dataclass(frozen=True, slots=True)
class PlaceContent:
    """Present content of a place.

    What follows `said_at` is of a fact: `fact_id` is what it is a fact about, `session` and `turn`
    where it was said.
    """

    ref: str
    text: str
    role: str
    speaker: str
    said_at: datetime
    key: str | None
    tier: str | None
    state: str | None
    fact_id: str | None
    session: str | None
    turn: str | None


async def insert(tx: Tx, records: Sequence[RecallRecord]) -> int:
    """Insert records, all of the transaction's scope; return how many were new."""
    return await tx.execute(
        """
        INSERT INTO recalls (tenant, project, session, recalled_at, recall, turn, user_id, tokens,
            told)
        SELECT $1, $2, r.* FROM unnest($3::text[], $4::timestamptz[], $5::uuid[], $6::text[],
            $7::text[], $8::int4[],
                                       $9::jsonb[]) AS r
        ON CONFLICT DO NOTHING RETURNING 1
        """,
        [record.session for record in records],
        [record.at for record in records],
        [record.recall for record in records],
        [record.turn for record in records],
        [record.user_id for record in records],
        [record.tokens for record in records],
        [record.details for record in records],
    )


async def page(
    tx: Tx, session: str, turn: str, before: RecallPosition | None, *, limit: int
) -> list[RecallRecord]:
    """Return the recalls of a session, or one turn of it, the latest first."""
    rows = await tx.fetch(
        """
        SELECT recalled_at, recall, turn, user_id, tokens, told FROM recalls
        WHERE tenant = $1 AND project = $2 AND session = $3 AND ($4 = '' OR turn = $4)
            AND ($5::timestamptz IS NULL OR (recalled_at, recall) < ($5, $6::uuid))
        ORDER BY recalled_at DESC, recall DESC LIMIT $7
        """,
        session,
        turn,
        before.recalled_at if before else None,
        before.recall if before else None,
        limit,
    )
    return [
        RecallRecord(
            scope=tx.scope,
            at=row["recalled_at"],
            recall=row["recall"],
            session=session,
            turn=row["turn"],
            user_id=row["user_id"],
            tokens=row["tokens"],
            details=row["told"],
        )
        for row in rows
    ]


async def read_places(
    tx: Tx, places: Sequence[EntryPlace], *, chars_max: int
) -> Mapping[EntryPlace, PlaceContent]:
    """Return the content of these places, cut to `chars_max` characters; nothing forgotten."""
    rows = await tx.fetch(
        """
        SELECT e.book, e.entry, e.ref, left(coalesce(f.value, i.summary, e.text), $5) AS text,
            e.role, e.speaker,
               e.said_at, f.key, f.tier, f.state, f.fact_id, f.evidence ->> 'session' AS session,
               f.evidence ->> 'turn' AS turn
        FROM unnest($3::int8[], $4::int4[]) AS p (book, entry)
        JOIN entries AS e ON e.tenant = $1 AND e.project = $2 AND e.book = p.book
            AND e.entry = p.entry
        LEFT JOIN facts AS f ON f.tenant = $1 AND f.project = $2 AND f.book = p.book
            AND f.entry = p.entry
        LEFT JOIN insights AS i ON i.tenant = $1 AND i.project = $2 AND i.book = p.book
            AND i.entry = p.entry
        WHERE CASE WHEN f.entry IS NULL THEN e.length >= 0 ELSE NOT f.forgotten END
        """,
        [place.index_id for place in places],
        [place.entry for place in places],
        chars_max,
    )
    return {
        EntryPlace(row["book"], row["entry"]): PlaceContent(
            **{name: value for name, value in row.items() if name not in ("book", "entry")}
        )
        for row in rows
    }


async def remove_candidates(tx: Tx, sessions: Collection[str], path: str, *, limit: int) -> int:
    """Remove candidates of these sessions, or of files at and below a path, from traces.

    Their places, references and sessions go, from up to `limit` traces; return how many traces had
    one.
    """
    prefixes = (f"{path}:", f"{path}/") if path else ()
    rows = await tx.fetch(
        """
        SELECT session, recalled_at, recall, told FROM recalls AS r WHERE tenant = $1
            AND project = $2
            AND EXISTS (SELECT FROM jsonb_array_elements(r.told -> 'candidates') AS one (told)
                        WHERE one.told ->> 'session' IN (SELECT unnest($3::text[]))
                            OR EXISTS (SELECT FROM unnest($4::text[]) AS path (start)
                                       WHERE starts_with(one.told ->> 'ref', path.start)))
        ORDER BY session, recalled_at, recall LIMIT $5 FOR UPDATE
        """,
        list(sessions),
        list(prefixes),
        limit,
    )

    def without(candidate: dict[str, Any]) -> dict[str, Any]:
        if candidate.get("session") not in sessions and not (candidate["ref"] or "").startswith(
            prefixes or "\0"
        ):
            return candidate
        return {name: candidate[name] for name in candidate if name != "place"} | REMOVED_FIELDS

    await tx.execute(
        """
        UPDATE recalls AS r SET told = c.told
        FROM unnest($3::text[], $4::timestamptz[], $5::uuid[], $6::jsonb[]) AS c (session,
            recalled_at, recall, told)
        WHERE r.tenant = $1 AND r.project = $2 AND r.session = c.session
            AND r.recalled_at = c.recalled_at
            AND r.recall = c.recall
        """,
        *([row[name] for row in rows] for name in ("session", "recalled_at", "recall")),
        [
            row["told"] | {"candidates": [without(one) for one in row["told"]["candidates"]]}
            for row in rows
        ],
    )
    return len(rows)


async def forget_before(tx: Tx, timestamp: datetime, *, limit: int) -> int:
    """Delete up to `limit` records from before this time; return how many."""
    return await tx.execute(
        """
        DELETE FROM recalls AS r USING (
            SELECT session, recalled_at, recall FROM recalls WHERE tenant = $1 AND project = $2
                AND recalled_at < $3
            ORDER BY recalled_at LIMIT $4) AS old
        WHERE r.tenant = $1 AND r.project = $2 AND r.session = old.session
            AND r.recalled_at = old.recalled_at
            AND r.recall = old.recall
        """,
        timestamp,
        limit,
    )
