"""Reader of session folders as the client-side SDK writes them, in both of its layouts.

A record is recognized by its shape, not by its file, so that files under older names are read too.
Unreadable places are counted with their position, and never stop the rest. Turns are events grouped
by turn, each once, in chronological order."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum, auto
from hashlib import sha256
from typing import Annotated, Any

import orjson

from memsvc.core.errors import MemsvcError, invalid_path
from memsvc.core.frozen import frozen
from memsvc.core.items import Item, canonical, normalize_item, text_parts
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_identifier
from memsvc.core.timestamp import read_time
from memsvc.core.tool_methods import result
from memsvc.store import guard
from memsvc.store.derived import DoneTurn
from memsvc.styles.turns import file_layout
from memsvc.styles.turns.file_layout import exact_timestamp, session_root
from memsvc.styles.turns.maintenance.raw_archive import decompress

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Size limit of one file; for a packed one, when it is unpacked."""
FRAMES_MAX = 10_000
"""Frames of a packed file: maintenance adds at most one an hour, to a past day."""
REPORT_LIMIT = 100

ARCHIVED = ".zst"
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
    body: JsonObject
    file: str
    line: int


@result
class InvalidRecord:
    file: Annotated[str, "path of the file"]
    line: Annotated[int, "line number, counted from 1; 0: the whole file"]
    why: Annotated[str, "reason why the line or file could not be read"]


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
        raise invalid_path(
            "a file name must be a path within its session and contain only the characters"
            " A-Z a-z 0-9 / _ . -"
        )
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
                result.broken.append(
                    InvalidRecord(name, line, "the line is not a record of a session")
                )
            else:
                result.records.append(LegacyRecord(kind, body, name, line))
    return result


def unpack(name: str, content: bytes) -> bytes:
    """Return the content of a file, which is packed if its name says so.

    Raises ValueError, with the reason, for what cannot be unpacked.
    """
    if not name.endswith(ARCHIVED):
        return content
    return decompress(content, bytes_max=FILE_BYTES_MAX, frames_max=FRAMES_MAX)


def record_timestamp(value: Any, now: datetime) -> datetime | None:
    """Return the timestamp of a record, not later than now; None where it cannot be read."""
    try:
        found = read_time(value)
    except (ValueError, OverflowError):
        return None
    return min(found, now) if found >= _EPOCH else None


def _order(name: str) -> tuple[int, str]:
    """Return a sort key: canonical files before others, each kind in order of its days."""
    shard = name.removesuffix(ARCHIVED)
    if name.startswith(("events/raw/", "events/archive/")):
        return 0, shard.rpartition("/")[2] + shard
    return (2 if _LEGACY.match(name) else 3 if name.startswith("runtime/") else 1), shard


def _read_records(
    name: str, content: bytes, broken: list[InvalidRecord]
) -> Iterator[tuple[int, JsonObject]]:
    try:
        content = unpack(name, content)
    except ValueError as error:
        broken.append(InvalidRecord(name, 0, str(error)))
        return
    if len(content) > FILE_BYTES_MAX:
        broken.append(InvalidRecord(name, 0, f"the file is larger than {FILE_BYTES_MAX} bytes"))
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
) -> Iterator[tuple[int, JsonObject]]:
    for at, value in values:
        if isinstance(value, dict):
            yield at, value
        else:
            broken.append(InvalidRecord(name, at, "the line is not a JSON object"))


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


_DIRECTION_BY_TYPE = {"input_item": "in", "output_item": "out"}


def placeholder_file(session: str) -> str:
    """Return the file that lists such turns of a session."""
    return f"{session_root(session)}/meta/imported_turns.jsonl"


def placeholder_line(turn: str, now: datetime) -> bytes:
    """Return the record of one such turn."""
    return orjson.dumps({"ts": exact_timestamp(now), "type": "turn_noted", "turn_id": turn}) + b"\n"


def empty_result(turn: str) -> JsonObject:
    """Return the result of a turn of which nothing else is known."""
    return {"turn_id": turn, "stored_items": 0, "fact_ids": []}


def placeholder_guard(turn: str, now: datetime) -> DoneTurn:
    """Return the guard of one such turn."""
    return DoneTurn(turn, guard.ANY_CONTENT, 0, empty_result(turn), now)


def read_placeholder_lines(lines: Iterable[bytes]) -> list[DoneTurn]:
    """Return the guards of such turns, from their records."""
    records = map(orjson.loads, lines)
    return [
        placeholder_guard(record["turn_id"], datetime.fromisoformat(record["ts"]))
        for record in records
    ]


@frozen
class OldEvent:
    """One item under its original ids."""

    event: str
    item_id: str
    direction: str
    item: Item
    message_at: datetime


@dataclass(slots=True)
class OldTurn:
    """A turn with its events, inputs before outputs."""

    turn: str
    user: str
    at: datetime
    events: list[OldEvent] = field(default_factory=list)

    def items(self, direction: str) -> list[Item]:
        """Return the items of one direction."""
        return [event.item for event in self.events if event.direction == direction]


