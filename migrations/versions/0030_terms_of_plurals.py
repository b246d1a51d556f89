"""Every index with the terms of this version: German and French plurals, words of one character.

An index at a time, each committed by itself: interrupted, it goes on where it stood. On the way
down indexes stay as they are: `memsvc maintain --rebuild --all` of the version
before makes them anew."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from alembic import op

from memsvc.core.analysis import TERMS_VERSION, terms

revision: str = "0030"
down_revision: str | None = "0029"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

SLICE_ENTRIES = 500
LENGTH_MAX = 32767


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for (tenant,) in _run("SELECT tenant FROM tenants ORDER BY tenant").all():
            _begin(tenant)
            books = _run(
                """
                SELECT project, book FROM books WHERE tenant = $1 AND analyser <> $2
                ORDER BY project, book
                """,
                tenant,
                TERMS_VERSION,
            ).all()
            _run("COMMIT")
            for project, book in books:
                _begin(tenant)
                _index(tenant, project, book)
                _run("COMMIT")
            if books:
                print(f"migrating: rebuilt {len(books)} indexes of a tenant", file=sys.stderr)


def downgrade() -> None:
    """Postings of other terms are valid for the version before, too."""


def _index(tenant: bytes, project: str, book: int) -> None:
    """Replace all terms of an index."""
    for table in ("posting_lists", "fresh_terms"):
        _run(
            f"DELETE FROM {table} WHERE tenant = $1 AND project = $2 AND book = $3",
            *(tenant, project, book),
        )
    last, findable, length = -1, 0, 0
    while rows := _slice(tenant, project, book, last):
        last = rows[-1].search_entry
        counted = {row.search_entry: Counter(terms(row.indexed)) for row in rows if row.length >= 0}
        sizes = {number: min(counts.total(), LENGTH_MAX) for number, counts in counted.items()}
        findable += sum(map(bool, sizes.values()))
        length += sum(sizes.values())
        _put(tenant, project, book, counted, sizes)
    _run(
        """
        UPDATE books SET analyser = $4, folded_entry = next_entry, entries = $5, length = $6
        WHERE tenant = $1 AND project = $2 AND book = $3
        """,
        *(tenant, project, book, TERMS_VERSION, findable, length),
    )


def _slice(tenant: bytes, project: str, book: int, last: int) -> Sequence[Any]:
    return _run(
        """
        SELECT search_entry, length,
            CASE cues WHEN '' THEN text ELSE text || E'\\n' || cues END AS indexed
        FROM entries WHERE tenant = $1 AND project = $2 AND search_book = $3 AND search_entry > $4
        ORDER BY search_entry LIMIT $5
        """,
        *(tenant, project, book, last, SLICE_ENTRIES),
    ).all()


def _put(
    tenant: bytes,
    project: str,
    book: int,
    counted: dict[int, Counter[str]],
    sizes: dict[int, int],
) -> None:
    """Store the lengths of entries, and add their terms to the postings."""
    _run(
        """
        UPDATE entries AS e SET length = w.length
        FROM unnest($4::int4[], $5::int2[]) AS w (entry, length)
        WHERE e.tenant = $1 AND e.project = $2 AND e.search_book = $3 AND e.search_entry = w.entry
        """,
        *(tenant, project, book, list(sizes), list(sizes.values())),
    )
    hits = [
        (term, number << 32 | min(times, LENGTH_MAX) << 16 | sizes[number])
        for number, counts in counted.items()
        for term, times in counts.items()
    ]
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
        *(tenant, project, book, [term for term, _ in hits], [hit for _, hit in hits]),
    )


def _begin(tenant: bytes) -> None:
    """Begin a transaction that sees the rows of a tenant, and finds them by index."""
    _run("BEGIN")
    _run("SELECT set_tenant($1, 0, 0)", tenant)
    _run("SELECT set_config('enable_seqscan', 'off', true)")


def _run(sql: str, *values: Any) -> Any:
    return op.get_bind().exec_driver_sql(sql, values)
