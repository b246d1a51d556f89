"""More clients than the server can serve at once, clients that never wait, and one tenant whose
turns are long: what they and others are told, what it costs, and how soon it is over."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks import table
from benchmarks.faults.calling import OK, TEMPORARY, TENANTS, WIRES, Answer, Caller, Connection
from benchmarks.faults.serving import CHECK_S, Ground, rss_mb
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import USER, spoken

QUIET_CALLS = 60
WINDOW = 20
RSS_MB_MAX = 600
RECOVER_S_MAX = 2.0
ANSWER_S_MAX = 5.0
SLACK_MS = 10.0
"""What a quiet call may take longer afterwards, beside half as long again: the session that it asks
has grown."""
KEYS = 4
ROUNDS = 2
SERVED_SHARE_MIN = 0.5
REFUSAL_MS_MAX = 1000
QUESTION = "What tea do I like?"
LONG_KEY = "tenant-with-long-turns"
HINDRANCE_MAX = 5.0
NEIGHBOUR_ROUNDS = 3
PAUSE_S = 0.05
LONG_TEXTS = (
    ('"ich heiße ich wohne in ich mag" ' * 1000)[:15900],
    ("the quick brown fox jumps over the lazy dog. " * 400)[:15900],
    "a" * 15_900,
)
"""What each of the callers with long turns repeats: statements, prose and words without end."""
LONG_ITEMS = 240

Client = Callable[[int, float], Awaitable[None]]
"""What client of a number does until that second."""


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
        trial.most("slowest answer, in seconds", ground.seen.slowest_s, ANSWER_S_MAX)
        trial.equal(
            "calls without an answer", ground.seen.codes["lost"] + ground.seen.codes["closed"], 0
        )
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


async def insisted(folder: Path, *, clients: int, seconds: float) -> Trial:
    """So many connections that call again at once whatever they are told, with one key and with
    four in turns, for so many seconds in all."""
    trial = Trial(f"{clients} clients that never wait, with one key and with {KEYS}")
    ground = Ground(folder)
    found: dict[int, list[Answer]] = {KEYS: [], 1: []}
    alone_ms: list[float] = []
    beside_ms: dict[int, list[float]] = {KEYS: [], 1: []}
    each_s = seconds / len(found)
    try:
        await ground.serve()
        quiet = await Connection.open(ground.port, "tenant-that-is-quiet")
        await _insisting(ground.port, KEYS, KEYS, 1.0)  # the first calls of tenants
        for _ in range(ROUNDS):
            pause = asyncio.create_task(asyncio.sleep(each_s / ROUNDS))
            alone_ms += await _asking(quiet, pause)
            for keys in found:
                crowd = asyncio.create_task(_insisting(ground.port, keys, clients, each_s / ROUNDS))
                beside_ms[keys] += await _asking(quiet, crowd)
                found[keys] += crowd.result()
        for keys, answers in found.items():
            _judge(trial, "one key" if keys == 1 else f"{keys} keys", answers, each_s)
        served = {keys: sum(one.code == OK for one in answers) for keys, answers in found.items()}
        alone = table.percentile(alone_ms, 0.95)
        trial.note("p95 of a quiet tenant alone, in ms", alone)
        for keys, spent in beside_ms.items():
            trial.most(
                f"p95 of a quiet tenant beside {keys} keys, by p95 alone",
                table.percentile(spent, 0.95) / alone,
                HINDRANCE_MAX,
            )
        trial.least(
            f"calls served of one key, beside {KEYS}", served[1] / served[KEYS], SERVED_SHARE_MIN
        )
    finally:
        await ground.end()
    return trial


async def neighboured(folder: Path, *, seconds: float) -> Trial:
    """One tenant's callers begin turns of 4 MB for so many seconds in all, and another tenant asks
    until they are stored: by turns with quiet, and the best round of each counts, since others use
    the machine as well."""
    trial = Trial(f"a tenant beside {len(LONG_TEXTS)} callers of another, with turns of 4 MB")
    ground = Ground(folder)
    each_s = seconds / NEIGHBOUR_ROUNDS
    stored: list[Answer] = []
    quiet_ms, beside_ms = [], []
    try:
        await ground.serve()
        quiet = await Connection.open(ground.port, "tenant-that-is-quiet")
        said = {
            "input_items": [{"role": "user", "content": "I like green tea."}],
            "output_items": [],
        }
        await quiet.call("memory_after_turn", session_id="quiet", user_id="u", turn_id="t", **said)
        for number in range(NEIGHBOUR_ROUNDS):
            quiet_ms.append(
                table.percentile(
                    await _asking(quiet, asyncio.create_task(asyncio.sleep(each_s))), 0.95
                )
            )
            storing = asyncio.create_task(
                _crowd(_storing(ground.port, number, stored), len(LONG_TEXTS), each_s)
            )
            beside_ms.append(table.percentile(await _asking(quiet, storing), 0.95))
            await _without_jobs(ground.port)
    finally:
        await ground.end()
    for what, figures in (("quiet", quiet_ms), ("beside them", beside_ms)):
        trial.note(f"p95 {what}, in ms, of each round", ", ".join(f"{one:.0f}" for one in figures))
    trial.most("p95 beside them, by p95 quiet", min(beside_ms) / min(quiet_ms), HINDRANCE_MAX)
    trial.note("turns of 4 MB stored", sum(one.code == OK for one in stored))
    trial.equal("turns that failed", sum(one.code not in {OK, *TEMPORARY} for one in stored), 0)
    return trial


async def _crowd(client: Client, clients: int, seconds: float) -> None:
    until = monotonic() + seconds
    await asyncio.gather(*(client(number, until) for number in range(clients)))


async def _loaded(ground: Ground, pid: int, clients: int, seconds: float) -> list[float]:
    """Run the clients; samples of the server's memory meanwhile."""
    crowd = asyncio.create_task(
        _crowd(lambda number, until: _busy(ground, number, until), clients, seconds)
    )
    samples = [rss_mb(pid)]
    while not crowd.done():
        await asyncio.sleep(0.25)
        samples.append(rss_mb(pid))
    await crowd
    return samples


