"""History of facts, past ones included: listed, found and forgotten."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.facts import Fact, Tier
from memsvc.store.database import Tx
from memsvc.store.facts import COLUMNS, fact_of


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a fact in a listing, newest first, after which the next page begins."""

    valid_from: datetime
    book: int
    entry: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filter of a listing of facts: by tier, by whether they hold at `now`, and by fact id.

    None does not narrow; `holding` is True for facts that hold, False for those that no longer do.
    """

    tier: Tier | None
    holding: bool | None
    now: datetime
    fact_id: str | None


async def listed(tx: Tx, books: Sequence[int], wanted: Wanted, *, behind: Place | None, most: int) -> list[Fact]:
    """Return the facts of these indexes, newest first, without forgotten ones.

    Only the conditions that are set stand in the statement: with optional ones no plan would use
    the order of the index.
    """
    given: list[object] = [list(books), most]

    def place(value: object) -> str:
        given.append(value)
        return f"${len(given) + 2}"

    conditions = []
    if wanted.tier is not None:
        conditions.append(f"tier = {place(wanted.tier)}")
    if wanted.holding is not None:
        holds = f"(state = 'active' AND (expires_at IS NULL OR expires_at > {place(wanted.now)}))"
        conditions.append(holds if wanted.holding else f"NOT {holds}")
    if wanted.fact_id is not None:
        conditions.append(f"fact_id = {place(wanted.fact_id)}")
    if behind is not None:
        moment = place(behind.valid_from)
        conditions += [
            f"valid_from <= {moment}",
            f"(valid_from, book, entry) < ({moment}, {place(behind.book)}::int8, {place(behind.entry)}::int4)",
        ]
    rows = await tx.fetch(
        f"""
        SELECT f.* FROM unnest($3::int8[]) AS shelf (book) CROSS JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts
            WHERE {" AND ".join(["tenant = $1 AND project = $2 AND book = shelf.book AND NOT forgotten", *conditions])}
            ORDER BY valid_from DESC, entry DESC LIMIT $4
        ) AS f
        ORDER BY f.valid_from DESC, f.book DESC, f.entry DESC LIMIT $4
        """,
        *given,
    )
    return [fact_of(row) for row in rows]


async def named(
    tx: Tx, books: Sequence[int], *, names: Collection[str], session: str, turns: Collection[str]
) -> list[Fact]:
    """Return the facts, past ones included, that have these names or were learned in these turns.

    A name is a fact id or a record id; the turns are those of the session. Forgotten facts are left
    out.
    """
    rows = await tx.fetch(
        f"""
        SELECT book, {COLUMNS} FROM facts
        WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[]) AND NOT forgotten
          AND (fact_id = ANY($4::text[]) OR record = ANY($4::text[])
               OR (evidence ->> 'session' = $5 AND evidence ->> 'turn' = ANY($6::text[])))
        ORDER BY valid_from, book, entry
        """,
        list(books),
        list(names),
        session,
        list(turns),
    )
    return [fact_of(row) for row in rows]


async def deleted_since(tx: Tx, books: Sequence[int], since: datetime) -> list[Fact]:
    """Return the facts of these indexes that were retracted or forgotten since then."""
    rows = await tx.fetch(
        f"""
        SELECT book, {COLUMNS} FROM facts
        WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[]) AND state = 'deleted' AND valid_to >= $4
        """,
        list(books),
        since,
    )
    return [fact_of(row) for row in rows]


async def forget(tx: Tx, forgotten: Sequence[Fact]) -> None:
    """Hide these facts, which are deleted already, for good, whatever time is requested."""
    await tx.execute(
        """
        UPDATE facts AS f SET forgotten = true FROM unnest($3::int8[], $4::int4[]) AS one (book, entry)
        WHERE f.tenant = $1 AND f.project = $2 AND f.book = one.book AND f.entry = one.entry
        """,
        [fact.book for fact in forgotten],
        [fact.entry for fact in forgotten],
    )
