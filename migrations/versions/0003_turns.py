"""What turns leave behind by and by; the servers' own secrets; terms that wait for the postings."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from memsvc.store import concurrent_index

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Name = sa.Text(collation="C")


def upgrade() -> None:
    concurrent_index.build(
        "facts_past",
        "facts",
        ["tenant", "project", "expires_at"],
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    concurrent_index.build(
        "sessions_user",
        "sessions",
        ["tenant", "project", "user_id", "updated_at"],
        postgresql_where=sa.text("user_id <> ''"),
    )
    op.add_column(
        "books",
        sa.Column("folded_entry", sa.Integer(), nullable=False, server_default=sa.text("0")),
    )
    # the policies bind the owner too, who has no tenant
    op.execute("ALTER TABLE books NO FORCE ROW LEVEL SECURITY")
    op.execute("UPDATE books SET folded_entry = next_entry")
    op.execute("ALTER TABLE books FORCE ROW LEVEL SECURITY")
    op.create_table(
        "fresh_terms",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("book", sa.BigInteger(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.Column("terms", sa.ARRAY(Name), nullable=False),
        sa.Column("hits", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "book", "entry"),
    )
    op.add_column(
        "facts",
        sa.Column("forgotten", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    for name in ("policy", "summary"):
        op.add_column("sessions", sa.Column(name, postgresql.JSONB(), nullable=True))
    for name in ("compacted_at", "consolidated_at"):
        op.add_column("sessions", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    for name in ("consolidated_entry", "digested_entry", "extracted_entry"):
        op.add_column(
            "sessions", sa.Column(name, sa.Integer(), nullable=False, server_default=sa.text("0"))
        )
    op.add_column(
        "sessions",
        sa.Column("shared", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    # nobody noted yet who else spoke there: what has a user stays within its session until a
    # rebuild has looked
    op.execute("ALTER TABLE sessions NO FORCE ROW LEVEL SECURITY")
    op.execute("UPDATE sessions SET shared = true WHERE user_id <> ''")
    op.execute("ALTER TABLE sessions FORCE ROW LEVEL SECURITY")
    op.create_table(
        "insights",
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("book", sa.BigInteger(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.Column("insight", Name, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("confidence", sa.REAL(), nullable=False),
        sa.Column("evidence", postgresql.JSONB(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "project", "book", "entry"),
    )
    op.create_index(
        "insights_once", "insights", ["tenant", "project", "book", "insight"], unique=True
    )
    op.create_table(
        "server_secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    # what is not in the postings would be lost: each of these entries gets its own rows there
    op.execute("ALTER TABLE fresh_terms NO FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE books NO FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE postings NO FORCE ROW LEVEL SECURITY")
    op.execute("""
        INSERT INTO postings AS p (tenant, project, book, term, segment, hits)
        SELECT f.tenant, f.project, f.book, h.term, f.entry >> b.segment_bits, array_agg(h.hit ORDER BY h.hit)
        FROM fresh_terms AS f JOIN books AS b USING (tenant, project, book)
        CROSS JOIN LATERAL unnest(f.terms, f.hits) AS h (term, hit) GROUP BY 1, 2, 3, 4, 5
        ON CONFLICT (tenant, project, book, term, segment) DO UPDATE SET hits = p.hits || EXCLUDED.hits
    """)
    op.execute("ALTER TABLE postings FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE books FORCE ROW LEVEL SECURITY")
    op.drop_table("fresh_terms")
    op.drop_column("books", "folded_entry")
    op.drop_index("facts_past", "facts")
    op.drop_column("facts", "forgotten")
    op.drop_table("server_secrets")
    op.drop_table("insights")
    op.drop_index("sessions_user", "sessions")
    for name in (
        "shared",
        "extracted_entry",
        "digested_entry",
        "consolidated_entry",
        "consolidated_at",
        "compacted_at",
        "summary",
        "policy",
    ):
        op.drop_column("sessions", name)
