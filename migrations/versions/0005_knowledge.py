"""What agents keep of what they learnt: notions, their edges and contradictions, outcomes, and the
clock of a book."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Name = sa.Text(collation="C")
Number = postgresql.DOUBLE_PRECISION()
LIVE = sa.text("status <> 'archived'")


def scope() -> list[sa.Column[object]]:
    return [
        sa.Column("tenant", sa.LargeBinary(), nullable=False),
        sa.Column("project", Name, nullable=False),
        sa.Column("book", sa.BigInteger(), nullable=False),
    ]


def number(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, Number, nullable=nullable)


def name(of: str) -> sa.Column[object]:
    return sa.Column(of, Name, nullable=False)


def count(of: str) -> sa.Column[object]:
    return sa.Column(of, sa.Integer(), nullable=False)


def moment(of: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(of, sa.DateTime(timezone=True), nullable=nullable)


def key(*names: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint("tenant", "project", "book", *names)


def upgrade() -> None:
    op.create_table(
        "notions",
        *scope(),
        name("notion"),
        count("entry"),
        name("digest"),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("archive_reason", sa.String(16), nullable=True),
        sa.Column("superseded_by", Name, nullable=True),
        name("category"),
        sa.Column("tier", sa.String(16), nullable=False),
        *map(number, ("alpha", "beta", "confidence", "evidence")),
        count("reinforcements"),
        *map(number, ("decay_per_h", "reinforced_h", "created_h")),
        moment("created_at"),
        number("alignment", nullable=True),
        sa.Column("scored_by", sa.Text(), nullable=False, server_default=""),
        key("notion"),
    )
    within = ["tenant", "project", "book"]
    op.create_index(
        "notions_digest", "notions", [*within, "digest"], unique=True, postgresql_where=LIVE
    )
    op.create_index(
        "notions_pending",
        "notions",
        [*within, "created_at", "notion"],
        postgresql_where=sa.text("status = 'inbox'"),
    )
    op.create_index(
        "notions_recent", "notions", [*within, "tier", "reinforced_h"], postgresql_where=LIVE
    )
    op.create_index("notions_used", "notions", [*within, "reinforcements"], postgresql_where=LIVE)
    op.create_index("notions_sure", "notions", [*within, "confidence"], postgresql_where=LIVE)
    op.create_table("notion_tags", *scope(), name("tag"), name("notion"), key("tag", "notion"))
    op.create_index("notion_tags_of", "notion_tags", [*within, "notion"])
    op.create_table(
        "edges",
        *scope(),
        name("low"),
        name("high"),
        number("weight"),
        name("relation"),
        sa.Column("origin", sa.String(16), nullable=False),
        count("reinforcements"),
        number("touched_h"),
        sa.Column("note", sa.Text(), nullable=False, server_default=""),
        key("low", "high"),
    )
    op.create_index("edges_back", "edges", [*within, "high", "low"])
    op.create_table(
        "contradictions",
        *scope(),
        name("low"),
        name("high"),
        sa.Column("kind", sa.String(16), nullable=False),
        number("score"),
        moment("found_at"),
        key("low", "high"),
    )
    op.create_index("contradictions_back", "contradictions", [*within, "high", "low"])
    op.create_table(
        "outcomes",
        *scope(),
        name("notion"),
        count("number"),
        number("signal"),
        number("weight"),
        sa.Column("source", sa.Text(), nullable=False),
        number("before"),
        number("after"),
        moment("told_at"),
        key("notion", "number"),
    )
    op.create_table(
        "activity",
        *scope(),
        number("active_h"),
        moment("seen_at"),
        number("session_from_h"),
        *map(count, ("inbox", "active", "archived")),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        moment("consolidated_at", nullable=True),
        number("curated_h", nullable=True),
        *(
            sa.Column(of, postgresql.JSONB(), nullable=False)
            for of in ("session_tokens", "lifetime_tokens")
        ),
        key(),
    )


def downgrade() -> None:
    for table in ("activity", "outcomes", "contradictions", "edges", "notion_tags", "notions"):
        op.drop_table(table)
