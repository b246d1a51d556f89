"""Facts in all states; each is an entry of the search index too, findable while it holds."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

from memsvc.core.facts import (
    ADDRESS_FACT_IDS,
    PRIVATE_FACT_IDS,
    Claim,
    Doubt,
    Evidence,
    Fact,
    FactState,
    FactTier,
    Identity,
    Merge,
    Statement,
    record_id,
    slot_of,
    words_of,
)
from memsvc.core.frozen import frozen
from memsvc.core.timestamp import offset_of, with_offset
from memsvc.store import index
from memsvc.store.database import Row, Tx, columns_of

COLUMNS: Final = (
    "entry, record, fact_id, key, slot, value, cues, tier, confidence, state, valid_from, valid_to,"
    " expires_at, superseded_by, evidence, statement, doubt"
)

UTC_OFFSET: Final = "utc_offset"
"""Member of the evidence: by how many minutes the time was given ahead of UTC."""

# What a person replaced by a correction: no model and no import brings it back.
CORRECTED = "(state = 'superseded' AND superseded_by ~ '-person-[0-9a-f]{12}$')"

_PRIVATE: Final = f"fact_id IN {PRIVATE_FACT_IDS}"


def is_withheld(session: str) -> str:
    """Return SQL that is true for facts not to be shown in a session of several users.

    These are facts about health and diet, and all facts from other sessions except how to address
    the user and the language to answer in. `session` is the SQL parameter with its name."""
    return f"""({_PRIVATE} OR evidence ->> 'session' <> {session}
        AND fact_id NOT IN {ADDRESS_FACT_IDS} AND key <> 'answer language')"""


# Whether several users speak in the session $13, and the facts that may be shown there.
_SHARED: Final = "(SELECT is_shared FROM audience) IS TRUE"
_TOLD: Final = f"NOT ({_SHARED} AND {is_withheld('$13')})"
_QUOTED: Final = f"NOT ({_SHARED} AND ({_PRIVATE} OR evidence ->> 'session' <> $13))"
# A fact `f` as JSON; where several users speak, without sentences of other sessions.
TO_TELL: Final = f"""to_jsonb(f)
    || CASE WHEN {_SHARED} AND f.evidence ->> 'session' <> $13
        THEN '{{"statement": ""}}'::jsonb ELSE '{{}}' END
    || CASE WHEN {_SHARED} AND f.doubt ->> 'session' <> $13
        THEN jsonb_build_object('doubt', f.doubt || '{{"text": ""}}') ELSE '{{}}' END"""

# Facts at the places $3 (indexes) and $6 (entries) that hold now ($4), without those that a newer
# one of the same identity in the indexes $5 made stale; at the same time, a later index is newer.
CURRENT_AT = f"""
    SELECT book, {COLUMNS} FROM (
        SELECT f.* FROM unnest($3::int8[], $6::int4[]) AS place (book, entry) CROSS JOIN LATERAL (
            SELECT * FROM facts
            WHERE tenant = $1 AND project = $2 AND book = place.book
                AND entry = place.entry OFFSET 0
        ) AS f) AS f
    WHERE state = 'active' AND (expires_at IS NULL OR expires_at > $4) AND {_TOLD}
        AND NOT EXISTS (
            SELECT FROM facts AS n WHERE n.tenant = $1 AND n.project = $2
                AND n.book = ANY($5::int8[])
            AND n.fact_id = f.fact_id AND n.key = f.key AND n.slot = f.slot AND n.state = 'active'
            AND (n.expires_at IS NULL OR n.expires_at > $4)
            AND (n.valid_from, array_position($5, n.book)) > (f.valid_from, array_position($5,
                f.book)) OFFSET 0)
"""
# Facts of the indexes $5 that hold now ($4): the latest, and the others at the places.
CURRENT_MAX = 2000
CURRENT = f"""
    (SELECT book, {COLUMNS} FROM facts
    WHERE tenant = $1 AND project = $2 AND book = ANY($5::int8[]) AND state = 'active'
        AND (expires_at IS NULL OR expires_at > $4) AND {_TOLD}
    ORDER BY valid_from DESC LIMIT {CURRENT_MAX})
    UNION
    ({CURRENT_AT})
