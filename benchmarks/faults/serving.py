"""The processes that are broken: a server, and a PostgreSQL that outlives it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import orjson

from benchmarks.faults.calling import TENANTS, Seen
from benchmarks.faults.trial import Trial
from memsvc.adapters.postgres import EmbeddedPostgres, EmbeddedUrls
from tests.e2e.process import Served, environment, free_port

START_S = 60.0
CHECK_S = 300.0


class Ground:
    """A folder with all that one part starts in it: servers on one port, their logs, their
    PostgreSQL."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.data_dir = folder / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.variables = {"MEMSVC_AUTH__MODE": "open"} | variables
        self.seen = Seen()
        self.metrics: list[str] = []
        self._folder = folder
        self._servers: list[Served] = []

    async def serve(self, **more: str) -> Served:
        """A server on the port of this ground, ready."""
        return await self.serve_beside(self.port, **more)

    async def serve_beside(self, port: int, **more: str) -> Served:
        """A server on another port, ready."""
        made = await asyncio.to_thread(
            lambda: Served(self.data_dir, "--port", str(port), **(self.variables | more))
        )
        self._servers.append(made)
        return made

    async def end(self) -> None:
        """Stop what still runs."""
        for server in self._servers:
            if server.process.poll() is None:
                with suppress(ProcessLookupError):
                    server.process.send_signal(signal.SIGCONT)
                try:
                    await asyncio.to_thread(server.stop)
                except subprocess.TimeoutExpired:
                    server.process.kill()

    async def scrape(self) -> None:
        """Keep what the metrics say just now, for the search for canaries."""
        with suppress(httpx2.HTTPError, OSError):
            async with httpx2.AsyncClient(timeout=5) as http:
                self.metrics.append((await http.get(f"{self.url}/metrics")).text)

    def logged(self) -> str:
        """Everything that servers and PostgreSQL have logged."""
        places = [*self._folder.glob("data-*.log"), *self.data_dir.glob("postgres/log/*")]
        return "\n".join(place.read_text(errors="replace") for place in places if place.is_file())

    def judge_answers(self, trial: Trial) -> None:
        """What must hold of all answers, whatever was broken: and no word of a tenant anywhere but
        in its answers."""
        text = (self.logged() + "\n".join(self.metrics)).lower()
        told = sum(text.count(tenant.canary) for tenant in TENANTS)
        trial.note("answers", self.seen.told())
        trial.equal("answers of the wrong kind", sum(self.seen.wrong.values()), 0)
        trial.equal("canaries in the other tenant's answers", self.seen.leaks, 0)
        trial.equal("canaries in logs and metrics", told, 0)
        trial.remarks += [f"{what}, {times} times" for what, times in self.seen.wrong.items()]

    def failures_logged(self) -> list[str]:
        """What servers logged as errors, shortened."""
        lines = [line for line in self.logged().splitlines() if '"level":"error"' in line]
        return [line[:300] for line in lines]


def rss_mb(pid: int) -> float:
    """The resident memory of a process now."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
    return 0.0


async def ready(url: str) -> bool:
    """Whether a server says that it is ready."""
    with suppress(httpx2.HTTPError, OSError):
        async with httpx2.AsyncClient(timeout=5) as http:
            return (await http.get(f"{url}/readyz")).status_code == 200
    return False


async def until_ready(url: str, within_s: float = START_S) -> float:
    """How long it takes until a server is ready. TimeoutError after `within_s`."""
    started = monotonic()
    while not await ready(url):
        if monotonic() - started > within_s:
            raise TimeoutError(f"{url} is not ready after {within_s:.0f} s")
        await asyncio.sleep(0.05)
    return monotonic() - started


class Postgres:
    """A PostgreSQL of the harness, which servers are given as `database.url`; it can be killed and
    started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = EmbeddedPostgres(folder)
        self.urls: EmbeddedUrls = self._held.start()

    def settings(self, **other: str) -> dict[str, str]:
        """The variables by which a server uses it."""
        return {
            "MEMSVC_DATABASE__URL": self.urls.app_url,
            "MEMSVC_DATABASE__ADMIN_URL": self.urls.admin_url,
        } | other

    def kill(self) -> int:
        """Kill the server and all its children at once, as a crash of the machine would; how many
        there were."""
        return kill_postgres(self._folder)

    async def start(self) -> None:
        """Start it again, which recovers what was committed."""
        await asyncio.to_thread(self._held.start)

    def stop(self) -> None:
        """Stop it for good."""
        self._held.stop()


def kill_postgres(data_dir: Path) -> int:
    """Kill the postmaster of a data folder with all its children; how many processes that were."""
    return kill_family(int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0]))


def kill_family(first: int) -> int:
    """Kill a process with all its children; how many processes that were."""
    os.kill(first, signal.SIGSTOP)  # so that it starts no more of them
    family = [first, *_children(first)]
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = monotonic() + 10
    while any(_lives(pid) for pid in family) and monotonic() < deadline:
        pass
    return len(family)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def checked(ground: Ground) -> dict[str, Any]:
    """What `memsvc maintain --check --all` says of a ground's database: how many rows differ from
    the files."""
    done = command(
        ground, "maintain", "--check", "--all", "--json", "--data-dir", str(ground.data_dir)
    )
    if not done.stdout:
        raise RuntimeError(f"memsvc maintain: {done.stderr[-500:]}")
    told: dict[str, Any] = orjson.loads(done.stdout)
    return told


def command(ground: Ground, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """A command of memsvc on the settings of a ground."""
    return subprocess.run(
        [sys.executable, "-m", "memsvc", *arguments],
        env=environment(**(ground.variables | more)),
        capture_output=True,
        text=True,
        timeout=CHECK_S,
        check=False,
    )


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """A PostgreSQL for the time of a block."""
    made = Postgres(folder)
    try:
        yield made
    finally:
        made.stop()


async def queue_emptied(ground: Ground, within_s: float) -> float:
    """How long it takes until no job of any tenant waits or runs. TimeoutError after `within_s`."""
    started = monotonic()
    async with asyncio.timeout(within_s):
        while True:
            listed = await asyncio.to_thread(
                command, ground, "jobs", "list", "--json", "--data-dir", str(ground.data_dir)
            )
            if listed.returncode == 0 and not orjson.loads(listed.stdout):
                return monotonic() - started
            await asyncio.sleep(0.2)
