"""The items of all sessions of a user in one search index, and no digests that find sessions.

In slices, each committed by itself: interrupted, it goes on where it stood."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any

import sqlalchemy as sa
from alembic import op

from memsvc.core.analysis import TERMS_VERSION, terms
from memsvc.store import concurrent_index

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

SLICE_ENTRIES = 1000
SLICE_SESSIONS = 100
PROGRESS_S = 2.0
LENGTH_MAX = 32767


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for tenant in _column("SELECT tenant FROM tenants ORDER BY tenant"):
            _index_tenant(tenant)
    concurrent_index.build(
        "entries_search",
        "entries",
        ["tenant", "project", "search_book", "search_entry"],
        unique=True,
        postgresql_where=sa.text("search_book IS NOT NULL"),
    )
    op.drop_index("entries_digests", "entries")
    op.drop_column("sessions", "digested_entry")


def downgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column("digested_entry", sa.Integer(), nullable=False, server_default=sa.text("0")),
    )
    op.create_index(
        "entries_digests",
        "entries",
        ["tenant", "project", "ref"],
        postgresql_ops={"ref": "text_pattern_ops"},
        postgresql_where=sa.text("role = 'digest'"),
    )
    op.drop_index("entries_search", "entries")
    for tenant in _column("SELECT tenant FROM tenants ORDER BY tenant"):
        _begin_tenant(tenant)
        for project in _column(_PROJECTS, tenant):
            _index_by_session(tenant, project)


_PROJECTS = "SELECT DISTINCT project FROM books WHERE tenant = $1 ORDER BY project"


def _index_tenant(tenant: bytes) -> None:
    with _Transaction(tenant):
        total = _column(
            "SELECT count(*) FROM entries WHERE tenant = $1 AND search_book IS NULL", tenant
        )[0]
        projects = _column(_PROJECTS, tenant)
    progress = _Progress(total)
    for project in projects:
        with _Transaction(tenant):
            books = _rows(
                """
                SELECT b.book, b.name, coalesce(s.user_id, '') AS user_id FROM books AS b
                LEFT JOIN sessions AS s ON s.tenant = $1 AND s.project = $2 AND NOT s.shared
                    AND b.name = 'turns/' || s.session
                WHERE b.tenant = $1 AND b.project = $2
                ORDER BY s.user_id, s.created_at, b.book
                """,
                tenant,
                project,
            )
        of_user: dict[str, list[int]] = {}
        for row in books:
            if row.name.startswith("digests/"):
                _drop_book(tenant, project, row.book)
            elif row.user_id:
                of_user.setdefault(row.user_id, []).append(row.book)
            elif not row.name.startswith("said/"):
                _keep_place(tenant, project, row.book, progress)
        for user, sessions in of_user.items():
            for start in range(0, len(sessions), SLICE_SESSIONS):
                _move_sessions(
                    tenant, project, user, sessions[start : start + SLICE_SESSIONS], progress
                )
    progress.done()


def _keep_place(tenant: bytes, project: str, book: int, progress: "_Progress") -> None:
    """Let entries be found where they were."""
    with _Transaction(tenant):
        progress.add(
            _count(
                """
                UPDATE entries SET search_book = book, search_entry = entry
                WHERE tenant = $1 AND project = $2 AND book = $3 AND search_book IS NULL
                """,
                tenant,
                project,
                book,
            )
        )


def _move_sessions(
    tenant: bytes, project: str, user: str, sessions: list[int], progress: "_Progress"
) -> None:
    """Let the items of some sessions of a user be found in the user's index, and there alone."""
    while True:
        with _Transaction(tenant):
            rows = _rows(
                """
                SELECT e.book, e.entry, e.length,
                    CASE e.cues WHEN '' THEN e.text ELSE e.text || E'\\n' || e.cues END AS indexed
                FROM unnest($3::int8[]) WITH ORDINALITY AS s (book, at)
                JOIN entries AS e ON e.tenant = $1 AND e.project = $2 AND e.book = s.book
                WHERE e.search_book IS NULL ORDER BY s.at, e.entry LIMIT $4
                """,
                tenant,
                project,
                sessions,
                SLICE_ENTRIES,
            )
            if rows:
                _move(tenant, project, user, rows)
        if not rows:
            break
        progress.add(len(rows))
    with _Transaction(tenant):
        for table in ("posting_lists", "fresh_terms"):
            _run(
                f"DELETE FROM {table} WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[])",
                tenant,
                project,
                sessions,
            )
        _run(
            """
            UPDATE books SET entries = 0, length = 0
            WHERE tenant = $1 AND project = $2 AND book = ANY($3::int8[])
            """,
            tenant,
            project,
            sessions,
        )


