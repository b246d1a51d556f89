"""Documents: texts of the index that change, kept as chunks in the order of their bytes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from memsvc.core.background import map_in_thread
from memsvc.core.chunks import Chunk, chunks
from memsvc.core.frozen import frozen
from memsvc.store import index, vectors
from memsvc.store.database import Tx
from memsvc.store.files import File
from memsvc.store.index import NewEntry, index_id_of

ROLE = "document"
SEGMENT_BITS = 7
"""Chunks are long: with 1,024 of them to a row of postings, a common term would rewrite 8 KB with
each chunk."""


CHUNKS_MAX = 2**31 - 1


@frozen
class DocumentChunk:
    """Chunk in the index: bytes `start` to `end` of a stream, found by its text and its cues.

    The cues are a title line, then the context that the chunk was cut in.
    """

    entry: int
    stream: int
    start: int
    end: int
    text: str
    keywords: str

    @property
    def context(self) -> str:
        return self.keywords.partition("\n")[2]

    @property
    def indexed(self) -> str:
        return f"{self.text}\n{self.keywords}"


async def list_chunks(
    tx: Tx, index_name: str, ref: str, *, limit: int, not_of: int | None = None
) -> list[DocumentChunk]:
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
        index_id_of(index_name),
        ref,
        not_of,
        limit,
    )
    return [DocumentChunk(*row.values()) for row in rows]


async def last_chunk(tx: Tx, index_name: str, ref: str, stream: int) -> DocumentChunk | None:
    """Return the last chunk of a stream of a document, which an append changes, or None."""
    row = await tx.fetchrow(
        """
        SELECT entry, stream, start, start + size_bytes AS end, text, cues FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND ref = $4 AND role = 'document'
            AND stream = $5
        ORDER BY start DESC LIMIT 1
        """,
        index_id_of(index_name),
        ref,
        stream,
    )
    return DocumentChunk(*row.values()) if row else None


async def replace_chunks(
    tx: Tx,
    index_name: str,
    ref: str,
    stream: int,
    *,
    title: str,
    old: Sequence[DocumentChunk],
    new: Sequence[Chunk],
    now: datetime,
) -> None:
    """Replace old chunks by new ones, keeping equal ones and their vectors."""
    moved: list[int] = []
    new_chunks = {(chunk.start, chunk.text, _keywords(title, chunk)): chunk for chunk in new}
    removed: dict[int, str] = {}
    for old_chunk in old:
        if new_chunks.pop((old_chunk.start, old_chunk.text, old_chunk.keywords), None) is None:
            removed[old_chunk.entry] = old_chunk.indexed
        elif old_chunk.stream != stream:
            moved.append(old_chunk.entry)
    if moved:
        await tx.execute(
            """
            UPDATE entries SET stream = $4 WHERE tenant = $1 AND project = $2 AND book = $3
                AND entry = ANY($5::int4[])
            """,
            index_id_of(index_name),
            stream,
            moved,
        )
    await _remove(tx, index_name, removed)
    if new_chunks:
        entries = [
            _entry(ref, stream, chunk, keywords, now)
            for (_, _, keywords), chunk in new_chunks.items()
        ]
        await index.add(tx, {index_name: entries}, segment_bits=SEGMENT_BITS)


async def put(tx: Tx, index_name: str, file: File, text: str, *, title: str, now: datetime) -> None:
    """Make a file findable by this text and no other."""
    ref = file.incarnation.hex
    [new] = await map_in_thread([text], _chunks_of)
    old = await list_chunks(tx, index_name, ref, limit=CHUNKS_MAX)
    await replace_chunks(tx, index_name, ref, file.stream, title=title, old=old, new=new, now=now)


async def add(
    tx: Tx, index_name: str, new_files: Sequence[tuple[File, str, str]], *, now: datetime
) -> None:
    """Make several new files findable, each by its text and its title, in one round trip."""
    chunks_of_files = await map_in_thread([text for _, text, _ in new_files], _chunks_of)
    entries = [
        _entry(file.incarnation.hex, file.stream, chunk, _keywords(title, chunk), now)
        for (file, _, title), chunks_of_file in zip(new_files, chunks_of_files, strict=True)
        for chunk in chunks_of_file
    ]
    if entries:
        await index.add(tx, {index_name: entries}, segment_bits=SEGMENT_BITS)


async def stale(
    tx: Tx, index_name: str, *, begin: str, limit: int
) -> list[tuple[str, DocumentChunk]]:
    """Return the next chunks whose file is deleted or in another stream, by document.

    `begin` is the first document; the last one may have more.
    """
    rows = await tx.fetch(
        """
        SELECT e.ref, e.entry, e.stream, e.start, e.start + e.size_bytes AS end, e.text, e.cues
            FROM entries AS e
        WHERE tenant = $1 AND project = $2 AND book = $3 AND role = 'document' AND ref >= $4
            AND NOT EXISTS (
            SELECT FROM files AS f WHERE f.tenant = $1 AND f.project = $2
                AND f.incarnation = e.ref::uuid
                AND f.stream = e.stream AND f.deleted_at IS NULL OFFSET 0)
        ORDER BY ref, start LIMIT $5
        """,
        index_id_of(index_name),
        begin,
        limit,
    )
    return [(row["ref"], DocumentChunk(*list(row.values())[1:])) for row in rows]


async def forget(tx: Tx, index_name: str, file_id: UUID) -> None:
    """Make a file unfindable."""
    await remove(tx, index_name, await list_chunks(tx, index_name, file_id.hex, limit=CHUNKS_MAX))


async def set_title(
    tx: Tx, index_name: str, ref: str, stream: int, *, title: str, now: datetime
) -> None:
    """Make a document findable by another title."""
    old = [
        old_chunk
        for old_chunk in await list_chunks(tx, index_name, ref, limit=CHUNKS_MAX)
        if old_chunk.stream == stream
    ]
    new = [Chunk(old_chunk.start, old_chunk.text, old_chunk.context) for old_chunk in old]
    await replace_chunks(tx, index_name, ref, stream, title=title, old=old, new=new, now=now)


async def remove(tx: Tx, index_name: str, chunks_removed: Sequence[DocumentChunk]) -> None:
    """Remove chunks from the index for good."""
    await _remove(tx, index_name, {chunk.entry: chunk.indexed for chunk in chunks_removed})


async def _remove(tx: Tx, index_name: str, indexed: Mapping[int, str]) -> None:
    """Remove entries for good, with their vectors; those of other models are left to a job."""
    if indexed:
        index_id = index_id_of(index_name)
        await index.remove(tx, index_id, indexed)
        if tx.encoder is not None:
            await vectors.remove(tx, index_id, tx.encoder.model, list(indexed))


def _chunks_of(text: str) -> list[Chunk]:
    return chunks(text.replace("\x00", " "))  # no text of the database holds a NUL


def _entry(ref: str, stream: int, chunk: Chunk, keywords: str, now: datetime) -> NewEntry:
    return NewEntry(
        ref=ref,
        text=chunk.text,
        keywords=keywords,
        message_at=now,
        role=ROLE,
        stream=stream,
        start=chunk.start,
        size_bytes=len(chunk.text.encode()),
    )


def _keywords(title: str, chunk: Chunk) -> str:
    return f"{title}\n{chunk.context}" if chunk.context else title
