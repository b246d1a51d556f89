"""History of facts, past ones included: listed, found and forgotten."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.core.facts import Fact, FactTier, record_id
from memsvc.core.frozen import frozen
from memsvc.store.database import Tx
from memsvc.store.facts import COLUMNS, CORRECTED, fact_of


@frozen
class FactPosition:
    """Position of a fact in a listing, newest first, after which the next page begins."""

    valid_from: datetime
    index_id: int
    entry: int


@frozen
class FactHistoryFilter:
    """Filter of a listing of facts: by tier, by whether they hold at `now`, and by fact id.

    None does not narrow; `current` is True for facts that hold, False for those that no longer do.
    """

    tier: FactTier | None
    current: bool | None
    now: datetime
    fact_id: str | None


async def list_facts(
    tx: Tx,
    index_ids: Sequence[int],
    facts_filter: FactHistoryFilter,
    *,
    after: FactPosition | None,
    limit: int,
) -> list[Fact]:
    """Return the facts of these indexes, newest first, without forgotten ones.

    Only the conditions that are set stand in the statement: with optional ones no plan would use
    the order of the index.
    """
    args: list[object] = [list(index_ids), limit]

    def parameter(value: object) -> str:
        args.append(value)
        return f"${len(args) + 2}"

    clauses = []
    if facts_filter.tier is not None:
        clauses.append(f"tier = {parameter(facts_filter.tier)}")
    if facts_filter.current is not None:
        current_clause = (
            "(state = 'active' AND (expires_at IS NULL OR expires_at >"
            f" {parameter(facts_filter.now)}))"
        )
        clauses.append(current_clause if facts_filter.current else f"NOT {current_clause}")
    if facts_filter.fact_id is not None:
        clauses.append(f"fact_id = {parameter(facts_filter.fact_id)}")
    if after is not None:
        valid_from = parameter(after.valid_from)
        clauses += [
            f"valid_from <= {valid_from}",
            (
                f"(valid_from, book, entry) < ({valid_from}, {parameter(after.index_id)}::int8,"
                f" {parameter(after.entry)}::int4)"
            ),
        ]
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT f.* FROM unnest($3::int8[]) AS shelf (book) CROSS JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts
            WHERE tenant = $1 AND project = $2 AND book = shelf.book AND NOT forgotten
                {"".join(f" AND {clause}" for clause in clauses)}
            ORDER BY valid_from DESC, entry DESC LIMIT $4
        ) AS f
        ORDER BY f.valid_from DESC, f.book DESC, f.entry DESC LIMIT $4
        """,
        *args,
    )


async def find_by_names(
    tx: Tx,
    index_ids: Sequence[int],
    *,
    names: Collection[str],
    session: str,
    turns: Collection[str],
    forgotten: bool = False,
) -> list[Fact]:
    """Return the facts, past ones included, that have these names or were learned in these turns.

    A name is a fact id, a record id or a record; the turns are those of the session. Forgotten
    facts are left out, or with `forgotten` all others.
    """
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT book, {COLUMNS} FROM facts
        WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[]) AND forgotten = $7
          AND (fact_id = ANY($4::text[]) OR record = ANY($4::text[])
               OR left(md5((evidence ->> 'session') || chr(31) || record), 12) = ANY($4::text[])
               OR (evidence ->> 'session' = $5 AND evidence ->> 'turn' = ANY($6::text[])))
        ORDER BY valid_from, book, entry
        """,
        index_ids,
        list(names),
        session,
        list(turns),
        forgotten,
    )


async def with_replacements(tx: Tx, found: Sequence[Fact]) -> list[Fact]:
    """Return the facts, superseded ones with the record id of what replaced each.

    That holds from the moment in which the other ended; else it was said in the same session."""
    superseded = [fact for fact in found if fact.superseded_by]
    if not superseded:
        return list(found)
    rows = await tx.fetch(
        """
        SELECT book, record, valid_from, evidence ->> 'session' AS session FROM facts
        WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[])
            AND valid_from = ANY($4::timestamptz[]) AND record = ANY($5::text[]) AND NOT forgotten
        """,
        {fact.index_id for fact in superseded},
        {fact.valid_to for fact in superseded},
        {fact.superseded_by for fact in superseded},
    )
    sessions = {(row["book"], row["valid_from"], row["record"]): row["session"] for row in rows}

    def replacement(fact: Fact) -> str | None:
        if not fact.superseded_by:
            return None
        place = (fact.index_id, fact.valid_to, fact.superseded_by)
        session = sessions.get(place, fact.statement.evidence.session)
        return record_id(session, fact.superseded_by)

    return [replace(fact, superseded_by=replacement(fact)) for fact in found]


async def deleted_since(tx: Tx, index_ids: Sequence[int], since: datetime) -> list[Fact]:
    """Return the facts of these indexes that were retracted, forgotten or corrected since then."""
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT book, {COLUMNS} FROM facts
        WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[]) AND valid_to >= $4
            AND (state = 'deleted' OR {CORRECTED})
        """,
        index_ids,
        since,
    )


async def forgotten_with_words(tx: Tx, *, limit: int) -> list[Fact]:
    """Return some facts that were forgotten by a version that left their words."""
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT book, {COLUMNS} FROM facts WHERE tenant = $1 AND project = $2 AND forgotten
            AND (value <> '' OR statement <> '')
        ORDER BY book, entry LIMIT $3
        """,
        limit,
    )


async def forget(tx: Tx, forgotten: Sequence[Fact]) -> None:
    """Hide these facts, which are deleted already, for good, whatever time is requested."""
    await tx.execute(
        """
        UPDATE facts AS f SET forgotten = true FROM unnest($3::int8[], $4::int4[]) AS one (book,
            entry)
        WHERE f.tenant = $1 AND f.project = $2 AND f.book = one.book AND f.entry = one.entry
        """,
        [fact.index_id for fact in forgotten],
        [fact.entry for fact in forgotten],
    )


async def facts_from_turns(
    tx: Tx, index_ids: Sequence[int], session: str, turns: Sequence[str], since: datetime
) -> list[Fact]:
    """Return the facts in any state that rest on these turns, or on others found after `since`."""
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT book, {COLUMNS} FROM facts WHERE tenant = $1 AND project = $2
            AND book = ANY($3::int8[])
          AND evidence ->> 'session' = $4 AND (evidence ->> 'turn' = ANY($5::text[])
              OR valid_from > $6)
        ORDER BY valid_from, array_position($3, book), entry
        """,
        index_ids,
        session,
        turns,
        since,
    )