def _move(tenant: bytes, project: str, user: str, rows: Sequence[Any]) -> None:
    name = f"said/{user}"
    search_book = _book(name)
    counted = [Counter(terms(row.indexed)) if row.length >= 0 else Counter() for row in rows]
    lengths = [min(counts.total(), LENGTH_MAX) for counts in counted]
    (stop,) = _column(
        """
        INSERT INTO books AS b (tenant, project, book, name, analyser, next_entry, folded_entry,
            entries, length)
        VALUES ($1, $2, $3, $4, $5, $6, $6, $7, $8)
        ON CONFLICT (tenant, project, book) DO UPDATE SET
            next_entry = b.next_entry + EXCLUDED.next_entry,
            folded_entry = b.next_entry + EXCLUDED.next_entry,
            entries = b.entries + EXCLUDED.entries, length = b.length + EXCLUDED.length
        RETURNING next_entry
        """,
        tenant,
        project,
        search_book,
        name,
        TERMS_VERSION,
        len(rows),
        sum(map(bool, lengths)),
        sum(lengths),
    )
    numbers = range(stop - len(rows), stop)
    _run(
        """
        UPDATE entries AS e SET search_book = $3, search_entry = m.number, length = m.length
        FROM unnest($4::int8[], $5::int4[], $6::int4[], $7::int2[])
            AS m (book, entry, number, length)
        WHERE e.tenant = $1 AND e.project = $2 AND e.book = m.book AND e.entry = m.entry
        """,
        tenant,
        project,
        search_book,
        [row.book for row in rows],
        [row.entry for row in rows],
        list(numbers),
        [length if row.length >= 0 else -1 for row, length in zip(rows, lengths, strict=True)],
    )
    _put_hits(tenant, project, search_book, zip(numbers, counted, strict=True))
    if _has_vectors():
        _run(
            """
            UPDATE embeddings AS v SET book = $3, entry = m.number
            FROM unnest($4::int8[], $5::int4[], $6::int4[]) AS m (book, entry, number)
            WHERE v.tenant = $1 AND v.project = $2 AND v.book = m.book AND v.entry = m.entry
            """,
            tenant,
            project,
            search_book,
            [row.book for row in rows],
            [row.entry for row in rows],
            list(numbers),
        )


def _index_by_session(tenant: bytes, project: str) -> None:
    """Let the items of every session be found in the session's own index again."""
    moved = _column(
        """
        SELECT DISTINCT book FROM entries WHERE tenant = $1 AND project = $2
            AND search_book IS DISTINCT FROM book
        """,
        tenant,
        project,
    )
    for book in moved:
        rows = _rows(
            """
            SELECT entry, length, search_book, search_entry,
                CASE cues WHEN '' THEN text ELSE text || E'\\n' || cues END AS indexed
            FROM entries WHERE tenant = $1 AND project = $2 AND book = $3 ORDER BY entry
            """,
            tenant,
            project,
            book,
        )
        counted = [Counter(terms(row.indexed)) if row.length >= 0 else Counter() for row in rows]
        lengths = [min(counts.total(), LENGTH_MAX) for counts in counted]
        for table in ("posting_lists", "fresh_terms"):
            _run(
                f"DELETE FROM {table} WHERE tenant = $1 AND project = $2 AND book = $3",
                tenant,
                project,
                book,
            )
        _run(
            """
            UPDATE books SET entries = $4, length = $5, folded_entry = next_entry
            WHERE tenant = $1 AND project = $2 AND book = $3
            """,
            tenant,
            project,
            book,
            sum(map(bool, lengths)),
            sum(lengths),
        )
        _put_hits(
            tenant,
            project,
            book,
            ((row.entry, counts) for row, counts in zip(rows, counted, strict=True)),
        )
        if _has_vectors():
            _run(
                """
                UPDATE embeddings AS v SET book = $3, entry = m.entry
                FROM unnest($4::int8[], $5::int4[], $6::int4[]) AS m (search_book, number, entry)
                WHERE v.tenant = $1 AND v.project = $2 AND v.book = m.search_book
                    AND v.entry = m.number AND m.search_book <> $3
                """,
                tenant,
                project,
                book,
                [row.search_book or 0 for row in rows],
                [row.search_entry or 0 for row in rows],
                [row.entry for row in rows],
            )
    for book in _column(
        "SELECT book FROM books WHERE tenant = $1 AND project = $2 AND starts_with(name, 'said/')",
        tenant,
        project,
    ):
        _drop_rows(tenant, project, book)


