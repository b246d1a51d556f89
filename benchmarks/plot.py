"""Plots as SVG, of our own few lines: figures beside their goals as bars, growth as curves,
verdicts as squares."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log10
from pathlib import Path

from benchmarks import table
from benchmarks.report import Curve, Figure

WIDTH = 960
LEFT, RIGHT = 330, 290
ROW = 26
MET, MISSED, PLAIN, INK, GRID = "#2a7f62", "#c0392b", "#5b6b7b", "#222", "#d8dde3"
USED_MAX = 2.0
"""Bars end here; what is longer is cut, and its figure stands beside it."""
PANEL, PANELS_ACROSS = 250, 3
SIDE = 14


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of an image under how to read it, as high as it is; what is drawn counts from its own
    top."""

    told: str
    height: float
    drawn: Sequence[str]


def image(title: str, pieces: Sequence[Piece]) -> str:
    """One SVG of pieces below each other."""
    at, placed = 34.0, [_text(12, 28, title, size=17, weight="bold")]
    for piece in pieces:
        placed.append(_text(12, at + 16, piece.told, size=12, colour=PLAIN))
        placed.append(f'<g transform="translate(0 {at + 24:.0f})">{"".join(piece.drawn)}</g>')
        at += piece.height + 30
    size = f'width="{WIDTH}" height="{at:.0f}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {at:.0f}"'
    opening += f' font-family="system-ui, sans-serif"><rect {size} fill="#fff"/>'
    return "\n".join([opening, *placed, "</svg>\n"])


def bars(groups: Sequence[tuple[str, Sequence[Figure]]]) -> Piece:
    """How much of its goal each figure takes, in named groups."""
    drawn, at = [], 26.0
    scale = (WIDTH - LEFT - RIGHT) / USED_MAX
    for group, figures in groups:
        if group:
            drawn.append(_text(12, at + 17, group, weight="bold"))
        for figure in figures:
            drawn += _bar(figure, at, scale)
            at += ROW
        at += ROW / 3
    goal = LEFT + scale
    named = _text(goal, 14, "goal", anchor="middle", size=12)
    told = (
        "each bar is how much of its goal a figure takes: what does not pass the dashed line met it"
    )
    return Piece(told, at + 6, [*drawn, named, _line(goal, 20, goal, at - 4, INK, dashed=True)])


def _bar(figure: Figure, at: float, scale: float) -> list[str]:
    assert figure.goal is not None
    drawn = [_text(LEFT - 10, at + 17, figure.what, anchor="end")]
    if figure.value is None:
        return [*drawn, _text(LEFT + 8, at + 17, figure.verdict, colour=PLAIN)]
    width = max(2.0, min(figure.goal.used(figure.value), USED_MAX) * scale)
    colour = MET if figure.verdict == "met" else MISSED
    told = f"{table.shown(figure.value)} ({figure.goal})"
    # the text stands behind the line too, so that it is never struck through
    text = _text(LEFT + max(width, scale) + 8, at + 17, told, size=12)
    return [*drawn, _box(LEFT, at + 4, width, ROW - 8, colour), text]


def shares(figures: Sequence[Figure]) -> Piece:
    """Figures that nothing is asked of, as shares of 1."""
    drawn = []
    for number, figure in enumerate(figures):
        at, width = number * ROW, min(figure.value or 0.0, 1.0) * (WIDTH - LEFT - RIGHT)
        drawn += [
            _text(LEFT - 10, at + 17, figure.what, anchor="end"),
            _box(LEFT, at + 4, width, ROW - 8, PLAIN),
        ]
        drawn.append(_text(LEFT + width + 8, at + 17, table.shown(figure.value), size=12))
    return Piece(
        "each bar is a share of 1; nothing is asked of these figures", len(figures) * ROW, drawn
    )