"""
# The latest facts of the indexes $5 that held at a time ($4), whatever their state, not forgotten.
VALID_AT_MAX = 2000
VALID_AT = f"""
    SELECT book, {COLUMNS} FROM facts
    WHERE tenant = $1 AND project = $2 AND book = ANY($5::int8[]) AND NOT forgotten
        AND valid_from <= $4 AND (valid_to IS NULL OR valid_to > $4) AND (expires_at IS NULL
            OR expires_at > $4) AND {_TOLD}
    ORDER BY valid_from DESC LIMIT {VALID_AT_MAX}
"""
# Facts of the indexes $5 that a profile is made of ($12): those that hold now, or held at a time.
PROFILE_MAX = 64
CURRENT_PROFILE = f"""
    SELECT book, {COLUMNS} FROM facts
    WHERE tenant = $1 AND project = $2 AND book = ANY($5::int8[]) AND state = 'active'
        AND fact_id = ANY($12::text[]) AND (expires_at IS NULL OR expires_at > $4) AND {_TOLD}
    ORDER BY valid_from DESC LIMIT {PROFILE_MAX}
"""
PROFILE_AT = VALID_AT.replace(
    "AND NOT forgotten", "AND NOT forgotten AND fact_id = ANY($12::text[])"
)
# What had become, at a time ($4), of facts that were learned from the items `said`, or that these
# repeat while they held (`is_source` is false; of the latest facts, and in a short text alone): the
# newest value of those that ended, or else what replaced them, and the doubt about those that hold.
# If several users speak in the session, only its own sentences are returned.
REPEATED_MAX = 200
REPEATED_CHARS_MAX = 600
OUTDATED = f"""
    SELECT f.book, f.entry, f.session, f.state, CASE WHEN NOT ({_SHARED}
            AND f.doubt ->> 'session' <> $13) THEN f.doubt ->> 'text' END AS doubt,
        f.doubt ->> 'said_at' AS doubted_at, f.value, f.statement, f.is_source,
        CASE WHEN f.valid_to <= $4 THEN f.valid_to END AS valid_to,
        coalesce(n.value, r.value) AS newer
    FROM (
        SELECT e.book, e.entry, f.evidence ->> 'session' AS session, f.state, f.doubt, f.value,
            f.statement, f.valid_from, f.valid_to, f.fact_id, f.key, f.slot, f.superseded_by,
            true AS is_source
        FROM (
            SELECT * FROM facts
            WHERE tenant = $1 AND project = $2 AND book = ANY($5::int8[]) AND NOT forgotten
                AND valid_from = ANY(ARRAY(SELECT said_at FROM said))
                AND (valid_to <= $4 OR (doubt ->> 'said_at')::timestamptz <= $4) OFFSET 0
        ) AS f JOIN said AS e ON e.said_at = f.valid_from AND e.ref = f.evidence ->> 'item'
        WHERE NOT EXISTS (
            SELECT FROM facts AS h WHERE h.tenant = $1 AND h.project = $2
                AND h.book = ANY($5::int8[]) AND h.fact_id = f.fact_id AND h.key = f.key
                AND h.slot = f.slot AND h.state = 'active' AND h.record <> f.record
                AND h.value = f.value AND h.evidence ->> 'item' = e.ref)
        UNION ALL
        SELECT e.book, e.entry, '', f.state, f.doubt, f.value, f.statement, f.valid_from,
            f.valid_to, f.fact_id, f.key, f.slot, f.superseded_by, false
        FROM unnest($5::int8[]) AS b (book) CROSS JOIN LATERAL (
            SELECT * FROM facts WHERE tenant = $1 AND project = $2 AND book = b.book
                AND NOT forgotten AND {_TOLD} ORDER BY valid_from DESC LIMIT {REPEATED_MAX}) AS f
        JOIN said AS e ON e.role = 'user' AND e.said_at > f.valid_from AND e.said_at < f.valid_to
            AND length(e.text) <= {REPEATED_CHARS_MAX}
            AND strpos(lower(e.text), lower(f.value)) > 0
        WHERE f.state = 'superseded' AND f.valid_to <= $4
    ) AS f
    LEFT JOIN LATERAL (
        SELECT coalesce(nullif(statement, ''), value) AS value FROM facts
        WHERE tenant = $1 AND project = $2 AND book = ANY($5::int8[]) AND fact_id = f.fact_id
            AND key = f.key AND slot = f.slot AND state = 'active' AND value <> f.value
            AND valid_from <= $4 AND {_QUOTED}
        ORDER BY valid_from DESC LIMIT 1
    ) AS n ON true
    LEFT JOIN LATERAL (
        SELECT coalesce(nullif(statement, ''), value) AS value FROM facts
        WHERE n.value IS NULL AND tenant = $1 AND project = $2 AND book = ANY($5::int8[])
            AND {_QUOTED}
            AND valid_from BETWEEN f.valid_from AND $4 AND NOT forgotten
            AND (record = f.superseded_by OR (fact_id = f.fact_id AND key = f.key
                AND slot = f.slot AND value <> f.value AND valid_to > $4))
        ORDER BY valid_from DESC LIMIT 1
    ) AS r ON true
