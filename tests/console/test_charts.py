"""Where the lines, bars and points of charts stand."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import hypot, log
from typing import Any

import pytest

from memsvc.console import charts

SINCE = datetime(2026, 3, 1, 20, tzinfo=UTC)


def hour(
    number: int, success: int = 0, error: int = 0, cancelled: int = 0, p95_ms: float = 1.0
) -> dict[str, Any]:
    at = (SINCE + timedelta(hours=number)).isoformat().replace("+00:00", "Z")
    return {
        "hour": at,
        "success": success,
        "error": error,
        "cancelled": cancelled,
        "p95_ms": p95_ms,
    }


def points(path: str) -> list[tuple[float, float]]:
    numbers = path.replace("M", "").replace("L", "").split()
    return [(float(x), float(y)) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]


@pytest.mark.parametrize("unused_h", [0.0, 30.0, 299.5, 5000.0])
def test_a_block_is_on_its_curve_now_and_at_the_threshold_when_it_has_faded(
    unused_h: float,
) -> None:
    faded_h = -log(0.05) / 0.01
    curve = charts.decay_chart(0.01, unused_h, faded_h, 0.05)
    line = points(curve.line)
    assert line[0] == (curve.frame.left, curve.frame.top)
    assert all(y <= later for (_, y), (_, later) in pairwise(line))
    near = min(line, key=lambda point: abs(point[0] - curve.now[0]))
    assert hypot(near[0] - curve.now[0], near[1] - curve.now[1]) < 15
    width = curve.frame.right - curve.frame.left
    crossing = curve.frame.left + width * faded_h / (max(unused_h, faded_h) * 1.08)
    assert min(abs(x - crossing) + abs(y - curve.threshold) for x, y in line) < 15
    assert all(curve.frame.left <= tick.at <= curve.frame.right for tick in curve.x_labels)


def test_bars_stand_on_each_other_in_their_hours_and_fit() -> None:
    drawn = charts.calls_by_hour([hour(0, 30, 10, 2), hour(5, 84), hour(23, error=1)], SINCE, 24)
    first = [bar for bar in drawn.bars if bar.x == drawn.bars[0].x]
    assert [bar.state for bar in first] == ["success", "cancelled", "error"]
    assert first[0].y + first[0].height == pytest.approx(drawn.frame.bottom)
    for below, above in pairwise(first):
        assert above.y + above.height == pytest.approx(below.y, abs=0.15)
    whole = sum(bar.height for bar in first)
    assert drawn.bars[3].height == pytest.approx(2 * whole, abs=0.3)
    assert all(
        bar.y >= drawn.frame.top and bar.x + bar.width <= drawn.frame.right for bar in drawn.bars
    )
    assert len(points(drawn.line)) == 3


def test_no_calls_are_a_picture_too() -> None:
    drawn = charts.calls_by_hour([], SINCE, 24)
    assert (drawn.bars, drawn.line) == ([], "")
    assert [tick.told for tick in drawn.up] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("most", "marks"), [(1, "4"), (4, "4"), (5, "8"), (41, "80"), (900, "1000"), (1001, "2000")]
)
def test_the_marks_of_an_axis_are_round_and_no_bar_is_higher(most: int, marks: str) -> None:
    assert charts.calls_by_hour([hour(1, most)], SINCE, 24).up[-1].told == marks


def test_a_graph_has_the_strongest_edges_apart_from_each_other_and_always_in_the_same_place() -> (
    None
):
    edges = [
        {"weight": 1 - n / 20, "block": {"id": str(n), "content": f"{n} " + "word " * 20}}
        for n in range(15)
    ]
    drawn = charts.graph(edges)
    assert drawn == charts.graph(edges)
    assert [node.edge for node in drawn.nodes] == edges[: charts.NODES_MAX]
    assert drawn.nodes[0].x == drawn.center[0]
    assert drawn.nodes[0].y < drawn.center[1]
    places = [(node.x, node.y) for node in drawn.nodes]
    assert min(hypot(x - a, y - b) for n, (x, y) in enumerate(places) for a, b in places[:n]) > 40
    assert all(len(node.label) <= charts.LABEL_CHARS for node in drawn.nodes)
