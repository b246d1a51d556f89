"""What became of facts, past ones included: to look it up, and to have it forgotten."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from memsvc.core.facts import Fact, Tier
from memsvc.store.database import Tx
from memsvc.store.facts import COLUMNS, fact_of

NOWHERE = -(2**63)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fact stands in a listing, newest first: a page begins behind the place where the one before it ended."""

    valid_from: datetime
    book: int
    entry: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which facts a listing shows: of a tier, or any; those that hold at `now`, those that no longer do, or all; the
    values of one fact, or of any."""

    tier: Tier | None
    holding: bool | None
    now: datetime
    fact_id: str | None


async def listed(tx: Tx, books: Sequence[int], wanted: Wanted, *, behind: Place | None, most: int) -> list[Fact]:
    """The facts of these books, newest first, but for those that were forgotten."""
    rows = await tx.fetch(
        f"""
        SELECT book, {COLUMNS} FROM facts
        WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[]) AND NOT forgotten
          AND ($4::text IS NULL OR tier = $4)
          AND ($5::bool IS NULL OR $5 = (state = 'active' AND (expires_at IS NULL OR expires_at > $6)))
          AND ($11::text IS NULL OR fact_id = $11)
          AND ($7::timestamptz IS NULL OR (valid_from, book, entry) < ($7, $8::int8, $9::int4))
        ORDER BY valid_from DESC, book DESC, entry DESC LIMIT $10
        """,
        list(books),
        wanted.tier,
        wanted.holding,
        wanted.now,
        behind.valid_from if behind else None,
        behind.book if behind else NOWHERE,
        behind.entry if behind else 0,
        most,
        wanted.fact_id,
    )
    return [fact_of(row) for row in rows]


async def named(
    tx: Tx, books: Sequence[int], *, names: Collection[str], session: str, turns: Collection[str]
) -> list[Fact]:
    """The facts of these books, past ones included, whose fact id or record id is among the names, or that were learnt
    in these turns of the session; those that were forgotten are not among them."""
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
    """The facts of these books that were taken back or forgotten since then."""
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
    """Show these facts to nobody again, whatever time is asked for; they were deleted already."""
    await tx.execute(
        """
        UPDATE facts SET forgotten = true WHERE tenant = $1 AND project = $2
          AND (book, entry) IN (SELECT * FROM unnest($3::int8[], $4::int4[]))
        """,
        [fact.book for fact in forgotten],
        [fact.entry for fact in forgotten],
    )
