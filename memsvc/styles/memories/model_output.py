"""Parser of a model's JSON answers: fenced, wrapped in prose, or cut off in the middle."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

CHARS_READ_MAX: Final = 40_000
LEVELS_MAX: Final = 32
_POSITIONS_MAX: Final = 4
"""Positions at which JSON may begin that are tried."""
_SHORTEN_MAX: Final = 6
"""Times that truncated JSON is shortened further until it parses."""
_TRAILING_COMMA: Final = re.compile(r",\s*(?=[}\]])")
_MARK: Final = re.compile(r'\\.|["{}\[\],]', re.DOTALL)

Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]
EVENTS: Final[tuple[Event, ...]] = ("ADD", "UPDATE", "DELETE", "NONE")


class InvalidAnswerError(Exception):
    """An answer holds nothing of what was requested."""


@dataclass(frozen=True, slots=True)
class MemoryProposal:
    """Change that a model proposes: to which memory, if it named one, and its new text."""

    event: Event
    memory: str
    text: str
    old_text: str


def facts_in(answer: str) -> list[str]:
    """Return the facts of an answer `{"facts": [...]}`, without blanks and duplicates.

    A bare list is accepted too, and so is an object with one text for a fact. Raises
    `InvalidAnswerError`.
    """
    members = _members(answer, "facts")
    texts = [_text(member, "fact", "text", "memory", "content", "value") for member in members]
    if not any(texts) and any(member not in ("", None) for member in members):
        raise InvalidAnswerError
    return list(dict.fromkeys(text for text in texts if text))


def proposals_in(answer: str) -> list[MemoryProposal]:
    """Return the changes of an answer `{"memory": [...]}`, in order.

    Those without a known event are left out. Raises `InvalidAnswerError`.
    """
    members = _members(answer, "memory", "memories", "results")
    proposals = [proposal for proposal in map(_proposal, members) if proposal is not None]
    if members and not proposals:
        raise InvalidAnswerError
    return proposals


def _proposal(member: Any) -> MemoryProposal | None:
    if not isinstance(member, dict):
        return None
    event = next(
        (event for event in EVENTS if str(member.get("event", "")).strip().upper() == event), None
    )
    if event is None:
        return None
    memory_id = member.get("id")
    memory = str(memory_id).strip() if isinstance(memory_id, str | int) else ""
    return MemoryProposal(
        event, memory, _text(member, "text", "memory"), _text(member, "old_memory")
    )


def _text(value: Any, *names: str) -> str:
    """Return a string, or a member of an object, on one line and without NUL characters."""
    if isinstance(value, dict):
        value = next((value[name] for name in names if isinstance(value.get(name), str)), "")
    return " ".join(value.replace("\x00", " ").split()) if isinstance(value, str) else ""


def _members(answer: str, *names: str) -> list[Any]:
    """Return the list that an answer is, or holds under one of the names.

    Of a truncated list, its complete elements.
    """
    for position, value, truncated in _values(answer[:CHARS_READ_MAX]):
        members = value if position == 0 else None  # a later list belongs to something else
        if isinstance(value, dict):
            members = next((value[name] for name in names if name in value), None)
            if members in (None, {}, "") and any(name in value for name in names):
                members = []
        if isinstance(members, list) and (members or not truncated):
            return members
    raise InvalidAnswerError


def _values(answer: str) -> Iterator[tuple[int, Any, bool]]:
    """Yield the JSON values of an answer, tried at each position where one may begin.

    As the number of the position, the value, and whether it was truncated.
    """
    positions = [match.start() for match in re.finditer(r"[{\[]", answer)][:_POSITIONS_MAX]
    for number, start in enumerate(positions):
        end = _end(answer, start)
        fragment = answer[start:end] if end is not None else answer[start:]
        for text in (
            (fragment, _TRAILING_COMMA.sub("", fragment)) if end is not None else _closed(fragment)
        ):
            try:
                yield number, orjson.loads(text), end is None
                break
            except orjson.JSONDecodeError:
                continue


def _end(text: str, start: int) -> int | None:
    """Return the end of the value that begins here; None when it was truncated."""
    depth = 0
    for at, character in _outside_strings(text, start):
        depth += (character in "{[") - (character in "}]")
        if depth == 0:
            return at + 1
    return None


def _closed(text: str) -> Iterator[str]:
    """Yield a truncated text, closed after its last complete value, then the one before, and so on.

    Half a string is left out, as it says something else than the complete one.
    """
    for _ in range(_SHORTEN_MAX):
        closing: list[str] = []
        last = -1
        for at, character in _outside_strings(text, 0):
            last = at
            if character in "{[":
                closing.append("}" if character == "{" else "]")
            elif character in "}]" and closing:
                closing.pop()
        if len(closing) > LEVELS_MAX:
            return
        complete = text[: last + 1] if text.count('"', last + 1) == 1 else text
        yield _TRAILING_COMMA.sub("", complete.rstrip().rstrip(",:") + "".join(reversed(closing)))
        end = max(text.rfind(character) for character in ",{[")
        if end <= 0:
            return
        text = text[:end]


def _outside_strings(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield what is outside of strings: brackets, and the quotes that end a string."""
    quoted = False
    for match in _MARK.finditer(text, start):
        if match[0] == '"':
            quoted = not quoted
            if not quoted:
                yield match.start(), '"'
        elif not quoted and match[0][0] != "\\":
            yield match.start(), match[0]
