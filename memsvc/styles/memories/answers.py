"""Parser of a model's JSON answers: fenced, wrapped in prose, or cut off in the middle."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

CHARS_READ_MAX: Final = 40_000
LEVELS_MAX: Final = 32
_STARTS_MAX: Final = 4
"""Positions at which JSON may begin that are tried."""
_CUTS_MAX: Final = 6
"""Times that truncated JSON is shortened further until it parses."""
_TRAILING_COMMA: Final = re.compile(r",\s*(?=[}\]])")
_MARK: Final = re.compile(r'\\.|["{}\[\],]', re.DOTALL)

Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]
EVENTS: Final[tuple[Event, ...]] = ("ADD", "UPDATE", "DELETE", "NONE")


class UnreadableError(Exception):
    """An answer holds nothing of what was requested."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Change that a model proposes: to which memory, if it named one, and its new text."""

    event: Event
    memory: str
    text: str
    old_text: str


def facts_in(answer: str) -> list[str]:
    """Return the facts of an answer `{"facts": [...]}`, without blanks and duplicates.

    A bare list is accepted too, and so is an object with one text for a fact. Raises
    `UnreadableError`.
    """
    whole = _members(answer, "facts")
    texts = [_text(one, "fact", "text", "memory", "content", "value") for one in whole]
    if not any(texts) and any(one not in ("", None) for one in whole):
        raise UnreadableError
    return list(dict.fromkeys(text for text in texts if text))


def proposals_in(answer: str) -> list[Proposal]:
    """Return the changes of an answer `{"memory": [...]}`, in order.

    Those without a known event are left out. Raises `UnreadableError`.
    """
    whole = _members(answer, "memory", "memories", "results")
    found = [one for one in map(_proposal, whole) if one is not None]
    if whole and not found:
        raise UnreadableError
    return found


def _proposal(one: Any) -> Proposal | None:
    if not isinstance(one, dict):
        return None
    event = next((event for event in EVENTS if str(one.get("event", "")).strip().upper() == event), None)
    if event is None:
        return None
    named = one.get("id")
    memory = str(named).strip() if isinstance(named, str | int) else ""
    return Proposal(event, memory, _text(one, "text", "memory"), _text(one, "old_memory"))


def _text(one: Any, *names: str) -> str:
    """Return a string, or a member of an object, on one line and without NUL characters."""
    if isinstance(one, dict):
        one = next((one[name] for name in names if isinstance(one.get(name), str)), "")
    return " ".join(one.replace("\x00", " ").split()) if isinstance(one, str) else ""


def _members(answer: str, *names: str) -> list[Any]:
    """Return the list that an answer is, or holds under one of the names.

    Of a truncated list, its complete elements.
    """
    for number, whole, cut in _values(answer[:CHARS_READ_MAX]):
        held = whole if number == 0 else None  # a later list belongs to something else
        if isinstance(whole, dict):
            held = next((whole[name] for name in names if name in whole), None)
            if held in (None, {}, "") and any(name in whole for name in names):
                held = []
        if isinstance(held, list) and (held or not cut):
            return held
    raise UnreadableError


def _values(answer: str) -> Iterator[tuple[int, Any, bool]]:
    """Yield the JSON values of an answer, tried at each position where one may begin.

    As the number of the position, the value, and whether it was truncated.
    """
    starts = [match.start() for match in re.finditer(r"[{\[]", answer)][:_STARTS_MAX]
    for number, start in enumerate(starts):
        end = _end(answer, start)
        piece = answer[start:end] if end is not None else answer[start:]
        for text in (piece, _TRAILING_COMMA.sub("", piece)) if end is not None else _closed(piece):
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
    for _ in range(_CUTS_MAX):
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
        whole = text[: last + 1] if text.count('"', last + 1) == 1 else text
        yield _TRAILING_COMMA.sub("", whole.rstrip().rstrip(",:") + "".join(reversed(closing)))
        cut = max(text.rfind(character) for character in ",{[")
        if cut <= 0:
            return
        text = text[:cut]


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
