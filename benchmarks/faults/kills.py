"""Processes that are killed under writers: the server, and PostgreSQL with all its children."""

import asyncio
import random
from pathlib import Path
from time import monotonic

from benchmarks.faults.audit import audit
from benchmarks.faults.serving import Ground, kill_postgres, postgres, ready, until_ready
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import Writers

BETWEEN_S = (0.1, 0.9)
"""How long writers write before the next kill, at random."""
PATIENCE_S = 10.0


async def server_killed(folder: Path, *, kills: int) -> Trial:
    """kill -9 of the server, again and again."""
    trial = Trial(f"kill -9 of the server, {kills} times under 8 writers")
    chance = random.Random(9)
    ground = Ground(folder)
    started: list[float] = []
    try:
        server = await ground.serve()
        writers = Writers(ground)
        async with writers.running() as acknowledged:
            for _ in range(kills):
                before = acknowledged.count
                await asyncio.sleep(chance.uniform(*BETWEEN_S))
                await acknowledged.reaches(before + 1)
                server.process.kill()
                server.process.wait()
                begun = monotonic()
                server = await ground.serve()
                started.append(monotonic() - begun)
            await ground.scrape()
        trial.least("calls cut", ground.seen.codes["lost"], kills)
        trial.note("seconds until it served again, at the most", max(started))
        await audit(ground, acknowledged, trial)
        ground.judge_answers(trial)
    finally:
        await ground.end()
    return trial


async def postgres_killed(folder: Path, *, kills: int) -> Trial:
    """kill -9 of a PostgreSQL that somebody else starts again; the server is left alone."""
    trial = Trial(f"kill -9 of PostgreSQL with all its children, {kills} times under 8 writers")
    chance = random.Random(10)
    back: list[float] = []
    killed = 0
    with postgres(folder / "data") as database:
        ground = Ground(folder, **database.settings())
        try:
            await ground.serve()
            writers = Writers(ground)
            async with writers.running() as acknowledged:
                for _ in range(kills):
                    await acknowledged.reaches(acknowledged.count + 1)
                    await asyncio.sleep(chance.uniform(*BETWEEN_S))
                    killed += database.kill()
                    await asyncio.sleep(chance.uniform(0, 1))
                    await database.start()
                    begun, before = monotonic(), acknowledged.count
                    await asyncio.wait_for(acknowledged.reaches(before + 1), PATIENCE_S)
                    back.append(monotonic() - begun)
                await ground.scrape()
            trial.note("processes killed", killed)
            trial.most("seconds until a turn was stored again, at the most", max(back), 5.0)
            trial.note("seconds until ready", await until_ready(ground.url))
            await audit(ground, acknowledged, trial)
            ground.judge_answers(trial)
        finally:
            await ground.end()
    return trial


async def embedded_killed(folder: Path, *, kills: int) -> Trial:
    """kill -9 of the embedded PostgreSQL, which only memsvc itself can start again."""
    trial = Trial(f"kill -9 of the embedded PostgreSQL, {kills} times under 8 writers")
    ground = Ground(folder)
    back: list[float] = []
    stayed = 0
    try:
        await ground.serve()
        writers = Writers(ground)
        async with writers.running() as acknowledged:
            for _ in range(kills):
                await acknowledged.reaches(acknowledged.count + 20)
                await asyncio.to_thread(kill_postgres, ground.data_dir)
                begun, before = monotonic(), acknowledged.count
                stayed += await ready(ground.url)
                await asyncio.wait_for(acknowledged.reaches(before + 1), 60)
                back.append(monotonic() - begun)
        trial.equal("times that it said to be ready without a database", stayed, 0)
        trial.most("seconds until a turn was stored again, at the most", max(back), 15.0)
        await audit(ground, acknowledged, trial)
        ground.judge_answers(trial)
    finally:
        await ground.end()
    return trial
