"""Words that were forgotten and can still be taken back, apart from all that is read.

A row for each forget and session. No reader of memory sees it, and no archive holds it."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from datetime import datetime
from typing import Any, Final

import orjson

from memsvc.core.facts import Fact
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.store.database import Tx
from memsvc.store.facts import COLUMNS, fact_of

_OF_USER: Final = "tenant = $1 AND project = $2 AND session = $3 AND user_id = $4"
_ENTRIES: Final = "unnest($3::int8[], $4::int4[]) AS at (book, entry)"


@frozen
class Undo:
    """What brings back the words that were forgotten in one session.

    `lines` are the file lines as they were, by a hash of what is left of each; `paths` are the
    files of facts that hold some of them. `facts` and `guards` are rows as they were, and
    `fact_words` a hash of what is left of the words of each fact, in the same order. `turns` are
    the turns that were forgotten as a whole."""

    lines: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    facts: list[JsonObject] = field(default_factory=list)
    fact_words: list[str] = field(default_factory=list)
    guards: list[JsonObject] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)


async def save(
    tx: Tx, forget: str, user: str, undo: Mapping[str, Undo], *, now: datetime, until: datetime
) -> None:
    """Store what brings back the words of a forget, by session."""
    await tx.execute_each(
        """
        INSERT INTO forgets (tenant, project, session, forget, user_id, forgotten_at, until, undo)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        """,
        [
            (session, forget, user, now, until, zlib.compress(orjson.dumps(asdict(one))))
            for session, one in sorted(undo.items())
        ],
    )


async def find(tx: Tx, forget: str, user: str, now: datetime) -> dict[str, Undo]:
    """Return what undoes a forget of this user, by session; {} once it can no longer be undone."""
    if not forget.isalnum():
        return {}
    rows = await tx.fetch_pairs(
        """
        SELECT session, undo FROM forgets
        WHERE tenant = $1 AND project = $2 AND forget = $3 AND user_id = $4 AND until > $5
        """,
        forget,
        user,
        now,
    )
    return {
        session: Undo(**orjson.loads(zlib.decompress(undo)))
        for session, undo in sorted(rows.items())
    }


async def remove(tx: Tx, forget: str) -> None:
    """Delete what brings back the words of a forget."""
    await tx.execute(
        "DELETE FROM forgets WHERE tenant = $1 AND project = $2 AND forget = $3", forget
    )


async def count_of(tx: Tx, session: str, user: str) -> int:
    """Return how many forgets of a user there are in a session."""
    return await tx.fetch_int(f"SELECT count(*) FROM forgets WHERE {_OF_USER}", session, user)


async def remove_of(tx: Tx, session: str, user: str) -> int:
    """Delete what brings back the words of a user's forgets in a session; return how many."""
    return await tx.execute(f"DELETE FROM forgets WHERE {_OF_USER}", session, user)


async def guard_rows(tx: Tx, session: str, turns: Sequence[str]) -> list[JsonObject]:
    """Return turn, fingerprint (hexadecimal) and result of the guards of turns."""
    return await tx.fetch_with(
        dict,
        """
        SELECT turn, encode(fingerprint, 'hex') AS fingerprint, result FROM guards
        WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = ANY($4::text[]) AND done
        """,
        session,
        turns,
    )


async def restore_guards(tx: Tx, session: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Give guards that accept any content the fingerprint and the result that they had."""
    await tx.execute_each(
        """
        UPDATE guards SET fingerprint = $5, result = $6
        WHERE tenant = $1 AND project = $2 AND session = $3 AND turn = $4 AND done
            AND fingerprint = ''
        """,
        [(session, row["turn"], bytes.fromhex(row["fingerprint"]), row["result"]) for row in rows],
    )


async def fact_rows(tx: Tx, facts: Sequence[Fact]) -> list[JsonObject]:
    """Return the rows of facts as JSON, as they are stored."""
    return await tx.fetch_column(
        f"""
        SELECT to_jsonb(f) - 'tenant' FROM {_ENTRIES} CROSS JOIN LATERAL (
            SELECT * FROM facts WHERE tenant = $1 AND project = $2 AND book = at.book
                AND entry = at.entry OFFSET 0) AS f
        """,
        [fact.index_id for fact in facts],
        [fact.entry for fact in facts],
    )


async def facts_of_rows(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """Return the facts in such rows."""
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT book, {COLUMNS} FROM jsonb_populate_recordset(NULL::facts, $3)
        WHERE project = $2 AND $1::bytea IS NOT NULL
        """,
        list(rows),
    )
