"""How the cost of a call grows with what is stored, and what a stored message takes: `python -m
benchmarks.growth`.

Sessions and files of different sizes stand in one service and are asked in interleaved rounds, so
that a machine whose speed drifts slows all of them alike. A tenant beside a thousand others stands
in a second service, and the same tenant alone in a third. The other tenants are copies, made row by
row, of one that was stored by the tools. With `--quick` they have 100 entries each; in a full run
10,000, for which the database takes about 30 GB.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import Any

from mcp import Client

from benchmarks.beside import beside_others
from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.files import text
from benchmarks.footprint import idle_worker_mb, round_trips, stored_bytes
from benchmarks.goals import GOALS
from benchmarks.report import Curve, Report, Table, judged
from benchmarks.rounds import interleaved
from benchmarks.service import Service, add_arguments, call, service, settled

Call = Callable[[], Awaitable[object]]

BATCH_ITEMS = 500
FEW_TURNS, FEW_ITEMS = 10, 1_000
LARGE_BYTES, PAYLOAD_BYTES = 9_900_000, 1_500_000
FILES_BYTES = (1_000, 100_000, 1_000_000, LARGE_BYTES)
WARM_UP = 10
GROWS = {
    "after_turn": ("turns", "after_turn late in a session"),
    "before_turn": ("items", "before_turn of a long session"),
    "append to a file": ("bytes", "append to a large file"),
}
"""By call, what grows, and the figure that says how much more the most of it costs than the
least."""
SIZES = {
    "items": Size(100_000, 20_000, "items in the longest session that is asked"),
    "turns": Size(10_000, 1_500, "turns in the longest session that is stored to"),
    "tenants": Size(1_000, 1_000, "other tenants"),
    "entries": Size(10_000, 100, "entries of each of them"),
    "rounds": Size(7, 5, "interleaved rounds"),
    "calls": Size(40, 30, "calls of each kind in a round"),
}


async def store(
    client: Client, chatter: Chatter, session: str, turn: str, items: int = 2
) -> dict[str, Any]:
    """Store a turn of so many messages, the last of them the assistant's."""
    said = [
        {"role": "user" if at % 2 == 0 else "assistant", "content": chatter.message()}
        for at in range(items)
    ]
    return await call(
        client,
        "memory_after_turn",
        session_id=session,
        turn_id=turn,
        input_items=said[:-1],
        output_items=said[-1:],
    )


