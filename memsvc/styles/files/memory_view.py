"""Output of the memory tool: numbered lines, sizes, and a directory of two levels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from memsvc.core.paths import decode_segment

LINES_MAX: Final = 999_999
VIEW_LEVELS: Final = 2
QUOTE_CHARACTERS_MAX: Final = 1000
"""Characters of a text that was not found, as quoted in the error."""
MATCH_LINES_MAX: Final = 200
"""Places of a text that should be unique, as listed in the error."""

_NUMBER_WIDTH: Final = len(str(LINES_MAX))
_UNITS: Final = ("B", "K", "M", "G")


def shorten(text: str) -> str:
    """Return a caller's text, short enough to be quoted back."""
    return text if len(text) <= QUOTE_CHARACTERS_MAX else text[:QUOTE_CHARACTERS_MAX] + "…"


def lines_of(content: str, text: str) -> list[int]:
    """Return the numbers of the lines in which a text starts, once per match, overlaps too."""

    def numbers() -> Iterator[int]:
        line, counted, at = 1, 0, content.find(text)
        while at != -1:
            line += content.count("\n", counted, at)
            counted = at
            yield line
            at = content.find(text, at + 1)

    return list(islice(numbers(), MATCH_LINES_MAX))


def number_lines(lines: Sequence[str], first: int) -> str:
    """Return the lines with numbers from `first` on, right-aligned, followed by a tab."""
    return "\n".join(
        f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first)
    )


def size(size_bytes: int) -> str:
    """Return a size in units of 1024, with one decimal unless it is whole: 0B, 512B, 1.5K, 2M."""
    unit = min(max(size_bytes.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    amount = size_bytes / 1024**unit
    return (
        f"{int(amount)}{_UNITS[unit]}" if amount == int(amount) else f"{amount:.1f}{_UNITS[unit]}"
    )


@dataclass(slots=True)
class DirectoryNode:
    """A directory, or a file, with the bytes of all that is below it."""

    size_bytes: int = 0
    children: dict[str, "DirectoryNode"] = field(default_factory=dict)

    def put(self, segments: Sequence[str], size_bytes: int) -> None:
        """Count a file below this directory."""
        node = self
        node.size_bytes += size_bytes
        for segment in segments[:VIEW_LEVELS]:
            name = decode_segment(segment)
            node = node.children.setdefault(segment if name is None else name, DirectoryNode())
            node.size_bytes += size_bytes
        if len(segments) > VIEW_LEVELS:
            node.children[""] = DirectoryNode()

    def list_entries(self, levels: int) -> list[tuple[str, int]]:
        """Return the names and sizes in this directory, parents first, without hidden names."""
        entries: list[tuple[str, int]] = []
        for name, node in sorted(self.children.items()):
            if name.startswith(".") or not name:
                continue
            entries.append((f"{name}/" if node.children else name, node.size_bytes))
            if levels > 1:
                entries += [
                    (f"{name}/{child_path}", size_bytes)
                    for child_path, size_bytes in node.list_entries(levels - 1)
                ]
        return entries
