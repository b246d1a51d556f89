"""Facts and what became of them; each is an entry of its book in the index too, findable while it holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.facts import Evidence, Fact, Identity, Merge, State, Statement, Tier
from memsvc.store import index
from memsvc.store.database import Row, Tx

_COLUMNS = """entry, record, fact_id, key, slot, value, cues, tier, confidence, state, valid_from, valid_to, expires_at,
              superseded_by, evidence"""


def _fact(row: Row) -> Fact:
    statement = Statement(
        record=row["record"],
        fact_id=row["fact_id"],
        key=row["key"],
        slot=row["slot"],
        value=row["value"],
        tier=Tier(row["tier"]),
        confidence=row["confidence"],
        cues=row["cues"],
        evidence=Evidence(**row["evidence"]),
    )
    return Fact(
        row["entry"],
        statement,
        State(row["state"]),
        row["valid_from"],
        row["valid_to"],
        row["expires_at"],
        row["superseded_by"],
    )


async def active(tx: Tx, book: int, identities: Sequence[Identity]) -> dict[Identity, Fact]:
    """The active facts of these identities."""
    rows = await tx.fetch(
        f"""
        SELECT {_COLUMNS} FROM facts
        WHERE tenant = $1 AND project = $2 AND book = $3 AND state = 'active'
          AND (fact_id, key, slot) IN (SELECT * FROM unnest($4::text[], $5::text[], $6::text[]))
        """,
        book,
        [identity[0] for identity in identities],
        [identity[1] for identity in identities],
        [identity[2] for identity in identities],
    )
    return {fact.statement.identity: fact for fact in map(_fact, rows)}


@dataclass(frozen=True, slots=True)
class Dated:
    """A statement with its last day."""

    statement: Statement
    expires_at: datetime | None


def entries(dated: Sequence[Dated], now: datetime) -> list[index.NewEntry]:
    """What makes facts findable, in their order."""
    return [
        index.NewEntry(
            ref=one.statement.record,
            text=_text(one.statement),
            cues=one.statement.cues,
            said_at=now,
            role="fact",
        )
        for one in dated
    ]


async def apply(tx: Tx, book: int, first: int, merge: Merge, dated: Sequence[Dated], now: datetime) -> None:
    """Write a merge into a book: what is replaced stops holding and being found, what is kept begins to hold as the
    entries from `first` on."""
    closed = [(fact.entry, by) for fact, by in merge.replaced]
    await tx.execute(
        f"""
        WITH closed AS (
            UPDATE facts SET state = 'superseded', superseded_by = c.superseded_by, valid_to = $5
            FROM unnest($15::int4[], $16::text[]) AS c (entry, superseded_by)
            WHERE tenant = $1 AND project = $2 AND book = $3 AND facts.entry = c.entry RETURNING 1
        )
        INSERT INTO facts (tenant, project, book, {_COLUMNS})
        SELECT $1, $2, $3, $4 + f.number - 1, f.record, f.fact_id, f.key, f.slot, f.value, f.cues, f.tier, f.confidence,
               'active', $5, NULL, f.expires_at, NULL, f.evidence
        FROM (SELECT count(*) FROM closed) AS first_of_all CROSS JOIN unnest(
            $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $17::text[], $11::text[], $12::float4[],
            $13::timestamptz[], $14::jsonb[]) WITH ORDINALITY
            AS f (record, fact_id, key, slot, value, cues, tier, confidence, expires_at, evidence, number)
        """,
        book,
        first,
        now,
        [one.statement.record for one in dated],
        [one.statement.fact_id for one in dated],
        [one.statement.key for one in dated],
        [one.statement.slot for one in dated],
        [one.statement.value for one in dated],
        [one.statement.tier.value for one in dated],
        [one.statement.confidence for one in dated],
        [one.expires_at for one in dated],
        [_evidence(one.statement) for one in dated],
        [entry for entry, _ in closed],
        [by for _, by in closed],
        [one.statement.cues for one in dated],
    )
    await index.hide(tx, book, _indexed(fact for fact, _ in merge.replaced))


async def sweep(tx: Tx, book: int, now: datetime, *, most: int) -> list[Fact]:
    """Remove the facts of a book that are past their day, at most so many; the facts that are gone."""
    rows = await tx.fetch(
        f"""
        DELETE FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND entry IN (
            SELECT entry FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND expires_at <= $4
            ORDER BY expires_at LIMIT $5)
        RETURNING {_COLUMNS}
        """,
        book,
        now,
        most,
    )
    swept = [_fact(row) for row in rows]
    await index.remove(tx, book, _indexed(swept))
    return swept


async def expired_books(tx: Tx, session: str, now: datetime) -> list[str]:
    """The names of the books in which facts are past their day that were learnt in this session."""
    rows = await tx.fetch(
        """
        SELECT DISTINCT b.name FROM facts AS f
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = f.book
        WHERE f.tenant = $1 AND f.project = $2 AND f.expires_at <= $4 AND f.evidence ->> 'session' = $3
        """,
        session,
        now,
    )
    return [row["name"] for row in rows]


async def by_entries(
    tx: Tx, places: Sequence[tuple[int, int]], books: Sequence[int], now: datetime
) -> dict[tuple[int, int], Fact]:
    """The facts at these (book, entry) places that hold now, but for those that a newer fact of the same identity in
    any of the `books` has made stale; of the same moment, the later book counts as newer."""
    rows = await tx.fetch(
        f"""
        SELECT book, {_COLUMNS} FROM facts AS f
        WHERE tenant = $1 AND project = $2 AND (book, entry) IN (SELECT * FROM unnest($3::int8[], $4::int4[]))
          AND state = 'active' AND (expires_at IS NULL OR expires_at > $5)
          AND NOT EXISTS (
            SELECT FROM facts AS n WHERE n.tenant = $1 AND n.project = $2 AND n.book = ANY($6::int8[])
            AND n.fact_id = f.fact_id AND n.key = f.key AND n.slot = f.slot AND n.state = 'active'
            AND (n.expires_at IS NULL OR n.expires_at > $5)
            AND (n.valid_from, array_position($6, n.book)) > (f.valid_from, array_position($6, f.book)))
        """,
        [book for book, _ in places],
        [entry for _, entry in places],
        now,
        list(books),
    )
    return {(row["book"], row["entry"]): _fact(row) for row in rows}


async def holding(tx: Tx, books: Sequence[int], now: datetime) -> list[Fact]:
    """Every fact of these books that holds now, oldest first; of the same moment, in the order of the books."""
    rows = await tx.fetch(
        f"""
        SELECT {_COLUMNS} FROM facts WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[])
          AND state = 'active' AND (expires_at IS NULL OR expires_at > $4)
        ORDER BY valid_from, array_position($3, book), entry
        """,
        list(books),
        now,
    )
    return [_fact(row) for row in rows]


def _text(statement: Statement) -> str:
    return f"{statement.key.replace('_', ' ')}: {statement.value}"


def _indexed(closed: Iterable[Fact]) -> dict[int, str]:
    return {fact.entry: f"{_text(fact.statement)}\n{fact.statement.cues}" for fact in closed}


def _evidence(statement: Statement) -> dict[str, str]:
    evidence = statement.evidence
    return {"session": evidence.session, "turn": evidence.turn, "item": evidence.item, "user": evidence.user}
