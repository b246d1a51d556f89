"""A benchmark is a command with sizes. It tells what it found beside the goals; a figure that falls
short is seen."""

import asyncio
import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as together
from benchmarks import plot, table
from benchmarks.command import drawing
from benchmarks.faults.trial import Trial
from benchmarks.goals import GOALS, Goal
from benchmarks.report import Curve, Figure, Report, Table, judged, read

SVG = "{http://www.w3.org/2000/svg}"
ALONE = ("elfmem_differential",)
"""Those that need another program, and are commands of their own."""


def command(name: str) -> tuple[Callable[[list[str]], Any], dict[str, Any]]:
    """What parses the command line of a benchmark, and its sizes."""
    if name == "faults":
        faults = import_module("benchmarks.faults.__main__")
        return faults.parse, faults.SIZES
    one = import_module(f"benchmarks.{name}").COMMAND
    return one.parse, one.sizes


def report(**values: float | None) -> Report:
    """A report of latency with these figures in the place of ones that meet their goals."""
    met = {
        what: goal.bound if "=" in goal.sign else goal.bound / 2
        for what, goal in GOALS["latency"].items()
    }
    given = {what: values.get(what.replace(" ", "_"), value) for what, value in met.items()}
    rows = [["null tool", 1.5, None], ["before_turn", 1234.5, 0.25]]
    curves = [Curve("before_turn", "items", [(1_000, 1.0), (100_000, 1.4)], 3)]
    tables = [Table("Calls", ("call", "p50 ms", "ratio"), rows)]
    return Report("latency", "Latency <beside> its goals", tables, judged("latency", given), curves)


def drawn(svg: str) -> tuple[list[str], list[str | None]]:
    """The texts of an SVG, and the colours of its boxes."""
    root = ElementTree.fromstring(svg)
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")], [
        each.get("fill") for each in root.iter(f"{SVG}rect")
    ]


@pytest.mark.parametrize("name", [*together.NAMES, *ALONE])
def test_every_benchmark_takes_its_sizes_and_where_to_write_from_its_command_line(
    name: str,
) -> None:
    parse, sizes = command(name)
    data = ["--data", "locomo.json"] if name in together.OF_DATA else []
    full, quick = parse(data), parse([*data, "--quick", "--json", "a.json", "--plot", "a.svg"])
    assert {size: getattr(full, size) for size in sizes} == {
        size: each.full for size, each in sizes.items()
    }
    assert {size: getattr(quick, size) for size in sizes} == {
        size: each.quick for size, each in sizes.items()
    }
    assert (full.json, full.plot, quick.json, quick.plot) == (
        None,
        None,
        Path("a.json"),
        Path("a.svg"),
    )
    for size, each in sizes.items():
        assert (
            getattr(parse([*data, f"--{size.replace('_', '-')}", f"{each.quick + 1}"]), size)
            == each.quick + 1
        )


def test_each_is_run_by_the_command_line_that_it_takes(tmp_path: Path) -> None:
    arguments = together.parse(["--quick", "--folder", str(tmp_path), "--data", "locomo.json"])
    for name in together.NAMES:
        _, _, module, *given = together.command(name, arguments)
        parse, _ = command(module.removeprefix("benchmarks."))
        parsed = parse(given)
        assert (parsed.json, parsed.plot) == (tmp_path / f"{name}.json", tmp_path / f"{name}.svg")
        assert parsed.quick


def test_a_figure_that_has_a_goal_cannot_be_left_out() -> None:
    values = dict.fromkeys(GOALS["latency"], 1.0)
    del values["before_turn p95"]
    with pytest.raises(KeyError, match="before_turn p95"):
        judged("latency", values)


@pytest.mark.parametrize(
    ("sign", "held", "missed"),
    [("<=", 6, 6.01), ("<", 5.99, 6), (">=", 6, 5.99), ("=", 6, 5.99)],
    ids=str,
)
def test_a_goal_is_met_up_to_its_bound(sign: str, held: float, missed: float) -> None:
    goal = Goal(sign, 6, "x null tool")
    assert (Figure("a", held, goal).verdict, Figure("a", missed, goal).verdict) == ("met", "missed")
    assert Figure("a", None, goal).verdict == "not measured"
    assert Figure("a", held).verdict == ""
    assert str(goal) == f"{sign} 6 x null tool"