def _drop_book(tenant: bytes, project: str, book: int) -> None:
    with _Transaction(tenant):
        _drop_rows(tenant, project, book)


def _drop_rows(tenant: bytes, project: str, book: int) -> None:
    """Delete an index of which nothing but what finds others is in it."""
    vectors = ["embeddings"] if _has_vectors() else []
    for table in (*vectors, "posting_lists", "fresh_terms", "entries", "books"):
        _run(
            f"DELETE FROM {table} WHERE tenant = $1 AND project = $2 AND book = $3",
            tenant,
            project,
            book,
        )


def _put_hits(
    tenant: bytes, project: str, book: int, entries: Iterator[tuple[int, Counter[str]]]
) -> None:
    """Add the terms of entries to the postings of an index, in batches."""
    batch: list[tuple[str, int]] = []
    for number, counts in entries:
        length = min(counts.total(), LENGTH_MAX)
        batch += [
            (term, number << 32 | min(times, LENGTH_MAX) << 16 | length)
            for term, times in counts.items()
        ]
        if len(batch) > 20_000:
            _put_batch(tenant, project, book, batch)
            batch = []
    _put_batch(tenant, project, book, batch)


def _put_batch(tenant: bytes, project: str, book: int, batch: list[tuple[str, int]]) -> None:
    _run(
        """
        INSERT INTO posting_lists AS p (tenant, project, book, term, segment, hits)
        SELECT b.tenant, b.project, b.book, h.term, (h.hit >> 32)::int4 >> b.segment_bits,
            array_agg(h.hit ORDER BY h.hit)
        FROM books AS b, unnest($4::text[], $5::int8[]) AS h (term, hit)
        WHERE b.tenant = $1 AND b.project = $2 AND b.book = $3
        GROUP BY b.tenant, b.project, b.book, h.term, 5 ORDER BY 4, 5
        ON CONFLICT (tenant, project, book, term, segment) DO UPDATE
            SET hits = p.hits || EXCLUDED.hits
        """,
        tenant,
        project,
        book,
        [term for term, _ in batch],
        [hit for _, hit in batch],
    )


def _book(name: str) -> int:
    """Return the number of an index, from its name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def _has_vectors() -> bool:
    return bool(_column("SELECT to_regclass('embeddings') IS NOT NULL")[0])


def _begin_tenant(tenant: bytes) -> None:
    """Let the transaction see the rows of a tenant, and find them by index, as the service does."""
    _run("SELECT set_tenant($1, 0, 0)", tenant)
    _run("SELECT set_config('enable_seqscan', 'off', true)")


class _Transaction:
    """A transaction of one tenant, while statements are committed one by one."""

    def __init__(self, tenant: bytes) -> None:
        self._tenant = tenant

    def __enter__(self) -> None:
        _run("BEGIN")
        _begin_tenant(self._tenant)

    def __exit__(self, kind: object, *_: object) -> None:
        _run("ROLLBACK" if kind else "COMMIT")


class _Progress:
    """Says on standard error, every few seconds, how many entries are done."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._told_at = total, 0, monotonic()

    def add(self, entries: int) -> None:
        self._done += entries
        if monotonic() - self._told_at >= PROGRESS_S:
            self._told_at = monotonic()
            self.tell()

    def done(self) -> None:
        if self._total:
            self.tell()

    def tell(self) -> None:
        print(f"migrating: {self._done} of {self._total} items indexed by user", file=sys.stderr)


def _run(sql: str, *values: Any) -> Any:
    return op.get_bind().exec_driver_sql(sql, values)


def _rows(sql: str, *values: Any) -> Sequence[Any]:
    return _run(sql, *values).all()


def _column(sql: str, *values: Any) -> list[Any]:
    return list(_run(sql, *values).scalars())


def _count(sql: str, *values: Any) -> int:
    return int(_run(sql, *values).rowcount)
