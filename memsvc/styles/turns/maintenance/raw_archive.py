"""Archive of raw events: a day's file packed, and all event files of a session read in order."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson
import zstandard

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.items import Item
from memsvc.store import context, files, tree
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

ARCHIVE_SUFFIX: Final = ".jsonl.zst"
FILES_A_PAGE: Final = 1000
CONTENT_BYTES_MAX: Final = 1024 * 1024 * 1024

_EVENT_FILE = re.compile(r"/events/(raw|archive)/\d{4}/\d\d/\d\d/log-(\d{8})\.jsonl(\.zst)?\Z")
_DIRECTION_BY_TYPE = {"input_item": "in", "output_item": "out"}


def decompress(content: bytes, *, bytes_max: int, frames_max: int | None = None) -> bytes:
    """Return the content of an archive of one or more frames, in linear time.

    ValueError, with the reason, when it is incomplete, holds more than `bytes_max` bytes or has
    more than `frames_max` frames."""
    output = bytearray()
    decompressor, source, start, frames = zstandard.ZstdDecompressor(), memoryview(content), 0, 0
    while start < len(source):
        frames += 1
        if frames_max is not None and frames > frames_max:
            raise ValueError(
                f"the zstd archive consists of more than {frames_max} frames (compressed parts)"
            )
        stream = decompressor.decompressobj()
        while start < len(source) and not stream.eof:
            chunk = source[start : start + INPUT_BYTES]
            try:
                output += stream.decompress(chunk)
            except zstandard.ZstdError as error:
                raise ValueError("the zstd archive is damaged or not complete") from error
            start += len(chunk) - len(stream.unused_data)
            if len(output) > bytes_max:
                raise ValueError(f"the zstd archive unpacks to more than {bytes_max} bytes")
        if not stream.eof:
            raise ValueError("the zstd archive is not complete")
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


async def archive_events(tx: Tx, path: str, *, now: datetime) -> int | None:
    """Archive a raw file and delete it, after verifying that the archive unpacks to the same bytes.

    Returns its bytes before; None when it is already gone. The caller holds the session's lock."""
    file = await files.find(tx, path, for_update=True)
    if file is None:
        return None
    archive_data = await _compress(tx, file)
    await tx.lock(TREE_LOCK)
    where = path.replace("/events/raw/", "/events/archive/", 1) + ".zst"
    archive = await files.find(tx, where, for_update=True)
    if archive is None:
        await files.create(tx, where, archive_data, is_text=False, owner=OWNER, now=now)
    else:  # events were added to an archived day: one more frame
        await files.append(tx, archive, archive_data, is_text=False, now=now)
    await files.delete(tx, path, recursive=False, now=now, keep_style_files=False)
    return file.size_bytes


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
        raise MemsvcError(
            Code.INTERNAL_ERROR,
            "an archive of events was not written, because unpacking it does not return the"
            " original events",
        )
    return bytes(frame)


def _day(path: str) -> datetime | None:
    found = _SHARD.search(path)
    if found is None:
        return None
    try:
        return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, order=True)
class EventFile:
    """The events of a day; an archive holds earlier events than the raw file of the same day."""

    day: str
    raw: bool
    path: str


@frozen
class EventLine:
    """One item of a turn as it was written.

    `place` is stream, start and size of the line; `result` is the answer of the turn, on its last
    line."""

    event: str
    turn: str
    user: str
    direction: str
    item: Item
    message_at: datetime
    place: tuple[int, int, int]
    result: Any


async def event_files(tx: Tx, session: str) -> list[EventFile]:
    """Return the event files of a session, oldest first."""
    found = []
    for place in ("archive", "raw"):
        async for path in tree.all_files_at(tx, f"{session_root(session)}/events/{place}"):
            shard = _EVENT_FILE.search(path)
            if shard is not None:
                found.append(EventFile(shard[2], shard[1] == "raw", path))
    return sorted(found)


async def lines_of(tx: Tx, file: EventFile) -> list[EventLine]:
    """Return the items in an event file."""
    stream, content = await _content(tx, file)
    found = []
    start = 0
    for text in content.splitlines(keepends=True):
        body = orjson.loads(text)
        if body.get("type") in _DIRECTION_BY_TYPE:
            found.append(
                EventLine(
                    event=body["id"],
                    turn=body["turn_id"],
                    user=body.get("user_id") or "",
                    direction=_DIRECTION_BY_TYPE[body["type"]],
                    item=body["item"],
                    message_at=datetime.fromisoformat(body["ts"]).astimezone(UTC),
                    place=(stream, start, len(text)),
                    result=body.get("result"),
                )
            )
        start += len(text)
    return found


async def forgotten_turns(tx: Tx, event_file_list: list[EventFile]) -> set[str]:
    """Return the turns that these files mark as forgotten, and not as restored after that."""
    turns = set[str]()
    for kind, body in await _marks(tx, event_file_list, "turn_forgotten", "turn_restored"):
        (turns.add if kind == "turn_forgotten" else turns.discard)(body["turn_id"])
    return turns


async def redacted_items(tx: Tx, event_file_list: list[EventFile]) -> dict[str, int]:
    """Return the items of which something is forgotten, with the digest that each had first."""
    digests: dict[str, list[int]] = {}
    for kind, body in await _marks(tx, event_file_list, "item_redacted", "item_restored"):
        known = digests.setdefault(body["of"], [])
        if kind == "item_redacted":
            known.append(body["digest"])
        else:
            del known[-1:]
    return {event: known[0] for event, known in digests.items() if known}


async def _marks(
    tx: Tx, event_file_list: list[EventFile], *kinds: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the lines of these files that are of some types, in order, each with its type."""
    found = []
    words = [f'"{kind}"'.encode() for kind in kinds]
    for file in event_file_list:
        _, content = await _content(tx, file)
        for text in content.splitlines():
            if any(word in text for word in words):
                body = orjson.loads(text)
                found += [(body["type"], body)] if body.get("type") in kinds else []
    return found


async def _content(tx: Tx, file: EventFile) -> tuple[int, bytes]:
    stored = await files.find(tx, file.path)
    if stored is None:
        return 0, b""
    content = await files.read(tx, stored)
    if not file.raw:
        content = decompress(content, bytes_max=CONTENT_BYTES_MAX)
    return stored.stream, content
