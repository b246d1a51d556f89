"""Documents: texts of the index that change, kept as chunks in the order of their bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memsvc.core.chunks import Chunk, chunks
from memsvc.store import index
from memsvc.store.database import Row, Tx
from memsvc.store.files import File
from memsvc.store.index import NewEntry, book_of

ROLE = "document"
SEGMENT_BITS = 7
"""Chunks are long: with 1,024 of them to a row of postings, a common term would rewrite 8 KB with
each chunk."""


PIECES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Chunk in the index: bytes `start` to `end` of a stream, found by its text and its cues.

    The cues are a title line, then the context that the chunk was cut in.
    """

    entry: int
    stream: int
    start: int
    end: int
    text: str
    cues: str

    @property
    def context(self) -> str:
        return self.cues.partition("\n")[2]

    @property
    def indexed(self) -> str:
        return f"{self.text}\n{self.cues}"


async def pieces(tx: Tx, book: str, ref: str, *, most: int, not_of: int | None = None) -> list[Piece]:
    """Return the first chunks of a document in order.

    With `not_of`, only those of streams other than this one.
    """
    rows = await tx.fetch(
        """
        SELECT entry, stream, start, start + size_bytes AS end, text, cues FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND ref = $4 AND role = 'document'
            AND ($5::int8 IS NULL OR stream <> $5)
        ORDER BY start LIMIT $6
        """,
        book_of(book),
        ref,
        not_of,
        most,
    )
    return [_piece(row) for row in rows]


async def last_piece(tx: Tx, book: str, ref: str, stream: int) -> Piece | None:
    """Return the last chunk of a stream of a document, which an append changes, or None."""
    row = await tx.fetchrow(
        """
        SELECT entry, stream, start, start + size_bytes AS end, text, cues FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND ref = $4 AND role = 'document' AND stream = $5
        ORDER BY start DESC LIMIT 1
        """,
        book_of(book),
        ref,
        stream,
    )
    return _piece(row) if row else None


def _piece(row: Row) -> Piece:
    return Piece(*row.values())


async def change(
    tx: Tx, book: str, ref: str, stream: int, *, title: str, old: Sequence[Piece], new: Sequence[Chunk], now: datetime
) -> bool:
    """Replace old chunks by new ones, keeping equal ones and their vectors.

    Return whether any is new.
    """
    kept: list[int] = []
    wanted = {(chunk.start, chunk.text, _cues(title, chunk)): chunk for chunk in new}
    gone: dict[int, str] = {}
    for piece in old:
        if wanted.pop((piece.start, piece.text, piece.cues), None) is None:
            gone[piece.entry] = piece.indexed
        elif piece.stream != stream:
            kept.append(piece.entry)
    if kept:
        await tx.execute(
            """
            UPDATE entries SET stream = $4 WHERE tenant = $1 AND project = $2 AND book = $3 AND entry = ANY($5::int4[])
            """,
            book_of(book),
            stream,
            kept,
        )
    await index.remove(tx, book_of(book), gone)
    if wanted:
        entries = [_entry(ref, stream, chunk, cues, now) for (_, _, cues), chunk in wanted.items()]
        await index.add(tx, {book: entries}, segment_bits=SEGMENT_BITS)
    return bool(wanted)


async def put(tx: Tx, book: str, file: File, text: str, *, title: str, now: datetime) -> bool:
    """Make a file findable by this text and no other; return whether any chunk is new."""
    ref = file.incarnation.hex
    new = chunks(text.replace("\x00", " "))  # no text of the database holds a NUL
    old = await pieces(tx, book, ref, most=PIECES_MAX)
    return await change(tx, book, ref, file.stream, title=title, old=old, new=new, now=now)


async def add(tx: Tx, book: str, made: Sequence[tuple[File, str, str]], *, now: datetime) -> None:
    """Make several new files findable, each by its text and its title, in one round trip."""
    entries = [
        _entry(file.incarnation.hex, file.stream, chunk, _cues(title, chunk), now)
        for file, text, title in made
        for chunk in chunks(text.replace("\x00", " "))
    ]
    if entries:
        await index.add(tx, {book: entries}, segment_bits=SEGMENT_BITS)


async def stale(tx: Tx, book: str, *, begin: str, most: int) -> list[tuple[str, Piece]]:
    """Return the next chunks whose file is deleted or in another stream, by document.

    `begin` is the first document; the last one may have more.
    """
    rows = await tx.fetch(
        """
        SELECT e.ref, e.entry, e.stream, e.start, e.start + e.size_bytes AS end, e.text, e.cues FROM entries AS e
        WHERE tenant = $1 AND project = $2 AND book = $3 AND role = 'document' AND ref >= $4 AND NOT EXISTS (
            SELECT FROM files AS f WHERE f.tenant = $1 AND f.project = $2 AND f.incarnation = e.ref::uuid
                AND f.stream = e.stream AND f.deleted_at IS NULL OFFSET 0)
        ORDER BY ref, start LIMIT $5
        """,
        book_of(book),
        begin,
        most,
    )
    return [(row["ref"], Piece(*list(row.values())[1:])) for row in rows]


async def forget(tx: Tx, book: str, incarnation: UUID) -> None:
    """Make a file unfindable."""
    await remove(tx, book, await pieces(tx, book, incarnation.hex, most=PIECES_MAX))


async def retitle(tx: Tx, book: str, ref: str, stream: int, *, title: str, now: datetime) -> bool:
    """Make a document findable by another title; return whether it has chunks."""
    old = [piece for piece in await pieces(tx, book, ref, most=PIECES_MAX) if piece.stream == stream]
    new = [Chunk(piece.start, piece.text, piece.context) for piece in old]
    return await change(tx, book, ref, stream, title=title, old=old, new=new, now=now)


async def remove(tx: Tx, book: str, gone: Sequence[Piece]) -> None:
    """Remove chunks from the index for good."""
    await index.remove(tx, book_of(book), {piece.entry: piece.indexed for piece in gone})


def _entry(ref: str, stream: int, chunk: Chunk, cues: str, now: datetime) -> NewEntry:
    return NewEntry(
        ref=ref,
        text=chunk.text,
        cues=cues,
        said_at=now,
        role=ROLE,
        stream=stream,
        start=chunk.start,
        size_bytes=len(chunk.text.encode()),
    )


def _cues(title: str, chunk: Chunk) -> str:
    return f"{title}\n{chunk.context}" if chunk.context else title
