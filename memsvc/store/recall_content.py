"""Content of a recall, read in one round trip: facts, insights and items of several indexes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from memsvc.core.facts import PROFILE_FACT_IDS, Fact, FactState
from memsvc.store import facts, insights
from memsvc.store.database import Tx
from memsvc.store.index import Text
from memsvc.store.insights import Insight

LATEST_ITEMS: Final = 48
"""Latest items of a session among which the user's are looked for."""


class EntryPlace(NamedTuple):
    """Entry by its index and number."""

    index_id: int
    entry: int


@dataclass(frozen=True, slots=True)
class RecalledFilter:
    """Request of what to read.

    `fact_index_ids` are those that the caller may be given facts of, in order: a newer fact in any
    of them makes an older one stale. With `all_facts` all facts of these indexes are read, not only
    those at the places; with `profile_of` also those of a profile, and how the session is told it.
    With `facts_max` the latest of all facts alone; with `latest_of` also the user's latest messages
    of these indexes.
    """

    facts: Sequence[EntryPlace]
    insights: Sequence[EntryPlace]
    items: Sequence[EntryPlace]
    fact_index_ids: Sequence[int]
    all_facts: bool = False
    profile_of: str | None = None
    facts_max: int | None = None
    latest_of: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class SessionUser:
    """Who spoke in a session: its last user, whether others did; and the classes of its policy."""

    user_id: str
    shared: bool
    classes: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class OutdatedFact:
    """A fact that was learned from an item, and ended or is in doubt; `newer` is its value now."""

    session: str
    state: str
    doubt: str | None
    valid_to: str | None
    value: str
    newer: str | None

    @property
    def superseded_by(self) -> str:
        """Return what is to be told instead: the newer value, the doubt, or when it ended."""
        if self.state == FactState.DELETED:
            return f"taken back on {(self.valid_to or '')[:10]}"
        return self.doubt or self.newer or ""


@dataclass(frozen=True, slots=True)
class RecallContent:
    """Existing part of the request: facts in no order, insights and items by their places."""

    facts: list[Fact]
    insights: dict[EntryPlace, Insight]
    items: dict[EntryPlace, Text]
    session: SessionUser | None = None
    outdated: Mapping[EntryPlace, Sequence[OutdatedFact]] = field(default_factory=dict)


async def read(
    tx: Tx, request: RecalledFilter, *, now: datetime, as_of: datetime | None, chars_max: int
) -> RecallContent:
    """Return the current facts and insights, and the items with texts up to `chars_max`.

    With `as_of`, every fact of the indexes that held at that time, the latest BELIEVED_MOST.
    """
    query = (
        facts.VALID_AT
        if as_of is not None
        else facts.CURRENT
        if request.all_facts
        else facts.CURRENT_AT
    )
    row = await tx.fetchrow(
        _STATEMENTS[query],
        [place.index_id for place in request.facts],
        as_of or now,
        list(request.fact_index_ids),
        [place.entry for place in request.facts],
        [place.index_id for place in request.insights],
        [place.entry for place in request.insights],
        [place.index_id for place in request.items],
        [place.entry for place in request.items],
        chars_max,
        list(PROFILE_FACT_IDS) if request.profile_of is not None else [],
        request.profile_of,
        request.facts_max,
        list(request.latest_of),
    )
    assert row is not None
    insight_rows = [Insight(**_parse_times(item, "made_at")) for item in row["insights"] or ()]
    columns = (
        row[name] or ()
        for name in ("entry", "ref", "text", "role", "speaker", "said_at", "digest", "tokens")
    )
    items = map(Text, *columns)
    return RecallContent(
        [
            facts.fact_of(_parse_times(item, "valid_from", "valid_to", "expires_at"))
            for item in row["facts"] or ()
        ],
        {
            EntryPlace(item.index_id, item.entry): item
            for item in insight_rows
            if as_of is None or item.made_at <= as_of
        },
        {
            EntryPlace(index_id, item.entry): item
            for index_id, item in zip(row["book"] or (), items, strict=True)
        },
        SessionUser(**row["session"]) if row["session"] else None,
        _outdated(row["outdated"] or () if as_of is None else ()),
    )


def _outdated(rows: Iterable[dict[str, Any]]) -> dict[EntryPlace, list[OutdatedFact]]:
    found: dict[EntryPlace, list[OutdatedFact]] = {}
    for row in rows:
        place = EntryPlace(row.pop("book"), row.pop("entry"))
        found.setdefault(place, []).append(OutdatedFact(**row))
    return found


def _parse_times(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a row that came as JSON, with its times parsed."""
    return fields | {
        name: datetime.fromisoformat(fields[name]) for name in names if fields[name] is not None
    }


# Parameters are typed here for the variants that do not use them all.
_READ: Final = f"""
    WITH given AS (SELECT $3::int8[], $6::int4[], $4::timestamptz, $5::int8[], $14::int4)
    SELECT (SELECT jsonb_agg(to_jsonb(f)) FROM (({{facts}}) UNION ({{profile}})) AS f) AS facts,
           (SELECT jsonb_agg(to_jsonb(i)) FROM ({insights.VALID_AT}) AS i) AS insights,
           (SELECT to_jsonb(s) FROM (
                SELECT user_id, shared, policy -> 'profile' -> 'classes' AS classes FROM sessions
                WHERE tenant = $1 AND project = $2 AND session = $13) AS s) AS session,
           (SELECT jsonb_agg(to_jsonb(o)) FROM ({facts.OUTDATED}) AS o) AS outdated, items.*
    FROM (
        SELECT array_agg(place.book) AS book, array_agg(one.entry) AS entry, array_agg(ref) AS ref,
               array_agg(text) AS text, array_agg(role) AS role, array_agg(speaker) AS speaker,
               array_agg(said_at) AS said_at, array_agg(digest) AS digest,
                   array_agg(tokens) AS tokens
        FROM (
            SELECT * FROM unnest($9::int8[], $10::int4[])
            UNION SELECT latest.book, latest.entry
            FROM unnest($15::int8[]) AS shelf (book) CROSS JOIN LATERAL (
                SELECT book, entry, role FROM entries WHERE tenant = $1 AND project = $2
                    AND book = shelf.book AND length >= 0
                ORDER BY entry DESC LIMIT {LATEST_ITEMS}) AS latest WHERE latest.role = 'user'
        ) AS place (book, entry) CROSS JOIN LATERAL (
            SELECT entry, ref, left(text, $11) AS text, role, speaker, said_at, digest, tokens
                FROM entries
            WHERE tenant = $1 AND project = $2 AND book = place.book
                AND entry = place.entry OFFSET 0) AS one
    ) AS items
"""
_STATEMENTS: Final = {
    query: _READ.replace("{facts}", query).replace("{profile}", of_profile)
    for query, of_profile in (
        (facts.CURRENT_AT, facts.CURRENT_PROFILE),
        (facts.CURRENT, facts.CURRENT_PROFILE),
        (facts.VALID_AT, facts.PROFILE_AT),
    )
}
