"""What calls take of a user with many sessions: `python -m benchmarks.many_sessions`.

Asked is from a new session. A user with so many sessions of ten turns is compared with one who said
as much in one session. Sixteen sessions of one user that are written at once are compared with
sixteen users who write at once. A service agent has all that it ever hears under one user.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any

from mcp import Client

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.report import Report, Table, judged
from benchmarks.rounds import interleaved, timed
from benchmarks.service import Service, add_arguments, call, service, settled

TURNS = 10
ITEMS = 2 * TURNS
BATCH_ITEMS = 500
AT_ONCE = 8
WRITERS = 16
WRITES = 12
"""Turns that each writer stores in a round."""
AGENT_ITEMS = 2
SIZES = {
    "sessions": Size(5_000, 1_000, "sessions of the user who has the most, of ten turns each"),
    "agent": Size(100_000, 5_000, "sessions of a service agent, of one turn each"),
    "rounds": Size(7, 5, "interleaved rounds"),
    "calls": Size(40, 30, "calls of each kind in a round"),
}


def said(chatter: Chatter, items: int) -> dict[str, Any]:
    """So many messages, the last of them the assistant's."""
    messages = [
        {"role": "user" if at % 2 == 0 else "assistant", "content": chatter.message()}
        for at in range(items)
    ]
    return {"input_items": messages[:-1], "output_items": messages[-1:]}


async def tell(
    client: Client, user: str, session: str, turn: str, chatter: Chatter, items: int
) -> dict[str, Any]:
    """Store a turn of so many messages."""
    whose = {"session_id": session, "user_id": user, "turn_id": turn}
    return await call(client, "memory_after_turn", **whose, **said(chatter, items))


async def at_once(calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Run calls, some at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(run: Callable[[], Awaitable[object]]) -> None:
        async with gate:
            await run()

    await asyncio.gather(*map(one, calls))


async def fill(client: Client, user: str, sessions: int, items: int) -> None:
    """Store `sessions` sessions of `items` items each, in turns of at most BATCH_ITEMS items."""

    def turn(number: int, part: int, size: int) -> Callable[[], Awaitable[object]]:
        chatter = Chatter(seed=number * 1_000 + part)
        return lambda: tell(client, user, f"{user}-{number}", f"fill-{part}", chatter, size)

    await at_once(
        turn(number, start // BATCH_ITEMS, min(BATCH_ITEMS, items - start))
        for number in range(sessions)
        for start in range(0, items, BATCH_ITEMS)
    )


def asking(client: Client, user: str, chatter: Chatter) -> Callable[[], Awaitable[object]]:
    """A question of a user in a new session."""
    return lambda: call(
        client,
        "memory_before_turn",
        session_id="asking",
        user_id=user,
        current_input=chatter.question(),
    )


async def reads(
    client: Client, arguments: argparse.Namespace
) -> tuple[list[list[object]], dict[int, float]]:
    """before_turn of users by how many sessions they have: rows, and ratios by sessions."""
    sizes = [size for size in (1_000, 5_000) if size <= arguments.sessions]
    users = {f"many-{size}": (size, ITEMS) for size in sizes}
    users |= {f"one-{size}": (1, size * ITEMS) for size in sizes} | {
        "agent": (arguments.agent, AGENT_ITEMS)
    }
    for user, (sessions, items) in users.items():
        await fill(client, user, sessions, items)
        print(f"{user} is stored", file=sys.stderr)
    kinds = {user: asking(client, user, Chatter(seed=1)) for user in users}
    measured = await interleaved(kinds, rounds=arguments.rounds, calls=arguments.calls)
    ratios = {size: measured.times(f"many-{size}", f"one-{size}") for size in sizes}
    rows: list[list[object]] = []
    for user, (sessions, items) in users.items():
        ratio = ratios[sessions] if user.startswith("many") else None
        rows.append(
            [
                f"{sessions:,}",
                f"{sessions * items:,}",
                measured.p50(user),
                measured.p95(user),
                ratio,
            ]
        )
    return rows, ratios


async def writes(running: Service, rounds: int) -> tuple[list[list[object]], float]:
    """Sixteen writers of one user, and of sixteen users: rows, and the ratio of the 95th
    percentiles. Nobody may be refused."""
    turns, spent = count(), dict[str, list[float]](one=[], many=[])
    async with running.client() as client:

        async def writer(user: str, session: str) -> list[float]:
            chatter = Chatter(seed=next(turns))
            return await timed(
                WRITES,
                lambda: tell(client, user, session, f"turn-{next(turns)}", chatter, 2),
            )

        for number in range(rounds):
            for who in ("one", "many") if number % 2 == 0 else ("many", "one"):
                found = await asyncio.gather(
                    *(
                        writer(f"{who}-{at if who == 'many' else 0}", f"{who}-{number}-{at}")
                        for at in range(WRITERS)
                    )
                )
                spent[who].append(table.percentile([ms for each in found for ms in each], 0.95))
    p95 = {who: table.p50(each) for who, each in spent.items()}
    ratio = table.p50([one / many for one, many in zip(spent["one"], spent["many"], strict=True)])
    rows: list[list[object]] = [
        ["sessions of one user", p95["one"], ratio],
        ["sessions of sixteen users", p95["many"], None],
    ]
    return rows, ratio


async def measure(arguments: argparse.Namespace) -> Report:
    """Fill, ask, write."""
    async with service(arguments) as running:
        written, write_ratio = await writes(running, arguments.rounds)
        async with running.client() as client:
            read, ratios = await reads(client, arguments)
        await settled(running)
    return Report(
        "many_sessions",
        "A user with many sessions beside the goals",
        [
            Table(
                "before_turn in a new session",
                ("sessions", "items", "p50 ms", "p95 ms", "x one session of as many items"),
                read,
            ),
            Table(f"after_turn, {WRITERS} at once", ("writers", "p95 ms", "ratio"), written),
        ],
        judged(
            "many_sessions",
            {
                "before_turn, 1,000 sessions": ratios.get(1_000),
                "before_turn, 5,000 sessions": ratios.get(5_000),
                "after_turn p95, 16 sessions of one user": write_ratio,
            },
        ),
    )


COMMAND = Command(__doc__, measure, SIZES, add_arguments)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
