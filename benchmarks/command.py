"""A benchmark as a command: its sizes as options, full and quick ones, and what it found as tables,
JSON and a plot."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks import plot, table
from benchmarks.report import Report


@dataclass(frozen=True, slots=True)
class Size:
    """How much of something: in a full run, and with `--quick`."""

    full: float
    quick: float
    what: str


def nothing_more(_: argparse.ArgumentParser) -> None:
    """No options but the sizes."""


@dataclass(frozen=True, slots=True)
class Command:
    """One benchmark: what it measures, how much of it, and the options that are not sizes."""

    about: str | None
    measure: Callable[[argparse.Namespace], Awaitable[Report | None]]
    sizes: Mapping[str, Size] = field(default_factory=dict)
    options: Callable[[argparse.ArgumentParser], None] = nothing_more

    def parse(self, given: Sequence[str] | None = None) -> argparse.Namespace:
        """The options as they were given, each size with its number."""
        parser = argparse.ArgumentParser(description=self.about)
        self.options(parser)
        add_sizes(parser, self.sizes)
        add_outputs(parser)
        return with_sizes(parser.parse_args(given), self.sizes)

    def run(self) -> int:
        """Measure and tell; the exit code: 1 where the benchmark judges whether something is right,
        and it is not. Without a report there was nothing to measure, which was told."""
        arguments = self.parse()
        started = perf_counter()
        report = asyncio.run(self.measure(arguments))
        if report is None:
            return 0
        report.show()
        took_s = perf_counter() - started
        print(f"{report.name}: {took_s:.0f} s", file=sys.stderr)
        sizes = {name: getattr(arguments, name) for name in self.sizes}
        table.write(arguments.json, report.written() | {"sizes": sizes, "took_s": took_s})
        plot.write(arguments.plot, lambda: drawing(report))
        return int(report.failed)


def drawing(report: Report) -> str:
    """A report as a plot: its curves if it has some, and its figures beside their goals, or without
    any as shares."""
    held_to = [each for each in report.bars or report.figures if each.goal is not None]
    pieces = [plot.curves(report.curves)] if report.curves else []
    return plot.image(
        report.title,
        [*pieces, plot.bars([("", held_to)]) if held_to else plot.shares(report.figures)],
    )


def add_sizes(parser: argparse.ArgumentParser, sizes: Mapping[str, Size]) -> None:
    """`--quick`, and an option for each size."""
    parser.add_argument("--quick", action="store_true", help="small sizes")
    for name, size in sizes.items():
        told = f"{size.what}; {size.full:,}" + (
            f", or {size.quick:,} with --quick" if size.quick != size.full else ""
        )
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(size.full), help=told)


def with_sizes(arguments: argparse.Namespace, sizes: Mapping[str, Size]) -> argparse.Namespace:
    """The options with a number for each size that none was given for."""
    for name, size in sizes.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, size.quick if arguments.quick else size.full)
    return arguments


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Where figures go beside the terminal."""
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--plot", type=Path, help="file to draw them in, as SVG")
