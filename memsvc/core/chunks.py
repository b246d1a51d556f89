"""Chunks of a text along headings, paragraphs, code fences and sentences."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

import regex

CHUNK_BYTES_TARGET: Final = 1000
CHUNK_BYTES_MIN: Final = 500
"""Minimum chunk size; only the last chunk, or one that ends in whitespace, is smaller."""
CHUNK_BYTES_MAX: Final = 1600
OVERLAP_BYTES_MAX: Final = 200
INDENT_BYTES_MAX: Final = 200
"""Longer whitespace before a word is no indentation, and belongs to no chunk."""
HEADING_CHARACTERS_MAX: Final = 120
FENCE_CHARACTERS_MAX: Final = 80

_LOOKAHEAD: Final = 24
"""Characters after a split within a line that are checked; the longest start of a marked line."""
_LOOKBEHIND: Final = 16
_NEAR: Final = 64
"""Characters around the target that are searched first, so that a dense text costs no more."""
_SPACES: Final = rb"[\t-\r\x1c-\x20]*+"
_WIDE_SPACE: Final = (
    rb"(?:\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)"  # as str.isspace()
)
_WHITESPACE: Final = re.compile(_SPACES + rb"(?:" + _WIDE_SPACE + _SPACES + rb")*+")
_MARKED_LINE: Final = re.compile(
    r"^(?: {0,3}(?P<heading>#{1,6}[ \t]+[^\s#][^\n]*)|[ \t]{0,12}(?P<fence>(?P<marker>`{3,}|~{3,})(?P<info>[^\n]*)))"
    r"(?P<newline>\n?)",
    re.MULTILINE,
)
_FENCE_MARKER: Final = re.compile(r"`{3,}|~{3,}")
_UNMARKED: Final = r"(?![ \t]{0,12}(?:#{1,6}[ \t]|```|~~~))"
_BLANK_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n)+")
_LINE_END: Final = re.compile(r"\n")
_REST_OF_LINE: Final = re.compile(r"[^\S\n]*\n")
_CLOSING: Final = r"[\"'”’»)\]}*_`」』）】》〉]{0,4}"
_SENTENCE_END: Final = re.compile(
    rf"(?:[.!?…։؟۔।॥።။។]{_CLOSING}[^\S\n]+|[。！？｡．]{_CLOSING}[^\S\n]*){_UNMARKED}(?=\S)"
)
_SPACE: Final = re.compile(rf"\s+{_UNMARKED}")
_CHARACTER: Final = regex.compile(
    r"(?<!\u200d)(?![\p{M}\u200c\u200d\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F\u1160-\u11FF])" + _UNMARKED
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a text: `text` is exactly its bytes from `start` on, offsets in UTF-8 bytes.

    `context` holds the lines that apply where the chunk starts, each shortened: the nearest
    Markdown heading before it and, when it starts inside a code fence, the line that opened the
    fence; "" when there is neither."""

    start: int
    text: str
    context: str


def chunks(text: str, *, start: int = 0, context: str = "") -> list[Chunk]:
    """Return the chunks of a text without lone surrogates, in order; none of a text of whitespace.

    A chunk is about CHUNK_BYTES_TARGET long and never over CHUNK_BYTES_MAX; it may begin up to
    OVERLAP_BYTES_MAX before the end of the one before it. Every byte but whitespace lies in a
    chunk. `start` and `context` place the text in a larger one: its first byte there, and the
    context of the chunk that begins there.

    A split depends only on the next CHUNK_BYTES_MAX bytes and the context, and a rest of that size
    is the last chunk. So after an append, all chunks but the last stay, and splitting again from
    the start of the last one, with its context, gives what splitting the whole text would."""
    data = text.encode()
    found: list[Chunk] = []
    position = _skip_whitespace(data, 0)
    while position < len(data):
        if len(data) - position <= CHUNK_BYTES_MAX:
            found.append(Chunk(start + position, data[position:].decode(), context))
            break
        window = _Window(data[position : position + CHUNK_BYTES_MAX], context)
        cut = _cut(window)
        end = _end_of_content(window.text, cut)
        found.append(Chunk(start + position, window.text[:end], context))
        following = _skip_whitespace(data, position + window.bytes_before(cut))
        if following == len(data):
            break
        again = _overlap(window, cut)
        if again < end:
            context, position = window.context_at(again), position + window.bytes_before(again)
        else:
            context, position = window.context_at(cut), following
    return found


class _Mark(NamedTuple):
    """A heading or fence line, with the heading and the fence that apply after it."""

    start: int
    end: int
    kind: str
    heading: str
    fence: str


class _Window:
    """Text that a split may look at; positions are characters from the start of the chunk."""

    def __init__(self, data: bytes, context: str) -> None:
        # Only a character that the end of the window splits is left out.
        self.text = data.decode(errors="ignore")
        self.low = len(data[:CHUNK_BYTES_MIN].decode(errors="ignore"))
        self.target = len(data[:CHUNK_BYTES_TARGET].decode(errors="ignore"))
        self._ascii = len(self.text) == len(data)
        first, *rest = context.split("\n")
        heading = first if first.startswith("#") else ""
        fence = next((line for line in (first, *rest) if _FENCE_MARKER.match(line)), "")
        self._before = _Mark(-1, -1, "", heading, fence)
        self.marks = list(_marks(self.text, heading, fence, self.target))
        self._mark_starts = [mark.start for mark in self.marks]

    def bytes_before(self, position: int) -> int:
        """Return the UTF-8 bytes of the characters before a position."""
        return position if self._ascii else len(self.text[:position].encode())

    def last_mark(self, position: int) -> _Mark:
        """Return the last marked line that starts before a position.

        Returns the context of the chunk if there is none."""
        index = bisect_left(self._mark_starts, position)
        return self.marks[index - 1] if index else self._before

    def context_at(self, position: int) -> str:
        """Return the context of a chunk that starts at a position."""
        mark = self.last_mark(position)
        return "\n".join(line for line in (mark.heading, mark.fence) if line)

    def splits_from_mark(self, position: int) -> bool:
        """Return whether a split here separates a heading or fence opening from its content."""
        mark = self.last_mark(position)
        return mark.kind in ("heading", "opening") and not self.text[mark.end : position].strip()


