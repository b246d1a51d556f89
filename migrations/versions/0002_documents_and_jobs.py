"""Documents in the index, jobs, summaries, the tenant's quota, and the history of deleted files."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from memsvc.store import concurrent_index

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Name = sa.Text(collation="C")


def upgrade() -> None:
    op.add_column(
        "files",
        sa.Column("indexed_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        if_not_exists=True,  # an index wants it, and is built outside of the transaction
    )
    concurrent_index.build(
        "files_deleted",
        "files",
        ["tenant", "project", "path", "deleted_at"],
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    concurrent_index.build(
        "files_to_forget",
        "files",
        ["tenant", "project"],
        postgresql_where=sa.text("deleted_at IS NOT NULL AND indexed_bytes > 0"),
    )
    concurrent_index.build(
        "entries_documents",
        "entries",
        ["tenant", "project", "book", "ref", "start"],
        postgresql_where=sa.text("role = 'document'"),
    )
    op.create_table(
        "usage",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant"),
    )
    # the policies bind the owner too, who has no tenant
    op.execute("ALTER TABLE projects NO FORCE ROW LEVEL SECURITY")
    op.execute(
        "INSERT INTO usage (tenant, size_bytes) SELECT tenant, sum(size_bytes) FROM projects GROUP BY tenant"
    )
    op.execute("ALTER TABLE projects FORCE ROW LEVEL SECURITY")

    op.add_column("files", sa.Column("sha256", sa.LargeBinary(), nullable=True))
    op.add_column("streams", sa.Column("created_at", sa.DateTime(timezone=True), nullable=True))

    op.add_column(
        "books",
        sa.Column("segment_bits", sa.SmallInteger(), nullable=False, server_default=sa.text("10")),
    )
    op.add_column("entries", sa.Column("cues", sa.Text(), nullable=False, server_default=""))

    op.create_table(
        "job_refs",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("subject", Name, nullable=False),
        sa.Column("started", sa.Boolean(), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "name", "subject", "started"),
    )

    op.create_table(
        "summaries",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("incarnation", sa.UUID(), nullable=False),
        sa.Column("stream", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.LargeBinary(), nullable=False),
        sa.Column("words", sa.SmallInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "incarnation"),
    )
    op.create_index("summaries_stream", "summaries", ["tenant", "project", "stream"], unique=True)
    op.create_table(
        "allowances",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "purpose", "day"),
    )


def downgrade() -> None:
    op.drop_table("allowances")
    op.drop_table("summaries")
    op.drop_table("job_refs")
    op.drop_index("entries_documents", "entries")
    op.drop_column("entries", "cues")
    op.drop_column("books", "segment_bits")
    op.drop_column("streams", "created_at")
    op.drop_index("files_to_forget", "files")
    op.drop_index("files_deleted", "files")
    op.drop_column("files", "sha256")
    op.drop_column("files", "indexed_bytes")
    op.drop_table("usage")
