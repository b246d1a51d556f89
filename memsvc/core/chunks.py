"""Chunks of a text along headings, paragraphs, code fences and sentences."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Final, NamedTuple

import regex

from memsvc.core.frozen import frozen

NOT_SHORT_FORM: Final = (
    r"(?<!\b(?:Dr|Mr|Mrs|Ms|Jr|Sr|Prof|St|vs|e\.g|i\.e|z\.B|bzw|ca|approx|No|Nr)\.)"
    r"(?!(?<=\b\d{1,2}\.)\s+(?:Jan|Feb|März|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez))"
)
"""Where a full stop ends no sentence: after an abbreviation, and within a German date."""
_END: Final = regex.compile(
    rf"(?<=[.!?…][\"'”’)\]]{{0,2}}){NOT_SHORT_FORM}\s+"
    r"|(?<=[。！？｡．][」』）】”’]{0,2})(?![」』）】”’。！？｡．])"
    r"|\n+"
)


def sentence_boundary_positions(text: str) -> Iterator[int]:
    """Yield the positions after each sentence or line, before white space.

    Not the end of the text."""
    for match in _END.finditer(text):
        if match.start() < len(text):
            yield match.start()


def sentence_ends(text: str) -> list[int]:
    """Return the positions at which the next sentence or line begins."""
    return [match.end() for match in _END.finditer(text) if match.end() < len(text)]


def sentences(text: str) -> Iterator[str]:
    """Yield the non-blank sentences and lines of a text in order, with white space collapsed."""
    start = 0
    for end in (*sentence_boundary_positions(text), len(text)):
        plain = " ".join(text[start:end].split())
        if plain:
            yield plain
        start = end


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, those that touch or overlap as one."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


CHUNK_BYTES_TARGET: Final = 1000
CHUNK_BYTES_MIN: Final = 500
"""Minimum chunk size; only the last chunk, or one that ends in whitespace, is smaller."""
CHUNK_BYTES_MAX: Final = 1600
OVERLAP_BYTES_MAX: Final = 200
INDENT_BYTES_MAX: Final = 200
"""Longer whitespace before a word is no indentation, and belongs to no chunk."""
HEADING_CHARACTERS_MAX: Final = 120
FENCE_CHARACTERS_MAX: Final = 80

_NEXT_CHARACTERS: Final = 24
"""Characters after a split within a line that are checked; the longest start of a marked line."""
_PREVIOUS_CHARACTERS: Final = 16
_SEARCH_CHARACTERS: Final = 64
"""Characters around the target that are searched first, so that a dense text costs no more."""
_SPACE_BYTES: Final = rb"[\t-\r\x1c-\x20]*+"
# as str.isspace()
_UNICODE_SPACE: Final = (
    rb"(?:\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)"
)
_WHITESPACE: Final = re.compile(_SPACE_BYTES + rb"(?:" + _UNICODE_SPACE + _SPACE_BYTES + rb")*+")
_MARK_LINE: Final = re.compile(
    r"^(?: {0,3}(?P<heading>#{1,6}[ \t]+[^\s#][^\n]*)|["
    r" \t]{0,12}(?P<fence>(?P<marker>`{3,}|~{3,})(?P<info>[^\n]*)))"
    r"(?P<newline>\n?)",
    re.MULTILINE,
)
_FENCE_MARKER: Final = re.compile(r"`{3,}|~{3,}")
_NO_MARK_LINE: Final = r"(?![ \t]{0,12}(?:#{1,6}[ \t]|```|~~~))"
_BLANK_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n)+")
_LINE_END: Final = re.compile(r"\n")
_REST_OF_LINE: Final = re.compile(r"[^\S\n]*\n")
_CLOSING: Final = r"[\"'”’»)\]}*_`」』）】》〉]{0,4}"
_SENTENCE_END: Final = re.compile(
    rf"(?:[.!?…։؟۔।॥።။។]{_CLOSING}[^\S\n]+|[。！？｡．]{_CLOSING}[^\S\n]*){_NO_MARK_LINE}(?=\S)"
)
_SPACE: Final = re.compile(rf"\s+{_NO_MARK_LINE}")
_CHARACTER: Final = regex.compile(
    r"(?<!\u200d)(?![\p{M}\u200c\u200d\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F\u1160-\u11FF])"
    + _NO_MARK_LINE
)


@frozen
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
    result = []
    position = _skip_whitespace(data, 0)
    while position < len(data):
        if len(data) - position <= CHUNK_BYTES_MAX:
            result.append(Chunk(start + position, data[position:].decode(), context))
            break
        window = _Window(data[position : position + CHUNK_BYTES_MAX], context)
        split = _split_position(window)
        end = _end_of_content(window.text, split)
        result.append(Chunk(start + position, window.text[:end], context))
        following = _skip_whitespace(data, position + window.bytes_before(split))
        if following == len(data):
            break
        overlap_start = _overlap(window, split)
        if overlap_start < end:
            context, position = (
                window.context_at(overlap_start),
                position + window.bytes_before(overlap_start),
            )
        else:
            context, position = window.context_at(split), following
    return result


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
        self.mark_lines = list(_iter_mark_lines(self.text, heading, fence, self.target))
        self._mark_line_positions = [mark.start for mark in self.mark_lines]

    def bytes_before(self, position: int) -> int:
        """Return the UTF-8 bytes of the characters before a position."""
        return position if self._ascii else len(self.text[:position].encode())

    def last_mark(self, position: int) -> _Mark:
        """Return the last marked line that starts before a position.

        Returns the context of the chunk if there is none."""
        index = bisect_left(self._mark_line_positions, position)
        return self.mark_lines[index - 1] if index else self._before

    def context_at(self, position: int) -> str:
        """Return the context of a chunk that starts at a position."""
        mark = self.last_mark(position)
        return "\n".join(line for line in (mark.heading, mark.fence) if line)

    def is_split_after_mark(self, position: int) -> bool:
        """Return whether a split here separates a heading or fence opening from its content."""
        mark = self.last_mark(position)
        return mark.kind in ("heading", "opening") and not self.text[mark.end : position].strip()


def _iter_mark_lines(text: str, heading: str, fence: str, target: int) -> Iterator[_Mark]:
    """Yield marked lines in order, up to the first heading at or after the target.

    The split is there at the latest."""
    if "# " not in text and "#\t" not in text and "```" not in text and "~~~" not in text:
        return
    before = _FENCE_MARKER.match(fence)
    marker = before[0] if before else ""
    for match in _MARK_LINE.finditer(text):
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


def _split_position(window: _Window) -> int:
    """Return where a chunk ends: the best kind of boundary available, nearest to the target."""

    def between_paragraphs(position: int) -> bool:
        return not window.last_mark(position).fence and is_after_content(position)

    def is_after_content(position: int) -> bool:
        return not window.is_split_after_mark(position)

    def has_context(position: int) -> bool:
        return position <= len(window.text) - _NEXT_CHARACTERS

    mark_lines = window.mark_lines
    heading_positions = [mark.start for mark in mark_lines if mark.kind == "heading"]
    fences = [
        mark.end if mark.kind == "closing" else mark.start
        for mark in mark_lines
        if mark.kind != "heading"
    ]
    choices: list[Callable[[], int | None]] = [
        lambda: _best_position(heading_positions, window),
        lambda: _best_match_end(_BLANK_LINES, window, between_paragraphs),
        lambda: _best_position(fences, window),
        lambda: _best_match_end(_BLANK_LINES, window, is_after_content),
        lambda: _best_match_end(_LINE_END, window, is_after_content),
        lambda: _best_match_end(_SENTENCE_END, window, has_context),
        lambda: _best_match_end(_SPACE, window, has_context),
    ]
    for choice in choices:
        if (split := choice()) is not None:
            return split
    character = _CHARACTER.search(window.text, window.target) or _CHARACTER.search(
        window.text, window.low, window.target
    )
    return (
        character.start() if character and character.start() < len(window.text) else window.target
    )


def _best_match_end(
    pattern: re.Pattern[str], window: _Window, allowed: Callable[[int], bool]
) -> int | None:
    for radius in (_SEARCH_CHARACTERS, len(window.text)):
        start, stop = max(window.low, window.target - radius), window.target + radius
        matches = pattern.finditer(window.text, max(0, start - _PREVIOUS_CHARACTERS))
        positions = takewhile(stop.__ge__, (match.end() for match in matches))
        best = _best_position((end for end in positions if end >= start and allowed(end)), window)
        if best is not None:
            return best
    return None


def _best_position(positions: Iterable[int], window: _Window) -> int | None:
    low, target = window.low, window.target
    best = None
    for position in positions:
        if position >= low and (best is None or abs(position - target) < abs(best - target)):
            best = position
    return best


def _end_of_content(text: str, split: int) -> int:
    end = len(text[:split].rstrip())
    rest = _REST_OF_LINE.match(text, end, split)
    return rest.end() if rest else end


def _overlap(window: _Window, split: int) -> int:
    """Return where the next chunk starts so that it repeats the last lines of this one.

    Sentences count where there are no lines; returns the split itself if there are none."""
    text = window.text
    mark = window.last_mark(split)
    tail = (
        text[max(0, split - OVERLAP_BYTES_MAX) : split]
        .encode()[-OVERLAP_BYTES_MAX:]
        .decode(errors="ignore")
    )
    low = max(split - len(tail), mark.end)
    if mark.end == split or any(other.start == split for other in window.mark_lines):
        return split
    for match in _BLANK_LINES.finditer(text, max(0, low - 1), split):
        low = match.end()
    if low >= split:
        return split
    line_end = text.find("\n", max(0, low - 1), split - 1)
    if line_end != -1:
        return line_end + 1
    sentence = _SENTENCE_END.search(text, low, split)
    return sentence.end() if sentence else split


def _skip_whitespace(data: bytes, position: int) -> int:
    """Return the start of the next non-blank line (its indentation kept) or word.

    Returns the end of the text if there is none."""
    match = _WHITESPACE.match(data, position)
    end = match.end() if match else position
    if end == len(data):
        return end
    line = data.rfind(b"\n", position, end) + 1 or position
    return line if end - line <= INDENT_BYTES_MAX else end
