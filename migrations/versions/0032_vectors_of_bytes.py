"""Vectors as bytes and bits, in every database: no extension is needed for them any more.

Those of before are made anew by a job, from the texts. Entries are added with their vectors."""

from collections.abc import Sequence

from alembic import op

revision: str = "0032"
down_revision: str | None = "0031"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# Signs stand in the index, so that the first pass reads no vector. A vector stays in its row while
# a page has room for it (MAIN: up to 7,900 dimensions), so that the second pass finds it in one
# step; PLAIN, or the rest would go instead.
TABLE = (
    "DROP TABLE IF EXISTS embeddings",
    """
    CREATE TABLE embeddings (
        tenant bytea NOT NULL, project text COLLATE "C" NOT NULL, book bigint NOT NULL,
            model bigint NOT NULL,
        entry integer NOT NULL, signs bit varying NOT NULL, vector bytea NOT NULL,
        PRIMARY KEY (tenant, project, book, model, entry) INCLUDE (signs)
    )
    """,
    """
    ALTER TABLE embeddings ALTER vector SET STORAGE MAIN, ALTER signs SET STORAGE PLAIN,
        ALTER tenant SET STORAGE PLAIN, ALTER project SET STORAGE PLAIN
    """,
)
ADD_ENTRIES = """
CREATE FUNCTION add_entries(
    tenant bytea, project text, analyser smallint, segment_bits smallint,
    books bigint[], names text[], added integer[], findable integer[], lengths bigint[],
    entry_books bigint[], entry_backs integer[], search_books bigint[], search_backs integer[],
    refs text[], roles text[], speakers text[], said_at timestamptz[],
    digests bigint[], asks boolean[], term_counts smallint[], tokens integer[], streams bigint[], starts bigint[],
    sizes integer[], texts text[], cues text[],
    term_books bigint[], terms text[], term_backs integer[], counts bigint[],
    model bigint, signs varbit[], vectors bytea[]
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
    IF $31 IS NOT NULL THEN
        INSERT INTO embeddings (tenant, project, book, model, entry, signs, vector)
        SELECT s.tenant, s.project, s.book, $31, s.next_entry - v.search_back, v.signs, v.vector
        FROM books AS s, unnest($12, $13, $32, $33) AS v (search_book, search_back, signs, vector)
        WHERE s.tenant = $1 AND s.project = $2 AND s.book = ANY($5) AND s.book = v.search_book
            AND v.vector IS NOT NULL;
    END IF;
END
$$
"""
ADDED = (
    "add_entries("
    + ", ".join(
        argument.split()[-1]
        for argument in ADD_ENTRIES.split(") RETURNS", maxsplit=1)[0].split("(", 1)[1].split(",")
    )
    + ")"
)
"""The function by its arguments: that of before stays for servers that are still to be stopped."""


def upgrade() -> None:
    for statement in (*TABLE, ADD_ENTRIES):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    op.get_bind().exec_driver_sql(f"DROP FUNCTION {ADDED}")
    op.drop_table("embeddings")
