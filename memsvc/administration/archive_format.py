"""Format of an archive: names of members, manifest and end, sizes, and rows as lines of JSON.

In this order: `manifest.json`; for each project, `rows/files`, each part of it before the contents
that its lines name, then the other `rows`; between and after them `checksums`; and `end.json`,
without which no archive is complete. In a line, bytes are in base64 and times in ISO 8601.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Final, NotRequired
from uuid import UUID

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    with_config,
)
from typing_extensions import TypedDict

from memsvc.core.errors import MemsvcError, invalid_content
from memsvc.core.facts import Evidence, FactState, FactTier
from memsvc.core.frozen import frozen
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import check_project, encode_segment
from memsvc.store.context import SummaryPosition
from memsvc.store.export import Column, ExportStream, Table

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
END: Final = "end.json"
HEAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of the first and last member: a name for each project, a checksum for each part of the
checksums."""
ROWS_BYTES: Final = 1024 * 1024
"""Approximate size of one member of rows."""
ROWS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of a member of rows: a row is never split, so also of the states of a file that changed
often."""
CHECKSUMS_A_MEMBER: Final = 1000
MEDIA_TYPES: Final = {False: "application/x-tar", True: "application/gzip"}
SUFFIXES: Final = {False: ".tar", True: ".tar.gz"}

_REVISION: Final = re.compile(r"[0-9]{4}\Z", re.ASCII)


def _project(name: str) -> str:
    try:
        return check_project(name)
    except MemsvcError as error:
        raise ValueError("the manifest contains an invalid project name") from error


class _Format(BaseModel):
    """Field that the first member has in every version of the format."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    format: int


class ArchiveManifest(BaseModel):
    """First member: what the archive is of."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    format: int
    memsvc: str = Field(max_length=64)
    schema_revision: str = Field(max_length=32)
    archive: UUID
    made_at: datetime
    projects: list[Annotated[str, AfterValidator(_project)]]
    calls: bool


class End(BaseModel):
    """Last member: what the archive holds.

    `rows` by table; `checksums` are the SHA-256 of the members of that name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    members: int
    content_bytes: int
    rows: dict[str, int]
    checksums: list[str]


def rows_name(project: str, table: str, part: int) -> str:
    """Return the name of a part of a table."""
    return f"{_folder(project)}/rows/{table}/{part:08d}.jsonl"


def stream_name(project: str, file: Mapping[str, Any], stream: ExportStream) -> str:
    """Return the name of a file's content: the current one, or the one from a revision on.

    No path has a `~`, so none of these names clashes with another when an archive is unpacked.
    """
    if file["deleted_at"] is None and file["stream"] == stream.stream:
        return f"{_folder(project)}/files{file['path']}"
    version = f"{file['path']}~{stream.first_revision}~{file['incarnation'].hex}"
    return f"{_folder(project)}/versions{version}"


def checksums_name(part: int) -> str:
    """Return the name of a part of the checksums, as `sha256sum --check` reads it."""
    return f"checksums/{part:06d}.sha256"


def _folder(project: str) -> str:
    return f"projects/{encode_segment(project)}"  # a project may be called `..`


def manifest_of(content: bytes, revision: str) -> ArchiveManifest:
    """Return the manifest that a first member holds.

    INVALID_CONTENT if it holds none, and for an archive newer than this memsvc or than this
    database, whose schema `revision` is given.
    """
    too_new = invalid_content(
        "this archive was written by a newer version of memsvc",
        recovery="restore the archive with the memsvc version that wrote it, or a later version",
    )
    try:
        if _Format.model_validate_json(content).format > FORMAT:
            raise too_new
        found = ArchiveManifest.model_validate_json(content)
    except ValidationError as error:
        raise wrong(MANIFEST, "its content is not a valid manifest of an archive") from error
    known = _REVISION.match(found.schema_revision) is not None
    if known and found.schema_revision > revision:
        raise too_new
    if found.format < 1 or not known or found.projects != sorted(set(found.projects)):
        raise wrong(MANIFEST, "its format number, schema revision or list of projects is invalid")
    return found


def end_of(content: bytes) -> End:
    """Return the end that a last member holds. INVALID_CONTENT."""
    try:
        return End.model_validate_json(content)
    except ValidationError as error:
        raise wrong(END, "its content is not a valid summary of the archive") from error


