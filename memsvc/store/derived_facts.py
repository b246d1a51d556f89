"""Facts as rows in any state: read, written whole and deleted, by index and entry."""

from collections.abc import Mapping, Sequence

from memsvc.core.facts import Fact, State
from memsvc.store import facts
from memsvc.store.database import Tx


async def recorded(tx: Tx, books: Sequence[int], session: str, records: Sequence[str]) -> set[str]:
    """Return which of these records of a session the indexes have as facts, in any state."""
    found = await tx.fetch(
        """
        SELECT DISTINCT record FROM facts WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[])
            AND record = ANY($5::text[]) AND evidence ->> 'session' = $4
        """,
        list(books),
        session,
        list(records),
    )
    return {one["record"] for one in found}


async def facts_of(tx: Tx, book: int) -> list[Fact]:
    """Return every fact of an index, in any state, in the order of their entries."""
    found = await tx.fetch(
        f"SELECT book, {facts.COLUMNS} FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 ORDER BY entry", book
    )
    return [facts.fact_of(one) for one in found]


async def put_facts(tx: Tx, wanted: Sequence[Fact]) -> None:
    """Store facts, by index and entry, with all their columns; those no longer active first."""
    if not wanted:
        return
    ordered = sorted(wanted, key=lambda fact: fact.state is State.ACTIVE)
    for some in (
        [one for one in ordered if one.state is not State.ACTIVE],
        [one for one in ordered if one.state is State.ACTIVE],
    ):
        await tx.execute(
            f"""
            INSERT INTO facts AS f (tenant, project, book, {facts.COLUMNS})
            SELECT $1, $2, w.* FROM unnest($3::int8[], $4::int4[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::text[], $10::text[], $11::text[], $12::float4[], $13::text[], $14::timestamptz[],
                $15::timestamptz[], $16::timestamptz[], $17::text[], $18::jsonb[]) AS w
            ON CONFLICT (tenant, project, book, entry) DO UPDATE SET record = EXCLUDED.record,
                fact_id = EXCLUDED.fact_id, key = EXCLUDED.key, slot = EXCLUDED.slot, value = EXCLUDED.value,
                cues = EXCLUDED.cues, tier = EXCLUDED.tier, confidence = EXCLUDED.confidence, state = EXCLUDED.state,
                valid_from = EXCLUDED.valid_from, valid_to = EXCLUDED.valid_to, expires_at = EXCLUDED.expires_at,
                superseded_by = EXCLUDED.superseded_by, evidence = EXCLUDED.evidence
            """,
            [one.book for one in some],
            [one.entry for one in some],
            [one.statement.record for one in some],
            [one.statement.fact_id for one in some],
            [one.statement.key for one in some],
            [one.statement.slot for one in some],
            [one.statement.value for one in some],
            [one.statement.cues for one in some],
            [one.statement.tier.value for one in some],
            [one.statement.confidence for one in some],
            [one.state.value for one in some],
            [one.valid_from for one in some],
            [one.valid_to for one in some],
            [one.expires_at for one in some],
            [one.superseded_by for one in some],
            [facts.evidence_of(one.statement) for one in some],
        )


async def drop_facts(tx: Tx, book: int, entries: Sequence[int]) -> None:
    """Delete the rows of facts, and nothing of what finds them."""
    if entries:
        await tx.execute(
            "DELETE FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = ANY($4::int4[])",
            book,
            list(entries),
        )


async def forgotten(tx: Tx, book: int) -> set[int]:
    """Return the facts of an index, by entry, that are never to be shown again."""
    found = await tx.fetch(
        "SELECT entry FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND forgotten", book
    )
    return {one["entry"] for one in found}


async def set_forgotten(tx: Tx, book: int, wanted: Mapping[int, bool]) -> None:
    """Set whether facts are never to be shown again."""
    if wanted:
        await tx.execute(
            """
            UPDATE facts AS f SET forgotten = w.forgotten FROM unnest($4::int4[], $5::bool[]) AS w (entry, forgotten)
            WHERE f.tenant = $1 AND f.project = $2 AND f.book = $3 AND f.entry = w.entry
            """,
            book,
            list(wanted),
            list(wanted.values()),
        )
