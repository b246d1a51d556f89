"""Charts drawn by the server: coordinates of lines, bars and points, which templates write as SVG.

All coordinates are those of a picture's view box, from the top left corner, rounded to a tenth.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import cos, exp, log10, pi, sin
from typing import Any, Final

from memsvc.core.frozen import frozen

STATES: Final = ("success", "cancelled", "error")
"""Final states of calls, from the bottom of a bar to its top."""
POINTS: Final = 64
LABELS_MAX: Final = 4
NODES_MAX: Final = 12
LABEL_CHARS: Final = 22
HOUR: Final = timedelta(hours=1)


@frozen
class ChartFrame:
    """A picture and the part of it that the axes enclose."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    def x(self, share: float) -> float:
        """Return the position of a share of the horizontal axis."""
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, share: float) -> float:
        """Return the position of a share of the vertical axis, which goes up."""
        return round(self.bottom - share * (self.bottom - self.top), 1)


@frozen
class ChartLabel:
    """A mark on an axis."""

    at: float
    told: str


@frozen
class DecayChart:
    """The decay of a block.

    `line` is a path, `area` what is below it up to now; `now` is the present point.
    """

    frame: ChartFrame
    line: str
    area: str
    now: tuple[float, float]
    threshold: float
    x_labels: list[ChartLabel]
    up: list[ChartLabel]


DECAY_FRAME: Final = ChartFrame(width=560, height=220, left=44, right=546, top=12, bottom=186)


def decay_chart(
    decay_per_h: float, unused_h: float, archived_after_h: float, threshold: float
) -> DecayChart:
    """Return the decay of a block over the hours since its last use: exp(-lambda h).

    It reaches to where the block fades to the threshold, or to now if that is later.
    """
    total_h = max(unused_h, archived_after_h) * 1.08 or 1.0
    points = [
        (DECAY_FRAME.x(step / POINTS), DECAY_FRAME.y(exp(-decay_per_h * total_h * step / POINTS)))
        for step in range(POINTS + 1)
    ]
    now = DECAY_FRAME.x(unused_h / total_h), DECAY_FRAME.y(exp(-decay_per_h * unused_h))
    past = [*(point for point in points if point[0] < now[0]), now]
    area = (
        f"M{DECAY_FRAME.left} {DECAY_FRAME.bottom} {_line(past, 'L')} L{now[0]}"
        f" {DECAY_FRAME.bottom} Z"
    )
    step = _step(total_h)
    return DecayChart(
        DECAY_FRAME,
        _line(points),
        area,
        now,
        DECAY_FRAME.y(threshold),
        [
            ChartLabel(DECAY_FRAME.x(step * number / total_h), f"{step * number:g} h")
            for number in range(LABELS_MAX + 3)
            if step * number <= total_h
        ],
        _y_labels(DECAY_FRAME, 100 / LABELS_MAX, " %"),
    )


@frozen
class GraphNode:
    """A neighbour in a graph, with its edge; the line goes from the centre to it."""

    x: float
    y: float
    anchor: str
    label_x: float
    label_y: float
    label: str
    width: float
    edge: Mapping[str, Any]


@frozen
class Graph:
    """A block and the blocks around it."""

    frame: ChartFrame
    center: tuple[float, float]
    nodes: list[GraphNode]


GRAPH_FRAME: Final = ChartFrame(width=560, height=300, left=150, right=410, top=46, bottom=254)


