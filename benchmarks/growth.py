"""How the cost of a turn grows with what is stored, and what a stored message takes: `python -m benchmarks.growth`.

Sessions of different sizes of one tenant stand in one service and are asked in interleaved rounds, so that a machine
whose speed drifts slows all of them alike.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from time import perf_counter
from typing import Any

import asyncpg
from mcp import Client

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.latency import timed
from benchmarks.service import Service, add_arguments, call, service
from memsvc.adapters.postgres import EmbeddedPostgres

FEW_ITEMS, BATCH_ITEMS = 1_000, 500
FEW_TURNS = 10
SETTLE_S = 20
WARM_UP = 10
SIZES = """
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class AS c
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
"""


async def store(client: Client, chatter: Chatter, session: str, turn: str, items: int = 2) -> dict[str, Any]:
    """Store a turn of so many messages, the last of them the assistant's."""
    said = [{"role": "user" if at % 2 == 0 else "assistant", "content": chatter.message()} for at in range(items)]
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


async def stored_bytes(running: Service, dsn: str | None) -> int | None:
    """What all tables take with their indexes; None where the database is not known."""
    if dsn is None:
        if running.data_dir is None:
            return None
        postgres = EmbeddedPostgres(running.data_dir)  # joins the server that the service started
        dsn = (await asyncio.to_thread(postgres.start)).admin_url
    connection = await asyncpg.connect(dsn)
    try:
        size: int = await connection.fetchval(SIZES)
        return size
    finally:
        await connection.close()


async def measured(kinds: dict[str, Callable[[], Awaitable[object]]], rounds: int, calls: int) -> dict[str, float]:
    """The median of the rounds' medians of each, in milliseconds."""
    for one in kinds.values():
        await timed(WARM_UP, one)
    spent: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, one in kinds.items():
            spent[name].append(table.p50(await timed(calls, one)))
    return {name: table.p50(each) for name, each in spent.items()}


async def measure(running: Service, arguments: argparse.Namespace) -> dict[str, float]:
    """All figures by name: milliseconds, ratios, bytes."""
    chatter, numbers = Chatter(seed=1), count()
    few, many, old = f"{FEW_ITEMS} items", f"{arguments.items} items", f"{arguments.turns} turns"
    figures: dict[str, float] = {}
    async with running.client() as client:
        before = await stored_bytes(running, arguments.dsn)
        for number in range(arguments.turns):
            await store(client, chatter, old, f"turn-{number}")
        await asyncio.sleep(SETTLE_S)  # until what follows turns is done, which takes room too
        after = await stored_bytes(running, arguments.dsn)
        if before is not None and after is not None:
            figures["bytes a message"] = (after - before) / (2 * arguments.turns)
        await fill(client, chatter, few, FEW_ITEMS)
        await fill(client, chatter, many, arguments.items)
        await asyncio.sleep(SETTLE_S)

        def asked(session: str) -> Callable[[], Awaitable[object]]:
            return lambda: call(client, "memory_before_turn", session_id=session, current_input=chatter.question())

        spent = await measured({name: asked(name) for name in (few, many)}, arguments.rounds, arguments.calls)
        figures |= {f"before_turn, {name}": ms for name, ms in spent.items()}
        figures["before_turn, ratio"] = spent[many] / spent[few]

        async def young() -> None:
            # every tenth turn begins a session anew, so that none of them has many
            number = next(numbers)
            await store(client, chatter, f"young-{number // FEW_TURNS}", f"turn-{number}")

        ended: dict[str, Callable[[], Awaitable[object]]] = {
            f"{FEW_TURNS} turns": young,
            old: lambda: store(client, chatter, old, f"later-{next(numbers)}"),
        }
        spent = await measured(ended, arguments.rounds, arguments.calls)
        figures |= {f"after_turn, {name}": ms for name, ms in spent.items()}
        figures["after_turn, ratio"] = spent[old] / spent[f"{FEW_TURNS} turns"]
    return figures


async def run(arguments: argparse.Namespace) -> None:
    """Fill, measure, report."""
    async with service(arguments) as running:
        started = perf_counter()
        figures = await measure(running, arguments)
        print(f"took {perf_counter() - started:.0f} s", file=sys.stderr)
        table.show("growth", ["what", "figure"], [[name, f"{figure:.2f}"] for name, figure in figures.items()])
        table.write(arguments.json, figures)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000, help="items in the session that is asked")
    parser.add_argument("--turns", type=int, default=10_000, help="turns in the session that is stored to")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--calls", type=int, default=40, help="calls of each kind in a round")
    parser.add_argument("--dsn", help="with --url: DSN of the same database, for the bytes")
    add_arguments(parser)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