_INTEGER_BITS: Final = {"smallint": 15, "integer": 30, "bigint": 63}
"""Bits of a number beside its sign. One less for an integer: these are counters, which go on
counting."""
_ENTRY_NUMBERS: Final = frozenset(
    {
        *("entry", "search_entry", "next_entry", "first_entry", "folded_entry", "context_start"),
        *("consolidated_entry", "extracted_entry"),
    }
)
"""Columns that hold the number of an entry, which is never negative."""
_RETIRED: Final[Mapping[str, frozenset[str]]] = {"sessions": frozenset({"digested_entry"})}
"""Columns that archives of older versions have, and that no longer exist, by table."""
_ALLOWED_VALUES: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("facts", "state"): frozenset(FactState),
    ("facts", "tier"): frozenset(FactTier),
}
"""Words to which a column is limited."""


@frozen
class ArchiveRows:
    """Rows of one table, with the columns that each has a value for."""

    table: Table
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def line(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line."""
    return orjson.dumps(row, default=_encoded, option=orjson.OPT_APPEND_NEWLINE)


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)  # a UUID of the driver


def lines(content: bytes, member: str) -> list[JsonObject]:
    """Return the objects of a member, one per line. INVALID_CONTENT names the line."""
    if not content.endswith(b"\n"):
        raise wrong(member, "this archive member does not end with a line break")
    found = []
    for number, one in enumerate(content[:-1].split(b"\n"), 1):
        try:
            value = orjson.loads(one)
        except orjson.JSONDecodeError as error:
            raise wrong(member, f"line {number} is not JSON") from error
        if not isinstance(value, dict):
            raise wrong(member, f"line {number} is not a JSON object")
        found.append(value)
    return found


def rows(table: Table, objects: Sequence[Mapping[str, Any]], member: str) -> ArchiveRows:
    """Return objects as rows of a table.

    INVALID_CONTENT if one has other columns than the table, optional columns apart, or a value that
    is not of the column's type.
    """
    known = {column.name: column for column in table.columns}
    retired = _RETIRED.get(table.name, frozenset()) - known.keys()
    if not retired.isdisjoint(objects[0]):
        objects = [
            {name: value for name, value in row.items() if name not in retired} for row in objects
        ]
    names = tuple(objects[0])
    if not known.keys() >= set(names) or any(
        one.required and one.name not in names for one in table.columns
    ):
        raise wrong(member, f"the columns in the first line do not match the table {table.name}")
    parse_columns = [(name, _parser(table.name, known[name])) for name in names]
    found = []
    for number, row in enumerate(objects, 1):
        if row.keys() != set(names):
            raise wrong(member, f"line {number} has different columns from the first line")
        try:
            found.append(tuple(parse(row[name]) for name, parse in parse_columns))
        except InvalidValueError as error:
            raise wrong(member, f"line {number}: {error}") from None
    return ArchiveRows(table, names, found)


def wrong(member: str, what: str) -> MemsvcError:
    """Return the error for an invalid archive."""
    return invalid_content(f"{member}: {what}")


class InvalidValueError(Exception):
    """A value is not of its column's type."""


def _parser(table: str, column: Column) -> Callable[[Any], Any]:
    parse = _of_type(column.type, _ALLOWED_VALUES.get((table, column.name)))
    minimum = 0 if column.name in _ENTRY_NUMBERS else None

    def checked(value: Any) -> Any:
        if value is None:
            if column.nullable:
                return None
            raise InvalidValueError(f"the column {column.name} must not be null")
        try:
            parsed = parse(value)
        except InvalidValueError:
            raise InvalidValueError(
                f"the column {column.name} must be of type {column.type}"
            ) from None
        if column.type == "jsonb" and not is_valid(table, column.name, parsed):
            raise InvalidValueError(f"the column {column.name} does not contain the expected JSON")
        if minimum is not None and parsed < minimum:
            raise InvalidValueError(f"the column {column.name} must not be negative")
        return parsed

    return checked


def _of_type(kind: str, allowed: frozenset[str] | None) -> Callable[[Any], Any]:
    if kind in _INTEGER_BITS:
        return lambda value: integer(value, _INTEGER_BITS[kind])
    if kind.endswith("[]"):
        member = _of_type(kind[:-2], None)
        return lambda value: [member(one) for one in _typed(value, list)]
    if kind.startswith("character varying("):
        limit = int(kind.removeprefix("character varying(").rstrip(")"))
        return lambda value: _text(value, allowed, limit)
    by_type: dict[str, Callable[[Any], Any]] = {
        "text": lambda value: _text(value, allowed),
        "boolean": lambda value: _typed(value, bool),
        "real": _real,
        "double precision": _real,
        "bytea": _bytes,
        "uuid": uuid,
        "timestamp with time zone": timestamp,
        "jsonb": lambda value: value,
    }
    return by_type[kind]


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise InvalidValueError
    return value


def integer(value: Any, bits: int) -> int:
    """Return a number that fits a column of so many bits beside its sign."""
    if type(value) is not int or not -(2**bits) <= value < 2**bits:
        raise InvalidValueError
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise InvalidValueError
    return float(value)


def _text(value: Any, allowed: frozenset[str] | None, limit: int | None = None) -> str:
    text: str = _typed(value, str)
    if (
        "\0" in text
        or (allowed is not None and text not in allowed)
        or (limit is not None and len(text) > limit)
    ):
        raise InvalidValueError
    return text


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_typed(value, str), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidValueError from error


def uuid(value: Any) -> UUID:
    """Return a UUID."""
    try:
        return UUID(_typed(value, str))
    except ValueError as error:
        raise InvalidValueError from error


def timestamp(value: Any) -> datetime:
    """Return a timestamp with a time zone."""
    try:
        timestamp_ = datetime.fromisoformat(_typed(value, str))
    except ValueError as error:
        raise InvalidValueError from error
    if timestamp_.tzinfo is None:
        raise InvalidValueError
    return timestamp_


_CLOSED: Final = ConfigDict(extra="forbid", strict=True)
_OPEN: Final = ConfigDict(extra="allow", strict=True)
_Pair = Annotated[list[int], Field(min_length=2, max_length=2)]


@with_config(_OPEN)
class _Cited(TypedDict):
    session: str
    turn: str


@with_config(_OPEN)
class _InsightEvidence(TypedDict):
    facts: list[str]
    turns: list[_Cited]
    holds: NotRequired[list[_Pair]]
    past: NotRequired[list[_Pair]]
    sources: NotRequired[list[_Pair]]


@with_config(_OPEN)
class _Candidate(TypedDict):
    kind: str
    ref: str
    shown: bool
    score: float
    session: NotRequired[str | None]
    place: NotRequired[_Pair | None]
    cut: NotRequired[list[_Pair] | None]
    reason: NotRequired[str | None]
    parts: NotRequired[dict[str, float]]


@with_config(_OPEN)
class _RecallTrace(TypedDict):
    candidates: list[_Candidate]
    confidence: NotRequired[JsonObject | None]
    limits: JsonObject


def _closed(record: type, **optional: Any) -> TypeAdapter[Any]:
    """Return the parser of what has the fields of a dataclass, `optional` ones as given here."""
    required: JsonObject = {field.name: (field.type, ...) for field in fields(record)}
    return TypeAdapter(create_model(record.__name__, __config__=_CLOSED, **required | optional))


_OBJECT: Final[TypeAdapter[Any]] = TypeAdapter(JsonObject, config=ConfigDict(strict=True))
_COUNTS: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, int], config=ConfigDict(strict=True))
_ADAPTERS: Final[Mapping[tuple[str, str], TypeAdapter[Any]]] = {
    ("facts", "evidence"): _closed(Evidence, origin=(str, "")),
    ("insights", "evidence"): TypeAdapter(_InsightEvidence),
    ("recalls", "told"): TypeAdapter(_RecallTrace),
    ("sessions", "summary"): _closed(SummaryPosition),
    ("sessions", "counters"): _COUNTS,
    ("activity", "session_tokens"): _COUNTS,
    ("activity", "lifetime_tokens"): _COUNTS,
}


def is_valid(table: str, column: str, value: Any) -> bool:
    """Return whether a value can be read from a JSON column; an object can from every other one."""
    try:
        _ADAPTERS.get((table, column), _OBJECT).validate_python(value)
    except ValidationError:
        return False
    return True
