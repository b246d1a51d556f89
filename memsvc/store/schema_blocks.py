"""Tables of blocks: an agent's knowledge, its relations, and its outcomes."""

from sqlalchemy import BigInteger, Column, Index, Integer, String, Text, text
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION, JSONB

from memsvc.store.schema_columns import Name, tenant_table, timestamp_column, words

_LIVE = text("status <> 'archived'")


def _number(name: str, *, nullable: bool = False) -> Column[object]:
    return Column(name, DOUBLE_PRECISION, nullable=nullable)


# One row a block; its text is that of its entry, which is findable while the block is live (`inbox`
# or `active`) and gone when it was forgotten. `digest` is of the text: no two live blocks of an
# index have the same. `alpha` and `beta` are what outcomes taught of it, `confidence` their share;
# times with the unit `h` are on the clock of the index.
blocks_table = tenant_table(
    "notions",
    Column("book", BigInteger, nullable=False),
    Column("notion", Name, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("digest", Name, nullable=False),
    Column("status", String(16), nullable=False),
    Column("archive_reason", String(16), nullable=True),
    Column("superseded_by", Name, nullable=True),
    Column("category", Name, nullable=False),
    Column("tier", String(16), nullable=False),
    _number("alpha"),
    _number("beta"),
    _number("confidence"),
    _number("evidence"),
    Column("reinforcements", Integer, nullable=False),
    _number("decay_per_h"),
    _number("reinforced_h"),
    _number("created_h"),
    timestamp_column("created_at"),
    _number("alignment", nullable=True),
    words("scored_by"),
    Index(
        "notions_digest", "tenant", "project", "book", "digest", unique=True, postgresql_where=_LIVE
    ),
    Index(
        *("notions_pending", "tenant", "project", "book", "created_at", "notion"),
        postgresql_where=text("status = 'inbox'"),
    ),
    Index(
        "notions_recent",
        "tenant",
        "project",
        "book",
        "tier",
        "reinforced_h",
        postgresql_where=_LIVE,
    ),
    Index("notions_used", "tenant", "project", "book", "reinforcements", postgresql_where=_LIVE),
    Index("notions_sure", "tenant", "project", "book", "confidence", postgresql_where=_LIVE),
    # archived blocks, by when they were remembered
    Index(
        *("notions_archived", "tenant", "project", "book", "created_at", "notion"),
        postgresql_where=text("status = 'archived'"),
    ),
    Index(
        *("notions_superseded", "tenant", "project", "book", "superseded_by"),
        postgresql_where=text("superseded_by IS NOT NULL"),
    ),
    key=("book", "notion"),
)

# The tags of live blocks.
block_tags_table = tenant_table(
    "notion_tags",
    Column("book", BigInteger, nullable=False),
    Column("tag", Name, nullable=False),
    Column("notion", Name, nullable=False),
    Index("notion_tags_of", "tenant", "project", "book", "notion"),
    key=("book", "tag", "notion"),
)

# Relations between blocks, `low` < `high`. `origin` says who found one: similarity, outcome or
# agent.
edges = tenant_table(
    "edges",
    Column("book", BigInteger, nullable=False),
    Column("low", Name, nullable=False),
    Column("high", Name, nullable=False),
    _number("weight"),
    Column("relation", Name, nullable=False),
    Column("origin", String(16), nullable=False),
    Column("reinforcements", Integer, nullable=False),
    _number("touched_h"),
    words("note"),
    Index("edges_back", "tenant", "project", "book", "high", "low"),
    key=("book", "low", "high"),
)

# Blocks that contradict each other, `low` < `high`: one of them is displayed, not both.
contradictions = tenant_table(
    "contradictions",
    Column("book", BigInteger, nullable=False),
    Column("low", Name, nullable=False),
    Column("high", Name, nullable=False),
    Column("kind", String(16), nullable=False),
    _number("score"),
    timestamp_column("found_at"),
    Index("contradictions_back", "tenant", "project", "book", "high", "low"),
    key=("book", "low", "high"),
)

# Outcomes of uses of a block, one row each, with the confidence before and after.
outcomes = tenant_table(
    "outcomes",
    Column("book", BigInteger, nullable=False),
    Column("notion", Name, nullable=False),
    Column("number", Integer, nullable=False),
    _number("signal"),
    _number("weight"),
    Column("source", Text, nullable=False),
    _number("before"),
    _number("after"),
    timestamp_column("told_at"),
    key=("book", "notion", "number"),
)

# The clock of an index, which runs while it is used, and its counters; written by whoever holds the
# index's lock.
usage_clock_table = tenant_table(
    "activity",
    Column("book", BigInteger, nullable=False),
    _number("active_h"),
    timestamp_column("seen_at"),
    _number("session_from_h"),
    Column("inbox", Integer, nullable=False),
    Column("active", Integer, nullable=False),
    Column("archived", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    timestamp_column("consolidated_at", nullable=True),
    _number("curated_h", nullable=True),
    Column("session_tokens", JSONB, nullable=False),
    Column("lifetime_tokens", JSONB, nullable=False),
    key=("book",),
)