async def fill(client: Client, chatter: Chatter, session: str, items: int) -> None:
    """Give a session so many items, by turns of BATCH_ITEMS."""
    for number in range(items // BATCH_ITEMS):
        await store(client, chatter, session, f"fill-{number}", BATCH_ITEMS)


def steps(first: int, last: int) -> list[int]:
    """From the first to the last, each ten times as much as the one before."""
    found = [first]
    while found[-1] * 10 < last:
        found.append(found[-1] * 10)
    return [*found, last]


async def store_turns(running: Service, sessions: Sequence[int]) -> float | None:
    """Sessions of so many turns each, all at once; the bytes that a message takes, where the
    database is known."""

    async def one(turns: int) -> None:
        chatter = Chatter(seed=turns)
        async with running.client() as client:
            for number in range(turns):
                await store(client, chatter, f"{turns} turns", f"turn-{number}")

    before = await stored_bytes(running.dsn) if running.dsn else 0
    await asyncio.gather(*(one(turns) for turns in sessions))
    await settled(running)  # what follows turns takes room too
    return (await stored_bytes(running.dsn) - before) / (2 * sum(sessions)) if running.dsn else None


async def store_items(running: Service, sessions: Sequence[int]) -> None:
    """Sessions of so many items each, all at once."""

    async def one(items: int) -> None:
        async with running.client() as client:
            await fill(client, Chatter(seed=items), f"{items} items", items)

    await asyncio.gather(*(one(items) for items in sessions))


async def fill_files(running: Service) -> None:
    """Files of so many bytes."""
    chatter = Chatter(seed=3)
    async with running.client() as client:
        for size in FILES_BYTES:
            for start in range(0, size, PAYLOAD_BYTES):
                await append(client, size, text(chatter, min(PAYLOAD_BYTES, size - start)))


async def append(client: Client, size: int, content: str) -> dict[str, Any]:
    """Append to the file that had this size when it was filled."""
    return await call(
        client, "file_write", project="grown", path=f"/{size}.log", content=content, mode="APPEND"
    )


def grown(client: Client, turns: Sequence[int], items: Sequence[int]) -> dict[str, dict[int, Call]]:
    """By call and size of what it meets, the calls that are timed."""
    chatter, numbers = Chatter(seed=1), count()

    async def young() -> None:
        # every tenth turn begins a session anew, so that none of them has many
        number = next(numbers)
        await store(client, chatter, f"young-{number // FEW_TURNS}", f"turn-{number}")

    def later(size: int) -> Call:
        return lambda: store(client, chatter, f"{size} turns", f"later-{next(numbers)}")

    def asked(size: int) -> Call:
        session = f"{size} items"
        return lambda: call(
            client, "memory_before_turn", session_id=session, current_input=chatter.question()
        )

    def appended(size: int) -> Call:
        return lambda: append(client, size, f"{chatter.message()}\n")

    return {
        "after_turn": {FEW_TURNS: young} | {size: later(size) for size in turns[1:]},
        "before_turn": {size: asked(size) for size in items},
        "append to a file": {size: appended(size) for size in FILES_BYTES},
    }


async def sessions_and_files(
    running: Service, arguments: argparse.Namespace
) -> tuple[Table, dict[str, Curve], float | None]:
    """What calls take by the size of what they meet, and the bytes of a message."""
    turns, items = steps(FEW_TURNS, arguments.turns), steps(FEW_ITEMS, arguments.items)
    message_bytes = await store_turns(running, turns[1:])
    await store_items(running, items)
    await fill_files(running)
    await settled(running)
    async with running.client(wire=arguments.wire) as client:
        kinds = grown(client, turns, items)
        named = {
            f"{what}, {size:,}": one for what, sizes in kinds.items() for size, one in sizes.items()
        }
        measured = await interleaved(
            named, rounds=arguments.rounds, calls=arguments.calls, warm_up=WARM_UP
        )
    rows: list[list[object]] = []
    curves = {}
    for what, sizes in kinds.items():
        of, figure = GROWS[what]
        first = f"{what}, {min(sizes):,}"
        points = [(size, measured.times(f"{what}, {size:,}", first)) for size in sizes]
        rows += [
            [what, f"{size:,} {of}", measured.p50(f"{what}, {size:,}"), times]
            for size, times in points
        ]
        curves[figure] = Curve(what, of, points, GOALS["growth"][figure].bound)
    return (
        Table("Growth by what is stored", ("call", "beside", "p50 ms", "to the least"), rows),
        curves,
        message_bytes,
    )


async def measure(arguments: argparse.Namespace) -> Report:
    """Fill, measure, report."""
    started = perf_counter()
    trips: Mapping[str, float | None] = {"before_turn": None, "after_turn": None}
    worker_mb = None
    async with service(arguments) as running:
        grows, curves, message_bytes = await sessions_and_files(running, arguments)
        if running.data_dir is not None:
            trips = await round_trips(running, f"{arguments.items} items")
            worker_mb = await idle_worker_mb(running)
    print(f"sessions and files: {perf_counter() - started:.0f} s", file=sys.stderr)
    beside = None if arguments.url else await beside_others(arguments)
    print(f"with other tenants: {perf_counter() - started:.0f} s", file=sys.stderr)
    figures = {figure: curve.points[-1][1] for figure, curve in curves.items()} | {
        "the slowest call beside other tenants": None if beside is None else beside.worst,
        "stored message of 130 characters": message_bytes,
        "idle worker": worker_mb,
        "round trips of before_turn": trips["before_turn"],
        "round trips of after_turn": trips["after_turn"],
    }
    tables = [grows] if beside is None else [grows, beside.table]
    return Report(
        "growth",
        "Growth beside its goals",
        tables,
        judged("growth", figures),
        list(curves.values()),
    )


COMMAND = Command(__doc__, measure, SIZES, add_arguments)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
