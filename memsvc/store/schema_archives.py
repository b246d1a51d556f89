"""Table of restored archives."""

from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import UUID

from memsvc.store.schema_columns import moment, tenant_table

# The archive that a project was restored from, so that the same one, sent again, is known.
restores = tenant_table(
    "restores",
    Column("archive", UUID(as_uuid=True), nullable=False),
    moment("restored_at"),
    key=("archive",),
)
