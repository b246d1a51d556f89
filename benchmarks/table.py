"""Figures as a table for people and as JSON for machines."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def write(file: Path | None, figures: Mapping[str, Any]) -> None:
    """Write figures to a JSON file, if one was asked for."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def p50(values: Sequence[float]) -> float:
    """The median."""
    return median(values)
