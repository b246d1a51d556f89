"""Tables that alembic migrates to; each key of a tenant's table leads with the tenant.

Further tables are in `schema_turns`, `schema_document_tree`, `schema_memories`, `schema_blocks`
(knowledge), `schema_fences` (write fences) and `schema_exports` (restored archives).
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
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION, JSONB, REAL, UUID

from memsvc.store import (
    schema_blocks,
    schema_document_tree,
    schema_exports,
    schema_fences,
    schema_memories,
    schema_turns,
)
from memsvc.store.schema_columns import Name, metadata, tenant_table, timestamp_column, words

__all__ = [
    "TENANT_TABLES",
    "metadata",
    "schema_blocks",
    "schema_document_tree",
    "schema_exports",
    "schema_fences",
    "schema_memories",
    "schema_turns",
]

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
calls = Table(
    "calls",
    metadata,
    Column("tenant", LargeBinary, nullable=False),
    timestamp_column("called_at"),
    Column("call", UUID(as_uuid=True), nullable=False),
    Column("project", Name, nullable=False),
    Column("surface", String(16), nullable=False),
    Column("tool", Text, nullable=False),
    Column("key_label", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("code", Text, nullable=True),
    Column("duration_ms", REAL, nullable=False),
    Column("arguments", JSONB, nullable=False),
    Column("request_id", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "called_at", "call"),
    Index(
        *("calls_failed", "tenant", "called_at", "call"),
        postgresql_where=text("status <> 'success'"),
    ),
    info={"tenant": True},
    postgresql_partition_by="RANGE (called_at)",
)

# What a tenant's project holds in files that its callers wrote: the row that a quota is kept on.
projects = tenant_table(
    "projects",
    Column("size_bytes", BigInteger, nullable=False),
    timestamp_column("created_at"),
    key=(),
)

# What all projects of a tenant hold in such files: the row that the tenant's quota is kept on.
usage = Table(
    "usage",
    metadata,
    Column("tenant", LargeBinary, primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    info={"tenant": True},
)

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
    key=("incarnation",),
)

# Where a file's content began anew: every stream that the file ever had, with the oldest of its
# revisions that can be read; below 0 when none can any more and its blocks are on their way out.
streams = tenant_table(
    "streams",
    Column("incarnation", UUID(as_uuid=True), nullable=False),
    Column("first_revision", BigInteger, nullable=False),
    Column("stream", BigInteger, nullable=False),
    timestamp_column("created_at", nullable=True),
    key=("incarnation", "first_revision"),
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
    key=("stream", "start"),
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
    key=("book",),
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
    key=("book", "entry"),
)

# The terms of an index's newest entries, from `folded_entry` on, which its postings do not have
# yet: for each of them a hit as there.
fresh_terms = tenant_table(
    "fresh_terms",
    Column("book", BigInteger, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("terms", ARRAY(Name), nullable=False),
    Column("hits", ARRAY(BigInteger), nullable=False),
    key=("book", "entry"),
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
    key=("book", "term", "segment"),
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
    key=("name", "subject", "started"),
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
    key=("incarnation",),
)

# Uses of a tenant's daily limits, by purpose and day.
allowance = Table(
    "allowances",
    metadata,
    Column("tenant", LargeBinary, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("day", Date, nullable=False),
    Column("times", Integer, nullable=False),
    PrimaryKeyConstraint("tenant", "purpose", "day"),
    info={"tenant": True},
)

# How far ahead of now what a tenant uses is, for buckets that are busy: shared by the replicas of
# the service. Seconds since 1970 by the database's clock; `used_s` is what was told last.
rates = Table(
    "rates",
    metadata,
    Column("tenant", LargeBinary, nullable=False),
    Column("bucket", Name, nullable=False),
    Column("empty_at", DOUBLE_PRECISION, nullable=False),
    Column("used_s", DOUBLE_PRECISION, nullable=False),
    PrimaryKeyConstraint("tenant", "bucket"),
    info={"tenant": True},
)

TENANT_TABLES: tuple[str, ...] = tuple(
    table.name for table in metadata.sorted_tables if table.info.get("tenant")
)
