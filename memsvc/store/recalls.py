"""Content of a recall, read in one round trip, and its trace: results and reasons, no texts.

The trace is written after the answer.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from memsvc.core.facts import PROFILE_FACT_IDS, Fact, FactState
from memsvc.core.frozen import frozen
from memsvc.core.ranking import Candidate, EntryPlace
from memsvc.core.scope import Scope
from memsvc.core.timestamp import with_offset
from memsvc.store import facts, insights
from memsvc.store.database import Row, Tx, columns_of
from memsvc.store.insights import Insight

REMOVED_FIELDS: Final = {"ref": "", "session": "", "reason": "purged"}
"""Fields of a candidate in a trace that was purged since."""


@frozen
class RecalledFilter:
    """Request of what to read: facts and insights by their places, and the items.

    `fact_index_ids` are those that the caller may be given facts of, in order: a newer fact in any
    of them makes an older one stale. With `all_facts` all facts of these indexes are read, not only
    those at the places; with `profile` also those of a profile. Where others than the `user` speak
    in the `session`, private facts are not read, and sentences of other sessions neither."""

    facts: Sequence[EntryPlace]
    insights: Sequence[EntryPlace]
    items: Sequence[Candidate]
    fact_index_ids: Sequence[int]
    session: str | None
    user: str
    all_facts: bool = False
    profile: bool = False


@frozen
class Audience:
    """Whether other users speak in the session, and the profile classes of its policy."""

    is_shared: bool = False
    classes: Sequence[str] | None = None


@frozen
class OutdatedFact:
    """A fact that an item says, and that ended or is in doubt; `newer` is its value now.

    It was learned from the item (`is_source`), or the item repeats its value."""

    session: str
    state: str
    doubt: str | None
    doubted_at: str | None
    valid_to: str | None
    value: str
    statement: str
    is_source: bool
    newer: str | None

    @property
    def superseded_by(self) -> str:
        """Return what is to be told instead: the newer value, the doubt, or when it ended."""
        if self.valid_to is None:
            return self.doubt or ""
        if self.state == FactState.DELETED:
            return f"withdrawn on {self.ended_on}"
        return self.newer or self.doubt or f"ended on {self.ended_on}"

    @property
    def ended_on(self) -> str:
        """Return the day on which it ended, or came in doubt."""
        return (self.valid_to or self.doubted_at or "")[:10]


@frozen
class RecallContent:
    """Existing part of the request: facts in no order, insights and items by their places."""

    facts: list[Fact]
    insights: dict[EntryPlace, Insight]
    items: dict[EntryPlace, Candidate]
    audience: Audience = Audience()
    outdated: Mapping[EntryPlace, Sequence[OutdatedFact]] = field(default_factory=dict)


async def read(
    tx: Tx, request: RecalledFilter, *, now: datetime, as_of: datetime | None, chars_max: int
) -> RecallContent:
    """Return the current facts and insights; read the items, with texts up to `chars_max`.

    With `as_of`, every fact of the indexes that held at that time, without later doubts.
    """
    query, of_profile = facts.CURRENT_AT, facts.CURRENT_PROFILE
    if as_of is not None:
        query, of_profile = facts.VALID_AT, facts.PROFILE_AT
    elif request.all_facts:
        query = facts.CURRENT
    [row] = await tx.fetch_prepared(
        _statement(query, of_profile, _INSIGHTS if request.insights else "NULL::jsonb"),
        [place.index_id for place in request.facts],
        as_of or now,
        list(request.fact_index_ids),
        [place.entry for place in request.facts],
        *columns_of(request.insights, 2),
        *columns_of([item.place for item in request.items], 2),
        chars_max,
        list(PROFILE_FACT_IDS) if request.profile else [],
        request.session,
        request.user,
    )
    insight_rows = [Insight(**_parse_times(item, "made_at")) for item in row["insights"] or ()]
    found = [
        facts.fact_of(_parse_times(item, "valid_from", "valid_to", "expires_at"))
        for item in row["facts"] or ()
    ]
    return RecallContent(
        [fact if as_of is None else fact.at(as_of) for fact in found],
        {
            EntryPlace(item.index_id, item.entry): item
            for item in insight_rows
            if as_of is None or item.made_at <= as_of
        },
        _read_items(row, request.items),
        Audience(**(row["audience"] or {})),
        _outdated(row["outdated"] or ()),
    )


def _read_items(row: Row, items: Sequence[Candidate]) -> dict[EntryPlace, Candidate]:
    """Read the items that exist from a row that holds them as arrays; return them by place."""
    found: dict[EntryPlace, Candidate] = {}
    by_place = {item.place: item for item in items}
    for *place, ref, text, role, speaker, said_at, digest, tokens, offset, event in zip(
        *(row[name] or () for name in _ITEM_COLUMNS), strict=True
    ):
        item = found[EntryPlace(*place)] = by_place[EntryPlace(*place)]
        item.ref, item.text, item.role, item.speaker = ref, text, role, speaker
        if event:
            item.speaker = orjson.loads(event).get("user_id") or ""
        item.message_at, item.digest = with_offset(said_at, offset), digest
        item.item_tokens = tokens
    return found


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


EVENT_BYTES_MAX: Final = 100_000
"""Size of a message up to which its user is read, in a session of several users."""
_ITEM_COLUMNS: Final = (
    *("book", "entry", "ref", "text", "role", "speaker", "said_at", "digest", "tokens"),
    *("utc_offset", "event"),
)
# Parameters are typed here for the variants that do not use them all.
_READ: Final = f"""
    WITH given AS (
        SELECT $3::int8[], $6::int4[], $4::timestamptz, $5::int8[], $7::int8[], $8::int4[]
    ), audience AS MATERIALIZED (
        SELECT shared OR user_id NOT IN ('', $14) AS is_shared,
            policy -> 'profile' -> 'classes' AS classes
        FROM sessions WHERE tenant = $1 AND project = $2 AND session = $13
    ), said AS MATERIALIZED (
        SELECT place.book, one.*
        FROM (
            SELECT * FROM unnest($9::int8[], $10::int4[])
        ) AS place (book, entry) CROSS JOIN LATERAL (
            SELECT entry, ref, left(text, $11) AS text, role, speaker, said_at, digest, tokens,
                utc_offset,
                CASE WHEN role = 'user' AND speaker = '' AND size_bytes <= {EVENT_BYTES_MAX}
                    AND (SELECT is_shared FROM audience)
                THEN (SELECT substring(b.content FROM (e.start - b.start + 1)::int4
                        FOR e.size_bytes)
                    FROM blocks AS b
                    WHERE b.tenant = $1 AND b.project = $2 AND b.stream = e.stream
                        AND b.start <= e.start
                    ORDER BY b.start DESC LIMIT 1)
                END AS event
            FROM entries AS e
            WHERE tenant = $1 AND project = $2 AND book = place.book
                AND entry = place.entry AND length >= 0 OFFSET 0) AS one
    )
    SELECT (SELECT jsonb_agg({{to_tell}}) FROM (({{facts}}) UNION ({{profile}})) AS f) AS facts,
           {{insights}} AS insights,
           (SELECT to_jsonb(a) FROM audience AS a) AS audience,
           (SELECT jsonb_agg(to_jsonb(o)) FROM ({facts.OUTDATED}) AS o) AS outdated, items.*
    FROM (
        SELECT {", ".join(f"array_agg({name}) AS {name}" for name in _ITEM_COLUMNS)}
        FROM said
    ) AS items
