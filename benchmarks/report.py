"""What a benchmark found: tables, figures beside their goals, and curves of how something grows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import table
from benchmarks.goals import GOALS, Goal

COLUMNS = ("figure", "value", "goal", "")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as they are shown."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    digits: int = 2


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; None where this run could not measure it."""

    what: str
    value: float | None
    goal: Goal | None = None

    @property
    def verdict(self) -> str:
        """`met` or `missed`; why there is neither otherwise."""
        if self.value is None:
            return "not measured"
        if self.goal is None:
            return ""
        return "met" if self.goal.met(self.value) else "missed"

    def row(self, digits: int = 2) -> list[str]:
        """It as a row of COLUMNS."""
        return [self.what, table.shown(self.value, digits), str(self.goal or ""), self.verdict]


@dataclass(frozen=True, slots=True)
class Curve:
    """How a cost grows with what is stored: by size, how many times the first one it is, and how
    many it may be."""

    what: str
    of: str
    points: Sequence[tuple[float, float]]
    times_max: float


@dataclass(frozen=True, slots=True)
class Report:
    """A benchmark's findings. `bars` are figures that are drawn in the place of `figures`; `failed`
    is said by a benchmark that judges whether something is right."""

    name: str
    title: str
    tables: Sequence[Table]
    figures: Sequence[Figure]
    curves: Sequence[Curve] = ()
    bars: Sequence[Figure] = ()
    failed: bool = False
    digits: int = 2
    more: Mapping[str, Any] = field(default_factory=dict)

    def markdown(self) -> str:
        """Its tables under their titles, the last one of figures beside their goals."""
        parts = [
            part
            for each in self.tables
            for part in (each.title, table.markdown(each.columns, each.rows, digits=each.digits))
            if part
        ]
        if self.figures:
            rows = [each.row(self.digits) for each in self.figures]
            parts.append(f"{self.title}\n\n{table.markdown(COLUMNS, rows)}")
        return "\n\n".join(parts)

    def show(self) -> None:
        """Print it."""
        print(f"\n{self.markdown()}", flush=True)

    def written(self) -> dict[str, Any]:
        """It as JSON has it."""
        return {
            "benchmark": self.name,
            "title": self.title,
            "figures": [
                {
                    "what": each.what,
                    "value": each.value,
                    "goal": None
                    if each.goal is None
                    else [each.goal.sign, each.goal.bound, each.goal.unit],
                    "verdict": each.verdict,
                }
                for each in self.figures
            ],
            "tables": [
                {
                    "title": each.title,
                    "columns": each.columns,
                    "rows": each.rows,
                    "digits": each.digits,
                }
                for each in self.tables
            ],
            "digits": self.digits,
            "curves": [
                {
                    "what": each.what,
                    "of": each.of,
                    "points": each.points,
                    "times_max": each.times_max,
                }
                for each in self.curves
            ],
            **self.more,
        }


def read(written: Mapping[str, Any]) -> Report:
    """A report that was written as JSON, as far as it is shown."""
    figures = [
        Figure(each["what"], each["value"], None if each["goal"] is None else Goal(*each["goal"]))
        for each in written["figures"]
    ]
    tables = [Table(**each) for each in written["tables"]]
    return Report(written["benchmark"], written["title"], tables, figures, digits=written["digits"])


def judged(name: str, values: Mapping[str, float | None]) -> list[Figure]:
    """Figures beside the goals of a benchmark. KeyError where one that has a goal was left out:
    None says that it could not be measured."""
    goals = GOALS[name]
    if forgotten := goals.keys() - values.keys():
        raise KeyError(f"{name} has goals for what it does not measure: {sorted(forgotten)}")
    return [Figure(what, value, goals.get(what)) for what, value in values.items()]