def curves(panels: Sequence[Curve]) -> Piece:
    """Growth in panels side by side: the cost as times the first one, over what is stored, which
    grows tenfold."""
    across = (WIDTH - 24) / PANELS_ACROSS
    drawn: list[str] = []
    for number, panel in enumerate(panels):
        row, column = divmod(number, PANELS_ACROSS)
        drawn += _panel(panel, 12 + across * column, 6.0 + PANEL * row, across - 16)
    told = (
        "how many times as long a call takes as with the least stored; the dashed line is the"
        " most that is allowed"
    )
    return Piece(told, 12 + PANEL * -(-len(panels) // PANELS_ACROSS), drawn)


def _panel(curve: Curve, left: float, top: float, width: float) -> list[str]:
    sizes, times = [size for size, _ in curve.points], [each for _, each in curve.points]
    highest = max(curve.times_max, *times) * 1.2
    low, high = log10(sizes[0]), log10(max(10 * sizes[0], *sizes))
    x0, x1, y0, y1 = left + 40, left + width - 22, top + PANEL - 58, top + 30

    def x(size: float) -> float:
        return x0 + (x1 - x0) * (log10(size) - low) / (high - low)

    def y(each: float) -> float:
        return y0 - (y0 - y1) * each / highest

    colour = MET if times[-1] <= curve.times_max else MISSED
    drawn = [
        _text(left, top + 16, curve.what, weight="bold"),
        _text((x0 + x1) / 2, y0 + 36, curve.of, anchor="middle"),
    ]
    for mark in range(0, int(highest) + 1, 1 if highest < 6 else 2):
        drawn += [
            _line(x0, y(mark), x1, y(mark), GRID),
            _text(x0 - 6, y(mark) + 4, f"{mark} x", anchor="end", size=11),
        ]
    allowed = y(curve.times_max)
    drawn += [
        _line(x0, allowed, x1, allowed, INK, dashed=True),
        _text(x0 + 4, allowed - 5, f"{curve.times_max:g} x", size=11),
    ]
    places = [(x(size), y(each)) for size, each in curve.points]
    drawn += [_line(ax, ay, bx, by, colour, width=2.5) for (ax, ay), (bx, by) in pairwise(places)]
    for size, (at_x, at_y) in zip(sizes, places, strict=True):
        drawn.append(f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="4" fill="{colour}"/>')
        drawn.append(_text(at_x, y0 + 17, short(size), anchor="middle", size=11))
    last_x, last_y = places[-1]
    last = f"{times[-1]:.2f} x"
    beneath = _text(
        last_x + 14, last_y - 12, last, anchor="end", weight="bold", colour="#fff", edge=5
    )
    return [
        *drawn,
        beneath,
        _text(last_x + 14, last_y - 12, last, anchor="end", weight="bold", colour=colour),
    ]


def squares(rows: Sequence[tuple[str, Sequence[bool], str]]) -> Piece:
    """A square for each thing that was judged, in a row for each part, with what is told of the
    part behind them."""
    drawn = []
    for number, (label, held, told) in enumerate(rows):
        at = number * ROW
        drawn.append(_text(LEFT - 130, at + 17, label, anchor="end"))
        for place, one in enumerate(held):
            drawn.append(
                _box(LEFT - 120 + place * (SIDE + 4), at + 5, SIDE, SIDE, MET if one else MISSED)
            )
        drawn.append(_text(LEFT - 112 + len(held) * (SIDE + 4), at + 17, told, size=12))
    return Piece(
        "a square for each figure that is judged: green held, red did not", len(rows) * ROW, drawn
    )


def short(number: float) -> str:
    """A number in few characters: 1k, 10M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def write(file: Path | None, draw: Callable[[], str]) -> None:
    """Draw to a file, if one was asked for; folders on its way are made."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(draw(), encoding="utf-8")


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
    )


def _line(
    ax: float,
    ay: float,
    bx: float,
    by: float,
    colour: str,
    *,
    width: float = 1,
    dashed: bool = False,
) -> str:
    ends = f'x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{by:.1f}"'
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{dashes}/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 13,
    weight: str = "normal",
    colour: str = INK,
    edge: int = 0,
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    place += f' stroke="{colour}" stroke-width="{edge}"' if edge else ""
    return (
        f'<text {place} font-size="{size}" font-weight="{weight}"'
        f' fill="{colour}">{escape(text)}</text>'
    )
