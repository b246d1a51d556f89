"""How long it takes from a checkout, or a wheel, to a service that answers: `python -m
benchmarks.newcomer`.

A copy of this checkout is set up by `make serve` as it would be on a bare machine, from whatever
package cache pip has: run it twice if the first run had to download. Then its wheel is installed
and served from an empty folder.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

from mcp import Client, StdioServerParameters

from benchmarks import table
from benchmarks.command import Command, Size
from benchmarks.report import Report, Table, judged
from benchmarks.service import call, free_port, process, rss_mb, until_said

CHECKOUT = Path(__file__).parents[1]
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".memsvc", "build", "dist", "__pycache__", ".hypothesis", ".*_cache", "results"
)
FIRST_S = 900
IDLE_S = 5.0
SIZES = {"starts": Size(5, 3, "starts of each kind after the first")}


def environment() -> dict[str, str]:
    """This process's environment without settings of memsvc, Python's or those of a make that runs
    this."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MEMSVC_", "PYTHON", "MAKE"))
        and name not in {"VIRTUAL_ENV", "MFLAGS", "VENV", "ARGS"}
    }


@contextmanager
def made(
    command: list[str], folder: Path, says: bytes
) -> Iterator[tuple["subprocess.Popen[bytes]", float]]:
    """A process in a folder once it has said so, and the seconds until then."""
    started = perf_counter()
    with process(command, environment(), cwd=folder) as running:
        until_said(running, says, FIRST_S)
        yield running, perf_counter() - started


def make_serve(folder: Path) -> float:
    """Seconds from `make serve` to ready."""
    with made(["make", "serve", f"ARGS=--port {free_port()}"], folder, b"ready ") as (_, seconds):
        return seconds


async def stdio(memsvc: Path, folder: Path) -> tuple[float, float]:
    """Seconds from the start of `memsvc stdio` to its first answer, and to that of a first call."""
    started = perf_counter()
    server = StdioServerParameters(
        command=str(memsvc), args=["stdio", "--data-dir", ".memsvc"], cwd=folder
    )
    async with Client(server, mode="legacy") as client:
        answered_s = perf_counter() - started
        await call(client, "memory_before_turn", session_id="first", current_input="Hello?")
        return answered_s, perf_counter() - started


def wheel(folder: Path) -> Path:
    """Build the wheel of a checkout that is set up, and put it in the place of the checkout there;
    the command."""
    commands = folder / ".venv" / "bin"

    def told(*arguments: str) -> None:
        command = [str(commands / "python"), "-m", *arguments]
        subprocess.run(
            command, cwd=folder, env=environment(), check=True, stdout=subprocess.DEVNULL
        )

    told("hatchling", "build", "-t", "wheel")
    built = next((folder / "dist").glob("*.whl"))
    told(
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
        str(built),
    )
    return commands / "memsvc"


def idle_mb(memsvc: Path, command: str, folder: Path) -> tuple[float, float]:
    """The seconds that `serve` or `worker` takes to be ready, and its resident memory when it has
    nothing to do."""
    more, says = (
        (["--port", str(free_port())], b"ready ") if command == "serve" else ([], b"working")
    )
    with made([str(memsvc), command, "--data-dir", ".memsvc", *more], folder, says) as (
        running,
        seconds,
    ):
        sleep(IDLE_S)
        return seconds, rss_mb(running.pid)


async def measure(arguments: argparse.Namespace) -> Report:
    """Set up, start, ask."""
    with tempfile.TemporaryDirectory(prefix="memsvc-newcomer-") as place:
        checkout, elsewhere = Path(place) / "checkout", Path(place) / "elsewhere"
        shutil.copytree(CHECKOUT, checkout, ignore=NOT_COPIED)
        elsewhere.mkdir()
        first_s = await asyncio.to_thread(make_serve, checkout)
        print(f"set up and ready in {first_s:.0f} s", file=sys.stderr)
        later = [await asyncio.to_thread(make_serve, checkout) for _ in range(arguments.starts)]
        command = checkout / ".venv" / "bin" / "memsvc"
        answered = [await stdio(command, checkout) for _ in range(arguments.starts)]
        command = await asyncio.to_thread(wheel, checkout)
        shutil.rmtree(checkout / "memsvc")  # nothing but the wheel is left to run
        served = [
            await asyncio.to_thread(idle_mb, command, "serve", elsewhere)
            for _ in range(arguments.starts + 1)
        ]
        _, worker_mb = await asyncio.to_thread(idle_mb, command, "worker", elsewhere)
    rows = [
        ["first `make serve`", first_s, None],
        ["later `make serve`", table.p50(later), max(later)],
        ["`memsvc stdio`, to the first answer", *_spread([one for one, _ in answered])],
        ["`memsvc stdio`, to the answer of a first call", *_spread([two for _, two in answered])],
        ["installed wheel, the first time in a folder", served[0][0], None],
        ["installed wheel, later", *_spread([seconds for seconds, _ in served[1:]])],
    ]
    figures = {
        "first `make serve`, to ready": first_s,
        "later `make serve`, to ready": table.p50(later),
        "`memsvc stdio`, to the first answer": table.p50([one for one, _ in answered]),
        "installed wheel, to ready": table.p50([seconds for seconds, _ in served[1:]]),
        "idle server": table.p50([megabytes for _, megabytes in served]),
        "idle worker": worker_mb,
    }
    shown = Table("Newcomer: seconds to ready", ("start", "median s", "slowest s"), rows)
    return Report("newcomer", "Newcomer beside its goals", [shown], judged("newcomer", figures))


def _spread(seconds: list[float]) -> tuple[float, float]:
    return table.p50(seconds), max(seconds)


COMMAND = Command(__doc__, measure, SIZES)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
