"""Reader of session folders as the client-side SDK writes them, in both of its layouts.

A record is recognized by its shape, not by its file, so that files under older names are read too.
Unreadable places are counted with their position, and never stop the rest."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Annotated, Any

import orjson

from memsvc.core.errors import invalid_path
from memsvc.core.frozen import frozen
from memsvc.core.tool_methods import result
from memsvc.styles.turns.maintenance.raw_archive import decompress

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Size limit of one file; for a packed one, when it is unpacked."""
FRAMES_MAX = 10_000
"""Frames of a packed file: maintenance adds at most one an hour, to a past day."""
REPORT_LIMIT = 100

_ARCHIVED = ".zst"
_LEGACY = re.compile(r"(log|context|memory_facts|meta|legacy[A-Za-z0-9_.-]*)\.jsonl?\Z")
_GENERATED = frozenset(
    {".abstract", ".overview", "watermarks.json", "metrics.json", "latest_compact_pointer.json"}
)
_PLACES = (
    "events/archive/",
    "events/raw/",
    "events/compact/",
    "memory_tiers/",
    "indexes/",
    "insights/",
    "meta/",
    "runtime/context/",
)
_SEGMENT = re.compile(r"[A-Za-z0-9_.-]+\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LegacyKind(Enum):
    """Kind of a record."""

    EVENT = auto()
    SUMMARY = auto()
    FACT = auto()
    INDEX = auto()
    INSIGHT = auto()
    STATE = auto()
    POLICY = auto()


@frozen
class LegacyRecord:
    """One record with its place; only the place may be reported."""

    kind: LegacyKind
    body: dict[str, Any]
    file: str
    line: int


@result
class InvalidRecord:
    file: Annotated[str, "the file"]
    line: Annotated[int, "the line, counted from 1; 0 for the whole file"]
    why: Annotated[str, "why it could not be read"]


@dataclass(slots=True)
class LegacyRecords:
    """The records of a session in the order of writing, as far as its files show."""

    records: list[LegacyRecord] = field(default_factory=list)
    broken: list[InvalidRecord] = field(default_factory=list)
    files: int = 0
    unknown: list[str] = field(default_factory=list)

    def of(self, *kinds: LegacyKind) -> list[LegacyRecord]:
        """Return the records of these kinds."""
        return [record for record in self.records if record.kind in kinds]


def check_name(name: str) -> str:
    """Return the name of a file within a session.

    INVALID_PATH for a name that could lead out of it."""
    segments = name.split("/")
    if len(name) > 512 or any(not _SEGMENT.match(one) or one in (".", "..") for one in segments):
        raise invalid_path("a file's name is a path within its session, of A-Z a-z 0-9 / _ . -")
    return name


def read(files: Mapping[str, bytes]) -> LegacyRecords:
    """Return the records of a session's files, given by their names within it."""
    result = LegacyRecords()
    for name in sorted(files, key=_order):
        if name.rpartition("/")[2] in _GENERATED:
            continue
        if not (_LEGACY.match(name) or name.startswith(_PLACES)):
            result.unknown.append(name)
            continue
        result.files += 1
        for line, body in _read_records(name, files[name], result.broken):
            kind = _kind(body)
            if kind is None:
                result.broken.append(InvalidRecord(name, line, "not a record of a session"))
            else:
                result.records.append(LegacyRecord(kind, body, name, line))
    return result


def record_timestamp(text: Any, now: datetime) -> datetime | None:
    """Return the timestamp of a record, not later than now; None where it has none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return min(found, now) if found >= _EPOCH else None


def _order(name: str) -> tuple[int, str]:
    """Return a sort key: canonical files before others, each kind in order of its days."""
    shard = name.removesuffix(_ARCHIVED)
    if name.startswith(("events/raw/", "events/archive/")):
        return 0, shard.rpartition("/")[2] + shard
    return (2 if _LEGACY.match(name) else 3 if name.startswith("runtime/") else 1), shard


def _read_records(
    name: str, content: bytes, broken: list[InvalidRecord]
) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        if name.endswith(_ARCHIVED):
            content = decompress(content, bytes_max=FILE_BYTES_MAX, frames_max=FRAMES_MAX)
    except ValueError as error:
        broken.append(InvalidRecord(name, 0, str(error)))
        return
    if len(content) > FILE_BYTES_MAX:
        broken.append(InvalidRecord(name, 0, f"larger than {FILE_BYTES_MAX} bytes"))
        return
    parsed = _parsed(content) if name.endswith(".json") else None
    if isinstance(parsed, dict):
        yield 1, parsed
    elif isinstance(parsed, list):
        yield from _dicts(name, enumerate(parsed, 1), broken)
    else:
        lines = (
            (at, _parsed(line)) for at, line in enumerate(content.split(b"\n"), 1) if line.strip()
        )
        yield from _dicts(name, lines, broken)


def _dicts(
    name: str, values: Iterable[tuple[int, Any]], broken: list[InvalidRecord]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for at, value in values:
        if isinstance(value, dict):
            yield at, value
        else:
            broken.append(InvalidRecord(name, at, "not a JSON object"))


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _kind(body: Mapping[str, Any]) -> LegacyKind | None:
    match body:
        case {"type": "compact_summary"}:
            return LegacyKind.SUMMARY
        case {"type": "input_item" | "output_item", "item": dict()}:
            return LegacyKind.EVENT
        case {"type": "fact_upsert" | "fact_delete" | "fact_supersede"} | {
            "fact_id": str(),
            "key": str(),
        }:
            return LegacyKind.FACT
        case {"facts": dict()}:
            return LegacyKind.INDEX
        case {"summary": str(), "related_fact_ids": _}:
            return LegacyKind.INSIGHT
        case {"processed_turn_ids": _} | {"processed_turn": _} | {"latest_turn_id": _}:
            return LegacyKind.STATE
        case {"tiers": dict()}:
            return LegacyKind.POLICY
        case _:
            return None
