"""Table of write fences: what is closed to writers because it is being purged."""

from sqlalchemy import BigInteger, Column
from sqlalchemy.dialects.postgresql import UUID

from memsvc.store.schema_columns import tenant_table, timestamp_column

# What is being purged takes no writes until that is done, whoever does it: a project (`unit` 0; the
# project `*` is the whole tenant), or what is written under one lock (`unit` is its key). `purge`
# is whoever is at work on it.
fences = tenant_table(
    "purges",
    Column("unit", BigInteger, nullable=False),
    Column("purge", UUID(as_uuid=True), nullable=False),
    timestamp_column("begun_at"),
    key=("unit",),
)