@dataclass(slots=True)
class OldTurns:
    """The turns of a session, their order, and counts of what was left out, by kind.

    Turns are renamed whose ids this service does not allow."""

    turns: list[OldTurn] = field(default_factory=list)
    order: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def turn_name(turn: str) -> str:
    """Return the id of a turn here: its own, or a hash of it where it is not a valid id."""
    try:
        return check_identifier(turn, "turn_id")
    except MemsvcError:
        return f"imported-{sha256(turn.encode(errors='surrogatepass')).hexdigest()[:32]}"


def user_name(body: JsonObject, member: str) -> str:
    """Return the user of a record; "" where there is none or it is not a valid id."""
    user = body.get(member)
    try:
        return (
            check_identifier(user.strip(), "user_id")
            if isinstance(user, str) and user.strip()
            else ""
        )
    except MemsvcError:
        return ""


def turns(reading: LegacyRecords, now: datetime) -> OldTurns:
    """Return the turns of a session, oldest first.

    An event that occurs several times is taken once."""
    result = OldTurns()
    result.counts["summaries_left_out"] = len(reading.of(LegacyKind.SUMMARY))
    by_name = {}
    seen: dict[tuple[str, str], bytes] = {}
    latest: datetime | None = None
    for record in reading.of(LegacyKind.EVENT):
        event = _event(record, latest, now)
        if isinstance(event, InvalidRecord):
            reading.broken.append(event)
            continue
        turn, old_event = event
        latest = old_event.message_at
        if _is_memory_block(old_event.item):
            result.counts["memory_blocks_left_out"] += 1
            continue
        existing, mark = seen.get((turn, old_event.event)), canonical(old_event.item)
        if existing is not None:
            result.counts["events_repeated"] += 1
            result.counts["events_conflicting"] += existing != mark
            continue
        seen[turn, old_event.event] = mark
        name = turn_name(turn)
        if name not in by_name:
            by_name[name] = OldTurn(name, "", old_event.message_at)
            result.counts["turns_renamed"] += name != turn
        by_name[name].user = by_name[name].user or user_name(record.body, "user_id")
        by_name[name].events.append(old_event)
    result.turns = [_whole(turn) for turn in sorted(by_name.values(), key=lambda turn: turn.at)]
    result.order = {turn.turn: at for at, turn in enumerate(result.turns)}
    return result


def processed(reading: LegacyRecords) -> list[str]:
    """Return the ids of turns stored according to the session's state, oldest first."""
    names: dict[str, None] = {}
    for record in reading.of(LegacyKind.STATE):
        for member in ("processed_turn_ids", "processed_turn"):
            value = record.body.get(member)
            for turn in (
                value if isinstance(value, list) else value if isinstance(value, dict) else [value]
            ):
                if isinstance(turn, str) and turn:
                    names[turn_name(turn)] = None
    return list(names)


def _event(
    record: LegacyRecord, latest: datetime | None, now: datetime
) -> tuple[str, OldEvent] | InvalidRecord:
    body = record.body
    place = (record.file, record.line)
    direction, event = _DIRECTION_BY_TYPE[body["type"]], body.get("id")
    event = event if isinstance(event, str) else ""
    turn = body.get("turn_id") or (file_layout.turn_of(event) if event.count("-") > 1 else "")
    message_at = latest if body.get("ts") is None else record_timestamp(body["ts"], now)
    if not isinstance(turn, str) or not turn:
        return InvalidRecord(*place, "turn_id is missing")
    if message_at is None:
        return InvalidRecord(
            *place, "ts is missing" if body.get("ts") is None else "ts is not valid"
        )
    try:
        item = normalize_item(body["item"], "item", now)
    except MemsvcError as error:
        return InvalidRecord(*place, f"the line is not a response item: {error.message}")
    item_id = body.get("item_id")
    return turn, OldEvent(
        event, item_id if isinstance(item_id, str) else "", direction, item, message_at
    )


def _whole(turn: OldTurn) -> OldTurn:
    """Return the turn with inputs before outputs, each event under an id of the usual form.

    An event keeps its own id where that has the form."""
    ordered = sorted(turn.events, key=lambda event: event.direction)
    numbers_given = [_number(event, turn.turn) for event in ordered]
    kept = (
        len(set(zip(numbers_given, [event.direction for event in ordered], strict=True)))
        == len(numbers_given)
        and -1 not in numbers_given
    )
    numbers = numbers_given if kept else _counted(ordered)
    turn.events = [
        replace(event, event=file_layout.event_id(turn.turn, event.direction, number))
        for event, number in zip(ordered, numbers, strict=True)
    ]
    return turn


def _number(event: OldEvent, turn: str) -> int:
    """Return the number in an event's id, or -1 where the id has another form."""
    head, _, number = event.event.rpartition("-")
    return (
        int(number)
        if head == f"{turn}-{event.direction}" and number.isascii() and number.isdigit()
        else -1
    )


def _counted(events: Sequence[OldEvent]) -> list[int]:
    counts = {"in": 0, "out": 0}
    numbers = []
    for event in events:
        numbers.append(counts[event.direction])
        counts[event.direction] += 1
    return numbers


def _is_memory_block(item: Item) -> bool:
    """Return whether an item is recalled memory in the form of older clients."""
    if item.get("type") != "message" or item.get("role") not in ("developer", "system"):
        return False
    text = "\n".join(text_parts(item)).strip()
    return text.startswith("<memory_reference>") and text.endswith("</memory_reference>")
