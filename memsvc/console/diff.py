"""Line-by-line difference of two texts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Final, Literal

from memsvc.core.frozen import frozen

LINES_MAX: Final = 2000
"""Lines of each text that are compared."""
PAIRS_MAX: Final = 20_000
"""Largest number of pairs of equal lines, one of each text.

Each choice of a line may scan all of them: texts that repeat a few lines over and over would keep
the whole process busy for hours.
"""
CONTEXT_LINES: Final = 3

Kind = Literal["same", "added", "removed", "skipped"]


@frozen
class DiffLine:
    """One line of a comparison; the text of `skipped` is a number of equal lines."""

    kind: Kind
    text: str


def difference(before: str, after: str) -> list[DiffLine]:
    """Return what was removed and added from one text to another, with the lines around it.

    Of long texts only the first LINES_MAX lines are compared; between the first and the last change
    of texts that repeat themselves too much, everything counts as removed and added.
    """
    old, new = before.splitlines()[:LINES_MAX], after.splitlines()[:LINES_MAX]
    head = _common_length(zip(old, new, strict=False))
    tail = _common_length(zip(reversed(old[head:]), reversed(new[head:]), strict=False))
    lines = [
        *_lines("same", old[:head]),
        *_changes(old[head : len(old) - tail], new[head : len(new) - tail]),
        *_lines("same", old[len(old) - tail :]),
    ]
    runs = [list(run) for _, run in groupby(lines, key=attrgetter("kind"))]
    folded: list[DiffLine] = []
    for at, run in enumerate(runs):
        is_same = run[0].kind == "same"
        folded += _fold(run, first=at == 0, last=at == len(runs) - 1) if is_same else run
    return folded


def _changes(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    """Yield the lines of both texts, with unchanged lines once."""
    counts = Counter(new)
    if sum(counts[line] for line in old) > PAIRS_MAX:
        yield from _lines("removed", old)
        yield from _lines("added", new)
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, stop, added_start, added_stop in matcher.get_opcodes():
        if kind == "equal":
            yield from _lines("same", old[start:stop])
        else:
            yield from _lines("removed", old[start:stop])
            yield from _lines("added", new[added_start:added_stop])


def _lines(kind: Kind, texts: list[str]) -> Iterator[DiffLine]:
    return (DiffLine(kind, text) for text in texts)


def _common_length(pairs: Iterable[tuple[str, str]]) -> int:
    """Return how many pairs from the first on are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _fold(lines: list[DiffLine], *, first: bool, last: bool) -> list[DiffLine]:
    """Return unchanged lines near a change, with a count in place of those farther away."""
    head, tail = 0 if first else CONTEXT_LINES, 0 if last else CONTEXT_LINES
    hidden = len(lines) - head - tail
    if hidden <= 1:
        return lines
    return [*lines[:head], DiffLine("skipped", str(hidden)), *lines[head + hidden :]]