def test_a_report_is_shown_as_tables_that_a_page_can_take_over() -> None:
    lines = report(before_turn_p50=9.0, before_turn_p95=None).markdown().splitlines()
    assert lines[:5] == [
        "Calls",
        "",
        "| call        | p50 ms | ratio |",
        "| ----------- | ------ | ----- |",
        "| null tool   | 1.50   |       |",
    ]
    told = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    assert ["before_turn", "1,234", "0.25"] in told
    assert ["before_turn p50", "9.00", "<= 6 x null tool", "missed"] in told
    assert ["before_turn p95", "", "<= 15 x null tool", "not measured"] in told
    assert ["after_turn p95, ms", "250.00", "< 500 ms", "met"] in told


def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "made" / "figures.json"
    table.write(file, report().written())
    written = json.loads(file.read_text())
    assert read(written).markdown() == report().markdown()
    assert written["tables"][0]["rows"][1] == ["before_turn", 1234.5, 0.25]
    assert written["curves"][0]["points"] == [[1_000, 1.0], [100_000, 1.4]]


def test_a_plot_shows_each_figure_by_its_goal_and_whether_it_is_met(tmp_path: Path) -> None:
    file = tmp_path / "made" / "plot.svg"
    found = report(before_turn_p50=9.0, after_turn_p50=None)
    plot.write(file, lambda: drawing(found))
    texts, colours = drawn(file.read_text("utf-8"))
    assert {"Latency <beside> its goals", "9.00 (<= 6 x null tool)", "not measured", "1.40 x"} <= {
        *texts
    }
    assert {figure.what for figure in found.figures} <= {*texts}
    assert (colours.count(plot.MISSED), colours.count(plot.MET)) == (1, len(found.figures) - 2)


def test_a_report_without_goals_is_drawn_as_it_is() -> None:
    found = Report("file_recall", "Recall", [], judged("file_recall", {"message@10": 0.88}))
    texts, colours = drawn(drawing(found))
    assert {"message@10", "0.88"} <= {*texts}
    assert plot.PLAIN in colours


def test_faults_are_drawn_as_a_square_for_each_judgement() -> None:
    faults = import_module("benchmarks.faults.__main__")
    held, failed = Trial("held"), Trial("failed")
    held.equal("turns twice", 0, 0)
    held.note("seconds", 3)
    failed.equal("turns lost", 2, 0)
    trials = {"server": held, "disk": failed}
    texts, colours = drawn(faults.drawing(trials))
    assert {"server", "disk", "turns lost: 2"} <= {*texts}
    assert (colours.count(plot.MET), colours.count(plot.MISSED)) == (1, 1)
    found = faults.reported(trials)
    assert found.failed
    assert found.figures[0].value == 0.5
    assert found.written()["parts"]["disk"]["held"] is False


def test_faults_write_what_came_of_each_part_and_go_on_behind_one_that_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = import_module("benchmarks.faults.__main__")

    async def breaks(folder: Path, given: Any) -> Trial:
        raise RuntimeError(f"nothing served {given.clients} clients")

    async def holds(folder: Path, given: Any) -> Trial:
        trial = Trial("overload")
        trial.most("slowest answer, in seconds", 1.5, 2.0)
        return trial

    monkeypatch.setattr(faults, "PARTS", {"server": breaks, "overload": holds})
    outputs = ["--json", f"{tmp_path}/faults.json", "--plot", f"{tmp_path}/faults.svg"]
    assert asyncio.run(faults.run(faults.parse(["--quick", *outputs]))).failed
    written = json.loads((tmp_path / "faults.json").read_text())
    assert [[row[0], *row[2:]] for row in written["tables"][0]["rows"]] == [
        ["server", 1, 0],
        ["overload", 1, 1],
    ]
    assert written["parts"]["server"]["remarks"] == ["nothing served 200 clients"]
    assert {"server", "overload"} <= {*drawn((tmp_path / "faults.svg").read_text())[0]}
    assert "| slowest answer, in seconds | 1.5" in capsys.readouterr().out


