"""More clients than the server can serve at once: what they are told, what it costs, and how soon it is over."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from benchmarks import table
from benchmarks.faults.calling import TENANTS, WIRES, Caller
from benchmarks.faults.serving import Ground, rss_mb
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import USER, spoken

QUIET_CALLS = 60
WINDOW = 20
RSS_MB_MAX = 600
RECOVER_S_MAX = 2.0
SLACK_MS = 10.0
"""What a quiet call may take longer afterwards, beside half as long again: the session that it asks has grown."""


async def overloaded(folder: Path, *, clients: int, seconds: float) -> Trial:
    """So many clients at once, each with the next call as soon as it is told that it may."""
    trial = Trial(f"{clients} clients at once for {seconds:.0f} s")
    ground = Ground(folder)
    try:
        server = await ground.serve()
        async with Caller(ground.url, TENANTS[0], "rest", ground.seen) as quiet:
            await _quietly(quiet, WINDOW)
            before_ms = table.percentile(await _quietly(quiet, QUIET_CALLS), 0.95)
            resting_mb = rss_mb(server.process.pid)
            peaks_mb = await _loaded(ground, server.process.pid, clients, seconds)
            ended = monotonic()
            spent = await _until_as_quick(quiet, before_ms)
            recovered_s = monotonic() - ended - sum(spent[-WINDOW:]) / 1000
            after_ms = table.percentile(await _quietly(quiet, QUIET_CALLS), 0.95)
        await ground.scrape()
        half = len(peaks_mb) // 2
        trial.note("calls answered a second", ground.seen.codes["ok"] / seconds)
        trial.note("slowest answer, in seconds", ground.seen.slowest_s)
        trial.equal("calls without an answer", ground.seen.codes["lost"] + ground.seen.codes["closed"], 0)
        trial.equal("calls told UNAVAILABLE", ground.seen.codes["UNAVAILABLE"], 0)
        trial.note("memory before, in MB", resting_mb)
        trial.most("memory at the most, in MB", max(peaks_mb), RSS_MB_MAX)
        trial.note(
            "memory in the first and in the second half, in MB",
            f"{max(peaks_mb[:half]):.0f}, {max(peaks_mb[half:]):.0f}",
        )
        trial.note("p95 of a quiet client before, in ms", before_ms)
        trial.note("p95 of a quiet client after, in ms", after_ms)
        trial.most("seconds until a quiet client was served as before", recovered_s, RECOVER_S_MAX)
        ground.judge_answers(trial)
    finally:
        await ground.end()
    return trial


async def _loaded(ground: Ground, pid: int, clients: int, seconds: float) -> list[float]:
    """Run the clients; samples of the server's memory meanwhile."""
    until = monotonic() + seconds
    tasks = [asyncio.create_task(_insist(ground, number, until)) for number in range(clients)]
    samples = [rss_mb(pid)]
    while monotonic() < until:
        await asyncio.sleep(0.25)
        samples.append(rss_mb(pid))
    await asyncio.gather(*tasks)
    return [*samples, rss_mb(pid)]


async def _insist(ground: Ground, number: int, until: float) -> None:
    tenant = TENANTS[number % len(TENANTS)]
    session = f"busy-{number % 40}"
    async with Caller(ground.url, tenant, WIRES[number % len(WIRES)], ground.seen, timeout_s=120) as caller:
        turn = 0
        while monotonic() < until:
            turn += 1
            match turn % 3:
                case 0:
                    answer = await caller.call("memory_after_turn", **spoken(tenant, f"c{number}-t{turn}", session))
                case 1:
                    answer = await caller.call(
                        "memory_before_turn", session_id=session, user_id=USER, current_input="What tea do I like?"
                    )
                case _:
                    answer = await caller.call("file_list", project="default", path="/memory", depth=2)
            if answer.again:
                await asyncio.sleep(answer.body.get("retry_after_s", 0.1))


async def _quietly(caller: Caller, calls: int) -> list[float]:
    """Milliseconds of calls one after the other, each until it is answered."""
    spent = []
    for _ in range(calls):
        started = monotonic()
        await caller.until_answered(
            "memory_before_turn", session_id="quiet", user_id="somebody", current_input="What tea do I like?"
        )
        spent.append((monotonic() - started) * 1000)
    return spent


async def _until_as_quick(caller: Caller, before_ms: float) -> Sequence[float]:
    """Milliseconds of calls up to the first so many in a row that are about as quick as before."""
    spent = await _quietly(caller, WINDOW)
    async with asyncio.timeout(60):
        while table.percentile(spent[-WINDOW:], 0.9) > before_ms * 1.5 + SLACK_MS:
            spent += await _quietly(caller, 1)
    return spent