"""
_INSIGHTS: Final = f"(SELECT jsonb_agg(to_jsonb(i)) FROM ({insights.VALID_AT}) AS i)"


@cache
def _statement(query: str, of_profile: str, of_insights: str) -> str:
    """Return the statement that reads what is asked for.

    The server would prepare to run each part that is not asked for all the same."""
    return _READ.format(
        facts=query, profile=of_profile, insights=of_insights, to_tell=facts.TO_TELL
    )


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


@frozen
class PlaceContent:
    """Present content of a place.

    What follows `said_at` is of a fact: `fact_id` is what it is a fact about, `session` and `turn`
    where it was said.
    """

    ref: str
    text: str
    role: str
    speaker: str
    said_at: datetime | None = None
    key: str | None = None
    tier: str | None = None
    state: str | None = None
    fact_id: str | None = None
    session: str | None = None
    turn: str | None = None


_COLUMNS_OF: Final = attrgetter("session", "at", "recall", "turn", "user_id", "tokens", "details")


async def insert(tx: Tx, records: Sequence[RecallRecord]) -> None:
    """Insert records, all of the transaction's scope, but those that are there."""
    await tx.execute_each(
        """
        INSERT INTO recalls (tenant, project, session, recalled_at, recall, turn, user_id, tokens,
            told)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING
        """,
        list(map(_COLUMNS_OF, records)),
    )


