"""Entries as a model reads them: clean text of a known number of tokens, whatever a caller sent."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import regex

from memsvc.core.chunks import sentence_boundary_positions
from memsvc.core.frozen import frozen
from memsvc.core.secrets import replace_secrets

CHARS_A_TOKEN_MAX: Final = 12
"""Of a text with longer tokens, such as long rules of dashes, less is kept than possible."""
_KEPT_SHARE_MIN: Final = 0.5
"""A cut that leaves less of what fits is rejected for the next finer one."""
_EXTRA_CHARS: Final = 8
SAMPLE_CHARS: Final = 1000
PRECISION: Final = 64
"""Precision of the limit: enough to cut at a boundary, with half of the counting."""
_PARAGRAPH: Final = regex.compile(r"\n[^\S\n]*\n")
_SPACE: Final = regex.compile(r"\s+")
_CHARACTER: Final = regex.compile(r"\X")
_EMPTY_HEADING: Final = regex.compile(r"(?:\s*\n#{1,6}[^\n]*|\s*\n[-*•]?\s*)\Z")


def truncate(text: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """Return the text, or its start within the limit, without a heading that nothing follows."""
    end = best_end(text, tokens_max, count)
    if end == len(text):
        return text
    kept = text[:end].rstrip()
    while (bare := _EMPTY_HEADING.sub("", kept)) != kept:
        kept = bare
    return kept


def best_end(text: str, tokens_max: int, count: Callable[[str], int]) -> int:
    """Return where to cut a text to `tokens_max` tokens; its length if it has no more."""
    if len(text) <= tokens_max or (
        len(text) <= tokens_max * CHARS_A_TOKEN_MAX and count(text) <= tokens_max
    ):
        return len(text)
    max_end = _max_chars(text, tokens_max, count)
    window = text[: max_end + _EXTRA_CHARS]
    min_end = int(max_end * _KEPT_SHARE_MIN)
    for positions in (
        (match.start() for match in _PARAGRAPH.finditer(window)),
        sentence_boundary_positions(window),
        (match.start() for match in _SPACE.finditer(window)),
    ):
        position = max((end for end in positions if min_end < end <= max_end), default=0)
        if position:
            return position
    whole = max(
        (match.end() for match in _CHARACTER.finditer(window) if match.end() <= max_end), default=0
    )
    return whole if whole > min_end else max_end


def _max_chars(text: str, tokens_max: int, count: Callable[[str], int]) -> int:
    """Return nearly the largest number of characters, at least one, within the limit."""
    low, high = 1, min(len(text), tokens_max * CHARS_A_TOKEN_MAX)
    sample = text[:SAMPLE_CHARS]
    expected = len(sample) * tokens_max // max(1, count(sample))
    while high - low > low // PRECISION:
        middle = (low + high + 1) // 2
        # most texts are as dense later as they begin
        for guess in (expected * 9 // 10, expected * 11 // 10):
            middle = guess if low < guess < high else middle
        low, high = (middle, high) if count(text[:middle]) <= tokens_max else (low, middle - 1)
    return low


_LINE_CHARS: Final = regex.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROL_CHARS: Final = regex.compile(
    r"[[\p{Cc}--[\n\t]]\p{Cs}\p{Co}\p{Cn}[\p{Cf}--[\u200c\u200d]]]", regex.V1
)
_ELLIPSIS: Final = "…"
_TIMESTAMP_RANGE: Final = (0.0, 253_402_300_799.0)


@frozen
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
