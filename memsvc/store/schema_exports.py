"""Table of restored archives."""

from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import UUID

from memsvc.store.schema_columns import tenant_table, timestamp_column

# The archive that a project was restored from, so that the same one, sent again, is known.
restored_exports = tenant_table(
    "restores",
    Column("archive", UUID(as_uuid=True), nullable=False),
    timestamp_column("restored_at"),
    key=("archive",),
)
