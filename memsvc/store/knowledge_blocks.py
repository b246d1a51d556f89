"""Blocks: knowledge that an agent keeps; each is an entry of its index, findable while it is live.

And their ratings: promotion, confidence by outcomes, decay. Writers hold the index's lock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, field, fields
from datetime import datetime
from typing import Annotated, Final, Literal

from memsvc.core.decay import DecayTier
from memsvc.core.frozen import frozen
from memsvc.core.tool_methods import result
from memsvc.store import index
from memsvc.store.database import Row, Tx, columns_of
from memsvc.store.index import index_id_of

ROLE: Final = "notion"
INDEX_NAME: Final = "knowledge"
INDEX_ID: Final = index_id_of(INDEX_NAME)
"""The index of the blocks of a project."""
Status = Literal["inbox", "active", "archived"]
Reason = Literal["decayed", "superseded", "forgotten"]


@frozen
class UsageClock:
    """Use of an index.

    `active_h` is its clock at `seen_at`, `session_from_h` the clock when the session began;
    `revision` grows with every change but mere use; tokens are counted by kind.
    """

    active_h: float
    seen_at: datetime
    session_from_h: float
    inbox: int = 0
    active: int = 0
    archived: int = 0
    revision: int = 0
    consolidated_at: datetime | None = None
    curated_h: float | None = None
    session_tokens: dict[str, int] = field(default_factory=dict)
    lifetime_tokens: dict[str, int] = field(default_factory=dict)


_COLUMNS = [one.name for one in fields(UsageClock)]


async def find(tx: Tx) -> UsageClock | None:
    """Return the use of an index so far, or None."""
    return await tx.fetchrow_as(
        UsageClock,
        f"SELECT {', '.join(_COLUMNS)} FROM activity WHERE tenant = $1 AND project = $2 AND book"
        " = $3",
        INDEX_ID,
    )


async def save(tx: Tx, clock: UsageClock) -> None:
    """Store the use of an index."""
    numbers = range(4, 4 + len(_COLUMNS))
    await tx.execute(
        f"""
        INSERT INTO activity (tenant, project, book, {", ".join(_COLUMNS)})
        VALUES ($1, $2, $3, {", ".join(f"${number}" for number in numbers)})
        ON CONFLICT (tenant, project, book) DO UPDATE
        SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
        """,
        INDEX_ID,
        *(getattr(clock, name) for name in _COLUMNS),
    )


@frozen
class KnowledgeBlock:
    """Block with its text; `degree` is the weight of all its edges.

    Text, cue and tags of a forgotten one are empty.
    """

    block_id: str
    entry: int
    status: Status
    archive_reason: Reason | None
    superseded_by: str | None
    category: str
    tier: DecayTier
    alpha: float
    beta: float
    confidence: float
    evidence: float
    reinforcements: int
    decay_per_h: float
    reinforced_h: float
    created_h: float
    created_at: datetime
    alignment: float | None
    scored_by: str
    text: str
    keywords: str
    tags: tuple[str, ...]
    degree: float = 0.0


@frozen
class NewKnowledgeBlock:
    """New block; it waits in the inbox and can be found."""

    block_id: str
    digest: str
    text: str
    keywords: str
    tags: Sequence[str]
    category: str
    tier: DecayTier
    decay_per_h: float
    now_h: float


BLOCK_COLUMNS: Final = """n.notion, n.entry, n.status, n.archive_reason, n.superseded_by,
    n.category, n.tier, n.alpha, n.beta, n.confidence, n.evidence, n.reinforcements, n.decay_per_h,
    n.reinforced_h, n.created_h, n.created_at, n.alignment, n.scored_by"""
ENTRY_COLUMNS: Final = """coalesce(e.text, '') AS text, coalesce(e.cues, '') AS cue, ARRAY(
        SELECT tag FROM notion_tags WHERE tenant = $1 AND project = $2 AND book = $3
            AND notion = n.notion ORDER BY tag
    ) AS tags"""
ENTRY: Final = """LEFT JOIN LATERAL (
        SELECT text, cues FROM entries WHERE tenant = $1 AND project = $2 AND book = $3
            AND entry = n.entry OFFSET 0
    ) AS e ON true"""
_DEGREE: Final = """coalesce((SELECT sum(weight) FROM (
        SELECT weight FROM edges WHERE tenant = $1 AND project = $2 AND book = $3 AND low = n.notion
        UNION ALL SELECT weight FROM edges WHERE tenant = $1 AND project = $2 AND book = $3
            AND high = n.notion
    ) AS own), 0) AS degree"""


def block_of(row: Row) -> KnowledgeBlock:
    """Return the block in a row of OWN and TOLD."""
    fields = dict(row)
    fields |= {"block_id": fields.pop("notion"), "keywords": fields.pop("cue")}
    return KnowledgeBlock(
        **fields | {"tier": DecayTier(fields["tier"]), "tags": tuple(fields["tags"])}
    )


async def read(tx: Tx, block_ids: Sequence[str]) -> dict[str, KnowledgeBlock]:
    """Return these blocks by id, archived ones too."""
    rows = await tx.fetch(
        f"""
        SELECT {BLOCK_COLUMNS}, {ENTRY_COLUMNS}, {_DEGREE}
            FROM unnest($4::text[]) AS asked (notion) CROSS JOIN LATERAL (
            SELECT * FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND notion = asked.notion COLLATE "C" OFFSET 0
        ) AS n {ENTRY}
        """,
        INDEX_ID,
        list(dict.fromkeys(block_ids)),
    )
    return {row["notion"]: block_of(row) for row in rows}


async def find_live(tx: Tx, digest: str) -> tuple[str, Status] | None:
    """Return the live block whose text has this digest, and its status."""
    row = await tx.fetchrow(
        """
        SELECT notion, status FROM notions
        WHERE tenant = $1 AND project = $2 AND book = $3 AND digest = $4 AND status <> 'archived'
        """,
        INDEX_ID,
        digest,
    )
    return (row["notion"], row["status"]) if row else None


async def existing_ids(tx: Tx, block_ids: Sequence[str]) -> set[str]:
    """Return which of these ids are those of blocks, live or archived."""
    return set(
        await tx.fetch_column(
            "SELECT notion FROM notions WHERE tenant = $1 AND project = $2 AND book = $3"
            " AND notion = ANY($4::text[])",
            INDEX_ID,
            block_ids,
        )
    )


async def add(tx: Tx, new: NewKnowledgeBlock, now: datetime) -> None:
    """Store a block whose id is free and whose text no live one has."""
    entry = await _indexed(tx, new.block_id, new.text, new.keywords, now)
    await tx.execute(
        """
        INSERT INTO notions (tenant, project, book, notion, entry, digest, status, category, tier,
            alpha, beta,
                             confidence, evidence, reinforcements, decay_per_h, reinforced_h,
                                 created_h, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, 'inbox', $7, $8, 0.5, 0.5, 0.5, 0, 0, $9, $10, $10, $11)
        """,
        INDEX_ID,
        new.block_id,
        entry,
        new.digest,
        new.category,
        new.tier,
        new.decay_per_h,
        new.now_h,
        now,
    )
    await tag(tx, new.block_id, new.tags)


async def _indexed(tx: Tx, block_id: str, text: str, keywords: str, now: datetime) -> int:
    entry = index.NewEntry(ref=block_id, text=text, keywords=keywords, message_at=now, role=ROLE)
    return (await index.add(tx, {INDEX_NAME: [entry]}))[INDEX_NAME]


def _indexed_text(block: KnowledgeBlock) -> str:
    return index.indexed_text(block.text, block.keywords)


async def tag(tx: Tx, block_id: str, tags: Sequence[str]) -> None:
    """Add tags to a live block; those that it has stay."""
    if tags:
        await tx.execute(
            """
            INSERT INTO notion_tags (tenant, project, book, tag, notion)
            SELECT DISTINCT b.tenant, b.project, b.book, t.tag, $4::text FROM books AS b,
                unnest($5::text[]) AS t (tag)
            WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3
            ON CONFLICT DO NOTHING
            """,
            INDEX_ID,
            block_id,
            tags,
        )


async def set_text(
    tx: Tx,
    previous: KnowledgeBlock,
    *,
    text: str,
    keywords: str,
    digest: str,
    now: datetime,
) -> None:
    """Change the text or the cue of a live block; its confidence stays."""
    await index.remove(tx, INDEX_ID, {previous.entry: _indexed_text(previous)})
    entry = await _indexed(tx, previous.block_id, text, keywords, now)
    await tx.execute(
        """
        UPDATE notions SET entry = $5, digest = $6, scored_by = CASE WHEN $7 THEN '' ELSE scored_by
            END
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = $4
        """,
        INDEX_ID,
        previous.block_id,
        entry,
        digest,
        text != previous.text,
    )


async def superseded_by(tx: Tx, block_id: str) -> list[str]:
    """Return the blocks that this one replaced, also indirectly, and whose text still exists."""
    return await tx.fetch_column(
        """
        WITH RECURSIVE older (notion) AS (
            SELECT $4::text COLLATE "C"
            UNION SELECT n.notion FROM older CROSS JOIN LATERAL (
                SELECT notion FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                    AND superseded_by = older.notion AND status = 'archived' OFFSET 0) AS n
        )
        SELECT notion FROM older WHERE notion <> $4
        """,
        INDEX_ID,
        block_id,
    )


async def archive(
    tx: Tx,
    blocks: Sequence[KnowledgeBlock],
    reason: Reason,
    *,
    by: str | None = None,
) -> None:
    """Archive blocks: unfindable, without tags, edges and contradictions.

    Of what is forgotten the text goes as well, also of what was archived for another reason before.
    """
    if not blocks:
        return
    ids = [block.block_id for block in blocks]
    remove_entries = index.remove if reason == "forgotten" else index.hide
    await remove_entries(tx, INDEX_ID, {block.entry: _indexed_text(block) for block in blocks})
    await tx.execute(
        """
        WITH untagged AS (
            DELETE FROM notion_tags WHERE tenant = $1 AND project = $2 AND book = $3
                AND notion = ANY($4::text[])
        ), untied AS (
            DELETE FROM edges WHERE tenant = $1 AND project = $2 AND book = $3
                AND low = ANY($4::text[])
        ), untied_back AS (
            DELETE FROM edges WHERE tenant = $1 AND project = $2 AND book = $3
                AND high = ANY($4::text[])
                AND low <> ALL($4::text[])
        ), settled AS (
            DELETE FROM contradictions WHERE tenant = $1 AND project = $2 AND book = $3
                AND low = ANY($4::text[])
        ), settled_back AS (
            DELETE FROM contradictions WHERE tenant = $1 AND project = $2 AND book = $3
                AND high = ANY($4::text[])
                AND low <> ALL($4::text[])
        )
        UPDATE notions SET status = 'archived', archive_reason = $5::text, superseded_by = $6,
            digest = CASE WHEN $5::text = 'forgotten' THEN '' ELSE digest END
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = ANY($4::text[])
        """,
        INDEX_ID,
        ids,
        reason,
        by,
    )


async def add_use(tx: Tx, block_ids: Sequence[str], now_h: float) -> None:
    """Count one more use of blocks, at this time."""
    await tx.execute(
        """
        UPDATE notions SET reinforcements = reinforcements + 1, reinforced_h = $5
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = ANY($4::text[])
            AND status <> 'archived'
        """,
        INDEX_ID,
        block_ids,
        now_h,
    )


async def pending(tx: Tx, *, limit: int) -> list[KnowledgeBlock]:
    """Return the blocks of the inbox that have waited longest."""
    return await tx.fetch_with(
        block_of,
        f"""
        SELECT {BLOCK_COLUMNS}, {ENTRY_COLUMNS} FROM (
            SELECT * FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND status = 'inbox'
            ORDER BY created_at, notion LIMIT $4
        ) AS n {ENTRY} ORDER BY n.created_at, n.notion
        """,
        INDEX_ID,
        limit,
    )


async def tagged(tx: Tx, patterns: Sequence[str], *, limit: int) -> dict[str, list[str]]:
    """Return live blocks by id with those of their tags that fit a pattern.

    A pattern is a tag, or the beginning of tags and `%`.
    """
    return await tx.fetch_pairs(
        """
        SELECT t.notion, array_agg(t.tag) AS tags FROM unnest($4::text[], $5::text[]) AS p (first,
            last)
        CROSS JOIN LATERAL (
            SELECT notion, tag FROM notion_tags WHERE tenant = $1 AND project = $2 AND book = $3
                AND tag >= p.first COLLATE "C" AND tag <= p.last COLLATE "C" ORDER BY tag, notion
                    LIMIT $6
        ) AS t GROUP BY t.notion ORDER BY t.notion
        """,
        INDEX_ID,
        [pattern.removesuffix("%") for pattern in patterns],
        [
            pattern.removesuffix("%") + "\U0010ffff" if pattern.endswith("%") else pattern
            for pattern in patterns
        ],
        limit,
    )


async def list_top(tx: Tx, *, limit: int) -> list[str]:
    """Return live blocks that may be the best without a question.

    These are those used last of each tier, the surest and the most used, up to `limit` of each.
    """
    return await tx.fetch_column(
        """
        (SELECT r.notion FROM unnest($5::text[]) AS tiers (tier) CROSS JOIN LATERAL (
            SELECT notion FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND status <> 'archived'
                AND tier = tiers.tier ORDER BY reinforced_h DESC LIMIT $4) AS r)
        UNION
        (SELECT notion FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
            AND status <> 'archived'
            ORDER BY reinforcements DESC LIMIT $4)
        UNION
        (SELECT notion FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
            AND status <> 'archived'
            ORDER BY confidence DESC LIMIT $4)
        """,
        INDEX_ID,
        limit,
        list(DecayTier),
    )


async def unused_since(tx: Tx, before_h: Mapping[DecayTier, float], *, limit: int) -> list[str]:
    """Return active blocks last used before a time on the index's clock, the longest unused first.

    The time is given for each tier.
    """
    return await tx.fetch_column(
        """
        SELECT r.notion FROM unnest($4::text[], $5::float8[]) AS asked (tier, before) CROSS
            JOIN LATERAL (
            SELECT notion FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND status <> 'archived'
                AND status = 'active' AND tier = asked.tier AND reinforced_h < asked.before
            ORDER BY reinforced_h LIMIT $6) AS r
        """,
        INDEX_ID,
        list(before_h),
        before_h.values(),
        limit,
    )


async def listing(
    tx: Tx, *, tag: str | None, category: str | None, limit: int
) -> list[KnowledgeBlock]:
    """Return live blocks, the surest first: of a tag, of a category, or all.

    The tag fits a pattern of LIKE, in which a backslash is one.
    """
    if tag is not None:
        first = tag.split("%", 1)[0].split("_", 1)[0]
        found = f"""SELECT n.* FROM (
            SELECT DISTINCT notion FROM notion_tags WHERE tenant = $1 AND project = $2 AND book = $3
                AND tag >= $6 COLLATE "C" AND tag <= $7 COLLATE "C" AND tag LIKE $5 ESCAPE ''
        ) AS t JOIN notions AS n ON n.tenant = $1 AND n.project = $2 AND n.book = $3
            AND n.notion = t.notion
        WHERE n.status <> 'archived'{" AND n.category = $8" if category is not None else ""}
        ORDER BY n.confidence DESC, n.notion LIMIT $4"""
        arguments = [tag, first, first + "\U0010ffff"]
    else:
        found = f"""SELECT * FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
            AND status <> 'archived'
            {" AND category = $5" if category is not None else ""} ORDER BY confidence DESC
                LIMIT $4"""
        arguments = []
    return await tx.fetch_with(
        block_of,
        f"SELECT {BLOCK_COLUMNS}, {ENTRY_COLUMNS} FROM ({found}) AS n {ENTRY} ORDER BY"
        " n.confidence DESC, n.notion",
        INDEX_ID,
        limit,
        *arguments,
        *([category] if category is not None else []),
    )


async def archived(tx: Tx, *, category: str | None, limit: int) -> list[KnowledgeBlock]:
    """Return archived blocks of one category, or of all, those remembered last first.

    They no longer have tags.
    """
    return await tx.fetch_with(
        block_of,
        f"""
        SELECT {BLOCK_COLUMNS}, {ENTRY_COLUMNS} FROM (
            SELECT * FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND status = 'archived'
            {"AND category = $5" if category is not None else ""} ORDER BY created_at DESC,
                notion DESC LIMIT $4
        ) AS n {ENTRY} ORDER BY n.created_at DESC, n.notion DESC
        """,
        INDEX_ID,
        limit,
        *([category] if category is not None else []),
    )


@frozen
class ActiveBlockValues:
    """New values of a block of the inbox that becomes active, used once."""

    block_id: str
    tier: DecayTier
    decay_per_h: float
    alpha: float
    beta: float
    confidence: float
    alignment: float | None
    scored_by: str


@frozen
class BlockConfidence:
    """Confidence of a block after an outcome, and `before` it."""

    block_id: str
    alpha: float
    beta: float
    confidence: float
    before: float
    decay_per_h: float


@result
class BlockOutcome:
    """Outcome of one use of a block, with the confidence before and after."""

    signal: Annotated[float, "outcome, from 0 (failed) to 1 (succeeded)"]
    weight: Annotated[float, "weight of this outcome"]
    source: Annotated[str, "what reported the outcome"]
    before: Annotated[float, "confidence before the outcome"]
    after: Annotated[float, "confidence after the outcome"]
    told_at: Annotated[str, "time when the outcome was recorded"]


async def promote(tx: Tx, values: ActiveBlockValues, now_h: float) -> None:
    """Make a block of the inbox active."""
    await tx.execute(
        """
        UPDATE notions SET status = 'active', tier = $5, decay_per_h = $6, alpha = $7, beta = $8,
            confidence = $9,
            alignment = $10, scored_by = $11, reinforcements = reinforcements + 1,
                reinforced_h = $12
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = $4 AND status = 'inbox'
        """,
        INDEX_ID,
        values.block_id,
        values.tier,
        values.decay_per_h,
        values.alpha,
        values.beta,
        values.confidence,
        values.alignment,
        values.scored_by,
        now_h,
    )


async def add_outcome(
    tx: Tx,
    updates: Sequence[BlockConfidence],
    *,
    signal: float,
    weight: float,
    source: str,
    now: datetime,
) -> None:
    """Store the new confidences after an outcome, and the outcome itself."""
    await tx.call(
        "add_outcomes",
        INDEX_ID,
        *columns_of(map(astuple, updates), 6),
        signal,
        weight,
        source,
        now,
    )


async def outcomes_of(tx: Tx, block_id: str, *, limit: int) -> list[BlockOutcome]:
    """Return the outcomes of uses of a block, the latest first."""
    rows = await tx.fetch(
        """
        SELECT signal, weight, source, before, after, told_at FROM outcomes
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = $4 ORDER BY number DESC
            LIMIT $5
        """,
        INDEX_ID,
        block_id,
        limit,
    )
    return [BlockOutcome(**{**row, "told_at": row["told_at"].isoformat()}) for row in rows]


async def set_tier(tx: Tx, block_id: str, tier: DecayTier, decay_per_h: float) -> None:
    """Change the tier and the decay of a block."""
    await tx.execute(
        """
        UPDATE notions SET tier = $5, decay_per_h = $6
        WHERE tenant = $1 AND project = $2 AND book = $3 AND notion = $4 AND status <> 'archived'
        """,
        INDEX_ID,
        block_id,
        tier,
        decay_per_h,
    )
