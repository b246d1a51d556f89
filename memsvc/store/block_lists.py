"""Lists of blocks of an index: pending, tagged, strongest, unused, live or archived ones."""

from collections.abc import Mapping, Sequence

from memsvc.core.decay import DecayTier
from memsvc.store.database import Tx
from memsvc.store.knowledge_blocks import (
    BLOCK_COLUMNS,
    ENTRY,
    ENTRY_COLUMNS,
    KnowledgeBlock,
    block_of,
)


async def pending(tx: Tx, index_id: int, *, limit: int) -> list[KnowledgeBlock]:
    """Return the blocks of the inbox that have waited longest."""
    rows = await tx.fetch(
        f"""
        SELECT {BLOCK_COLUMNS}, {ENTRY_COLUMNS} FROM (
            SELECT * FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND status = 'inbox'
            ORDER BY created_at, notion LIMIT $4
        ) AS n {ENTRY} ORDER BY n.created_at, n.notion
        """,
        index_id,
        limit,
    )
    return [block_of(row) for row in rows]


async def tagged(
    tx: Tx, index_id: int, patterns: Sequence[str], *, limit: int
) -> dict[str, list[str]]:
    """Return live blocks by id with those of their tags that fit a pattern.

    A pattern is a tag, or the beginning of tags and `%`.
    """
    rows = await tx.fetch(
        """
        SELECT t.notion, array_agg(t.tag) AS tags FROM unnest($4::text[], $5::text[]) AS p (first,
            last)
        CROSS JOIN LATERAL (
            SELECT notion, tag FROM notion_tags WHERE tenant = $1 AND project = $2 AND book = $3
                AND tag >= p.first COLLATE "C" AND tag <= p.last COLLATE "C" ORDER BY tag, notion
                    LIMIT $6
        ) AS t GROUP BY t.notion ORDER BY t.notion
        """,
        index_id,
        [pattern.removesuffix("%") for pattern in patterns],
        [
            pattern.removesuffix("%") + "\U0010ffff" if pattern.endswith("%") else pattern
            for pattern in patterns
        ],
        limit,
    )
    return {row["notion"]: row["tags"] for row in rows}


async def list_top(tx: Tx, index_id: int, *, limit: int) -> list[str]:
    """Return live blocks that may be the best without a question.

    These are those used last of each tier, the surest and the most used, up to `limit` of each.
    """
    rows = await tx.fetch(
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
        index_id,
        limit,
        list(DecayTier),
    )
    return [row["notion"] for row in rows]


async def unused_since(
    tx: Tx, index_id: int, before_h: Mapping[DecayTier, float], *, limit: int
) -> list[str]:
    """Return active blocks last used before a time on the index's clock, the longest unused first.

    The time is given for each tier.
    """
    rows = await tx.fetch(
        """
        SELECT r.notion FROM unnest($4::text[], $5::float8[]) AS asked (tier, before) CROSS
            JOIN LATERAL (
            SELECT notion FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND status <> 'archived'
                AND status = 'active' AND tier = asked.tier AND reinforced_h < asked.before
            ORDER BY reinforced_h LIMIT $6) AS r
        """,
        index_id,
        list(before_h),
        list(before_h.values()),
        limit,
    )
    return [row["notion"] for row in rows]


async def listing(
    tx: Tx, index_id: int, *, tag: str | None, category: str | None, limit: int
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
    rows = await tx.fetch(
        f"SELECT {BLOCK_COLUMNS}, {ENTRY_COLUMNS} FROM ({found}) AS n {ENTRY} ORDER BY"
        " n.confidence DESC, n.notion",
        index_id,
        limit,
        *arguments,
        *([category] if category is not None else []),
    )
    return [block_of(row) for row in rows]


async def archived(
    tx: Tx, index_id: int, *, category: str | None, limit: int
) -> list[KnowledgeBlock]:
    """Return archived blocks of one category, or of all, those remembered last first.

    They no longer have tags.
    """
    rows = await tx.fetch(
        f"""
        SELECT {BLOCK_COLUMNS}, {ENTRY_COLUMNS} FROM (
            SELECT * FROM notions WHERE tenant = $1 AND project = $2 AND book = $3
                AND status = 'archived'
            {"AND category = $5" if category is not None else ""} ORDER BY created_at DESC,
                notion DESC LIMIT $4
        ) AS n {ENTRY} ORDER BY n.created_at DESC, n.notion DESC
        """,
        index_id,
        limit,
        *([category] if category is not None else []),
    )
    return [block_of(row) for row in rows]
