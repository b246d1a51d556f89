"""What a part of the run found: figures, each with what it has to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks import table


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; `bound` says what it has to be, and is empty where nothing is promised."""

    what: str
    value: object
    bound: str
    held: bool


@dataclass
class Trial:
    """One part: its figures in the order in which they were found, and what went wrong in words."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether every figure is what it has to be."""
        return all(figure.held for figure in self.figures)

    def note(self, what: str, value: object) -> None:
        """A figure that is told and not judged."""
        self.figures.append(Figure(what, _short(value), "", True))

    def equal(self, what: str, value: object, wanted: object) -> None:
        """A figure that has to be this one."""
        self.figures.append(Figure(what, _short(value), f"= {wanted}", value == wanted))

    def most(self, what: str, value: float, bound: float) -> None:
        """A figure that may be no larger."""
        self.figures.append(Figure(what, _short(value), f"<= {bound}", value <= bound))

    def least(self, what: str, value: float, bound: float) -> None:
        """A figure that may be no smaller."""
        self.figures.append(Figure(what, _short(value), f">= {bound}", value >= bound))

    def show(self) -> None:
        """Print it as a table."""
        verdicts = {True: "held", False: "FAILS"}
        rows = [
            [one.what, one.value, one.bound, verdicts[one.held] if one.bound else ""]
            for one in self.figures
        ]
        table.show(self.title, ["what", "figure", "must be", ""], rows, digits=3)
        for remark in self.remarks:
            print(f"  {remark}")

    def written(self) -> Mapping[str, Any]:
        """It as JSON has it."""
        return {
            "held": self.held,
            "figures": {
                one.what: {"value": one.value, "must_be": one.bound, "held": one.held}
                for one in self.figures
            },
            "remarks": self.remarks,
        }


def _short(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