"""


def fact_of(row: Row) -> Fact:
    """Return the fact in a row of its index and COLUMNS."""
    evidence = dict(row["evidence"])
    valid_from = with_offset(row["valid_from"], evidence.pop(UTC_OFFSET, None))
    statement = Statement(
        record=row["record"],
        fact_id=row["fact_id"],
        key=row["key"],
        slot=row["slot"],
        value=row["value"],
        tier=FactTier(row["tier"]),
        confidence=row["confidence"],
        keywords=row["cues"],
        evidence=Evidence(**evidence),
        statement=row["statement"],
    )
    return Fact(
        row["entry"],
        statement,
        FactState(row["state"]),
        valid_from,
        row["valid_to"],
        row["expires_at"],
        row["superseded_by"],
        row["book"],
        doubt_of(row["doubt"]),
    )


def doubt_of(doubt_fields: dict[str, Any] | None) -> Doubt | None:
    """Return a doubt from its JSON."""
    if doubt_fields is None:
        return None
    said_at = datetime.fromisoformat(doubt_fields["said_at"])
    return Doubt(**doubt_fields | {"said_at": said_at})


def doubt_fields_of(doubt: Doubt | None) -> dict[str, str] | None:
    """Return a doubt as JSON."""
    return asdict(doubt) | {"said_at": doubt.said_at.isoformat()} if doubt else None


async def facts_of_claims(
    tx: Tx, index_ids: Sequence[int], claims: Sequence[Claim], *, latest: int = 0
) -> list[Fact]:
    """Return the active facts that the claims may replace or end, and the `latest` of each index.

    Of claims not in the user's own words also the deleted and corrected facts that they must not
    bring back.
    """
    statements = [claim for claim in claims if isinstance(claim, Statement)]
    to_end = [ending for claim in claims for ending in claim.conflicts]
    exact = [(item.fact_id, item.key, slot_of(item.value)) for item in to_end if item.exact]
    identities = [statement.identity for statement in statements] + exact
    shared = [(item.fact_id, item.key) for item in to_end if not item.exact]
    foreign = any(claim.evidence.origin in ("model", "import") for claim in claims)
    rows = await tx.fetch_prepared(
        f"""
        SELECT f.* FROM unnest($3::int8[]) AS b (book)
        CROSS JOIN unnest($5::text[], $6::text[], $7::text[]) AS i (fact_id, key, slot) CROSS
            JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts
            WHERE tenant = $1 AND project = $2 AND book = b.book AND state = 'active'
              AND fact_id = i.fact_id AND key = i.key AND slot = i.slot OFFSET 0) AS f
        UNION
        SELECT f.* FROM unnest($3::int8[]) AS b (book)
        CROSS JOIN unnest($8::text[], $9::text[]) AS e (fact_id, key) CROSS JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts
            WHERE tenant = $1 AND project = $2 AND book = b.book AND state = 'active'
              AND fact_id = e.fact_id AND e.key IN ('', key) OFFSET 0) AS f
        UNION
        SELECT f.* FROM unnest($3::int8[]) AS b (book) CROSS JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts
            WHERE $4 AND tenant = $1 AND project = $2 AND book = b.book
              AND (state = 'deleted' OR {CORRECTED}) AND (fact_id, key, slot) IN (SELECT *
                  FROM unnest($5::text[], $6::text[], $7::text[])) OFFSET 0) AS f
        UNION
        SELECT f.* FROM unnest($3::int8[]) AS b (book) CROSS JOIN LATERAL (
            SELECT book, {COLUMNS} FROM facts
            WHERE tenant = $1 AND project = $2 AND book = b.book AND state = 'active'
              AND NOT forgotten ORDER BY valid_from DESC LIMIT $10) AS f
        """,
        index_ids,
        foreign,
        *columns_of(identities, 3),
        *columns_of(shared, 2),
        latest,
    )
    return sorted(map(fact_of, rows), key=lambda fact: index_ids.index(fact.index_id))


@frozen
class StatementWithExpiry:
    """Statement with its expiry time, when it was said, and the `newer` fact it came before."""

    statement: Statement
    expires_at: datetime | None
    said_at: datetime | None = None
    newer: Fact | None = None


def entries(statements: Sequence[StatementWithExpiry], now: datetime) -> list[index.NewEntry]:
    """Return the index entries of facts, in their order."""
    return [
        index.NewEntry(
            ref=statement_with_expiry.statement.record,
            text=text_of(statement_with_expiry.statement),
            keywords=statement_with_expiry.statement.keywords,
            message_at=statement_with_expiry.said_at or now,
            role="fact",
        )
        for statement_with_expiry in statements
    ]


async def apply(
    tx: Tx,
    index_id: int,
    first: int,
    merge: Merge,
    statements: Sequence[StatementWithExpiry],
    now: datetime,
) -> None:
    """Write a merge: close facts wherever they stand, add new ones as entries from `first` on.

    A new fact holds from when it was said, and the one that it replaces until then. Facts in doubt
    keep their entries. UniqueViolationError where an entry has a fact already."""
    said_at = {new_fact.statement.record: new_fact.said_at or now for new_fact in statements}
    closed = [
        *((fact, FactState.SUPERSEDED, by) for fact, by in merge.replaced),
        *((fact, FactState.DELETED, None) for fact in merge.deleted),
    ]
    if closed:
        await tx.execute(
            """
            UPDATE facts SET state = c.state, superseded_by = c.superseded_by, valid_to = c.valid_to
            FROM unnest($3::int8[], $4::int4[], $5::text[], $6::text[], $7::timestamptz[])
                AS c (book, entry, state, superseded_by, valid_to)
            WHERE tenant = $1 AND project = $2 AND facts.book = c.book AND facts.entry = c.entry
            """,
            *columns_of(
                [
                    (
                        *(fact.index_id, fact.entry, state, by),
                        max(said_at.get(by or "", now), fact.valid_from),
                    )
                    for fact, state, by in closed
                ],
                5,
            ),
        )
    await put(
        tx,
        [
            Fact(
                first + at,
                new_fact.statement,
                FactState.SUPERSEDED if new_fact.newer else FactState.ACTIVE,
                new_fact.said_at or now,
                new_fact.newer.valid_from if new_fact.newer else None,
                new_fact.expires_at,
                new_fact.newer.statement.record if new_fact.newer else None,
                index_id,
            )
            for at, new_fact in enumerate(statements)
        ],
        overwrite=False,
    )
    past = {
        first + at: indexed_text(new_fact.statement)
        for at, new_fact in enumerate(statements)
        if new_fact.newer
    }
    if past:
        await index.hide(tx, index_id, past)
    if merge.questioned:
        await _question(tx, merge.questioned)
    for closed_index in dict.fromkeys(fact.index_id for fact, _, _ in closed):
        await index.hide(
            tx,
            closed_index,
            indexed(fact for fact, _, _ in closed if fact.index_id == closed_index),
        )


_OVERWRITE: Final = f"""ON CONFLICT (tenant, project, book, entry) DO UPDATE SET
    {", ".join(f"{name} = EXCLUDED.{name}" for name in COLUMNS.split(", ")[1:])}"""


_stored_first: Final = attrgetter(
    *("index_id", "entry", "statement.record", "statement.fact_id", "statement.key"),
    *("statement.slot", "statement.value", "statement.keywords", "statement.tier"),
    *("statement.confidence", "state", "valid_from", "valid_to", "expires_at", "superseded_by"),
)
"""The values of a fact's first columns: its index, then `COLUMNS` as far as the evidence."""


