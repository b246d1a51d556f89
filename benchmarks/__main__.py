"""Run benchmarks one after the other and print their figures beside the goals: `python -m
benchmarks [NAME...]`.

Each benchmark writes its figures and its plot into `--folder`; `--again` summarises that folder
without running anything. `--record` then copies the figures to `benchmarks/results` and renews
every table in README.md and docs/benchmarks.md from there. Benchmarks whose data or program is
missing are skipped, with a message.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from math import ceil, floor
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks import plot, table
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
CHECKOUT: Final = Path(__file__).parents[1]
RESULTS: Final = CHECKOUT / "benchmarks/results"
"""The recorded figures, a JSON file for each benchmark."""
PAGES: Final = ("README.md", "docs/benchmarks.md")
"""The pages whose tables are made from the recorded figures."""
HIGHLIGHTS: Final = (
    ("latency", "before_turn p50, ms", "time to recall before a turn, median", "ms"),
    ("latency", "before_turn p95, ms", "the same, 95th percentile", "ms"),
    ("latency", "after_turn p50, ms", "time to store a turn, median", "ms"),
    ("latency", "after_turn p95, ms", "the same, 95th percentile", "ms"),
    (
        "journeys",
        "own words of 45 sessions, at once",
        "a new chat recalls what was said in one of 45 chats: question in the same words",
        "%",
    ),
    ("journeys", "other words of 45 sessions, at once", "the same: question in other words", "%"),
    (
        "journeys",
        "another language of 45 sessions, at once",
        "the same: question in another language",
        "%",
    ),
    (
        "journeys",
        "other words of 500 sessions, at once",
        "the same, among 500 chats: question in other words",
        "%",
    ),
    (
        "journeys",
        "lasting: known after 100 days",
        "lasting facts that are still known after 100 days",
        "%",
    ),
    ("recall", "recall@10", "LoCoMo: evidence among the first ten recalled messages", "%"),
    (
        "recall",
        "off-topic questions that recall nothing",
        "LoCoMo: questions about topics that never came up: rightly, nothing is recalled",
        "%",
    ),
    (
        "journeys",
        "forgotten and not told again",
        "requests to forget, in free words, that remove everything they mean",
        "%",
    ),
    (
        "journeys",
        "forgotten at the second call",
        "the same, if the agent then names one of the sentences that the answer offers",
        "%",
    ),
    (
        "journeys",
        "changes: what holds now is told, the past marked",
        "changes of mind after which the new value is told, and the old one only if marked",
        "%",
    ),
    (
        "faults",
        "parts that held",
        "fault tests passed: kill -9, full disk, broken networks, overload",
        "%",
    ),
    (
        "newcomer",
        "first `make serve`, to ready",
        "first `make serve`, until the server answers",
        "s",
    ),
    ("newcomer", "idle server", "memory of an idle server, without PostgreSQL", "MB"),
)
"""The rows of README's table: benchmark, figure, the words that README uses, unit."""


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
        "--record",
        action="store_true",
        help="keep the folder's figures in benchmarks/results and renew the pages made from them",
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


def highlights(found: Sequence[Report]) -> Report:
    """Return the table of README, whose figures are never rounded to what looks better.

    Raises KeyError if one of them has not been recorded."""
    figures = {(each.name, figure.what): figure for each in found for figure in each.figures}
    rows = []
    for name, what, words, unit in HIGHLIGHTS:
        figure = figures[name, what]
        scale = 100 if unit == "%" else 1
        goal = f"{figure.goal.sign} {figure.goal.bound * scale:g} {unit}" if figure.goal else ""
        goal = "100 %" if goal == ">= 100 %" else goal
        value = ""
        if figure.value is not None:
            exact = round(figure.value * scale, 6)
            value = f"{floor(exact) if unit == '%' else ceil(exact)} {unit}"
        rows.append([words, value, goal, figure.verdict])
    return Report("highlights", "", [Table("", ("figure", "measured", "goal", ""), rows)], [])


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


def rendered(page: str, found: Sequence[Report]) -> str:
    """A page with all its tables made from these reports."""
    for each in (summary(found), highlights(found), *found):
        page = into(page, each)
    return page


def record(found: Sequence[Report]) -> None:
    """Record figures, without their plots and raw data, and regenerate the pages."""
    for each in found:
        table.write(
            RESULTS / f"{each.name.replace(', ', ' ').replace(' ', '-')}.json", each.written()
        )
    recorded = reports(RESULTS)
    for name in PAGES:
        page = CHECKOUT / name
        page.write_text(rendered(page.read_text("utf-8"), recorded), "utf-8")


def main() -> int:
    """The command; 1 when a benchmark failed, not when a figure falls short."""
    arguments = parse()
    failed = [] if arguments.again else run(arguments)
    found = reports(arguments.folder)
    summary(found).show()
    plot.write(arguments.folder / "summary.svg", lambda: drawing(found))
    if arguments.record:
        record(found)
    if failed:
        print(f"\nThese failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
