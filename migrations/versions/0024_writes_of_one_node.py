"""Writes of several tables as functions: in one round trip, and on Citus each statement of one is
sent to the tenant's node alone, by values or by a row that it has."""

from collections.abc import Sequence

from alembic import op

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# Bodies name their arguments by number: a name would be a column's too.
APPEND_LOGS = """
CREATE FUNCTION append_logs(
    tenant bytea, project text, paths text[], incarnations uuid[], new_streams bigint[], contents bytea[],
    owner text, written_at timestamptz
) RETURNS TABLE (log text, log_stream bigint, log_start bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one record;
    file record;
BEGIN
    FOR one IN SELECT * FROM unnest($3, $4, $5, $6) AS a (path, incarnation, stream, content) LOOP
        INSERT INTO files AS f (tenant, project, incarnation, path, revision, stream, size_bytes, is_text, owner,
            created_at, updated_at)
        VALUES ($1, $2, one.incarnation, one.path, 1, one.stream, length(one.content), true, $7, $8, $8)
        ON CONFLICT (tenant, project, path) WHERE deleted_at IS NULL DO UPDATE SET revision = f.revision + 1,
            size_bytes = f.size_bytes + EXCLUDED.size_bytes, updated_at = EXCLUDED.updated_at
        RETURNING f.incarnation, f.stream, f.revision, f.size_bytes INTO file;
        IF file.revision = 1 THEN
            INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
            VALUES ($1, $2, file.incarnation, 1, file.stream, $8);
        END IF;
        log := one.path;
        log_stream := file.stream;
        log_start := file.size_bytes - length(one.content);
        INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
        VALUES ($1, $2, log_stream, log_start, file.revision, $8, one.content);
        RETURN NEXT;
    END LOOP;
END
$$
"""
PUT_STYLE_FILES = """
CREATE FUNCTION put_style_files(
    tenant bytea, project text, paths text[], incarnations uuid[], new_streams bigint[], contents bytea[],
    sums bytea[], owner text, written_at timestamptz
) RETURNS SETOF files
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one record;
    file files;
BEGIN
    FOR one IN
        SELECT * FROM unnest($3, $4, $5, $6, $7) AS a (path, incarnation, stream, content, sha256)
    LOOP
        INSERT INTO files AS f (tenant, project, incarnation, path, revision, stream, size_bytes, is_text, owner,
            created_at, updated_at, sha256)
        VALUES ($1, $2, one.incarnation, one.path, 1, one.stream, length(one.content), true, $8, $9, $9, one.sha256)
        ON CONFLICT (tenant, project, path) WHERE deleted_at IS NULL DO UPDATE SET revision = f.revision + 1,
            stream = EXCLUDED.stream, size_bytes = EXCLUDED.size_bytes, is_text = true,
            updated_at = EXCLUDED.updated_at, sha256 = EXCLUDED.sha256
        RETURNING f.* INTO file;
        INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
        VALUES ($1, $2, file.incarnation, file.revision, file.stream, $9);
        IF file.size_bytes > 0 THEN
            INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
            VALUES ($1, $2, file.stream, 0, file.revision, $9, one.content);
        END IF;
        RETURN NEXT file;
    END LOOP;
END
$$
"""
# A stream that is none of the file's is begun.
WRITE_FILE = """
CREATE FUNCTION write_file(
    tenant bytea, project text, incarnation uuid, revision bigint, stream bigint, size_bytes bigint, is_text boolean,
    written_at timestamptz, indexed_bytes bigint, sha256 bytea, begun boolean, starts bigint[], pieces bytea[]
) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE files SET revision = $4, stream = $5, size_bytes = $6, is_text = $7, updated_at = $8, indexed_bytes = $9,
        sha256 = $10
    WHERE tenant = $1 AND project = $2 AND incarnation = $3;
    IF $11 THEN
        INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
        VALUES ($1, $2, $3, $4, $5, $8);
    END IF;
    INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
    SELECT f.tenant, f.project, f.stream, piece.start, f.revision, f.updated_at, piece.content
    FROM files AS f, unnest($12, $13) AS piece (start, content)
    WHERE f.tenant = $1 AND f.project = $2 AND f.incarnation = $3;
END
$$
"""
CREATE_FILE = """
CREATE FUNCTION create_file(
    tenant bytea, project text, parents text[], low text, high text, path text, incarnation uuid, stream bigint,
    size_bytes bigint, is_text boolean, owner text, written_at timestamptz, indexed_bytes bigint, sha256 bytea,
    starts bigint[], pieces bytea[]
) RETURNS TABLE (below_a_file boolean, is_directory boolean, is_file boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = ANY($3) AND deleted_at IS NULL),
        EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path >= $4 AND path < $5
            AND deleted_at IS NULL),
        EXISTS (SELECT FROM files WHERE tenant = $1 AND project = $2 AND path = $6 AND deleted_at IS NULL)
    INTO below_a_file, is_directory, is_file;
    RETURN NEXT;
    IF below_a_file OR is_directory OR is_file THEN
        RETURN;
    END IF;
    INSERT INTO files (tenant, project, incarnation, path, revision, stream, size_bytes, is_text, owner, created_at,
        updated_at, indexed_bytes, sha256)
    VALUES ($1, $2, $7, $6, 1, $8, $9, $10, $11, $12, $12, $13, $14);
    INSERT INTO streams (tenant, project, incarnation, first_revision, stream, created_at)
    VALUES ($1, $2, $7, 1, $8, $12);
    INSERT INTO blocks (tenant, project, stream, start, revision, created_at, content)
    SELECT f.tenant, f.project, f.stream, piece.start, 1, f.created_at, piece.content
    FROM files AS f, unnest($15, $16) AS piece (start, content)
    WHERE f.tenant = $1 AND f.project = $2 AND f.incarnation = $7;
END
$$
"""
# Entries and terms say how far they are from the end that their index has with them.
ADD_ENTRIES = """
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
FINISH_TURN = """
CREATE FUNCTION finish_turn(
    tenant bytea, project text, session text, user_id text, turn text, counters jsonb, done_at timestamptz,
    token uuid, fingerprint bytea, first_entry integer, result jsonb
) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO guards (tenant, project, session, turn, done, token, fingerprint, first_entry, result, claimed_at)
    VALUES ($1, $2, $3, $5, true, $8, $9, $10, $11, $7)
    ON CONFLICT (tenant, project, session, turn) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE sessions AS s SET user_id = CASE WHEN $4 = '' THEN s.user_id ELSE $4 END, latest_turn = $5,
        turns = s.turns + 1, shared = s.shared OR (s.user_id <> '' AND $4 <> '' AND s.user_id <> $4), updated_at = $7,
        counters = s.counters || (
            SELECT coalesce(jsonb_object_agg(c.key, c.value::int8 + coalesce((s.counters ->> c.key)::int8, 0)), '{}')
            FROM jsonb_each_text($6) AS c)
    WHERE s.tenant = $1 AND s.project = $2 AND s.session = $3;
    IF NOT FOUND THEN
        INSERT INTO sessions (tenant, project, session, user_id, latest_turn, turns, context_start, counters,
            created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, 1, 0, $6, $7, $7);
    END IF;
    RETURN true;