async def put(tx: Tx, facts: Iterable[Fact], *, overwrite: bool = True) -> None:
    """Store facts, by index and entry, with all their columns; those no longer active first.

    Without `overwrite`, UniqueViolationError for an entry that has a fact: nothing is stored."""
    await tx.execute_each(
        f"""
        INSERT INTO facts (tenant, project, book, {COLUMNS})
        VALUES ($1, $2, {", ".join(f"${at}" for at in range(3, 21))})
        {_OVERWRITE if overwrite else ""}
        """,
        [
            (
                *_stored_first(fact),
                evidence_of(fact),
                fact.statement.statement,
                doubt_fields_of(fact.doubt),
            )
            for fact in sorted(facts, key=lambda fact: fact.state is FactState.ACTIVE)
        ],
    )


async def set_words(tx: Tx, facts: Sequence[Fact]) -> None:
    """Store value, slot, keywords, statement and doubt of facts, which else stay what they are."""
    await tx.execute_each(
        """
        UPDATE facts SET value = $5, slot = $6, cues = $7, statement = $8, doubt = $9
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = $4
        """,
        [
            (
                *(fact.index_id, fact.entry, fact.statement.value, fact.statement.slot),
                *(fact.statement.keywords, fact.statement.statement, doubt_fields_of(fact.doubt)),
            )
            for fact in facts
        ],
    )