async def _busy(ground: Ground, number: int, until: float) -> None:
    tenant = TENANTS[number % len(TENANTS)]
    session = f"busy-{number % 40}"
    async with Caller(
        ground.url, tenant, WIRES[number % len(WIRES)], ground.seen, timeout_s=120
    ) as caller:
        turn = 0
        while monotonic() < until:
            turn += 1
            match turn % 3:
                case 0:
                    answer = await caller.call(
                        "memory_after_turn", **spoken(tenant, f"c{number}-t{turn}", session)
                    )
                case 1:
                    answer = await caller.call(
                        "memory_before_turn",
                        session_id=session,
                        user_id=USER,
                        current_input=QUESTION,
                    )
                case _:
                    answer = await caller.call(
                        "file_list", project="default", path="/memory", depth=2
                    )
            if answer.again:
                await asyncio.sleep(answer.body.get("retry_after_s", 0.1))


async def _insisting(port: int, keys: int, clients: int, seconds: float) -> list[Answer]:
    """The answers to turns of as many clients."""
    found: list[Answer] = []

    async def insist(number: int, until: float) -> None:
        client = await Connection.open(port, f"tenant-that-insists-{number % keys}")
        who = {"session_id": f"s{number}", "user_id": f"u{number}"}
        for turn in count():
            if monotonic() >= until:
                break
            found.append(await client.call("memory_before_turn", current_input=QUESTION, **who))
            said = {
                "input_items": [{"role": "user", "content": f"I like tea number {turn}."}],
                "output_items": [],
            }
            found.append(
                await client.call("memory_after_turn", turn_id=f"{until}-{turn}", **said, **who)
            )
        client.writer.close()

    await _crowd(insist, clients, seconds)
    return found


def _judge(trial: Trial, whose: str, answers: Sequence[Answer], seconds: float) -> None:
    took_ms = [
        [one.took_s * 1000 for one in answers if (one.code == OK) is served]
        for served in (True, False)
    ]
    served, refused = (sorted(each) or [0.0] for each in took_ms)
    trial.note(
        f"{whose}: calls served and refused a second",
        f"{len(served) / seconds:.0f}, {len(refused) / seconds:.0f}",
    )
    trial.note(f"{whose}: p99 of calls served, in ms", table.percentile(served, 0.99))
    trial.most(f"{whose}: p99 of refusals, in ms", table.percentile(refused, 0.99), REFUSAL_MS_MAX)
    trial.note(f"{whose}: longest refusal, in ms", refused[-1])
    trial.equal(
        f"{whose}: calls that failed otherwise",
        sum(one.code not in {OK, *TEMPORARY} for one in answers),
        0,
    )


def _storing(port: int, part: int, stored: list[Answer]) -> Client:
    """A client that stores turns of many long items."""

    async def store(number: int, until: float) -> None:
        said = [
            {"role": "user", "content": f"{item} {LONG_TEXTS[number]}"}
            for item in range(LONG_ITEMS)
        ]
        client = await Connection.open(port, LONG_KEY)
        for turn in count():
            if monotonic() >= until:
                break
            who = {
                "session_id": f"{part}-{number}",
                "turn_id": f"{part}-{number}-{turn}",
                "user_id": "u",
            }
            stored.append(
                await client.call("memory_after_turn", input_items=said, output_items=[], **who)
            )
        client.writer.close()

    return store


async def _asking(client: Connection, meanwhile: "asyncio.Task[Any]") -> list[float]:
    """Milliseconds of calls with a pause between them, each of which has to be served, until
    something is done."""
    spent = []
    while not meanwhile.done():
        answer = await client.call(
            "memory_before_turn", session_id="quiet", user_id="u", current_input=QUESTION
        )
        if answer.code != OK:
            raise RuntimeError(f"memory_before_turn: {answer.code} {answer.body}")
        spent.append(answer.took_s * 1000)
        await asyncio.sleep(PAUSE_S)
    await meanwhile
    return spent


async def _without_jobs(port: int) -> None:
    """Wait until no job of the tenant with long turns waits or runs."""
    client = await Connection.open(port, LONG_KEY)
    async with asyncio.timeout(CHECK_S):
        while (await client.call("tenant_jobs", project="*")).body["jobs"]:  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.2)
    client.writer.close()


async def _quietly(caller: Caller, calls: int) -> list[float]:
    """Milliseconds of calls one after the other, each until it is answered."""
    spent = []
    for _ in range(calls):
        started = monotonic()
        await caller.until_answered(
            "memory_before_turn", session_id="quiet", user_id="somebody", current_input=QUESTION
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
