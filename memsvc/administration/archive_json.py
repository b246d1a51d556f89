"""Shapes of JSON columns, as far as readers need them: another shape would make a reader fail."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model
from typing_extensions import TypedDict

from memsvc.store.context import SummaryPosition

_CLOSED: Final = ConfigDict(extra="forbid", strict=True)
_OPEN: Final = ConfigDict(extra="allow", strict=True)
_Pair = Annotated[list[int], Field(min_length=2, max_length=2)]


class _Evidence(TypedDict):
    __pydantic_config__ = _CLOSED  # type: ignore[misc]

    session: str
    turn: str
    item: str
    user: str
    origin: NotRequired[str]


class _Cited(TypedDict):
    __pydantic_config__ = _OPEN  # type: ignore[misc]

    session: str
    turn: str


class _InsightEvidence(TypedDict):
    __pydantic_config__ = _OPEN  # type: ignore[misc]

    facts: list[str]
    turns: list[_Cited]
    holds: NotRequired[list[_Pair]]
    past: NotRequired[list[_Pair]]
    sources: NotRequired[list[_Pair]]


class _Candidate(TypedDict):
    __pydantic_config__ = _OPEN  # type: ignore[misc]

    kind: str
    ref: str
    shown: bool
    score: float
    session: NotRequired[str | None]
    place: NotRequired[_Pair | None]
    cut: NotRequired[_Pair | None]
    reason: NotRequired[str | None]
    parts: NotRequired[dict[str, float]]


class _RecallTrace(TypedDict):
    __pydantic_config__ = _OPEN  # type: ignore[misc]

    candidates: list[_Candidate]
    confidence: NotRequired[dict[str, Any] | None]
    limits: dict[str, Any]


_PLACE: Final[dict[str, Any]] = {field.name: (field.type, ...) for field in fields(SummaryPosition)}
_OBJECT: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any], config=ConfigDict(strict=True))
_COUNTS: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, int], config=ConfigDict(strict=True))
_ADAPTERS: Final[Mapping[tuple[str, str], TypeAdapter[Any]]] = {
    ("facts", "evidence"): TypeAdapter(_Evidence),
    ("insights", "evidence"): TypeAdapter(_InsightEvidence),
    ("recalls", "told"): TypeAdapter(_RecallTrace),
    ("sessions", "summary"): TypeAdapter(create_model("Summary", __config__=_CLOSED, **_PLACE)),
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
