"""A disk that is full: the embedded PostgreSQL on a small file system in memory, which needs root
to be mounted."""

import asyncio
import errno
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from time import monotonic

from benchmarks.faults.audit import audit
from benchmarks.faults.calling import OK, TENANTS, Answer, Caller
from benchmarks.faults.serving import Ground
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import USER, Writers

SIZE_MB = 192
LEFT_BYTES = (256 * 1024, 12 * 2**20)
"""What is left free, by turns: too little for a table to grow, and too little for one more segment
of the log, which PostgreSQL takes worse."""
WRITE_BYTES = 750_000
FULL_S = 8.0
PATIENCE_S = 60.0
CALL_S_MAX = 12.0


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A file system of its own at this place, for the time of a block. CalledProcessError without
    root."""
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=755", "tmpfs", str(place)],
        check=True,
        capture_output=True,
    )
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, capture_output=True)


async def disk_full(folder: Path, *, times: int) -> Trial:
    """Fill the disk under writers, and free it again, without a restart of memsvc."""
    trial = Trial(
        f"the disk of the embedded PostgreSQL full {times} times under 8 writers ({SIZE_MB} MB"
        " tmpfs)"
    )
    ground = Ground(folder)
    with small_disk(ground.data_dir):
        try:
            await ground.serve()
            await _fill_and_free(ground, trial, times)
        finally:
            await ground.end()
    return trial


async def _fill_and_free(ground: Ground, trial: Trial, times: int) -> None:
    ballast = ground.data_dir / "ballast"
    reads: Counter[str] = Counter()
    probes: Counter[str] = Counter()
    back: list[float] = []
    writers = Writers(ground)
    async with writers.running() as acknowledged:
        for number in range(times):
            left = LEFT_BYTES[number % len(LEFT_BYTES)]
            await acknowledged.reaches(acknowledged.count + 30)
            await asyncio.to_thread(_fill, ballast, left)
            deadline = monotonic() + FULL_S
            while monotonic() < deadline:
                for kind, answer in await _probe(ground):
                    (reads if kind == "read" else probes)[answer.code] += 1
                if left == min(LEFT_BYTES):
                    await asyncio.to_thread(
                        _fill, ballast, left
                    )  # what PostgreSQL gave back meanwhile
                await asyncio.sleep(0.1)
            ballast.unlink()
            begun, before = monotonic(), acknowledged.count
            await asyncio.wait_for(acknowledged.reaches(before + 1), PATIENCE_S)
            back.append(monotonic() - begun)
        await ground.scrape()
    trial.note("writes while it was full", _told(probes))
    trial.note("reads while it was full", _told(reads))
    trial.least("writes that were told UNAVAILABLE", probes["UNAVAILABLE"], times)
    trial.equal("writes and reads that ended otherwise", _otherwise(probes) + _otherwise(reads), 0)
    trial.most("slowest answer, in seconds", ground.seen.slowest_s, CALL_S_MAX)
    trial.most("seconds until a turn was stored after space was freed", max(back), 35.0)
    await audit(ground, acknowledged, trial)
    ground.judge_answers(trial)


async def _probe(ground: Ground) -> list[tuple[str, Answer]]:
    """A large write and a read, as they end just now."""
    async with Caller(ground.url, TENANTS[0], "rest", ground.seen) as caller:
        wrote = await caller.call(
            "file_write",
            project="ballast",
            path="/filling.txt",
            content=os.urandom(WRITE_BYTES).hex(),
            mode="TRUNCATE",
        )
        read = await caller.call(
            "memory_before_turn", session_id="s0", user_id=USER, current_input="What tea?"
        )
    return [("write", wrote), ("read", read)]


def _fill(ballast: Path, left_bytes: int) -> None:
    free = disk_usage(ballast.parent).free - left_bytes
    if free > 0:
        with ballast.open("ab", buffering=0) as file:
            try:
                file.write(b"\0" * free)
            except OSError as error:  # PostgreSQL took it meanwhile: as full as it can be
                if error.errno != errno.ENOSPC:
                    raise


def _otherwise(codes: Counter[str]) -> int:
    return sum(count for code, count in codes.items() if code not in {OK, "UNAVAILABLE"})


def _told(codes: Counter[str]) -> str:
    return ", ".join(f"{code} {count}" for code, count in codes.most_common())
