"""Raw archives: events of past days, compressed with zstd."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import zstandard

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import context, file_move, files, tree
from memsvc.store.database import Tx
from memsvc.store.files import File
from memsvc.store.locks import TREE_LOCK
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import OWNER, session_root
from memsvc.styles.turns.policy import SessionPolicy

CHUNK_BYTES: Final = 1024 * 1024
INPUT_BYTES: Final = 4096
"""Bytes of an archive decompressed at once: the rest of a frame is copied, its output is in memory.
"""
SHARDS_MAX: Final = 1000
"""Raw files of a session that one run checks, oldest first."""

_SHARD = re.compile(r"/events/raw/(\d{4})/(\d\d)/(\d\d)/log-\d{8}\.jsonl\Z")


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """A raw file that became an archive: its bytes before and after."""

    raw_bytes: int
    archive_bytes: int


def decompress(content: bytes, *, bytes_max: int, frames_max: int | None = None) -> bytes:
    """Return the content of an archive of one or more frames, in linear time.

    ValueError, with the reason, when it is incomplete, holds more than `bytes_max` bytes or has
    more than `frames_max` frames."""
    output = bytearray()
    decompressor, source, start, frames = zstandard.ZstdDecompressor(), memoryview(content), 0, 0
    while start < len(source):
        frames += 1
        if frames_max is not None and frames > frames_max:
            raise ValueError(f"an archive of more than {frames_max} frames")
        stream = decompressor.decompressobj()
        while start < len(source) and not stream.eof:
            chunk = source[start : start + INPUT_BYTES]
            try:
                output += stream.decompress(chunk)
            except zstandard.ZstdError as error:
                raise ValueError("not a whole zstd archive") from error
            start += len(chunk) - len(stream.unused_data)
            if len(output) > bytes_max:
                raise ValueError(f"an archive of more than {bytes_max} bytes")
        if not stream.eof:
            raise ValueError("not a whole zstd archive")
    return bytes(output)


async def archive_candidates(
    tx: Tx, session: str, policy: SessionPolicy, *, recent_items: int, now: datetime
) -> list[str]:
    """Return the raw files of a session that are old enough to be archived, oldest first.

    A file's age counts from the day in its path and its last write; a large file is due at the end
    of its day. A file that the recent context is read from stays."""
    candidates = []
    for path in await tree.files_at(
        tx, f"{session_root(session)}/events/raw", after="", limit=SHARDS_MAX
    ):
        day = _day(path)
        if day is not None and day.date() < now.date():
            candidates.append((path, day))
    if not candidates:
        return []
    context_streams = await context.streams(
        tx, session, turn_index.turns(session).number, limit=recent_items
    )
    old = now - timedelta(hours=policy.compaction.min_shard_age_hours)
    ready = []
    for path, day in candidates:
        file = await files.find(tx, path)
        if file is None or file.stream in context_streams:
            continue
        if (
            day <= old and file.updated_at <= old
        ) or file.size_bytes > policy.compaction.max_hot_shard_bytes:
            ready.append(path)
    return ready


async def archive_events(tx: Tx, path: str, *, now: datetime) -> ArchiveResult | None:
    """Archive a raw file and delete it, after verifying that the archive unpacks to the same bytes.

    Returns None when it is already gone. The caller holds the session's lock."""
    file = await files.find(tx, path, for_update=True)
    if file is None:
        return None
    archive_data = await _compress(tx, file)
    await tx.lock(TREE_LOCK)
    where = archive_file(path)
    archive = await files.find(tx, where, for_update=True)
    if archive is None:
        await files.create(tx, where, archive_data, is_text=False, owner=OWNER, now=now)
    else:  # events were added to an archived day: one more frame
        await files.append(tx, archive, archive_data, is_text=False, now=now)
    await file_move.delete(tx, path, recursive=False, now=now, keep_style_files=False)
    return ArchiveResult(file.size_bytes, len(archive_data))


def archive_file(raw: str) -> str:
    """Return the archive of a raw file."""
    return raw.replace("/events/raw/", "/events/archive/", 1) + ".zst"


async def _compress(tx: Tx, file: File) -> bytes:
    compressor, before = zstandard.ZstdCompressor().compressobj(), hashlib.sha256()
    frame = bytearray()
    for start in range(0, file.size_bytes, CHUNK_BYTES):
        chunk = await files.read(tx, file, start, min(start + CHUNK_BYTES, file.size_bytes))
        before.update(chunk)
        frame += compressor.compress(chunk)
    frame += compressor.flush()
    after = hashlib.sha256()
    for chunk in zstandard.ZstdDecompressor().read_to_iter(bytes(frame)):
        after.update(chunk)
    if after.digest() != before.digest():
        raise MemsvcError(Code.INTERNAL_ERROR, "an archive does not unpack to what was packed")
    return bytes(frame)


def _day(path: str) -> datetime | None:
    found = _SHARD.search(path)
    if found is None:
        return None
    try:
        return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
    except ValueError:
        return None
