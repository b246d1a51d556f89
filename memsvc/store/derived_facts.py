"""Facts as rows in any state: read, written whole and deleted, by index and entry."""

from collections.abc import Mapping, Sequence

from memsvc.core.facts import Fact, FactState
from memsvc.store import facts
from memsvc.store.database import Tx


async def existing_records(
    tx: Tx, index_ids: Sequence[int], session: str, records: Sequence[str]
) -> set[str]:
    """Return which of these records of a session the indexes have as facts, in any state."""
    found = await tx.fetch(
        """
        SELECT DISTINCT record FROM facts WHERE tenant = $1 AND project = $2
            AND book = ANY($3::int8[])
            AND record = ANY($5::text[]) AND evidence ->> 'session' = $4
        """,
        list(index_ids),
        session,
        list(records),
    )
    return {row["record"] for row in found}


async def facts_of(tx: Tx, index_id: int) -> list[Fact]:
    """Return every fact of an index, in any state, in the order of their entries."""
    found = await tx.fetch(
        f"SELECT book, {facts.COLUMNS} FROM facts WHERE tenant = $1 AND project = $2 AND book ="
        " $3 ORDER BY entry",
        index_id,
    )
    return [facts.fact_of(row) for row in found]


async def without_statement(tx: Tx, *, after: tuple[int, int], limit: int) -> list[Fact]:
    """Return the next active facts of rules without a statement, beyond an index and entry."""
    rows = await tx.fetch(
        f"""
        SELECT book, {facts.COLUMNS} FROM facts
        WHERE tenant = $1 AND project = $2 AND (book, entry) > ($3::int8, $4::int4)
            AND state = 'active' AND statement = ''
            AND coalesce(evidence ->> 'origin', 'rule') = 'rule'
        ORDER BY book, entry LIMIT $5
        """,
        *after,
        limit,
    )
    return [facts.fact_of(row) for row in rows]


async def put_facts(tx: Tx, expected: Sequence[Fact]) -> None:
    """Store facts, by index and entry, with all their columns; those no longer active first."""
    if not expected:
        return
    ordered = sorted(expected, key=lambda fact: fact.state is FactState.ACTIVE)
    for group in (
        [item for item in ordered if item.state is not FactState.ACTIVE],
        [item for item in ordered if item.state is FactState.ACTIVE],
    ):
        await tx.execute(
            f"""
            INSERT INTO facts AS f (tenant, project, book, {facts.COLUMNS})
            SELECT $1, $2, w.* FROM unnest($3::int8[], $4::int4[], $5::text[], $6::text[],
                $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::float4[],
                $13::text[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[],
                $17::text[], $18::jsonb[], $19::text[], $20::jsonb[]) AS w
            ON CONFLICT (tenant, project, book, entry) DO UPDATE SET record = EXCLUDED.record,
                fact_id = EXCLUDED.fact_id, key = EXCLUDED.key, slot = EXCLUDED.slot,
                    value = EXCLUDED.value,
                cues = EXCLUDED.cues, tier = EXCLUDED.tier, confidence = EXCLUDED.confidence,
                    state = EXCLUDED.state,
                valid_from = EXCLUDED.valid_from, valid_to = EXCLUDED.valid_to,
                    expires_at = EXCLUDED.expires_at,
                superseded_by = EXCLUDED.superseded_by, evidence = EXCLUDED.evidence,
                statement = EXCLUDED.statement, doubt = EXCLUDED.doubt
            """,
            [item.index_id for item in group],
            [item.entry for item in group],
            [item.statement.record for item in group],
            [item.statement.fact_id for item in group],
            [item.statement.key for item in group],
            [item.statement.slot for item in group],
            [item.statement.value for item in group],
            [item.statement.keywords for item in group],
            [item.statement.tier.value for item in group],
            [item.statement.confidence for item in group],
            [item.state.value for item in group],
            [item.valid_from for item in group],
            [item.valid_to for item in group],
            [item.expires_at for item in group],
            [item.superseded_by for item in group],
            [facts.evidence_of(item.statement) for item in group],
            [item.statement.statement for item in group],
            [facts.doubt_fields_of(item.doubt) for item in group],
        )


async def drop_facts(tx: Tx, index_id: int, entries: Sequence[int]) -> None:
    """Delete the rows of facts, and nothing of what finds them."""
    if entries:
        await tx.execute(
            "DELETE FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND entry ="
            " ANY($4::int4[])",
            index_id,
            list(entries),
        )


async def forgotten(tx: Tx, index_id: int) -> set[int]:
    """Return the facts of an index, by entry, that are never to be shown again."""
    found = await tx.fetch(
        "SELECT entry FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND forgotten",
        index_id,
    )
    return {row["entry"] for row in found}


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
            list(states.values()),
        )
