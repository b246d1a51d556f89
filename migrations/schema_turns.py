"""Tables of turn memory, and columns and keys that many tables share."""

from collections.abc import Iterator
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
from sqlalchemy.types import TypeEngine

from memsvc.store.tables import TABLES, key_of

metadata = MetaData()

Name = Text(collation="C")
Timestamp = DateTime(timezone=True)
Uuid = UUID(as_uuid=True)


ColumnKind = TypeEngine[Any] | type[TypeEngine[Any]] | Column[Any]


def tenant_table(
    table: str, /, *items: SchemaItem, postgresql_partition_by: str = "", **kinds: ColumnKind
) -> None:
    """Make a table of `TABLES` with its key and, before these columns, tenant and project."""
    project: dict[str, ColumnKind] = {"project": Name} if TABLES[table].of_project else {}
    Table(
        table,
        metadata,
        *columns(tenant=LargeBinary, **project, **kinds),
        *items,
        PrimaryKeyConstraint(*key_of(table)),
        postgresql_partition_by=postgresql_partition_by or None,
    )


def columns(**kinds: ColumnKind) -> Iterator[Column[Any]]:
    """Yield columns by name; one that is a bare type is never NULL."""
    for name, kind in kinds.items():
        column = kind if isinstance(kind, Column) else Column(kind, nullable=False)
        column.name = column.key = name
        yield column


def with_default(kind: ColumnKind, default: str) -> Column[Any]:
    """Return a column that is never NULL, with what SQL makes of this where nothing is given."""
    return Column(kind, nullable=False, server_default=text(default))


def text_column() -> Column[str]:
    """Return a column of a text that is empty by default."""
    return Column(Text, nullable=False, server_default="")


def tenant_index(name: str, *names: str, where: str | None = None, **options: Any) -> Index:
    """Return an index of a table of projects, over the rows where a condition holds."""
    condition = None if where is None else text(where)
    return Index(name, "tenant", "project", *names, postgresql_where=condition, **options)


# What is held to be true: one row a statement, active or past, each an entry of its index too. What
# is `forgotten` is shown to nobody who asks what was true at any time.
tenant_table(
    "facts",
    tenant_index(
        "facts_active", "book", "fact_id", "key", "slot", unique=True, where="state = 'active'"
    ),
    tenant_index("facts_expiry", "book", "expires_at", where="expires_at IS NOT NULL"),
    # an index's facts by when they began to hold, forgotten ones left out: the latest are listed
    tenant_index("facts_latest", "book", "valid_from", "entry", where="NOT forgotten"),
    # expired facts in any index; the session that one was learned in cannot lead, as under row
    # level security no index on a member of JSON is used
    tenant_index("facts_past", "expires_at", where="expires_at IS NOT NULL"),
    book=BigInteger,
    entry=Integer,
    record=Text,
    fact_id=Text,
    key=Text,
    slot=Text,
    value=Text,
    cues=Text,
    tier=String(2),
    confidence=REAL,
    state=String(16),
    valid_from=Timestamp,
    valid_to=Column(Timestamp),
    expires_at=Column(Timestamp),
    superseded_by=Column(Text),
    evidence=JSONB,
    forgotten=with_default(Boolean, "false"),
    statement=with_default(Text, "''"),
    doubt=Column(JSONB),
)

# The turn guard: who is at work on a turn, and what a finished one answered.
tenant_table(
    "guards",
    session=Name,
    turn=Name,
    done=Boolean,
    token=Uuid,
    fingerprint=LargeBinary,
    first_entry=Integer,
    result=Column(JSONB),
    claimed_at=Timestamp,
)

# A session's counters and watermarks; its files are the truth that they are counted from. Entries
# of its index before `consolidated_entry` are in insights, and those before `extracted_entry` were
# read by a model. `policy` is what differs from the options, `summary` says where the event stands
# that replaces what is before `context_start`. What was said in a session that is `shared`, in
# which more than one user spoke, is recalled in that session alone.
tenant_table(
    "sessions",
    tenant_index("sessions_user", "user_id", "updated_at", where="user_id <> ''"),
    tenant_index("sessions_latest", "updated_at", "session"),
    tenant_index("sessions_policies", "session", where="policy IS NOT NULL"),
    session=Name,
    user_id=Text,
    latest_turn=Text,
    turns=Integer,
    context_start=Integer,
    counters=JSONB,
    created_at=Timestamp,
    updated_at=Timestamp,
    last_maintenance_at=Column(Timestamp),
    policy=Column(JSONB),
    summary=Column(JSONB),
    compacted_at=Column(Timestamp),
    consolidated_at=Column(Timestamp),
    consolidated_entry=with_default(Integer, "0"),
    extracted_entry=with_default(Integer, "0"),
    shared=with_default(Boolean, "false"),
)

# What before_turn recalled and why: references and scores, and nothing that was said. `told` is the
# candidates, how sure recall was, and the limits, as `explain` tells them, with the place of each
# entry.
tenant_table(
    "recalls",
    tenant_index("recalls_past", "recalled_at"),
    session=Name,
    recalled_at=Timestamp,
    recall=Uuid,
    turn=Text,
    user_id=Text,
    tokens=Integer,
    told=JSONB,
)

# Words that were forgotten, kept apart from all that is read until the forget can no longer be
# taken back. `undo` is compressed JSON.
tenant_table(
    "forgets",
    tenant_index("forgets_by_id", "forget"),
    session=Name,
    forget=Name,
    user_id=Text,
    forgotten_at=Timestamp,
    until=Timestamp,
    undo=LargeBinary,
)

# What several facts come to: each is an entry of its index too. `insight` is a hash of what it says
# of which facts, so that it is never made twice; `evidence` names the session, the facts and the
# turns.
tenant_table(
    "insights",
    tenant_index("insights_once", "book", "insight", unique=True),
    book=BigInteger,
    entry=Integer,
    insight=Name,
    kind=Text,
    summary=Text,
    confidence=REAL,
    evidence=JSONB,
    made_at=Timestamp,
)

# Secrets with which the servers of one database sign; made by whichever server needs one first.
Table(
    "server_secrets",
    metadata,
    *columns(name=Column(Text, primary_key=True), secret=LargeBinary, created_at=Timestamp),
)