END
$$
"""
ADD_BYTES = """
CREATE FUNCTION add_bytes(tenant bytea, project text, delta_bytes bigint, added_at timestamptz)
RETURNS TABLE (project_bytes bigint, tenant_bytes bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO projects AS p (tenant, project, size_bytes, created_at) VALUES ($1, $2, greatest($3, 0), $4)
    ON CONFLICT (tenant, project) DO UPDATE SET size_bytes = greatest(p.size_bytes + $3, 0)
    RETURNING p.size_bytes INTO project_bytes;
    INSERT INTO usage AS u (tenant, size_bytes) VALUES ($1, greatest($3, 0))
    ON CONFLICT (tenant) DO UPDATE SET size_bytes = greatest(u.size_bytes + $3, 0)
    RETURNING u.size_bytes INTO tenant_bytes;
    RETURN NEXT;
END
$$
"""
ADD_RATES = """
CREATE FUNCTION add_rates(tenant bytea, buckets text[], seconds double precision[], quiet_s double precision)
RETURNS TABLE (rate text, ahead_s double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one record;
    now_s CONSTANT double precision := extract(epoch FROM now());
BEGIN
    DELETE FROM rates WHERE tenant = $1 AND bucket <> ALL ($2) AND empty_at < now_s - $4;
    FOR one IN SELECT * FROM unnest($2, $3) AS a (bucket, used_s) LOOP
        INSERT INTO rates AS r (tenant, bucket, empty_at, used_s)
        VALUES ($1, one.bucket, now_s + one.used_s, one.used_s)
        ON CONFLICT (tenant, bucket) DO UPDATE SET
            empty_at = greatest(r.empty_at + EXCLUDED.used_s, EXCLUDED.empty_at), used_s = EXCLUDED.used_s
        RETURNING r.bucket, r.empty_at - now_s INTO rate, ahead_s;
        RETURN NEXT;
    END LOOP;
END
$$
"""
# Children of one parent stand in one text, a line each.
CHANGE_OUTLINE = """
CREATE FUNCTION change_outline(
    tenant bytea, project text, book bigint, names text[], parents text[], children text[], removed text[],
    added integer
) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held integer;
BEGIN
    DELETE FROM outline_nodes WHERE tenant = $1 AND project = $2 AND book = $3 AND node = ANY($7);
    INSERT INTO outlines AS o (tenant, project, book, nodes) VALUES ($1, $2, $3, $8)
    ON CONFLICT (tenant, project, book) DO UPDATE SET nodes = o.nodes + EXCLUDED.nodes
    RETURNING o.nodes INTO held;
    INSERT INTO outline_nodes (tenant, project, book, node, parent, children)
    SELECT o.tenant, o.project, o.book, n.node, n.parent, string_to_array(n.children, chr(10))
    FROM outlines AS o, unnest($4, $5, $6) AS n (node, parent, children)
    WHERE o.tenant = $1 AND o.project = $2 AND o.book = $3
    ON CONFLICT (tenant, project, book, node) DO UPDATE SET parent = EXCLUDED.parent,
        children = EXCLUDED.children;
    RETURN held;
END
$$
"""
ADD_OUTCOMES = """
CREATE FUNCTION add_outcomes(
    tenant bytea, project text, book bigint, names text[], alphas double precision[], betas double precision[],
    confidences double precision[], befores double precision[], decays_per_h double precision[],
    signal double precision, weight double precision, source text, told_at timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO outcomes (tenant, project, book, notion, number, signal, weight, source, before, after, told_at)
    SELECT n.tenant, n.project, n.book, n.notion, coalesce((
        SELECT number + 1 FROM outcomes AS o
        WHERE o.tenant = $1 AND o.project = $2 AND o.book = $3 AND o.notion = n.notion
        ORDER BY number DESC LIMIT 1), 1), $10, $11, $12, learnt.before, learnt.confidence, $13
    FROM notions AS n, unnest($4, $7, $8) AS learnt (notion, confidence, before)
    WHERE n.tenant = $1 AND n.project = $2 AND n.book = $3 AND n.notion = learnt.notion COLLATE "C";
    UPDATE notions AS n SET alpha = learnt.alpha, beta = learnt.beta, confidence = learnt.confidence,
        decay_per_h = learnt.decay_per_h, evidence = n.evidence + $11
    FROM unnest($4, $5, $6, $7, $9) AS learnt (notion, alpha, beta, confidence, decay_per_h)
    WHERE n.tenant = $1 AND n.project = $2 AND n.book = $3 AND n.notion = learnt.notion COLLATE "C";
END
$$
"""
FUNCTIONS = (
    APPEND_LOGS,
    PUT_STYLE_FILES,
    WRITE_FILE,
    CREATE_FILE,
    ADD_ENTRIES,
    FINISH_TURN,
    ADD_BYTES,
    ADD_RATES,
    CHANGE_OUTLINE,
    ADD_OUTCOMES,
)


def upgrade() -> None:
    for function in FUNCTIONS:
        op.get_bind().exec_driver_sql(function)


def downgrade() -> None:
    for function in reversed(FUNCTIONS):
        name = function.split("(", 1)[0].removeprefix("\nCREATE FUNCTION ")
        op.execute(f"DROP FUNCTION {name}")
