"""Latency of a turn beside a tool that does nothing and a raw commit, in one run: `python -m
benchmarks.latency`.

The session holds 10,000 items, its user 1,000 facts, and 1,000 other tenants have theirs beside it.
Rounds are interleaved, so that a machine whose speed drifts slows all of them alike; figures are
medians of rounds. Then sixteen clients call two server processes of one database at once, beside
two of the null tool.
"""

import argparse
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import count, islice
from time import perf_counter
from typing import Any

import httpx2
from mcp import Client

from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.crowd import copies, key_of
from benchmarks.report import Report, Table, judged
from benchmarks.rounds import RATIO_COLUMNS, Measured, interleaved, ratios
from benchmarks.service import Service, add_arguments, another, call, service, settled
from benchmarks.throughput import compared
from benchmarks.yardsticks import null_service, null_tool, raw_commits

SESSION, USER = "measured", "ada"
MIX = "before_turn, after_turn, file_read, file_stat, file_write"
SIZES = {
    "items": Size(10_000, 10_000, "items in the measured session"),
    "facts": Size(1_000, 1_000, "facts about its user"),
    "tenants": Size(1_000, 1_000, "other tenants"),
    "other_turns": Size(100, 20, "turns that each other tenant has stored"),
    "rounds": Size(7, 5, "interleaved rounds"),
    "calls": Size(60, 60, "calls of each kind in a round"),
    "seconds": Size(8.0, 4.0, "seconds of a round of many clients"),
}


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
    async with running.client(key=key_of(0)) as client:
        for number in range(arguments.other_turns):
            await after_turn(client, f"turn-{number}", chatter.message(), chatter.message())
    if running.dsn is not None:
        await copies(running, arguments.tenants)
    await settled(running)


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


async def timings(running: Service, arguments: argparse.Namespace) -> Measured:
    """All rounds."""
    chatter, turns = Chatter(seed=2), count()
    async with (
        running.client(wire=arguments.wire) as client,
        null_tool(arguments.wire) as null,
        raw_commits(running) as commit,
    ):
        return await interleaved(
            {
                "null tool": lambda: null.call_tool("null", {"session_id": SESSION}),
                "raw commit": commit,
                "before_turn": lambda: call(
                    client,
                    "memory_before_turn",
                    session_id=SESSION,
                    user_id=USER,
                    current_input=chatter.question(),
                ),
                "after_turn": lambda: after_turn(
                    client,
                    f"measured-{next(turns)}",
                    f"I like {chatter.question()[:-1]}. {chatter.message()}",
                    chatter.message(),
                ),
                "memory_profile": lambda: call(client, "memory_profile", user_id=USER),
            },
            rounds=arguments.rounds,
            calls=arguments.calls,
        )


async def listing(running: Service, arguments: argparse.Namespace) -> Measured:
    """Rounds of `tools/list`, which every agent begins with, and of the null tool, both asked
    without an SDK: it takes longer to read the list than a server to send it."""
    accepted = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {running.key}",
    }
    async with null_service() as null, httpx2.AsyncClient(headers=accepted, timeout=120) as http:

        async def asked(url: str, method: str, params: Mapping[str, object]) -> None:
            sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await http.post(url, json=sent)
            if b'"result"' not in answer.content:
                raise RuntimeError(f"{method}: {answer.status_code} {answer.text[:200]}")

        return await interleaved(
            {
                "null tool": lambda: asked(
                    null.url, "tools/call", {"name": "null", "arguments": {}}
                ),
                "tools/list": lambda: asked(running.url, "tools/list", {}),
            },
            rounds=arguments.rounds,
            calls=arguments.calls,
        )


async def many_at_once(
    running: Service, arguments: argparse.Namespace
) -> tuple[float, float] | None:
    """Calls a second of the service and of the null tool, two processes each; None where no process
    can be added."""
    if running.data_dir is None:
        return None
    async with AsyncExitStack() as stack:
        servers = [
            running,
            await stack.enter_async_context(another(running, MEMSVC_WORKER__ENABLED="true")),
        ]
        nulls = [await stack.enter_async_context(null_service()) for _ in servers]
        return await compared(servers, nulls, arguments.wire, arguments.seconds)


def report(
    measured: Measured,
    lists: Measured,
    rates: tuple[float, float] | None,
    arguments: argparse.Namespace,
) -> Report:
    """Tables and figures."""
    rows, found = ratios(measured, lambda name: name == "after_turn")
    list_rows, of_lists = ratios(lists, lambda _: False)
    title = (
        f"Latency: {arguments.items:,} items, {arguments.facts:,} facts, {arguments.tenants:,}"
        f" other tenants, wire {arguments.wire}"
    )
    tables = [
        Table(title, RATIO_COLUMNS, rows),
        Table("Beginning, without an SDK", RATIO_COLUMNS, list_rows),
    ]
    if rates is not None:
        ours, null = rates
        rows = [
            ["null tool", null, None],
            [MIX, ours, ours / null],
        ]
        tables.append(
            Table(
                "16 clients at once, two processes on either side",
                ("mix", "calls a second", "ratio"),
                rows,
            )
        )
    figures = {
        "before_turn p50": found["before_turn"][0],
        "before_turn p95": found["before_turn"][1],
        "before_turn p50, ms": measured.p50("before_turn"),
        "before_turn p95, ms": measured.p95("before_turn"),
        "after_turn p50": found["after_turn"][0],
        "after_turn p50, ms": measured.p50("after_turn"),
        "after_turn p95, ms": measured.p95("after_turn"),
        "memory_profile p50": found["memory_profile"][0],
        "tools/list p50": of_lists["tools/list"][0],
        "16 clients, mixed calls a second": None if rates is None else rates[0] / rates[1],
    }
    return Report("latency", "Latency beside its goals", tables, judged("latency", figures))


async def measure(arguments: argparse.Namespace) -> Report:
    """Fill, measure, report."""
    async with service(arguments) as running:
        started = perf_counter()
        await fill(running, arguments)
        print(f"filled in {perf_counter() - started:.0f} s", file=sys.stderr)
        measured = await timings(running, arguments)
        lists = await listing(running, arguments)
        return report(measured, lists, await many_at_once(running, arguments), arguments)


COMMAND = Command(__doc__, measure, SIZES, add_arguments)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