def graph(edges: Sequence[Mapping[str, Any]]) -> Graph:
    """Return the strongest edges of a block, in the given order, clockwise from the top."""
    center = GRAPH_FRAME.x(0.5), GRAPH_FRAME.y(0.5)
    visible = edges[:NODES_MAX]
    nodes = []
    for number, edge in enumerate(visible):
        angle = 2 * pi * number / len(visible) - pi / 2
        x, y = GRAPH_FRAME.x(0.5 + 0.5 * cos(angle)), GRAPH_FRAME.y(0.5 - 0.5 * sin(angle))
        side = 0 if abs(cos(angle)) < 0.2 else 1 if cos(angle) > 0 else -1
        is_top = side == 0 and sin(angle) < 0
        nodes.append(
            GraphNode(
                x,
                y,
                ("middle", "start", "end")[side],
                round(x + 14 * side, 1),
                round(y + (4 if side else -16 if is_top else 24), 1),
                _short(str(edge["block"]["content"]) or str(edge["block"]["id"])),
                round(1 + 4 * float(edge["weight"]), 1),
                edge,
            )
        )
    return Graph(GRAPH_FRAME, center, nodes)


@frozen
class Bar:
    """The calls of an hour that ended one way."""

    state: str
    x: float
    y: float
    width: float
    height: float


@frozen
class Hours:
    """Calls by the hour: bars by final state, and a line of their duration on its own axis."""

    frame: ChartFrame
    bars: list[Bar]
    line: str
    points: list[tuple[float, float]]
    up: list[ChartLabel]
    up_ms: list[ChartLabel]
    x_labels: list[ChartLabel]


CALLS: Final = ChartFrame(width=960, height=220, left=52, right=900, top=12, bottom=186)


def calls_by_hour(hours: Sequence[Mapping[str, Any]], since: datetime, count: int) -> Hours:
    """Return `count` hours from `since` on, with or without calls in them."""
    by_hour = {round((datetime.fromisoformat(one["hour"]) - since) / HOUR): one for one in hours}
    step = _step(
        max((sum(one[state] for state in STATES) for one in hours), default=0) or LABELS_MAX,
        integer_only=True,
    )
    max_calls = step * LABELS_MAX
    step_ms = _step(max((one["p95_ms"] for one in hours), default=0) or LABELS_MAX)
    max_ms = step_ms * LABELS_MAX
    bars, points = [], []
    for number, one in sorted(by_hour.items()):
        if not 0 <= number < count:
            continue
        total = 0
        for state in STATES:
            if one[state]:
                top = CALLS.y((total + one[state]) / max_calls)
                height = round(CALLS.y(total / max_calls) - top, 1)
                bars.append(
                    Bar(state, CALLS.x((number + 0.15) / count), top, round(594 / count, 1), height)
                )
            total += one[state]
        points.append((CALLS.x((number + 0.5) / count), CALLS.y(min(1.0, one["p95_ms"] / max_ms))))
    return Hours(
        CALLS,
        bars,
        _line(points) if points else "",
        points,
        _y_labels(CALLS, step),
        _y_labels(CALLS, step_ms, " ms"),
        [
            ChartLabel(CALLS.x((number + 0.5) / count), f"{since + number * HOUR:%H:%M}")
            for number in range(0, count, max(1, count // 8))
        ],
    )


def _y_labels(frame: ChartFrame, step: float, unit: str = "") -> list[ChartLabel]:
    """Return the marks of the vertical axis: multiples of a step, from 0 at its bottom."""
    return [
        ChartLabel(frame.y(number / LABELS_MAX), f"{step * number:g}{unit}")
        for number in range(LABELS_MAX + 1)
    ]


def _line(points: Sequence[tuple[float, float]], first: str = "M") -> str:
    return " ".join(f"{'L' if number else first}{x} {y}" for number, (x, y) in enumerate(points))


def _step(total: float, *, integer_only: bool = False) -> float:
    """Return the distance of marks: 1, 2, 2.5 or 5 times a power of ten, so that TICKS fit."""
    power = 10 ** int(log10(total / LABELS_MAX) // 1)
    steps = [factor * power for factor in (1, 2, 2.5, 5, 10)]
    candidates = [
        step
        for step in steps
        if step * LABELS_MAX >= total and (not integer_only or step == int(step))
    ]
    return float(candidates[0]) if candidates else 1.0


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LABEL_CHARS else line[: LABEL_CHARS - 1] + "…"
