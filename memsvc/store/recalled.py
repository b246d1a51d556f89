"""Content of a recall, read in one round trip: facts, insights and items of several indexes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from memsvc.core.facts import Fact
from memsvc.store import facts, insights
from memsvc.store.database import Tx
from memsvc.store.index import Text
from memsvc.store.insights import Insight


class Place(NamedTuple):
    """Entry by its index and number."""

    book: int
    entry: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Request of what to read.

    `fact_books` are those that the caller may be given facts of, in order: a newer fact in any of
    them makes an older one stale. With `every_fact` all facts of these indexes are read, not only
    those at the places.
    """

    facts: Sequence[Place]
    insights: Sequence[Place]
    items: Sequence[Place]
    fact_books: Sequence[int]
    every_fact: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """Existing part of the request: facts in no order, insights and items by their places."""

    facts: list[Fact]
    insights: dict[Place, Insight]
    items: dict[Place, Text]


async def read(tx: Tx, wanted: Wanted, *, now: datetime, as_of: datetime | None, chars_max: int) -> Recalled:
    """Return the current facts and insights, and the items with texts up to `chars_max`.

    With `as_of`, every fact of the indexes that held at that time, the latest BELIEVED_MOST.
    """
    which = facts.BELIEVED if as_of is not None else facts.CURRENT if wanted.every_fact else facts.CURRENT_AT
    row = await tx.fetchrow(
        _STATEMENTS[which],
        [place.book for place in wanted.facts],
        as_of or now,
        list(wanted.fact_books),
        [place.entry for place in wanted.facts],
        [place.book for place in wanted.insights],
        [place.entry for place in wanted.insights],
        [place.book for place in wanted.items],
        [place.entry for place in wanted.items],
        chars_max,
    )
    assert row is not None
    told = [Insight(**_dated(one, "made_at")) for one in row["insights"] or ()]
    columns = (row[name] or () for name in ("entry", "ref", "text", "role", "speaker", "said_at", "digest", "tokens"))
    items = map(Text, *columns)
    return Recalled(
        [facts.fact_of(_dated(one, "valid_from", "valid_to", "expires_at")) for one in row["facts"] or ()],
        {Place(one.book, one.entry): one for one in told if as_of is None or one.made_at <= as_of},
        {Place(book, one.entry): one for book, one in zip(row["book"] or (), items, strict=True)},
    )


def _dated(fields: dict[str, Any], *moments: str) -> dict[str, Any]:
    """Return a row that came as JSON, with its times parsed."""
    return fields | {name: datetime.fromisoformat(fields[name]) for name in moments if fields[name] is not None}


# Parameters are typed here for the variants that do not use them all.
_READ: Final = f"""
    WITH given AS (SELECT $3::int8[], $6::int4[], $4::timestamptz, $5::int8[])
    SELECT (SELECT jsonb_agg(to_jsonb(f)) FROM ({{facts}}) AS f) AS facts,
           (SELECT jsonb_agg(to_jsonb(i)) FROM ({insights.STANDING_AT}) AS i) AS insights, items.*
    FROM (
        SELECT array_agg(place.book) AS book, array_agg(one.entry) AS entry, array_agg(ref) AS ref,
               array_agg(text) AS text, array_agg(role) AS role, array_agg(speaker) AS speaker,
               array_agg(said_at) AS said_at, array_agg(digest) AS digest, array_agg(tokens) AS tokens
        FROM unnest($9::int8[], $10::int4[]) AS place (book, entry) CROSS JOIN LATERAL (
            SELECT entry, ref, left(text, $11) AS text, role, speaker, said_at, digest, tokens FROM entries
            WHERE tenant = $1 AND project = $2 AND book = place.book AND entry = place.entry OFFSET 0) AS one
    ) AS items
"""
_STATEMENTS: Final = {
    which: _READ.replace("{facts}", which) for which in (facts.CURRENT_AT, facts.CURRENT, facts.BELIEVED)
}
