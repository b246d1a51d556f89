"""Figures as tables that people can read and pages can take over (Markdown), and as JSON for
machines."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any


def show(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, digits: int = 2
) -> None:
    """Print a table under its title. Numbers that are not whole have so many digits; None is an
    empty cell."""
    print(f"\n{title}\n\n{markdown(columns, rows, digits=digits)}")


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]], *, digits: int = 2) -> str:
    """A table in Markdown, its columns as wide as their cells."""
    cells = [[shown(cell, digits) for cell in row] for row in [columns, *rows]]
    widths = [max(3, *(len(row[at]) for row in cells)) for at in range(len(columns))]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in cells
    )


def shown(cell: object, digits: int = 2) -> str:
    """A cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.{digits}f}"
    return str(cell)


def write(file: Path | None, figures: Mapping[str, Any]) -> None:
    """Write figures to a JSON file, if one was asked for; folders on its way are made."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def p50(values: Sequence[float]) -> float:
    """The median."""
    return median(values)
