"""Tables that alembic migrates to; each key of a tenant's table leads with the tenant.

Those of turn memory are in `schema_turns`.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Date,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION, JSONB, REAL, UUID

from memsvc.store import schema_turns
from memsvc.store.schema_turns import Name, metadata, tenant_table, timestamp_column, words
from memsvc.store.tables import TABLES

__all__ = ["TENANT_TABLES", "metadata", "schema_turns"]

# Registry of tenants and keys: no content, no tenant policy, only hashes of keys. `bounded_since`
# is when the quota of what is stored came for a tenant who was there before.
tenants = Table(
    "tenants",
    metadata,
    Column("tenant", LargeBinary, primary_key=True),
    timestamp_column("created_at"),
    timestamp_column("bounded_since", nullable=True),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_hash", LargeBinary, primary_key=True),
    Column("key_id", UUID(as_uuid=True), nullable=False, unique=True),
    Column("tenant", LargeBinary, nullable=False),
    Column("label", Text, nullable=False),
    Column("permissions", ARRAY(Text), nullable=False),
    Column("projects", ARRAY(Text), nullable=True),
    Column("hidden_tools", ARRAY(Text), nullable=False),
    timestamp_column("created_at"),
    timestamp_column("expires_at", nullable=True),
    timestamp_column("revoked_at", nullable=True),
    timestamp_column("last_used_at", nullable=True),
    Column("toolsets", ARRAY(Text), nullable=False, server_default="{}"),
    Index("api_keys_tenant", "tenant"),
)

# Closed sessions of the console, by a hash of what their cookies are bound to: of no tenant, and
# short-lived.
closed_sessions = Table(
    "ended_sessions",
    metadata,
    Column("session", LargeBinary, primary_key=True),
    timestamp_column("expires_at"),
)

# One row a call, from every surface; arguments are shapes, never content. Partitioned by week by
# memsvc_roll_calls (`store/call_parts`); calls without a partition go into `calls_rest`.
calls = tenant_table(
    "calls",
    timestamp_column("called_at"),
    Column("call", UUID(as_uuid=True), nullable=False),
    Column("surface", String(16), nullable=False),
    Column("tool", Text, nullable=False),
    Column("key_label", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("code", Text, nullable=True),
    Column("duration_ms", REAL, nullable=False),
    Column("arguments", JSONB, nullable=False),
    Column("request_id", Text, nullable=False),
    Index(
        *("calls_failed", "tenant", "called_at", "call"),
        postgresql_where=text("status <> 'success'"),
    ),
    postgresql_partition_by="RANGE (called_at)",
)

# What a tenant's project holds in files that its callers wrote: the row that a quota is kept on.
projects = tenant_table(
    "projects",
    Column("size_bytes", BigInteger, nullable=False),
    timestamp_column("created_at"),
)

# What all projects of a tenant hold in such files: the row that the tenant's quota is kept on.
usage = tenant_table("usage", Column("size_bytes", BigInteger, nullable=False))

# A live or soft-deleted file. `stream` names the blocks of its present content, `revision` counts
# its changes; entries of the index stand for its first `indexed_bytes`; `sha256` is of the content
# where a write had it all.
files = tenant_table(
    "files",
    Column("incarnation", UUID(as_uuid=True), nullable=False),
    Column("path", Name, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("stream", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("is_text", Boolean, nullable=False),
    Column("indexed_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("sha256", LargeBinary, nullable=True),
    Column("owner", Text, nullable=False),
    timestamp_column("created_at"),
    timestamp_column("updated_at"),
    timestamp_column("deleted_at", nullable=True),
    Index(
        "files_path",
        "tenant",
        "project",
        "path",
        unique=True,
        postgresql_where=text("deleted_at IS NULL"),
    ),
    # deleted files at a path, and those that wait to be purged
    Index(
        *("files_deleted", "tenant", "project", "path", "deleted_at"),
        postgresql_where=text("deleted_at IS NOT NULL"),
    ),
    # deleted files that wait to be removed from the index
    Index(
        *("files_to_forget", "tenant", "project"),
        postgresql_where=text("deleted_at IS NOT NULL AND indexed_bytes > 0"),
    ),
)

# Where a file's content began anew: every stream that the file ever had, with the oldest of its
# revisions that can be read; below 0 when none can any more and its blocks are on their way out.
streams = tenant_table(
    "streams",
    Column("incarnation", UUID(as_uuid=True), nullable=False),
    Column("first_revision", BigInteger, nullable=False),
    Column("stream", BigInteger, nullable=False),
    timestamp_column("created_at", nullable=True),
)

# Immutable content. A version of a file is the blocks of one stream up to a revision, so that an
# append stores only what is appended and its history costs nothing more. Old blocks are merged,
# never changed otherwise.
blocks = tenant_table(
    "blocks",
    Column("stream", BigInteger, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    timestamp_column("created_at"),
    Column("content", LargeBinary, nullable=False),
)

# The index that a style keeps its entries in, with the counters that BM25 needs. `book` is a hash
# of the name; a segment of its postings spans 2 ** segment_bits entries.
indexes = tenant_table(
    "books",
    Column("book", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("analyser", SmallInteger, nullable=False),
    Column("segment_bits", SmallInteger, nullable=False, server_default=text("10")),
    Column("next_entry", Integer, nullable=False),
    Column("folded_entry", Integer, nullable=False, server_default=text("0")),
    Column("entries", Integer, nullable=False),
    Column("length", BigInteger, nullable=False),
)

# One recallable thing: its text, who said it and when, and the bytes of the file that it came from.
# A chunk of a document has the role `document` and the document's name as `ref`; `cues` are words
# beside the text that find it.
entries = tenant_table(
    "entries",
    Column("book", BigInteger, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("ref", Text, nullable=False),
    words("role"),
    words("speaker"),
    timestamp_column("said_at"),
    Column("digest", BigInteger, nullable=False),
    Column("asks", Boolean, nullable=False),
    Column("length", SmallInteger, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("stream", BigInteger, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("text", Text, nullable=False),
    words("cues"),
    Index(
        *("entries_documents", "tenant", "project", "book", "ref", "start"),
        postgresql_where=text("role = 'document'"),
    ),
    # the digests of a session, whichever user's index they are in
    Index(
        *("entries_digests", "tenant", "project", "ref"),
        postgresql_ops={"ref": "text_pattern_ops"},
        postgresql_where=text("role = 'digest'"),
    ),
)

# The terms of an index's newest entries, from `folded_entry` on, which its postings do not have
# yet: for each of them a hit as there.
fresh_terms = tenant_table(
    "fresh_terms",
    Column("book", BigInteger, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("terms", ARRAY(Name), nullable=False),
    Column("hits", ARRAY(BigInteger), nullable=False),
)

# Entries with a term: one row for each term and each segment of entries of an index, so that a
# common term is few rows and a rare one is one. A hit is one number: the entry (32 bits), its count
# of the term (16) and of all terms (16).
term_table = tenant_table(
    "postings",
    Column("book", BigInteger, nullable=False),
    Column("term", Name, nullable=False),
    Column("segment", Integer, nullable=False),
    Column("hits", ARRAY(BigInteger), nullable=False),
)

# The jobs of a tenant that wait in the queue (`started` false) or were begun, by what they are
# about: two jobs of one name and subject never wait at once, and never run at once. The queue
# itself holds ids alone.
job_refs = tenant_table(
    "job_refs",
    Column("name", Text, nullable=False),
    Column("subject", Name, nullable=False),
    Column("started", Boolean, nullable=False),
    Column("job", BigInteger, nullable=False),
    timestamp_column("queued_at"),
)

# What a model says a file is about, as the file was when its stream had so many bytes. `generation`
# is a hash of all that the text depends on: it is not asked for twice.
summaries = tenant_table(
    "summaries",
    Column("incarnation", UUID(as_uuid=True), nullable=False),
    Column("stream", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("generation", LargeBinary, nullable=False),
    Column("words", SmallInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("model", Text, nullable=False),
    timestamp_column("updated_at"),
    Index("summaries_stream", "tenant", "project", "stream", unique=True),
)

# Uses of a tenant's daily limits, by purpose and day.
allowance = tenant_table(
    "allowances",
    Column("purpose", Text, nullable=False),
    Column("day", Date, nullable=False),
    Column("times", Integer, nullable=False),
)

# How far ahead of now what a tenant uses is, for buckets that are busy: shared by the replicas of
# the service. Seconds since 1970 by the database's clock; `used_s` is what was told last.
rates = tenant_table(
    "rates",
    Column("bucket", Name, nullable=False),
    Column("empty_at", DOUBLE_PRECISION, nullable=False),
    Column("used_s", DOUBLE_PRECISION, nullable=False),
)

# What MCP clients subscribed to: by URI the last state that was sent, and the number of that event.
# Events are numbered within the session; `stream` is when the stream that gets them was opened.
mcp_sessions = tenant_table(
    "mcp_sessions",
    Column("session_hash", LargeBinary, nullable=False),
    Column("stream", BigInteger, nullable=False),
    Column("event", BigInteger, nullable=False),
    Column("subscriptions", JSONB, nullable=False),
    timestamp_column("expires_at"),
)

# A tree of the documents of an index, with how many nodes it has: the row that a limit is kept on.
tree_table = tenant_table(
    "outlines",
    Column("book", BigInteger, nullable=False),
    Column("nodes", Integer, nullable=False),
)

# One node of such a tree: what it is below (NULL for the root) and, in order, what is below it. So
# a change of what one document links touches the row of that document, and those of the nodes that
# come, go or move.
document_nodes = tenant_table(
    "outline_nodes",
    Column("book", BigInteger, nullable=False),
    Column("node", Name, nullable=False),
    Column("parent", Name, nullable=True),
    Column("children", ARRAY(Name), nullable=False),
)


# The archive that a project was restored from, so that the same one, sent again, is known.
restored_exports = tenant_table(
    "restores",
    Column("archive", UUID(as_uuid=True), nullable=False),
    timestamp_column("restored_at"),
)


# What is being purged takes no writes until that is done, whoever does it: a project (`unit` 0; the
# project `*` is the whole tenant), or what is written under one lock (`unit` is its key). `purge`
# is whoever is at work on it.
fences = tenant_table(
    "purges",
    Column("unit", BigInteger, nullable=False),
    Column("purge", UUID(as_uuid=True), nullable=False),
    timestamp_column("begun_at"),
)


# A memory is a fact of its user's index, now this one and then its successor; their records begin
# with its id. The row says which identity these facts have and what the client keeps with them. It
# stays when the memory ends.
memories = tenant_table(
    "memories",
    Column("book", BigInteger, nullable=False),
    Column("memory", Name, nullable=False),
    Column("fact_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("metadata", JSONB, nullable=False),
    timestamp_column("created_at"),
)

# What was found in a project, in the order in which it was committed: entries of an index, never
# their text.
memory_events = tenant_table(
    "memory_findings",
    Column("number", BigInteger, nullable=False),
    Column("book", BigInteger, nullable=False),
    Column("first_entry", Integer, nullable=False),
    Column("entries", Integer, nullable=False),
    timestamp_column("found_at"),
)

# Settings of a project that differ from the options, and its number of findings.
memory_settings = tenant_table(
    "memory_settings",
    Column("wanted", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("prompt", Text, nullable=True),
    Column("findings", BigInteger, nullable=False, server_default=text("0")),
)


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
)

# The tags of live blocks.
block_tags_table = tenant_table(
    "notion_tags",
    Column("book", BigInteger, nullable=False),
    Column("tag", Name, nullable=False),
    Column("notion", Name, nullable=False),
    Index("notion_tags_of", "tenant", "project", "book", "notion"),
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
)

TENANT_TABLES: tuple[str, ...] = tuple(
    table.name for table in metadata.sorted_tables if table.name in TABLES
)
