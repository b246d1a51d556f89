"""Tables of turn memory, and columns and keys that many tables share."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, REAL, UUID
from sqlalchemy.schema import SchemaItem

from memsvc.store.tables import TABLES, key_of

metadata = MetaData()

Name = Text(collation="C")


def tenant_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a table of `TABLES` with its key and, before these columns, tenant and project."""
    project = [Column("project", Name, nullable=False)] if TABLES[name].of_project else []
    return Table(
        name,
        metadata,
        Column("tenant", LargeBinary, nullable=False),
        *project,
        *items,
        PrimaryKeyConstraint(*key_of(name)),
        **options,
    )


def timestamp_column(name: str, *, nullable: bool = False) -> Column[object]:
    """Return a column of a time with a zone."""
    return Column(name, DateTime(timezone=True), nullable=nullable)


def words(name: str) -> Column[object]:
    """Return a column of a text that is empty by default."""
    return Column(name, Text, nullable=False, server_default="")


# What is held to be true: one row a statement, active or past, each an entry of its index too. What
# is `forgotten` is shown to nobody who asks what was true at any time.
facts = tenant_table(
    "facts",
    Column("book", BigInteger, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("record", Text, nullable=False),
    Column("fact_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("cues", Text, nullable=False),
    Column("tier", String(2), nullable=False),
    Column("confidence", REAL, nullable=False),
    Column("state", String(16), nullable=False),
    timestamp_column("valid_from"),
    timestamp_column("valid_to", nullable=True),
    timestamp_column("expires_at", nullable=True),
    Column("superseded_by", Text, nullable=True),
    Column("evidence", JSONB, nullable=False),
    Column("forgotten", Boolean, nullable=False, server_default=text("false")),
    Column("statement", Text, nullable=False, server_default=text("''")),
    Column("doubt", JSONB, nullable=True),
    Index(
        *("facts_active", "tenant", "project", "book", "fact_id", "key", "slot"),
        unique=True,
        postgresql_where=text("state = 'active'"),
    ),
    Index(
        *("facts_expiry", "tenant", "project", "book", "expires_at"),
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
    # an index's facts by when they began to hold, forgotten ones left out: the latest are listed
    Index(
        *("facts_latest", "tenant", "project", "book", "valid_from", "entry"),
        postgresql_where=text("NOT forgotten"),
    ),
    # expired facts in any index; the session that one was learned in cannot lead, as under row
    # level security no index on a member of JSON is used
    Index(
        "facts_past",
        "tenant",
        "project",
        "expires_at",
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
)

# The turn guard: who is at work on a turn, and what a finished one answered.
guard_table = tenant_table(
    "guards",
    Column("session", Name, nullable=False),
    Column("turn", Name, nullable=False),
    Column("done", Boolean, nullable=False),
    Column("token", UUID(as_uuid=True), nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("first_entry", Integer, nullable=False),
    Column("result", JSONB, nullable=True),
    timestamp_column("claimed_at"),
)

# A session's counters and watermarks; its files are the truth that they are counted from. Entries
# of its index before `consolidated_entry` are in insights, those before `digested_entry` in the
# digests by which the user's other sessions find it, and those before `extracted_entry` were read
# by a model. `policy` is what differs from the options, `summary` says where the event stands that
# replaces what is before `context_start`. What was said in a session that is `shared`, in which
# more than one user spoke, is recalled in that session alone.
sessions = tenant_table(
    "sessions",
    Column("session", Name, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("latest_turn", Text, nullable=False),
    Column("turns", Integer, nullable=False),
    Column("context_start", Integer, nullable=False),
    Column("counters", JSONB, nullable=False),
    timestamp_column("created_at"),
    timestamp_column("updated_at"),
    timestamp_column("last_maintenance_at", nullable=True),
    Column("policy", JSONB, nullable=True),
    Column("summary", JSONB, nullable=True),
    timestamp_column("compacted_at", nullable=True),
    timestamp_column("consolidated_at", nullable=True),
    Column("consolidated_entry", Integer, nullable=False, server_default=text("0")),
    Column("digested_entry", Integer, nullable=False, server_default=text("0")),
    Column("extracted_entry", Integer, nullable=False, server_default=text("0")),
    Column("shared", Boolean, nullable=False, server_default=text("false")),
    Index(
        *("sessions_user", "tenant", "project", "user_id", "updated_at"),
        postgresql_where=text("user_id <> ''"),
    ),
    Index("sessions_latest", "tenant", "project", "updated_at", "session"),
    Index(
        *("sessions_policies", "tenant", "project", "session"),
        postgresql_where=text("policy IS NOT NULL"),
    ),
)

# What before_turn recalled and why: references and scores, and nothing that was said. `told` is the
# candidates, how sure recall was, and the limits, as `explain` tells them, with the place of each
# entry.
recalls = tenant_table(
    "recalls",
    Column("session", Name, nullable=False),
    timestamp_column("recalled_at"),
    Column("recall", UUID(as_uuid=True), nullable=False),
    Column("turn", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("told", JSONB, nullable=False),
    Index("recalls_past", "tenant", "project", "recalled_at"),
)

# What several facts come to: each is an entry of its index too. `insight` is a hash of what it says
# of which facts, so that it is never made twice; `evidence` names the session, the facts and the
# turns.
insights = tenant_table(
    "insights",
    Column("book", BigInteger, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("insight", Name, nullable=False),
    Column("kind", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("confidence", REAL, nullable=False),
    Column("evidence", JSONB, nullable=False),
    timestamp_column("made_at"),
    Index("insights_once", "tenant", "project", "book", "insight", unique=True),
)

# Secrets with which the servers of one database sign; made by whichever server needs one first.
server_secrets = Table(
    "server_secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    timestamp_column("created_at"),
)
