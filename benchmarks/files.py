"""Latency and growth of the file store beside a tool that does nothing, in one run: `python -m benchmarks.files`.

The project holds 100,000 files, 10,000 of them in one directory, a file of 10,000 appends and one of 10 MB. Rounds are
interleaved; figures are medians of rounds.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from time import perf_counter
from typing import Any

from mcp import Client

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.latency import WARM_UP, Measured, null_tool, raw_commits, timed
from benchmarks.service import Service, add_arguments, call, service

PROJECT = "measured"
FILE_BYTES = 1000
SMALL_BYTES = 200
LARGE_BYTES = 9_000_000
PAYLOAD_BYTES = 1_500_000
FILLERS = 4
CROWDED = "/crowded"


def text(chatter: Chatter, size_bytes: int) -> str:
    """Made-up prose of about so many bytes, in lines."""
    lines: list[str] = []
    held = 0
    while held < size_bytes:
        lines.append(chatter.message())
        held += len(lines[-1]) + 1
    return "\n".join(lines)[:size_bytes]


async def write(client: Client, path: str, content: str, *, mode: str = "TRUNCATE") -> dict[str, Any]:
    """One write."""
    return await call(client, "file_write", project=PROJECT, path=path, content=content, mode=mode)


async def fill(running: Service, arguments: argparse.Namespace) -> None:
    """Store what the measured calls meet."""
    numbers = iter(range(arguments.files))

    async def some(seed: int) -> None:
        chatter = Chatter(seed=seed)
        async with running.client() as client:
            for number in numbers:
                directory = CROWDED if number < arguments.crowded else f"/d{number // 1000}/e{number % 100}"
                await write(client, f"{directory}/{number}.md", text(chatter, SMALL_BYTES))

    await asyncio.gather(*(some(seed) for seed in range(FILLERS)))
    chatter = Chatter(seed=99)
    async with running.client() as client:
        await write(client, "/small.log", text(chatter, FILE_BYTES))
        for _ in range(arguments.appends):
            await write(client, "/appended.log", f"{chatter.message()}\n", mode="APPEND")
        for start in range(0, LARGE_BYTES, PAYLOAD_BYTES):
            await write(client, "/large.log", text(chatter, min(PAYLOAD_BYTES, LARGE_BYTES - start)), mode="APPEND")


async def measure(running: Service, arguments: argparse.Namespace) -> Measured:
    """All rounds."""
    chatter = Chatter(seed=2)
    fresh = count()
    async with (
        running.client(wire=arguments.wire) as client,
        null_tool(arguments.wire) as null,
        raw_commits(running, arguments.dsn) as commit,
    ):

        def tool(name: str, **given: Any) -> Awaitable[object]:
            return call(client, name, project=PROJECT, **given)

        def some_file() -> str:
            return f"{CROWDED}/{next(fresh) * 7919 % arguments.crowded}.md"

        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "null tool": lambda: null.call_tool("null", {"session_id": "x"}),
            "raw commit": commit,
            "file_stat": lambda: tool("file_stat", path=some_file()),
            "file_read": lambda: tool("file_read", path=some_file()),
            "file_write, new, 1 KB": lambda: write(client, f"/new/{next(fresh)}.md", text(chatter, FILE_BYTES)),
            "file_write, replaced, 1 KB": lambda: write(client, some_file(), text(chatter, FILE_BYTES)),
            "append to 1 KB": lambda: write(client, "/small.log", f"{chatter.message()}\n", mode="APPEND"),
            "append to 9 MB": lambda: write(client, "/large.log", f"{chatter.message()}\n", mode="APPEND"),
            "append after 10,000": lambda: write(client, "/appended.log", f"{chatter.message()}\n", mode="APPEND"),
            "file_list, page of 256": lambda: tool("file_list", path=CROWDED),
            "file_search": lambda: tool("file_search", query=chatter.question()),
            "file_search in a directory": lambda: tool("file_search", query=chatter.question(), path_prefix="/d20"),
            "file_list_versions, page of 50": lambda: tool("file_list_versions", path="/appended.log"),
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
    rows, figures = [], {}
    for name in measured.rounds:
        writes = "write" in name or "append" in name
        base = null + commit if writes else null
        p50, p95 = measured.p50(name), measured.p95(name)
        figures[name] = {"p50_ms": p50, "p95_ms": p95, "p50_ratio": p50 / base, "p95_ratio": p95 / base}
        to = "null tool + raw commit" if writes else "null tool"
        rows.append([name, f"{p50:.2f}", f"{p95:.2f}", f"{p50 / base:.2f}", f"{p95 / base:.2f}", to])
    growth = measured.p50("append to 9 MB") / measured.p50("append to 1 KB")
    rows.append(["append to 9 MB to append to 1 KB", "", "", f"{growth:.2f}", "", ""])
    figures["growth of an append"] = {"p50_ratio": growth}
    title = f"{arguments.files} files, {arguments.crowded} in one directory, wire {arguments.wire}"
    table.show(title, ["call", "p50 ms", "p95 ms", "p50 ratio", "p95 ratio", "to"], rows)
    table.write(arguments.json, figures)


async def run(arguments: argparse.Namespace) -> None:
    """Fill, measure, report."""
    async with service(arguments) as running:
        started = perf_counter()
        await fill(running, arguments)
        print(f"filled in {perf_counter() - started:.0f} s", file=sys.stderr)
        await asyncio.sleep(arguments.rest)
        report(await measure(running, arguments), arguments)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000, help="files in the project")
    parser.add_argument("--crowded", type=int, default=10_000, help="files in one directory")
    parser.add_argument("--appends", type=int, default=10_000, help="appends to one file")
    parser.add_argument("--rest", type=float, default=20.0, help="seconds for background jobs before measuring")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--calls", type=int, default=40, help="calls of each kind in a round")
    parser.add_argument("--wire", default="2026-07-28", help="MCP revision to speak: 2026-07-28 or legacy")
    parser.add_argument("--dsn", help="with --url: DSN of the same database, for the raw commits")
    add_arguments(parser)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
