"""Entries as a model reads them: clean text of a known length, whatever a caller sent."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import regex

from memsvc.core.secrets import replace_secrets
from memsvc.styles.whiteboard.text_length import best_end

_LINE_CHARS: Final = regex.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL_CHARS: Final = regex.compile(
    r"[[\p{Cc}--[\n\t]]\p{Cs}\p{Co}\p{Cn}[\p{Cf}--[\u200c\u200d]]]", regex.V1
)
_ELLIPSIS: Final = "…"
_TIMESTAMP_RANGE: Final = (0.0, 253_402_300_799.0)


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """Something that happened in a conversation.

    `timestamp` is in seconds since 1970, None for unknown; `kind` is what the caller calls it, such
    as `message`, "" for nothing.
    """

    role: str
    content: str
    timestamp: float | None = None
    kind: str = ""

    @property
    def lines(self) -> str:
        """Return the entry in a list: `- role: content`, further lines indented.

        So none of them starts a list item of its own; the last one holds the entry's time and kind.
        """
        first, *more = f"{self.role}: {self.content}".split("\n")
        known = ", ".join(
            part
            for part in (_format_time(self.timestamp), f"type: {self.kind}" if self.kind else "")
            if part
        )
        return "\n  ".join([f"- {first}", *more, *([f"({known})"] if known else [])])


def clean(text: str) -> str:
    """Return the text without secrets, invisible characters and foreign line ends."""
    return replace_secrets(_CONTROL_CHARS.sub("", _LINE_CHARS.sub("\n", text))).strip()


def one_line(text: str) -> str:
    """Return the clean text in one line."""
    return " ".join(clean(text).split())


def split_entry(
    entry: BoardEntry, *, tokens_max: int, count: Callable[[str], int]
) -> Iterator[BoardEntry]:
    """Yield the entry or, if it is too long, consecutive entries with its content."""
    rest = entry.content
    while (end := best_end(rest, tokens_max, count)) < len(rest):
        yield replace(entry, content=f"{rest[:end].rstrip()} {_ELLIPSIS}")
        rest = f"{_ELLIPSIS} {rest[end:].lstrip()}"
    yield replace(entry, content=rest)


def _format_time(timestamp: float | None) -> str:
    low, high = _TIMESTAMP_RANGE
    if timestamp is None or not low <= timestamp <= high:
        return ""
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M} UTC"
