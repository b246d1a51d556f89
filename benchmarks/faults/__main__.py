"""Breaks the service on purpose and counts what came of it: `python -m benchmarks.faults [PART...]
[--quick]`.

Every part starts servers of its own, with two tenants whose words must never be seen in answers to
the other one, in logs or in metrics. The exit code is 1 when a figure is not what it has to be.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks import plot, table
from benchmarks.command import Size, add_outputs, add_sizes, with_sizes
from benchmarks.faults import disk, hostile, kills, models, network, overload, rolling, stopping
from benchmarks.faults.trial import Trial
from benchmarks.report import Report, Table, judged

Part = Callable[[Path, argparse.Namespace], Awaitable[Trial]]

PARTS: dict[str, Part] = {
    "server": lambda folder, given: kills.server_killed(folder, kills=given.kills),
    "postgres": lambda folder, given: kills.postgres_killed(folder, kills=given.postgres_kills),
    "embedded": lambda folder, given: kills.embedded_killed(folder, kills=given.embedded_kills),
    "disk": lambda folder, given: disk.disk_full(folder, times=given.disk_full),
    "database-network": lambda folder, given: network.before_database(
        folder, seconds=given.network_s
    ),
    "client-network": lambda folder, given: network.before_server(folder, seconds=given.network_s),
    "overload": lambda folder, given: overload.overloaded(
        folder, clients=given.clients, seconds=given.overload_s
    ),
    "insisting": lambda folder, given: overload.insisted(
        folder, clients=given.clients, seconds=given.insisting_s
    ),
    "neighbour": lambda folder, given: overload.neighboured(folder, seconds=given.neighbour_s),
    "hostile": lambda folder, given: hostile.bombarded(folder, requests=given.requests),
    "model": lambda folder, given: models.model_faults(
        folder, seconds=given.model_s, slow=not given.quick
    ),
    "stop": lambda folder, given: stopping.terminated(folder, times=given.stops),
    "upgrade": lambda folder, given: rolling.rolled(folder, old=given.old),
    "frozen": lambda folder, given: stopping.frozen(folder, times=given.freezes),
}
SIZES = {
    "kills": Size(50, 4, "times that the server is killed"),
    "postgres_kills": Size(10, 2, "times that PostgreSQL is killed"),
    "embedded_kills": Size(3, 1, "times that the embedded PostgreSQL is killed"),
    "disk_full": Size(2, 1, "times that the disk is full"),
    "network_s": Size(30, 6, "seconds of a bad network"),
    "clients": Size(200, 200, "clients at once"),
    "overload_s": Size(60, 10, "seconds of overload"),
    "insisting_s": Size(40, 16, "seconds of clients that never wait"),
    "neighbour_s": Size(30, 9, "seconds in which long turns are begun"),
    "requests": Size(10_000, 1_000, "malformed requests"),
    "model_s": Size(4, 1, "seconds of each fault of a model"),
    "stops": Size(20, 2, "times that a server is told to stop"),
    "freezes": Size(6, 1, "times that a server is frozen"),
}
LEFT_OUT_QUICKLY = ("upgrade",)
"""Parts that take minutes whatever their counts: run without `--quick`, or by name."""


async def run(given: argparse.Namespace) -> Report:
    """Run the chosen parts, one after the other, and tell of each as it ends."""
    trials: dict[str, Trial] = {}
    for name in given.parts or [
        name for name in PARTS if not (given.quick and name in LEFT_OUT_QUICKLY)
    ]:
        started = perf_counter()
        with tempfile.TemporaryDirectory(prefix=f"memsvc-faults-{name}-") as folder:
            trials[name] = await _tried(name, Path(folder), given)
        trials[name].note("seconds that this took", perf_counter() - started)
        trials[name].show()
        sys.stdout.flush()
        table.write(given.json, reported(trials).written())
        plot.write(given.plot, lambda: drawing(trials))
    return reported(trials)


def reported(trials: Mapping[str, Trial]) -> Report:
    """What came of the parts so far."""
    held = sum(trial.held for trial in trials.values())
    figures = judged(
        "faults",
        {"parts that held": held / len(trials), "parts that were tried": float(len(trials))},
    )
    judged_of = {
        name: [figure.held for figure in trial.figures if figure.bound]
        for name, trial in trials.items()
    }
    rows = [[name, trials[name].title, len(each), sum(each)] for name, each in judged_of.items()]
    tables = [
        Table("Faults: figures that are judged", ("part", "what is broken", "judged", "held"), rows)
    ]
    parts = {"parts": {name: trial.written() for name, trial in trials.items()}}
    return Report(
        "faults", "Faults beside their goal", tables, figures, failed=held < len(trials), more=parts
    )


def drawing(trials: Mapping[str, Trial]) -> str:
    """Every judged figure of every part as a square."""
    rows = []
    for name, trial in trials.items():
        judgements = [figure for figure in trial.figures if figure.bound]
        wrong = "; ".join(
            f"{figure.what}: {figure.value}" for figure in judgements if not figure.held
        )
        rows.append(
            (
                name,
                [figure.held for figure in judgements],
                wrong or f"{len(judgements)} of {len(judgements)}",
            )
        )
    return plot.image("What held when something was broken", [plot.squares(rows)])


async def _tried(name: str, folder: Path, given: argparse.Namespace) -> Trial:
    """One part; one that could not go on to its end has failed, and the others go on."""
    try:
        return await PARTS[name](folder, given)
    except (
        AssertionError,
        RuntimeError,
        TimeoutError,
        OSError,
        subprocess.SubprocessError,
    ) as error:
        trial = Trial(f"{name}: did not come to its end")
        trial.equal("ended by", type(error).__name__, "nothing")
        trial.remarks.append(str(error)[-2000:])
        return trial


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options as they were given, each size with its number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="the parts to run; without any, all of them"
    )
    parser.add_argument(
        "--old", help="git revision to upgrade from; else that before the newest migration"
    )
    add_sizes(parser, SIZES)
    add_outputs(parser)
    return with_sizes(parser.parse_args(given), SIZES)


def main() -> int:
    """The command."""
    report = asyncio.run(run(parse()))
    report.show()
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
