"""Places of entries in a search index, beside those in the order of their own.

A memsvc of before would search where nothing is any more: it refuses to start, and one that runs
fails, as the table that it reads is a view of nothing that it may not read."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# Entries and terms say how far they are from the end that their index, and their search index, has
# with them.
ADD_ENTRIES = """
CREATE FUNCTION add_entries(
    tenant bytea, project text, analyser smallint, segment_bits smallint,
    books bigint[], names text[], added integer[], findable integer[], lengths bigint[],
    entry_books bigint[], entry_backs integer[], search_books bigint[], search_backs integer[],
    refs text[], roles text[], speakers text[], said_at timestamptz[],
    digests bigint[], asks boolean[], term_counts smallint[], tokens integer[], streams bigint[], starts bigint[],
    sizes integer[], texts text[], cues text[],
    term_books bigint[], terms text[], term_backs integer[], counts bigint[]
) RETURNS TABLE (index_id bigint, first integer, fresh integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT * FROM unnest($5, $6, $7, $8, $9) AS a (book, name, added, findable, length) ORDER BY book
    LOOP
        INSERT INTO books AS b (tenant, project, book, name, analyser, segment_bits, next_entry, entries, length)
        VALUES ($1, $2, one.book, one.name, $3, $4, one.added, one.findable, one.length)
        ON CONFLICT (tenant, project, book) DO UPDATE SET next_entry = b.next_entry + EXCLUDED.next_entry,
            entries = b.entries + EXCLUDED.entries, length = b.length + EXCLUDED.length
        RETURNING b.book, b.next_entry - one.added, b.next_entry - b.folded_entry INTO index_id, first, fresh;
        RETURN NEXT;
    END LOOP;
    INSERT INTO entries (tenant, project, book, entry, search_book, search_entry, ref, role, speaker, said_at, digest,
        asks, length, tokens, stream, start, size_bytes, text, cues)
    SELECT b.tenant, b.project, b.book, b.next_entry - e.back, s.book, s.next_entry - e.search_back, e.ref, e.role,
        e.speaker, e.said_at, e.digest, e.asks, e.length, e.tokens, e.stream, e.start, e.size_bytes, e.text, e.cues
    FROM books AS b, books AS s,
        unnest($10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)
        AS e (book, back, search_book, search_back, ref, role, speaker, said_at, digest, asks, length, tokens, stream,
            start, size_bytes, text, cues)
    WHERE b.tenant = $1 AND b.project = $2 AND b.book = ANY($5) AND b.book = e.book
        AND s.tenant = $1 AND s.project = $2 AND s.book = ANY($5) AND s.book = e.search_book;
    INSERT INTO fresh_terms (tenant, project, book, entry, terms, hits)
    SELECT b.tenant, b.project, b.book, b.next_entry - h.back, array_agg(h.term),
        array_agg((b.next_entry - h.back)::int8 << 32 | h.counts)
    FROM books AS b, unnest($27, $28, $29, $30) AS h (book, term, back, counts)
    WHERE b.tenant = $1 AND b.project = $2 AND b.book = ANY($5) AND b.book = h.book GROUP BY 1, 2, 3, 4;
END
$$
"""
ADD_ENTRIES_BEFORE = """
CREATE FUNCTION add_entries(
    tenant bytea, project text, analyser smallint, segment_bits smallint,
    books bigint[], names text[], added integer[], findable integer[], lengths bigint[],
    entry_books bigint[], entry_backs integer[], refs text[], roles text[], speakers text[], said_at timestamptz[],
    digests bigint[], asks boolean[], term_counts smallint[], tokens integer[], streams bigint[], starts bigint[],
    sizes integer[], texts text[], cues text[],
    term_books bigint[], terms text[], term_backs integer[], counts bigint[]
) RETURNS TABLE (index_id bigint, first integer, fresh integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT * FROM unnest($5, $6, $7, $8, $9) AS a (book, name, added, findable, length) ORDER BY book
    LOOP
        INSERT INTO books AS b (tenant, project, book, name, analyser, segment_bits, next_entry, entries, length)
        VALUES ($1, $2, one.book, one.name, $3, $4, one.added, one.findable, one.length)
        ON CONFLICT (tenant, project, book) DO UPDATE SET next_entry = b.next_entry + EXCLUDED.next_entry,
            entries = b.entries + EXCLUDED.entries, length = b.length + EXCLUDED.length
        RETURNING b.book, b.next_entry - one.added, b.next_entry - b.folded_entry INTO index_id, first, fresh;
        RETURN NEXT;
    END LOOP;
    INSERT INTO entries (tenant, project, book, entry, ref, role, speaker, said_at, digest, asks, length, tokens,
        stream, start, size_bytes, text, cues)
    SELECT b.tenant, b.project, b.book, b.next_entry - e.back, e.ref, e.role, e.speaker, e.said_at, e.digest, e.asks,
        e.length, e.tokens, e.stream, e.start, e.size_bytes, e.text, e.cues
    FROM books AS b, unnest($10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
        AS e (book, back, ref, role, speaker, said_at, digest, asks, length, tokens, stream, start, size_bytes, text,
            cues)
    WHERE b.tenant = $1 AND b.project = $2 AND b.book = ANY($5) AND b.book = e.book;
    INSERT INTO fresh_terms (tenant, project, book, entry, terms, hits)
    SELECT b.tenant, b.project, b.book, b.next_entry - h.back, array_agg(h.term),
        array_agg((b.next_entry - h.back)::int8 << 32 | h.counts)
    FROM books AS b, unnest($25, $26, $27, $28) AS h (book, term, back, counts)
    WHERE b.tenant = $1 AND b.project = $2 AND b.book = ANY($5) AND b.book = h.book GROUP BY 1, 2, 3, 4;
END
$$
"""
GUARD = "CREATE VIEW postings AS SELECT 'see posting_lists' AS moved WHERE false"
WHY = (
    "COMMENT ON VIEW postings IS 'Keeps memsvc 0.1 of revision 0024 from running here: it would"
    " search where nothing is any more.'"
)


def upgrade() -> None:
    op.add_column("entries", sa.Column("search_book", sa.BigInteger(), nullable=True))
    op.add_column("entries", sa.Column("search_entry", sa.Integer(), nullable=True))
    op.add_column(
        "books",
        sa.Column(
            "withheld",
            ARRAY(sa.BigInteger()),
            nullable=False,
            server_default=sa.text("'{}'::bigint[]"),
        ),
    )
    op.rename_table("postings", "posting_lists")
    op.execute("ALTER INDEX postings_pkey RENAME TO posting_lists_pkey")
    for statement in (GUARD, WHY, _dropped(ADD_ENTRIES_BEFORE), ADD_ENTRIES):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    for statement in (_dropped(ADD_ENTRIES), ADD_ENTRIES_BEFORE, "DROP VIEW postings"):
        op.get_bind().exec_driver_sql(statement)
    op.execute("ALTER INDEX posting_lists_pkey RENAME TO postings_pkey")
    op.rename_table("posting_lists", "postings")
    op.drop_column("books", "withheld")
    op.drop_column("entries", "search_entry")
    op.drop_column("entries", "search_book")


def _dropped(function: str) -> str:
    """Return the statement that removes a function, whatever its arguments."""
    name = function.split("(", 1)[0].removeprefix("\nCREATE FUNCTION ")
    return f"DROP FUNCTION {name}"
