"""What calls cost beside each other: all peers run at once, and are asked in interleaved rounds."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from time import perf_counter

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.peers.child import memory_mb
from benchmarks.peers.store import Store
from benchmarks.peers.trial import USER, Trial, each, exchanged, said

GROWTH = 10
WARM_UP = 3
FILL_PART = 250
"""Messages that are stored before what makes them searchable is run, as agents do now and then."""


async def measure(trials: Sequence[Trial], messages: int, rounds: int, calls: int) -> None:
    """Time of a write and a search at so many messages and at ten times as many; memory and disk at
    the latter."""
    try:
        await each(trials, _open, "starting")
        await _grow(trials, messages, rounds, calls)
    finally:
        for trial in trials:
            if trial.store is not None:
                await trial.store.kill()


async def _grow(trials: Sequence[Trial], messages: int, rounds: int, calls: int) -> None:
    chatter, numbers = Chatter(seed=1), count()
    stored = 0
    for size in (messages, messages * GROWTH):
        await each(trials, partial(_fill, messages=size - stored, first=stored), "storing")
        stored = size
        for number in range(rounds):
            asked = [
                (f"round-{next(numbers)}", chatter.message(), chatter.question())
                for _ in range(calls)
            ]
            warm = 0 if number else WARM_UP
            await each(trials, partial(_round, size=size, asked=asked, warm=warm), "calls")
    await each(trials, partial(_weigh, messages=stored), "weighing")


async def _open(trial: Trial) -> None:
    trial.ground = trial.fresh("timing")
    trial.store = await trial.peer.open(trial.ground)
    trial.figures["bytes before"] = await trial.store.data_bytes()


def _store(trial: Trial) -> Store:
    assert trial.store is not None
    return trial.store


async def _fill(trial: Trial, messages: int, first: int) -> None:
    """The same messages for everybody."""
    chatter, store = Chatter(seed=first + 2), _store(trial)
    turns = [
        exchanged(f"fill-{first + at}", chatter.message(), chatter.message())
        for at in range(messages // 2)
    ]
    settling = 0.0
    for start in range(0, len(turns), FILL_PART // 2):
        await store.fill(USER, turns[start : start + FILL_PART // 2])
        started = perf_counter()
        await store.settle()
        settling += perf_counter() - started
    trial.figures["made searchable, ms a message"] = settling * 1000 / messages


async def _round(trial: Trial, size: int, asked: Sequence[tuple[str, str, str]], warm: int) -> None:
    store, way = _store(trial), trial.peer.ways[0]
    for _, _, question in asked[:warm]:
        await store.search(USER, question, way)
    for name, message, question in asked:
        trial.ms["write", size].append(await store.add(USER, said(name, message)))
        trial.ms["search", size].append((await store.search(USER, question, way)).ms)


async def _weigh(trial: Trial, messages: int) -> None:
    """Memory while it runs, disk, and how long it takes from a start on this data to the first
    answer."""
    store, ground = _store(trial), trial.ground
    assert ground is not None
    trial.figures["memory MB"] = memory_mb(store.pids())
    written = (
        messages + len(trial.ms["write", messages]) + len(trial.ms["write", messages // GROWTH])
    )
    grown = await store.data_bytes() - trial.figures.pop("bytes before")
    await store.close()
    trial.store = None
    trial.figures["bytes a message"] = grown / written
    started = perf_counter()
    async with trial.opened(ground) as again:
        await again.search(USER, "What was said?", trial.peer.ways[0])
        trial.figures["start to first answer, s"] = perf_counter() - started


def told(trial: Trial, what: str, size: int) -> tuple[float, float] | None:
    """The median and the 95th percentile in milliseconds, if it was measured."""
    spent = trial.ms.get((what, size))
    return (table.p50(spent), table.percentile(spent, 0.95)) if spent else None