async def _question(tx: Tx, questioned: Sequence[tuple[Fact, Doubt | None]]) -> None:
    """Put facts in doubt, or out of it."""
    await tx.execute(
        """
        UPDATE facts SET doubt = q.doubt
        FROM unnest($3::int8[], $4::int4[], $5::jsonb[]) AS q (book, entry, doubt)
        WHERE tenant = $1 AND project = $2 AND facts.book = q.book AND facts.entry = q.entry
        """,
        *columns_of(
            [(fact.index_id, fact.entry, doubt_fields_of(doubt)) for fact, doubt in questioned], 3
        ),
    )


# Whether the session of a fact keeps expired facts of its tier.
_KEPT_BY_POLICY = """EXISTS (SELECT FROM sessions AS s WHERE s.tenant = $1 AND s.project = $2
    AND s.session = f.evidence ->> 'session'
    AND s.policy -> 'tiers' -> f.tier ->> 'sweep' = 'false')"""


async def sweep(tx: Tx, index_id: int, now: datetime, *, limit: int) -> list[Fact]:
    """Remove up to `limit` expired facts and return them; a session's policy may keep its own."""
    expired = f"expires_at <= $4 AND NOT {_KEPT_BY_POLICY} ORDER BY expires_at"
    return await _remove(tx, index_id, expired, now, limit)


async def remove_before(tx: Tx, index_id: int, before: datetime, *, limit: int) -> list[Fact]:
    """Remove up to `limit` facts of an index that were learned before this time; return them."""
    return await _remove(tx, index_id, "valid_from < $4 ORDER BY valid_from", before, limit)


async def _remove(tx: Tx, index_id: int, some: str, before: datetime, limit: int) -> list[Fact]:
    rows = await tx.fetch(
        f"""
        DELETE FROM facts WHERE tenant = $1 AND project = $2 AND book = $3 AND entry IN (
            SELECT entry FROM facts AS f
            WHERE tenant = $1 AND project = $2 AND book = $3 AND {some} LIMIT $5)
        RETURNING book, {COLUMNS}
        """,
        index_id,
        before,
        limit,
    )
    removed = [fact_of(row) for row in rows]
    await index.remove(tx, index_id, indexed(removed))
    return removed


async def expired_indexes(tx: Tx, session: str, now: datetime) -> list[str]:
    """Return the names of the indexes with expired facts that were learned in this session."""
    return await tx.fetch_column(
        """
        SELECT DISTINCT b.name FROM facts AS f
        JOIN books AS b ON b.tenant = $1 AND b.project = $2 AND b.book = f.book
        WHERE f.tenant = $1 AND f.project = $2 AND f.expires_at <= $4
            AND f.evidence ->> 'session' = $3
        """,
        session,
        now,
    )