def _marks(text: str, heading: str, fence: str, target: int) -> Iterator[_Mark]:
    """Yield marked lines in order, up to the first heading at or after the target.

    The split is there at the latest."""
    if "# " not in text and "#\t" not in text and "```" not in text and "~~~" not in text:
        return
    before = _FENCE_MARKER.match(fence)
    marker = before[0] if before else ""
    for match in _MARKED_LINE.finditer(text):
        start, end = match.span()
        heading_line, fence_line, found, info, newline = match.groups()
        if heading_line:
            if marker:
                continue
            heading = heading_line[:HEADING_CHARACTERS_MAX].strip()
            yield _Mark(start, end, "heading", heading, "")
            if start >= target:
                return
        elif not newline:
            continue
        elif marker:
            if found.startswith(marker) and (not info or info.isspace()):
                marker = ""
                yield _Mark(start, end, "closing", heading, "")
        elif found[0] == "~" or "`" not in info:
            fence = fence_line[:FENCE_CHARACTERS_MAX].strip()
            marker = found[:FENCE_CHARACTERS_MAX]
            yield _Mark(start, end, "opening", heading, fence)


def _cut(window: _Window) -> int:
    """Return where a chunk ends: the best kind of boundary available, nearest to the target."""

    def between_paragraphs(position: int) -> bool:
        return not window.last_mark(position).fence and keeps_together(position)

    def keeps_together(position: int) -> bool:
        return not window.splits_from_mark(position)

    def leaves_room(position: int) -> bool:
        return position <= len(window.text) - _LOOKAHEAD

    marks = window.marks
    headings = [mark.start for mark in marks if mark.kind == "heading"]
    fences = [mark.end if mark.kind == "closing" else mark.start for mark in marks if mark.kind != "heading"]
    choices: list[Callable[[], int | None]] = [
        lambda: _nearest(headings, window),
        lambda: _nearest_end(_BLANK_LINES, window, between_paragraphs),
        lambda: _nearest(fences, window),
        lambda: _nearest_end(_BLANK_LINES, window, keeps_together),
        lambda: _nearest_end(_LINE_END, window, keeps_together),
        lambda: _nearest_end(_SENTENCE_END, window, leaves_room),
        lambda: _nearest_end(_SPACE, window, leaves_room),
    ]
    for choose in choices:
        if (cut := choose()) is not None:
            return cut
    whole = _CHARACTER.search(window.text, window.target) or _CHARACTER.search(window.text, window.low, window.target)
    return whole.start() if whole and whole.start() < len(window.text) else window.target


def _nearest_end(pattern: re.Pattern[str], window: _Window, allowed: Callable[[int], bool]) -> int | None:
    for reach in (_NEAR, len(window.text)):
        low, high = max(window.low, window.target - reach), window.target + reach
        matches = pattern.finditer(window.text, max(0, low - _LOOKBEHIND))
        ends = takewhile(high.__ge__, (match.end() for match in matches))
        nearest = _nearest((end for end in ends if end >= low and allowed(end)), window)
        if nearest is not None:
            return nearest
    return None


def _nearest(positions: Iterable[int], window: _Window) -> int | None:
    low, target = window.low, window.target
    best = None
    for position in positions:
        if position >= low and (best is None or abs(position - target) < abs(best - target)):
            best = position
    return best


def _end_of_content(text: str, cut: int) -> int:
    end = len(text[:cut].rstrip())
    rest = _REST_OF_LINE.match(text, end, cut)
    return rest.end() if rest else end


def _overlap(window: _Window, cut: int) -> int:
    """Return where the next chunk starts so that it repeats the last lines of this one.

    Sentences count where there are no lines; returns the split itself if there are none."""
    text = window.text
    mark = window.last_mark(cut)
    tail = text[max(0, cut - OVERLAP_BYTES_MAX) : cut].encode()[-OVERLAP_BYTES_MAX:].decode(errors="ignore")
    low = max(cut - len(tail), mark.end)
    if mark.end == cut or any(other.start == cut for other in window.marks):
        return cut
    for match in _BLANK_LINES.finditer(text, max(0, low - 1), cut):
        low = match.end()
    if low >= cut:
        return cut
    line_end = text.find("\n", max(0, low - 1), cut - 1)
    if line_end != -1:
        return line_end + 1
    sentence = _SENTENCE_END.search(text, low, cut)
    return sentence.end() if sentence else cut


def _skip_whitespace(data: bytes, position: int) -> int:
    """Return the start of the next non-blank line (its indentation kept) or word.

    Returns the end of the text if there is none."""
    match = _WHITESPACE.match(data, position)
    end = match.end() if match else position
    if end == len(data):
        return end
    line = data.rfind(b"\n", position, end) + 1 or position
    return line if end - line <= INDENT_BYTES_MAX else end
