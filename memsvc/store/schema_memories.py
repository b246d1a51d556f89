"""Tables of memories: facts about a user with an id each."""

from sqlalchemy import BigInteger, Column, Integer, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from memsvc.store.schema_columns import Name, tenant_table, timestamp_column

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
    key=("book", "memory"),
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
    key=("number",),
)

# Settings of a project that differ from the options, and its number of findings.
memory_settings = tenant_table(
    "memory_settings",
    Column("wanted", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("prompt", Text, nullable=True),
    Column("findings", BigInteger, nullable=False, server_default=text("0")),
    key=(),
)