async def history(tx: Tx, index_ids: Sequence[int], identities: Sequence[Identity]) -> list[Fact]:
    """Return the facts of these identities in any state, in the order they were found."""
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT book, {COLUMNS} FROM facts WHERE tenant = $1 AND project = $2
            AND book = ANY($3::int8[])
          AND (fact_id, key, slot) IN (SELECT * FROM unnest($4::text[], $5::text[], $6::text[]))
        ORDER BY valid_from, array_position($3, book), entry
        """,
        index_ids,
        *columns_of(identities, 3),
    )


async def current_facts(tx: Tx, index_ids: Sequence[int], now: datetime) -> list[Fact]:
    """Return every current fact of these indexes, oldest first, then in their order."""
    return await tx.fetch_with(
        fact_of,
        f"""
        SELECT book, {COLUMNS} FROM facts WHERE tenant = $1 AND project = $2
            AND book = ANY($3::int8[])
          AND state = 'active' AND (expires_at IS NULL OR expires_at > $4)
        ORDER BY valid_from, array_position($3, book), entry
        """,
        index_ids,
        now,
    )


class CurrentFact(NamedTuple):
    """What is told of a current fact. A tuple: hundreds are read of which a few are told."""

    entry: int
    fact_id: str
    key: str
    told: str
    valid_from: datetime
    doubt: str | None
    session: str
    record: str

    @property
    def record_id(self) -> str:
        """Return the id of this one value, unique over all sessions of a user."""
        return record_id(self.session, self.record)


async def latest_facts(
    tx: Tx, index_id: int, now: datetime, *, first: Sequence[str], limit: int
) -> tuple[list[CurrentFact], int]:
    """Return current facts of an index and how many there are.

    Those of the ids `first` come first, then others, the latest before earlier ones."""
    # Each part by its own index: what is counted is not sorted, and a forgotten fact is not active.
    active = "tenant = $1 AND project = $2 AND book = $3 AND state = 'active'"
    columns = "entry, fact_id, key, value, statement, valid_from, record, evidence, doubt"
    rows = await tx.fetch(
        f"""
        SELECT (SELECT count(*) FROM facts WHERE {active})
            - (SELECT count(*) FROM facts WHERE {active} AND expires_at <= $4) AS total,
            entry, fact_id, key, value, statement, valid_from, record,
            evidence ->> 'session' AS session, (evidence ->> '{UTC_OFFSET}')::int4 AS utc_offset,
            doubt ->> 'text' AS doubt
        FROM (
            (SELECT true AS first, {columns} FROM facts
            WHERE {active} AND (expires_at IS NULL OR expires_at > $4) AND fact_id = ANY($5::text[])
            ORDER BY valid_from DESC, entry DESC LIMIT $6)
            UNION ALL
            (SELECT false, {columns} FROM facts
            WHERE {active} AND (expires_at IS NULL OR expires_at > $4) AND NOT forgotten
                AND fact_id <> ALL($5::text[])
            ORDER BY valid_from DESC, entry DESC LIMIT $6)
        ) AS found ORDER BY first DESC, valid_from DESC, entry DESC LIMIT $6
        """,
        index_id,
        now,
        first,
        limit,
    )
    found = [
        CurrentFact(
            row["entry"],
            row["fact_id"],
            row["key"],
            words_of(row["statement"], row["key"], row["value"]),
            with_offset(row["valid_from"], row["utc_offset"]),
            row["doubt"],
            row["session"],
            row["record"],
        )
        for row in rows
    ]
    return found, rows[0]["total"] if rows else 0


def text_of(statement: Statement) -> str:
    """Return the text of the entry of a fact."""
    text = f"{statement.key.replace('_', ' ')}: {statement.value}"
    return (
        text if statement.statement in ("", statement.value) else f"{text}\n{statement.statement}"
    )


def indexed(closed: Iterable[Fact]) -> dict[int, str]:
    """Return the texts that the entries of facts were indexed with."""
    return {fact.entry: indexed_text(fact.statement) for fact in closed}


def indexed_text(statement: Statement) -> str:
    """Return what the entry of a fact is indexed with."""
    return f"{text_of(statement)}\n{statement.keywords}"


def evidence_of(fact: Fact) -> dict[str, Any]:
    """Return the evidence of a fact as JSON, with the offset of its time unless that is UTC."""
    offset = offset_of(fact.valid_from)
    return asdict(fact.statement.evidence) | ({UTC_OFFSET: offset} if offset is not None else {})
