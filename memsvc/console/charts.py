"""Charts drawn by the server: coordinates of lines, bars and points, which templates write as SVG.

All coordinates are those of a picture's view box, from the top left corner, rounded to a tenth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import cos, exp, log10, pi, sin
from typing import Any, Final

STATES: Final = ("success", "cancelled", "error")
"""Final states of calls, from the bottom of a bar to its top."""
SAMPLES: Final = 64
TICKS: Final = 4
NODES_MAX: Final = 12
LABEL_CHARS: Final = 22
HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Frame:
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


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    told: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The decay of a block.

    `line` is a path, `area` what is below it up to now; `now` is the present point.
    """

    frame: Frame
    line: str
    area: str
    now: tuple[float, float]
    threshold: float
    across: list[Tick]
    up: list[Tick]


FADING: Final = Frame(width=560, height=220, left=44, right=546, top=12, bottom=186)


def fading(decay_per_h: float, unused_h: float, faded_after_h: float, threshold: float) -> Curve:
    """Return the decay of a block over the hours since its last use: exp(-lambda h).

    It reaches to where the block fades to the threshold, or to now if that is later.
    """
    reach = max(unused_h, faded_after_h) * 1.08 or 1.0
    points = [
        (FADING.x(step / SAMPLES), FADING.y(exp(-decay_per_h * reach * step / SAMPLES))) for step in range(SAMPLES + 1)
    ]
    now = FADING.x(unused_h / reach), FADING.y(exp(-decay_per_h * unused_h))
    past = [*(point for point in points if point[0] < now[0]), now]
    area = f"M{FADING.left} {FADING.bottom} {_line(past, 'L')} L{now[0]} {FADING.bottom} Z"
    step = _step(reach)
    return Curve(
        FADING,
        _line(points),
        area,
        now,
        FADING.y(threshold),
        [
            Tick(FADING.x(step * number / reach), f"{step * number:g} h")
            for number in range(TICKS + 3)
            if step * number <= reach
        ],
        [Tick(FADING.y(share), f"{100 * share:.0f} %") for share in (0, 0.25, 0.5, 0.75, 1)],
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A neighbour in a graph, with its edge; the line goes from the centre to it."""

    x: float
    y: float
    anchor: str
    label_x: float
    label_y: float
    label: str
    thickness: float
    edge: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Graph:
    """A block and the blocks around it."""

    frame: Frame
    centre: tuple[float, float]
    nodes: list[Node]


AROUND: Final = Frame(width=560, height=300, left=150, right=410, top=46, bottom=254)


def graph(edges: Sequence[Mapping[str, Any]]) -> Graph:
    """Return the strongest edges of a block, in the given order, clockwise from the top."""
    centre = AROUND.x(0.5), AROUND.y(0.5)
    shown = edges[:NODES_MAX]
    nodes = []
    for number, edge in enumerate(shown):
        angle = 2 * pi * number / len(shown) - pi / 2
        x, y = AROUND.x(0.5 + 0.5 * cos(angle)), AROUND.y(0.5 - 0.5 * sin(angle))
        side = 0 if abs(cos(angle)) < 0.2 else 1 if cos(angle) > 0 else -1
        above = side == 0 and sin(angle) < 0
        nodes.append(
            Node(
                x,
                y,
                ("middle", "start", "end")[side],
                round(x + 14 * side, 1),
                round(y + (4 if side else -16 if above else 24), 1),
                _short(str(edge["block"]["content"]) or str(edge["block"]["id"])),
                round(1 + 4 * float(edge["weight"]), 1),
                edge,
            )
        )
    return Graph(AROUND, centre, nodes)


@dataclass(frozen=True, slots=True)
class Bar:
    """The calls of an hour that ended one way."""

    state: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Hours:
    """Calls by the hour: bars by final state, and a line of their duration on its own axis."""

    frame: Frame
    bars: list[Bar]
    line: str
    points: list[tuple[float, float]]
    up: list[Tick]
    up_ms: list[Tick]
    across: list[Tick]


CALLS: Final = Frame(width=960, height=220, left=52, right=900, top=12, bottom=186)


def calls_by_hour(hours: Sequence[Mapping[str, Any]], since: datetime, count: int) -> Hours:
    """Return `count` hours from `since` on, with or without calls in them."""
    by_hour = {round((datetime.fromisoformat(one["hour"]) - since) / HOUR): one for one in hours}
    step = _step(max((sum(one[state] for state in STATES) for one in hours), default=0) or TICKS, whole=True)
    most = step * TICKS
    step_ms = _step(max((one["p95_ms"] for one in hours), default=0) or TICKS)
    most_ms = step_ms * TICKS
    bars, points = [], []
    for number, one in sorted(by_hour.items()):
        if not 0 <= number < count:
            continue
        below = 0
        for state in STATES:
            if one[state]:
                top = CALLS.y((below + one[state]) / most)
                height = round(CALLS.y(below / most) - top, 1)
                bars.append(Bar(state, CALLS.x((number + 0.15) / count), top, round(594 / count, 1), height))
            below += one[state]
        points.append((CALLS.x((number + 0.5) / count), CALLS.y(min(1.0, one["p95_ms"] / most_ms))))
    return Hours(
        CALLS,
        bars,
        _line(points) if points else "",
        points,
        [Tick(CALLS.y(number / TICKS), f"{step * number:g}") for number in range(TICKS + 1)],
        [Tick(CALLS.y(number / TICKS), f"{step_ms * number:g} ms") for number in range(TICKS + 1)],
        [
            Tick(CALLS.x((number + 0.5) / count), f"{since + number * HOUR:%H:%M}")
            for number in range(0, count, max(1, count // 8))
        ],
    )


def _line(points: Sequence[tuple[float, float]], first: str = "M") -> str:
    return " ".join(f"{'L' if number else first}{x} {y}" for number, (x, y) in enumerate(points))


def _step(reach: float, *, whole: bool = False) -> float:
    """Return the distance of marks: 1, 2, 2.5 or 5 times a power of ten, so that TICKS fit."""
    power = 10 ** int(log10(reach / TICKS) // 1)
    steps = [factor * power for factor in (1, 2, 2.5, 5, 10)]
    fitting = [step for step in steps if step * TICKS >= reach and (not whole or step == int(step))]
    return float(fitting[0]) if fitting else 1.0


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LABEL_CHARS else line[: LABEL_CHARS - 1] + "…"
