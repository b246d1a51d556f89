"""Vectors of entries, derived from their texts: losing them costs nothing but time.

Entries are numbered as their search index does. A vector is stored as signed bytes, with the signs
of the text's sentences behind them, and apart from these its own signs, which the first pass of a
search compares (`core/vectors`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from asyncpg import BitString

from memsvc.core.analysis import CHANGE_MARK
from memsvc.core.frozen import frozen
from memsvc.core.vectors import MeantText, TextVector, pack_texts, signs_of, unpack
from memsvc.store.database import Tx

CANDIDATES: Final = 200
"""Maximum number of vectors compared exactly: those whose signs agree best with the question's. For
60 results, 20 lose three points of recall, 100 one, 200 none."""
CANDIDATES_MIN: Final = 50
"""Minimum number of vectors compared exactly; each result that is wanted adds three."""


def signs_of_vector(vector: Sequence[float]) -> BitString:
    """Return the signs of a vector, as they are stored."""
    return BitString.frombytes(signs_of(vector), len(vector))


def model_number(model: str) -> int:
    """Return the number under which the vectors of a model are kept."""
    return int.from_bytes(
        hashlib.blake2b(model.encode(), digest_size=8).digest(), "big", signed=True
    )


@frozen
class VectorProgress:
    """Number of entries that can be found, and of vectors of the model."""

    entries: int
    vectors: int


async def missing(
    tx: Tx, index_id: int, model: str, *, after: int, limit: int
) -> dict[int, MeantText]:
    """Return the texts of the next entries after `after` without a vector of the model.

    Entries without words are left out.
    """
    rows = await tx.fetch(
        f"""
        SELECT e.search_entry, CASE WHEN e.cues IN ('', '{CHANGE_MARK}') THEN e.text
            ELSE e.text || E'\\n' || e.cues END AS text, e.role
            FROM entries AS e
        WHERE e.tenant = $1 AND e.project = $2 AND e.search_book = $3
            AND e.search_entry > $5 AND e.length > 0
            AND NOT EXISTS (
            SELECT FROM embeddings AS v
            WHERE v.tenant = $1 AND v.project = $2 AND v.book = $3 AND v.model = $4
                AND v.entry = e.search_entry)
        ORDER BY e.search_entry LIMIT $6
        """,
        index_id,
        model_number(model),
        after,
        limit,
    )
    return {row["search_entry"]: MeantText(row["text"], row["role"]) for row in rows}


async def latest(tx: Tx, index_id: int, model: str) -> int:
    """Return the last entry with a vector of the model, or -1."""
    return await tx.fetch_int(
        """
        SELECT coalesce(max(entry), -1) FROM embeddings
        WHERE tenant = $1 AND project = $2 AND book = $3 AND model = $4
        """,
        index_id,
        model_number(model),
    )


async def put(tx: Tx, index_id: int, model: str, vectors: Mapping[int, TextVector]) -> int:
    """Store vectors of one length by entry; return how many were new.

    Entries that were hidden or removed meanwhile stay out. Locks the index's row against changes
    until the transaction ends.
    """
    if not vectors:
        return 0
    # a statement of its own: the next one sees what was committed while this one waited
    await tx.execute(
        "SELECT true FROM books WHERE tenant = $1 AND project = $2 AND book = $3 FOR SHARE",
        index_id,
    )
    return await tx.execute(
        """
        INSERT INTO embeddings (tenant, project, book, model, entry, signs, vector)
        SELECT e.tenant, e.project, e.search_book, $4, e.search_entry, n.signs, n.vector
        FROM unnest($5::int4[], $6::varbit[], $7::bytea[]) AS n (entry, signs, vector)
        JOIN entries AS e ON e.tenant = $1 AND e.project = $2 AND e.search_book = $3
            AND e.search_entry = n.entry AND e.length > 0
        ON CONFLICT (tenant, project, book, model, entry) DO NOTHING
        """,
        index_id,
        model_number(model),
        list(vectors),
        [signs_of_vector(vector.whole) for vector in vectors.values()],
        pack_texts(list(vectors.values())),
    )


async def of(tx: Tx, index_id: int, model: str, entries: Sequence[int]) -> dict[int, list[float]]:
    """Return the vectors of a model that these entries of an index have, by number."""
    rows = await tx.fetch(
        """
        SELECT asked.entry, length(one.signs) AS length, one.vector
        FROM unnest($5::int4[]) AS asked (entry) CROSS JOIN LATERAL (
            SELECT signs, vector FROM embeddings
            WHERE tenant = $1 AND project = $2 AND book = $3 AND model = $4
                AND entry = asked.entry OFFSET 0) AS one
        """,
        index_id,
        model_number(model),
        entries,
    )
    return {row["entry"]: unpack(row["vector"], row["length"]) for row in rows}


async def remove(tx: Tx, index_id: int, model: str, entries: Sequence[int]) -> None:
    """Delete the vectors of a model that entries have, after these were removed."""
    await tx.execute(
        """
        DELETE FROM embeddings WHERE tenant = $1 AND project = $2 AND book = $3 AND model = $4
            AND entry = ANY($5::int4[])
        """,
        index_id,
        model_number(model),
        entries,
    )


async def forget(tx: Tx, index_id: int, entries: Sequence[int]) -> None:
    """Delete the vectors of entries, of every model, after these were hidden or removed."""
    await tx.execute(
        """
        DELETE FROM embeddings AS v USING (
            SELECT DISTINCT model FROM embeddings WHERE tenant = $1 AND project = $2 AND book = $3
        ) AS kept
        WHERE v.tenant = $1 AND v.project = $2 AND v.book = $3 AND v.model = kept.model
            AND v.entry = ANY($4::int4[])
        """,
        index_id,
        entries,
    )


async def move(tx: Tx, source_id: int, index_id: int, numbers: Mapping[int, int]) -> None:
    """Give vectors of one index, by number, to another one, where the entries have new numbers."""
    await tx.execute(
        """
        UPDATE embeddings AS v SET book = $4, entry = moved.number
        FROM (SELECT DISTINCT model FROM embeddings
              WHERE tenant = $1 AND project = $2 AND book = $3) AS kept
        CROSS JOIN unnest($5::int4[], $6::int4[]) AS moved (entry, number)
        WHERE v.tenant = $1 AND v.project = $2 AND v.book = $3 AND v.model = kept.model
            AND v.entry = moved.entry
        """,
        source_id,
        index_id,
        list(numbers),
        numbers.values(),
    )


async def prune(tx: Tx, index_id: int) -> int:
    """Delete the vectors of entries that can no longer be found; return how many."""
    return await tx.execute(
        """
        DELETE FROM embeddings AS v WHERE v.tenant = $1 AND v.project = $2 AND v.book = $3
            AND NOT EXISTS (
            SELECT FROM entries AS e
            WHERE e.tenant = $1 AND e.project = $2 AND e.search_book = $3
                AND e.search_entry = v.entry AND e.length > 0)
        """,
        index_id,
    )


async def drop_other_models(tx: Tx, index_id: int, model: str) -> int:
    """Delete the vectors that other models gave to an index; return how many. Cheap without any."""
    return await tx.fetch_int(
        """
        WITH below AS (
            DELETE FROM embeddings WHERE tenant = $1 AND project = $2 AND book = $3 AND model < $4
                RETURNING 1
        ), above AS (
            DELETE FROM embeddings WHERE tenant = $1 AND project = $2 AND book = $3 AND model > $4
                RETURNING 1
        )
        SELECT (SELECT count(*) FROM below) + (SELECT count(*) FROM above)
        """,
        index_id,
        model_number(model),
    )


async def progress(
    tx: Tx, model: str, index_ids: Sequence[int] | None = None
) -> dict[int, VectorProgress]:
    """Return the progress of the model with each index of the project, or some.

    Empty ones are left out.
    """
    rows = await tx.fetch(
        f"""
        SELECT b.book, b.entries, {_VECTOR_COUNT} AS vectors FROM books AS b
        WHERE b.tenant = $1 AND b.project = $2 AND b.entries > 0
            {"" if index_ids is None else "AND b.book = ANY($4)"}
        """,
        model_number(model),
        *([] if index_ids is None else [list(index_ids)]),
    )
    return {row["book"]: VectorProgress(row["entries"], row["vectors"]) for row in rows}


async def list_incomplete(tx: Tx, model: str, *, limit: int) -> list[int]:
    """Return the indexes whose vectors differ from those of their entries by this model."""
    return await tx.fetch_column(
        f"""
        SELECT b.book FROM books AS b WHERE b.tenant = $1 AND b.project = $2 AND (
            b.entries <> {_VECTOR_COUNT}
            OR EXISTS (SELECT FROM embeddings AS v
                       WHERE v.tenant = $1 AND v.project = $2 AND v.book = b.book AND v.model < $3)
            OR EXISTS (SELECT FROM embeddings AS v
                       WHERE v.tenant = $1 AND v.project = $2 AND v.book = b.book AND v.model > $3))
        ORDER BY b.book LIMIT $4
        """,
        model_number(model),
        limit,
    )


_VECTOR_COUNT: Final = """(
    SELECT count(*) FROM embeddings AS v
    WHERE v.tenant = $1 AND v.project = $2 AND v.book = b.book AND v.model = $3)"""
