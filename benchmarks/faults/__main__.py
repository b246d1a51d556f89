"""Breaks the service on purpose and counts what came of it: `python -m benchmarks.faults [PART...] [--quick]`.

Every part starts servers of its own, with two tenants whose words must never be seen in answers to the other one, in
logs or in metrics. The exit code is 1 when a figure is not what it has to be.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

from benchmarks import table
from benchmarks.faults import disk, hostile, kills, models, network, overload, rolling, stopping
from benchmarks.faults.trial import Trial

Part = Callable[[Path, argparse.Namespace], Awaitable[Trial]]

PARTS: dict[str, Part] = {
    "server": lambda folder, given: kills.server_killed(folder, kills=given.kills),
    "postgres": lambda folder, given: kills.postgres_killed(folder, kills=given.postgres_kills),
    "embedded": lambda folder, given: kills.embedded_killed(folder, kills=given.embedded_kills),
    "disk": lambda folder, given: disk.disk_full(folder, times=given.disk_full),
    "database-network": lambda folder, given: network.before_database(folder, seconds=given.network_s),
    "client-network": lambda folder, given: network.before_server(folder, seconds=given.network_s),
    "overload": lambda folder, given: overload.overloaded(folder, clients=given.clients, seconds=given.overload_s),
    "hostile": lambda folder, given: hostile.bombarded(folder, requests=given.requests),
    "model": lambda folder, given: models.model_faults(folder, seconds=given.model_s, slow=not given.quick),
    "stop": lambda folder, given: stopping.terminated(folder, times=given.stops),
    "upgrade": lambda folder, given: rolling.rolled(folder, old=given.old),
    "frozen": lambda folder, given: stopping.frozen(folder, times=given.freezes),
}
COUNTS = {
    "kills": (50, 4, "times that the server is killed"),
    "postgres_kills": (10, 2, "times that PostgreSQL is killed"),
    "embedded_kills": (3, 1, "times that the embedded PostgreSQL is killed"),
    "disk_full": (2, 1, "times that the disk is full"),
    "network_s": (30, 6, "seconds of a bad network"),
    "clients": (200, 200, "clients at once"),
    "overload_s": (60, 10, "seconds of overload"),
    "requests": (10_000, 1_000, "malformed requests"),
    "model_s": (4, 1, "seconds of each fault of a model"),
    "stops": (20, 2, "times that a server is told to stop"),
    "freezes": (6, 1, "times that a server is frozen"),
}
"""Counts by option: of a full run, of a quick one, and what they are."""


async def run(given: argparse.Namespace) -> bool:
    """Run the chosen parts, one after the other; whether all held."""
    written, held = {}, True
    for name in given.parts or PARTS:
        started = perf_counter()
        with tempfile.TemporaryDirectory(prefix=f"memsvc-faults-{name}-") as folder:
            trial = await _tried(name, Path(folder), given)
        trial.note("seconds that this took", perf_counter() - started)
        trial.show()
        sys.stdout.flush()
        held = held and trial.held
        written[name] = trial.written()
        table.write(given.json, written)
    return held


async def _tried(name: str, folder: Path, given: argparse.Namespace) -> Trial:
    """One part; one that could not go on to its end has failed, and the others go on."""
    try:
        return await PARTS[name](folder, given)
    except (AssertionError, RuntimeError, TimeoutError, OSError, subprocess.SubprocessError) as error:
        trial = Trial(f"{name}: did not come to its end")
        trial.equal("ended by", type(error).__name__, "nothing")
        trial.remarks.append(str(error)[-2000:])
        return trial


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="the parts to run; without any, all of them")
    parser.add_argument("--quick", action="store_true", help="small counts")
    parser.add_argument("--old", help="git revision to upgrade from; else that before the newest migration")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    for name, (full, quick, what) in COUNTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"{what}; {full}, or {quick} with --quick")
    given = parser.parse_args()
    for name, (full, quick, _) in COUNTS.items():
        if getattr(given, name) is None:
            setattr(given, name, quick if given.quick else full)
    sys.exit(0 if asyncio.run(run(given)) else 1)


if __name__ == "__main__":
    main()
