"""Line-by-line difference of two texts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
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
LineChange = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


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
    lines: list[DiffLine] = []
    steps = _steps(old, new)
    for at, (kind, start, stop, added_start, added_stop) in enumerate(steps):
        if kind == "equal":
            lines += _same(old[start:stop], first=at == 0, last=at == len(steps) - 1)
        else:
            lines += [DiffLine("removed", text) for text in old[start:stop]]
            lines += [DiffLine("added", text) for text in new[added_start:added_stop]]
    return lines


def _steps(old: list[str], new: list[str]) -> list[LineChange]:
    """Return the changes of lines: kind, bounds in the old text, and bounds in the new one."""
    head = _common_length(zip(old, new, strict=False))
    tail = _common_length(zip(reversed(old[head:]), reversed(new[head:]), strict=False))
    changed, added = old[head : len(old) - tail], new[head : len(new) - tail]
    steps: list[LineChange] = [("equal", 0, head, 0, head)] if head else []
    if changed or added:
        steps += [
            (kind, start + head, stop + head, added_start + head, added_stop + head)
            for kind, start, stop, added_start, added_stop in _changes(changed, added)
        ]
    if tail:
        steps.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return steps


def _changes(old: list[str], new: list[str]) -> Sequence[LineChange]:
    counts = Counter(new)
    if sum(counts[line] for line in old) > PAIRS_MAX:
        return [("replace", 0, len(old), 0, len(new))]
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _common_length(pairs: Iterable[tuple[str, str]]) -> int:
    """Return how many pairs from the first on are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _same(texts: list[str], *, first: bool, last: bool) -> list[DiffLine]:
    head, tail = 0 if first else CONTEXT_LINES, 0 if last else CONTEXT_LINES
    if len(texts) <= head + tail + 1:
        return [DiffLine("same", text) for text in texts]
    hidden = DiffLine("skipped", str(len(texts) - head - tail))
    visible = [DiffLine("same", text) for text in texts]
    return [*visible[:head], hidden, *(visible[-tail:] if tail else [])]
