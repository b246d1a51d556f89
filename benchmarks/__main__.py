"""Benchmarks one after the other, and what came of them beside the goals: `python -m benchmarks
[NAME...]`.

Each writes its figures and its plot into the folder, from which `--again` tells the summary once
more without running anything. What needs something that is not here is left out, and that is said.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from benchmarks import plot
from benchmarks.report import Report, Table, read

NAMES = (
    "journeys",
    *("newcomer", "latency", "growth", "many_sessions", "files", "console", "hooks", "faults"),
    "hygiene",
    *("beliefs", "pairs", "recall", "file_recall"),
)
"""In this order. The comparisons with other programs are commands of their own: they need these
programs."""
OF_DATA = ("recall", "file_recall")
COLUMNS = ("benchmark", "figure", "value", "goal", "")


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options as they were given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which of {', '.join(NAMES)}; without any, all"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/bench"), help="where figures and plots go"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: all of it in less than 15 minutes"
    )
    parser.add_argument("--data", type=Path, help="the LoCoMo file, for the recall benchmarks")
    parser.add_argument(
        "--again", action="store_true", help="run nothing: summarise what the folder has"
    )
    parser.add_argument(
        "--page", type=Path, help="a page to write the tables into, where it says whose they are"
    )
    arguments = parser.parse_args(given)
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    return arguments


def run(arguments: argparse.Namespace) -> list[str]:
    """Run the benchmarks; the names of those that failed."""
    failed, started = [], perf_counter()
    for name in arguments.names or NAMES:
        if name in OF_DATA and arguments.data is None:
            print(
                f"\n{name} was left out: it needs the LoCoMo file (make bench DATA=FILE)",
                flush=True,
            )
            continue
        begun = perf_counter()
        done = subprocess.run(command(name, arguments), check=False)
        print(f"\n{name} took {perf_counter() - begun:.0f} s", flush=True)
        if done.returncode:
            failed.append(name)
    print(f"\nAll of them took {perf_counter() - started:.0f} s", flush=True)
    return failed


def command(name: str, arguments: argparse.Namespace) -> list[str]:
    """The command line of one benchmark."""
    outputs = [
        "--json",
        f"{arguments.folder / name}.json",
        "--plot",
        f"{arguments.folder / name}.svg",
    ]
    data = ["--data", str(arguments.data)] if name in OF_DATA else []
    quick = ["--quick"] if arguments.quick else []
    return [sys.executable, "-m", f"benchmarks.{name}", *outputs, *data, *quick]


def reports(folder: Path) -> list[Report]:
    """What the folder has, in the order of NAMES, and then what else was written there."""
    found = [read(json.loads(file.read_text("utf-8"))) for file in sorted(folder.glob("*.json"))]
    return sorted(
        found, key=lambda each: NAMES.index(each.name) if each.name in NAMES else len(NAMES)
    )


def summary(found: Sequence[Report]) -> Report:
    """Every figure that has a goal."""
    rows = [
        [each.name, *figure.row(each.digits)]
        for each in found
        for figure in each.figures
        if figure.goal is not None
    ]
    missed = sum(row[-1] == "missed" for row in rows)
    title = f"Figures beside their goals: {len(rows) - missed} of {len(rows)} are not missed"
    return Report("summary", title, [Table(title, COLUMNS, rows)], [])


def drawing(found: Sequence[Report]) -> str:
    """All of them as bars."""
    held_to = [
        (each.name, [figure for figure in each.figures if figure.goal is not None])
        for each in found
    ]
    return plot.image(
        "memsvc beside its goals", [plot.bars([group for group in held_to if group[1]])]
    )


def into(page: str, report: Report) -> str:
    """A page with the tables of a report between the two lines that say whose they are, if it has
    such lines."""
    begin, end = (f"<!-- {edge} of {report.name} -->\n" for edge in ("tables", "end"))
    before, there, rest = page.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{report.markdown()}\n\n{end}{after}" if there else page


def main() -> int:
    """The command; 1 when a benchmark failed, not when a figure falls short."""
    arguments = parse()
    failed = [] if arguments.again else run(arguments)
    found = reports(arguments.folder)
    summary(found).show()
    plot.write(arguments.folder / "summary.svg", lambda: drawing(found))
    if arguments.page:
        page = arguments.page.read_text("utf-8")
        for each in (summary(found), *found):
            page = into(page, each)
        arguments.page.write_text(page, "utf-8")
    if failed:
        print(f"\nThese failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