def test_summary_has_every_goal_and_missed_goal_fails_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write(tmp_path / "latency.json", report(before_turn_p50=9.0).written())
    monkeypatch.setattr("sys.argv", ["benchmarks", "--again", "--folder", str(tmp_path)])
    assert together.main() == 0
    told = capsys.readouterr().out
    assert f"{len(GOALS['latency']) - 1} of {len(GOALS['latency'])} are not missed" in told
    assert all(what in told for what in GOALS["latency"])
    assert " missed " in told
    texts, _ = drawn((tmp_path / "summary.svg").read_text("utf-8"))
    assert {"latency", *GOALS["latency"]} <= {*texts}


def test_recording_keeps_figures_and_renews_the_tables_of_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Latency\n<!-- tables of latency -->\nold\n<!-- end of latency -->\nweak\n<!-- tables"
        " of files -->\n<!-- tables of highlights -->\n<!-- end of highlights -->\n"
    )
    monkeypatch.setattr(together, "CHECKOUT", tmp_path)
    monkeypatch.setattr(together, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(together, "PAGES", ("page.md",))
    monkeypatch.setattr(
        together, "HIGHLIGHTS", (("latency", "after_turn p95, ms", "slowest", "ms"),)
    )
    together.record([report(before_turn_p50=9.0)])
    found = report(before_turn_p50=9.0).markdown()
    before, tables, after = page.read_text("utf-8").partition(f"\n{found}\n\n")
    assert before == "# Latency\n<!-- tables of latency -->\n"
    assert tables
    assert after.startswith("<!-- end of latency -->\nweak\n<!-- tables of files -->\n")
    assert "| slowest | 250 ms   | < 500 ms | met |" in after
    assert [each.markdown() for each in together.reports(tmp_path / "results")] == [found]


def test_figures_of_readme_are_never_rounded_to_what_looks_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = (("some", "found", "found", "%"), ("some", "slowest", "slowest", "ms"))
    monkeypatch.setattr(together, "HIGHLIGHTS", rows)
    figures = [Figure("found", 0.549, Goal(">=", 0.8)), Figure("slowest", 12.2, Goal("<", 12.5))]
    shown = together.highlights([Report("some", "", [], figures)]).markdown()
    assert "| 54 %" in shown
    assert "| 13 ms" in shown


@pytest.mark.parametrize("name", together.PAGES)
def test_tables_of_pages_are_those_of_recorded_figures(name: str) -> None:
    page = (together.CHECKOUT / name).read_text("utf-8")
    recorded = together.reports(together.RESULTS)
    assert page == together.rendered(page, recorded), "run `python -m benchmarks --again --record`"


def test_every_recorded_benchmark_has_its_tables_on_the_page() -> None:
    page = (together.CHECKOUT / "docs/benchmarks.md").read_text("utf-8")
    for each in together.reports(together.RESULTS):
        assert f"<!-- tables of {each.name} -->\n" in page, each.name
        assert all(
            figure.goal == GOALS[each.name].get(figure.what)
            for figure in each.figures
            if each.name in GOALS
        )


def test_readme_has_no_figure_that_is_typed_by_hand() -> None:
    """Outside of its generated table README names no time, size or share that could grow old."""
    page = (together.CHECKOUT / "README.md").read_text("utf-8")
    written = (
        page.partition("<!-- tables of highlights -->")[0]
        + page.partition("<!-- end of highlights -->")[2]
    )
    assert re.findall(r"\d+(?:\.\d+)? ?(?:ms|s|MB|%|kB)\b", written) == []


def test_a_benchmark_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        together.parse(["latency", "speed"])
    assert "speed" in capsys.readouterr().err