async def page(
    tx: Tx, session: str, turn: str, before: RecallPosition | None, *, limit: int
) -> list[RecallRecord]:
    """Return the recalls of a session, or one turn of it, the latest first."""
    rows = await tx.fetch(
        """
        SELECT recalled_at AS at, recall, turn, user_id, tokens, told AS details FROM recalls
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
    return [RecallRecord(scope=tx.scope, session=session, **row) for row in rows]


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
        *columns_of(places, 2),
        chars_max,
    )
    return {
        EntryPlace(book, entry): PlaceContent(*content)
        for book, entry, *content in (row.values() for row in rows)
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


@frozen
class StoredEntry:
    """An entry and the name of its index; `ended_at` is when its fact no longer held."""

    place: EntryPlace
    index: str
    ref: str
    role: str
    said_at: datetime
    text: str
    findable: bool
    ended_at: datetime | None


async def indexed_projects(tx: Tx) -> list[str]:
    """Return the projects of a tenant that have an index; for a transaction over all of them."""
    return await tx.fetch_column(
        "SELECT DISTINCT project FROM books WHERE tenant = $1 ORDER BY project"
    )


async def entries_after(tx: Tx, after: EntryPlace | None, *, limit: int) -> list[StoredEntry]:
    """Return the entries with a text behind a place, or the first: findable ones and past facts.

    In the order of indexes and, in each, of storing. Digests, which only find sessions, are left
    out."""
    rows = await tx.fetch(
        """
        SELECT e.book, e.entry, b.name, e.ref, e.role, e.said_at, e.text, e.length > 0 AS findable,
            CASE WHEN f.state <> 'active' THEN f.valid_to ELSE f.expires_at END AS ended_at
        FROM entries AS e JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = e.book
        LEFT JOIN facts AS f ON f.tenant = $1 AND f.project = $2 AND f.book = e.book
            AND f.entry = e.entry
        WHERE e.tenant = $1 AND e.project = $2
            AND ($3::int8 IS NULL OR (e.book, e.entry) > ($3, $4::int4))
            AND (e.length > 0 OR f.entry IS NOT NULL) AND e.role <> 'digest'
        ORDER BY e.book, e.entry LIMIT $5
        """,
        after.index_id if after else None,
        after.entry if after else None,
        limit,
    )
    return [
        StoredEntry(EntryPlace(row["book"], row["entry"]), *[*row.values()][2:]) for row in rows
    ]


async def shown_after(
    tx: Tx, after: tuple[str, RecallPosition] | None, *, limit: int
) -> tuple[list[tuple[EntryPlace, datetime]], tuple[str, RecallPosition] | None]:
    """Return the places that a page of recall traces showed, with their times, and its end.

    What was recalled as of another time is left out."""
    session, position = after or ("", None)
    rows = await tx.fetch(
        """
        SELECT session, recalled_at, recall, told FROM recalls WHERE tenant = $1 AND project = $2
            AND ($4::timestamptz IS NULL OR (session, recalled_at, recall) > ($3, $4, $5::uuid))
        ORDER BY session, recalled_at, recall LIMIT $6
        """,
        session,
        position.recalled_at if position else None,
        position.recall if position else UUID(int=0),
        limit,
    )
    shown = [
        (EntryPlace(*candidate["place"]), row["recalled_at"])
        for row in rows
        if "as_of" not in row["told"]["limits"]
        for candidate in row["told"]["candidates"]
        if candidate["shown"] and candidate.get("place")
    ]
    last = rows[-1] if rows else None
    return shown, (
        (last["session"], RecallPosition(last["recalled_at"], last["recall"])) if last else None
    )
