"""Latency of a turn beside a tool that does nothing and a raw commit, in one run: `python -m benchmarks.latency`.

The session holds 10,000 items, its user 1,000 facts, and 1,000 other tenants have theirs beside it. Rounds are
interleaved, so that a machine whose speed drifts slows all of them alike; figures are medians of rounds.
"""

import argparse
import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

import asyncpg
from mcp import Client

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.service import Service, add_arguments, call, free_port, service
from memsvc.adapters.postgres import EmbeddedPostgres

SESSION, USER = "measured", "ada"
WARM_UP = 20


@dataclass
class Measured:
    """Milliseconds of each call, by what was called, round by round."""

    rounds: dict[str, list[list[float]]]

    def p50(self, name: str) -> float:
        """Median over rounds of each round's median."""
        return table.p50([table.p50(each) for each in self.rounds[name]])

    def p95(self, name: str) -> float:
        """Median over rounds of each round's 95th percentile."""
        return table.p50([table.percentile(each, 0.95) for each in self.rounds[name]])


async def fill(running: Service, arguments: argparse.Namespace) -> None:
    """Store what the measured calls meet."""
    chatter = Chatter(seed=1)
    async with running.client() as client:
        facts = list(islice(chatter.facts(), arguments.facts))
        for number in range(arguments.items // 2):
            said = chatter.message()
            if number < len(facts):
                said = f"{facts[number]} {said}"
            await after_turn(client, f"turn-{number}", said, chatter.message())
    for number in range(arguments.tenants):
        async with running.client(key=f"other-{number}") as client:
            for turn in range(arguments.other_turns):
                await after_turn(client, f"turn-{turn}", chatter.message(), chatter.message())


async def after_turn(client: Client, turn: str, said: str, answered: str) -> dict[str, Any]:
    """Store a turn of two items."""
    return await call(
        client,
        "memory_after_turn",
        session_id=SESSION,
        user_id=USER,
        turn_id=turn,
        input_items=[{"role": "user", "content": said}],
        output_items=[{"role": "assistant", "content": answered}],
    )


async def timed(count: int, one: Callable[[], Awaitable[object]]) -> list[float]:
    """Milliseconds of each of so many calls, one after the other."""
    spent = []
    for _ in range(count):
        started = perf_counter()
        await one()
        spent.append((perf_counter() - started) * 1000)
    return spent


@asynccontextmanager
async def null_tool(wire: str) -> AsyncIterator[Client]:
    """A client of a server whose tool does nothing."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.null_tool", str(port)])
    try:
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except OSError:
                await asyncio.sleep(0.05)
        async with Service(f"http://127.0.0.1:{port}/mcp", "null", None).client(wire=wire) as client:
            yield client
    finally:
        process.terminate()
        process.wait(timeout=10)


@asynccontextmanager
async def raw_commits(running: Service, dsn: str | None) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """A function that commits one row to the same server by the bare driver."""
    if dsn is None:
        if running.data_dir is None:
            raise SystemExit("--url needs --dsn as well, for the raw commits")
        postgres = EmbeddedPostgres(running.data_dir)  # joins the server that the service started
        dsn = (await asyncio.to_thread(postgres.start)).admin_url
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE IF NOT EXISTS benchmark_commits (id bigserial PRIMARY KEY, body text)")
    try:
        yield lambda: connection.execute("INSERT INTO benchmark_commits (body) VALUES ($1)", "x" * 130)
    finally:
        await connection.execute("DROP TABLE benchmark_commits")
        await connection.close()


async def measure(running: Service, arguments: argparse.Namespace) -> Measured:
    """All rounds."""
    chatter = Chatter(seed=2)
    turns = iter(range(10**9))
    async with (
        running.client(wire=arguments.wire) as client,
        null_tool(arguments.wire) as null,
        raw_commits(running, arguments.dsn) as commit,
    ):
        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "null tool": lambda: null.call_tool("null", {"session_id": SESSION}),
            "raw commit": commit,
            "before_turn": lambda: call(
                client, "memory_before_turn", session_id=SESSION, user_id=USER, current_input=chatter.question()
            ),
            "after_turn": lambda: after_turn(
                client,
                f"measured-{next(turns)}",
                f"I like {chatter.question()[:-1]}. {chatter.message()}",
                chatter.message(),
            ),
        }
        for one in kinds.values():
            await timed(WARM_UP, one)
        measured = Measured({name: [] for name in kinds})
        for _ in range(arguments.rounds):
            for name, one in kinds.items():
                measured.rounds[name].append(await timed(arguments.calls, one))
    return measured


def report(measured: Measured, arguments: argparse.Namespace) -> None:
    """Print the figures, and write them where asked."""
    null, commit = measured.p50("null tool"), measured.p50("raw commit")
    base = {"null tool": null, "raw commit": null, "before_turn": null, "after_turn": null + commit}
    named = {
        "null tool": "",
        "raw commit": "null tool",
        "before_turn": "null tool",
        "after_turn": "null tool + raw commit",
    }
    rows, figures = [], {}
    for name in measured.rounds:
        p50, p95 = measured.p50(name), measured.p95(name)
        figures[name] = {"p50_ms": p50, "p95_ms": p95, "p50_ratio": p50 / base[name], "p95_ratio": p95 / base[name]}
        ratios = [f"{p50 / base[name]:.2f}", f"{p95 / base[name]:.2f}"] if named[name] else ["", ""]
        rows.append([name, f"{p50:.2f}", f"{p95:.2f}", *ratios, named[name]])
    title = (
        f"{arguments.items} items, {arguments.facts} facts, {arguments.tenants} other tenants, wire {arguments.wire}"
    )
    table.show(title, ["call", "p50 ms", "p95 ms", "p50 ratio", "p95 ratio", "to"], rows)
    table.write(arguments.json, figures)


async def run(arguments: argparse.Namespace) -> None:
    """Fill, measure, report."""
    async with service(arguments) as running:
        started = perf_counter()
        await fill(running, arguments)
        print(f"filled in {perf_counter() - started:.0f} s", file=sys.stderr)
        report(await measure(running, arguments), arguments)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000, help="items in the measured session")
    parser.add_argument("--facts", type=int, default=1_000, help="facts about its user")
    parser.add_argument("--tenants", type=int, default=1_000, help="other tenants")
    parser.add_argument("--other-turns", type=int, default=3, help="turns that each other tenant has stored")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--calls", type=int, default=60, help="calls of each kind in a round")
    parser.add_argument("--wire", default="2026-07-28", help="MCP revision to speak: 2026-07-28 or legacy")
    parser.add_argument("--dsn", help="with --url: DSN of the same database, for the raw commits")
    add_arguments(parser)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
