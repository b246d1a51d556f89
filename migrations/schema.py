"""Tables as the newest revision leaves them: tests compare them with what the revisions make.

Each key of a tenant's table leads with the tenant. Tables of turn memory are in `schema_turns`.
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
from sqlalchemy.dialects.postgresql import BIT, DOUBLE_PRECISION, JSONB, REAL

from memsvc.store.tables import TABLES
from migrations import schema_turns
from migrations.schema_turns import (
    Name,
    Timestamp,
    Uuid,
    columns,
    metadata,
    tenant_index,
    tenant_table,
    text_column,
    with_default,
)

__all__ = ["TENANT_TABLES", "metadata", "schema_turns"]

# Registry of tenants and keys: no content, no tenant policy, only hashes of keys. `bounded_since`
# is when the quota of what is stored came for a tenant who was there before.
Table(
    "tenants",
    metadata,
    *columns(
        tenant=Column(LargeBinary, primary_key=True),
        created_at=Timestamp,
        bounded_since=Column(Timestamp),
    ),
)

Table(
    "api_keys",
    metadata,
    *columns(
        key_hash=Column(LargeBinary, primary_key=True),
        key_id=Column(Uuid, nullable=False, unique=True),
        tenant=LargeBinary,
        label=Text,
        permissions=ARRAY(Text),
        projects=Column(ARRAY(Text)),
        hidden_tools=ARRAY(Text),
        created_at=Timestamp,
        expires_at=Column(Timestamp),
        revoked_at=Column(Timestamp),
        last_used_at=Column(Timestamp),
        toolsets=Column(ARRAY(Text), nullable=False, server_default="{}"),
        user_id=Column(Text, nullable=False, server_default=""),
    ),
    Index("api_keys_tenant", "tenant"),
)

# Closed sessions of the console, by a hash of what their cookies are bound to: of no tenant, and
# short-lived.
Table(
    "ended_sessions",
    metadata,
    *columns(session=Column(LargeBinary, primary_key=True), expires_at=Timestamp),
)

# One row a call, from every surface; arguments are shapes, never content. Partitioned by week by
# memsvc_roll_calls (`store/call_parts`); calls without a partition go into `calls_rest`.
tenant_table(
    "calls",
    Index(
        *("calls_failed", "tenant", "called_at", "call"),
        postgresql_where=text("status <> 'success'"),
    ),
    called_at=Timestamp,
    call=Uuid,
    surface=String(16),
    tool=Text,
    key_label=Text,
    status=String(16),
    code=Column(Text),
    duration_ms=REAL,
    arguments=JSONB,
    request_id=Text,
    postgresql_partition_by="RANGE (called_at)",
)

# What a tenant's project holds in files that its callers wrote: the row that a quota is kept on.
tenant_table(
    "projects",
    size_bytes=BigInteger,
    created_at=Timestamp,
)

# What all projects of a tenant hold in such files: the row that the tenant's quota is kept on.
tenant_table(
    "usage",
    size_bytes=BigInteger,
)

# A live or soft-deleted file. `stream` names the blocks of its present content, `revision` counts
# its changes; entries of the index stand for its first `indexed_bytes`; `sha256` is of the content
# where a write had it all.
tenant_table(
    "files",
    tenant_index("files_path", "path", unique=True, where="deleted_at IS NULL"),
    # deleted files at a path, and those that wait to be purged
    tenant_index("files_deleted", "path", "deleted_at", where="deleted_at IS NOT NULL"),
    # deleted files that wait to be removed from the index
    tenant_index("files_to_forget", where="deleted_at IS NOT NULL AND indexed_bytes > 0"),
    incarnation=Uuid,
    path=Name,
    revision=BigInteger,
    stream=BigInteger,
    size_bytes=BigInteger,
    is_text=Boolean,
    indexed_bytes=with_default(BigInteger, "0"),
    sha256=Column(LargeBinary),
    owner=Text,
    created_at=Timestamp,
    updated_at=Timestamp,
    deleted_at=Column(Timestamp),
)

# Where a file's content began anew: every stream that the file ever had, with the oldest of its
# revisions that can be read; below 0 when none can any more and its blocks are on their way out.
tenant_table(
    "streams",
    incarnation=Uuid,
    first_revision=BigInteger,
    stream=BigInteger,
    created_at=Column(Timestamp),
)

# Immutable content. A version of a file is the blocks of one stream up to a revision, so that an
# append stores only what is appended and its history costs nothing more. Old blocks are merged,
# never changed otherwise.
tenant_table(
    "blocks",
    stream=BigInteger,
    start=BigInteger,
    revision=BigInteger,
    created_at=Timestamp,
    content=LargeBinary,
)

# The index that a style keeps its entries in, with the counters that BM25 needs. `book` is a hash
# of the name; a segment of its postings spans 2 ** segment_bits entries. `withheld` are indexes
# whose entries it has and must not find any more.
tenant_table(
    "books",
    book=BigInteger,
    name=Text,
    analyser=SmallInteger,
    segment_bits=with_default(SmallInteger, "10"),
    next_entry=Integer,
    folded_entry=with_default(Integer, "0"),
    entries=Integer,
    length=BigInteger,
    withheld=with_default(ARRAY(BigInteger), "'{}'::bigint[]"),
)

# One recallable thing: its text, who said it and when, and the bytes of the file that it came from.
# A chunk of a document has the role `document` and the document's name as `ref`; `cues` are words
# beside the text that find it; `feedback` is 1 where it helped and -1 where it was wrong. Its terms
# and vectors are in its search index, under the number that it has there. `utc_offset` is the
# offset in minutes of a time that was not given in UTC.
tenant_table(
    "entries",
    tenant_index("entries_documents", "book", "ref", "start", where="role = 'document'"),
    # partial, so that no query by the order of an index takes it
    tenant_index(
        "entries_search",
        "search_book",
        "search_entry",
        unique=True,
        where="search_book IS NOT NULL",
    ),
    book=BigInteger,
    entry=Integer,
    ref=Text,
    role=text_column(),
    speaker=text_column(),
    said_at=Timestamp,
    digest=BigInteger,
    asks=Boolean,
    length=SmallInteger,
    tokens=Integer,
    stream=BigInteger,
    start=BigInteger,
    size_bytes=Integer,
    text=Text,
    cues=text_column(),
    feedback=with_default(SmallInteger, "0"),
    search_book=Column(BigInteger),
    search_entry=Column(Integer),
    utc_offset=Column(SmallInteger),
)

# The terms of an index's newest entries, from `folded_entry` on, which its postings do not have
# yet: for each of them a hit as there.
tenant_table(
    "fresh_terms",
    book=BigInteger,
    entry=Integer,
    terms=ARRAY(Name),
    hits=ARRAY(BigInteger),
)

# Entries with a term: one row for each term and each segment of entries of an index, so that a
# common term is few rows and a rare one is one. A hit is one number: the entry (32 bits), its count
# of the term (16) and of all terms (16).
tenant_table(
    "posting_lists",
    book=BigInteger,
    term=Name,
    segment=Integer,
    hits=ARRAY(BigInteger),
)

# What an entry means to a model: a signed byte for each number of its vector, and the signs, which
# the primary key's index has too, so that a search compares them there.
tenant_table(
    "embeddings",
    book=BigInteger,
    model=BigInteger,
    entry=Integer,
    signs=BIT(varying=True),
    vector=LargeBinary,
)
metadata.tables["embeddings"].primary_key.dialect_options["postgresql"]["include"] = ["signs"]

# The jobs of a tenant that wait in the queue (`started` false) or were begun, by what they are
# about: two jobs of one name and subject never wait at once, and never run at once. The queue
# itself holds ids alone.
tenant_table(
    "job_refs",
    name=Text,
    subject=Name,
    started=Boolean,
    job=BigInteger,
    queued_at=Timestamp,
)

# What a model says a file is about, as the file was when its stream had so many bytes. `generation`
# is a hash of all that the text depends on: it is not asked for twice.
tenant_table(
    "summaries",
    tenant_index("summaries_stream", "stream", unique=True),
    incarnation=Uuid,
    stream=BigInteger,
    size_bytes=BigInteger,
    generation=LargeBinary,
    words=SmallInteger,
    text=Text,
    model=Text,
    updated_at=Timestamp,
)

# Uses of a tenant's daily limits, by purpose and day.
tenant_table(
    "allowances",
    purpose=Text,
    day=Date,
    times=Integer,
)

# How far ahead of now what a tenant uses is, for buckets that are busy: shared by the replicas of
# the service. Seconds since 1970 by the database's clock; `used_s` is what was told last.
tenant_table(
    "rates",
    bucket=Name,
    empty_at=DOUBLE_PRECISION,
    used_s=DOUBLE_PRECISION,
)

# What MCP clients subscribed to: by URI the last state that was sent, and the number of that event.
# Events are numbered within the session; `stream` is when the stream that gets them was opened.
tenant_table(
    "mcp_sessions",
    session_hash=LargeBinary,
    stream=BigInteger,
    event=BigInteger,
    subscriptions=JSONB,
    expires_at=Timestamp,
)

# What is waited for just now: the answer of a session's user, or, of the process that has them, the
# events of a stream. Such an answer has content. It goes with who waits, else by the sweep.
tenant_table(
    "mcp_questions",
    question=Name,
    session_hash=LargeBinary,
    answer=Column(JSONB),
    expires_at=Timestamp,
)

# A tree of the documents of an index, with how many nodes it has: the row that a limit is kept on.
tenant_table(
    "outlines",
    book=BigInteger,
    nodes=Integer,
)

# One node of such a tree: what it is below (NULL for the root) and, in order, what is below it. So
# a change of what one document links touches the row of that document, and those of the nodes that
# come, go or move.
tenant_table(
    "outline_nodes",
    book=BigInteger,
    node=Name,
    parent=Column(Name),
    children=ARRAY(Name),
)


# The archive that a project was restored from, so that the same one, sent again, is known.
tenant_table(
    "restores",
    archive=Uuid,
    restored_at=Timestamp,
)


# What is being purged takes no writes until that is done, whoever does it: a project (`unit` 0; the
# project `*` is the whole tenant), or what is written under one lock (`unit` is its key). `purge`
# is whoever is at work on it.
tenant_table(
    "purges",
    unit=BigInteger,
    purge=Uuid,
    begun_at=Timestamp,
)


# A memory is a fact of its user's index, now this one and then its successor; their records begin
# with its id. The row says which identity these facts have and what the client keeps with them. It
# stays when the memory ends.
tenant_table(
    "memories",
    book=BigInteger,
    memory=Name,
    fact_id=Text,
    key=Text,
    slot=Text,
    metadata=JSONB,
    created_at=Timestamp,
)

# What was found in a project, in the order in which it was committed: entries of an index, never
# their text.
tenant_table(
    "memory_findings",
    number=BigInteger,
    book=BigInteger,
    first_entry=Integer,
    entries=Integer,
    found_at=Timestamp,
)

# Settings of a project that differ from the options, and its number of findings.
tenant_table(
    "memory_settings",
    wanted=with_default(JSONB, "'{}'::jsonb"),
    prompt=Column(Text),
    findings=with_default(BigInteger, "0"),
)


_LIVE = "status <> 'archived'"


# One row a block; its text is that of its entry, which is findable while the block is live (`inbox`
# or `active`) and gone when it was forgotten. `digest` is of the text: no two live blocks of an
# index have the same. `alpha` and `beta` are what outcomes taught of it, `confidence` their share;
# times with the unit `h` are on the clock of the index.
tenant_table(
    "notions",
    tenant_index("notions_digest", "book", "digest", unique=True, where=_LIVE),
    tenant_index("notions_pending", "book", "created_at", "notion", where="status = 'inbox'"),
    tenant_index("notions_recent", "book", "tier", "reinforced_h", where=_LIVE),
    tenant_index("notions_used", "book", "reinforcements", where=_LIVE),
    tenant_index("notions_sure", "book", "confidence", where=_LIVE),
    # archived blocks, by when they were remembered
    tenant_index("notions_archived", "book", "created_at", "notion", where="status = 'archived'"),
    tenant_index("notions_superseded", "book", "superseded_by", where="superseded_by IS NOT NULL"),
    book=BigInteger,
    notion=Name,
    entry=Integer,
    digest=Name,
    status=String(16),
    archive_reason=Column(String(16)),
    superseded_by=Column(Name),
    category=Name,
    tier=String(16),
    alpha=DOUBLE_PRECISION,
    beta=DOUBLE_PRECISION,
    confidence=DOUBLE_PRECISION,
    evidence=DOUBLE_PRECISION,
    reinforcements=Integer,
    decay_per_h=DOUBLE_PRECISION,
    reinforced_h=DOUBLE_PRECISION,
    created_h=DOUBLE_PRECISION,
    created_at=Timestamp,
    alignment=Column(DOUBLE_PRECISION),
    scored_by=text_column(),
)

# The tags of live blocks.
tenant_table(
    "notion_tags",
    tenant_index("notion_tags_of", "book", "notion"),
    book=BigInteger,
    tag=Name,
    notion=Name,
)

# Relations between blocks, `low` < `high`. `origin` says who found one: similarity, outcome or
# agent.
tenant_table(
    "edges",
    tenant_index("edges_back", "book", "high", "low"),
    book=BigInteger,
    low=Name,
    high=Name,
    weight=DOUBLE_PRECISION,
    relation=Name,
    origin=String(16),
    reinforcements=Integer,
    touched_h=DOUBLE_PRECISION,
    note=text_column(),
)

# Blocks that contradict each other, `low` < `high`: one of them is displayed, not both.
tenant_table(
    "contradictions",
    tenant_index("contradictions_back", "book", "high", "low"),
    book=BigInteger,
    low=Name,
    high=Name,
    kind=String(16),
    score=DOUBLE_PRECISION,
    found_at=Timestamp,
)

# Outcomes of uses of a block, one row each, with the confidence before and after.
tenant_table(
    "outcomes",
    book=BigInteger,
    notion=Name,
    number=Integer,
    signal=DOUBLE_PRECISION,
    weight=DOUBLE_PRECISION,
    source=Text,
    before=DOUBLE_PRECISION,
    after=DOUBLE_PRECISION,
    told_at=Timestamp,
)

# The clock of an index, which runs while it is used, and its counters; written by whoever holds the
# index's lock.
tenant_table(
    "activity",
    book=BigInteger,
    active_h=DOUBLE_PRECISION,
    seen_at=Timestamp,
    session_from_h=DOUBLE_PRECISION,
    inbox=Integer,
    active=Integer,
    archived=Integer,
    revision=BigInteger,
    consolidated_at=Column(Timestamp),
    curated_h=Column(DOUBLE_PRECISION),
    session_tokens=JSONB,
    lifetime_tokens=JSONB,
)

TENANT_TABLES: tuple[str, ...] = tuple(
    table.name for table in metadata.sorted_tables if table.name in TABLES
)
