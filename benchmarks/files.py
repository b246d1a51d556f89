"""Latency of the file store beside a tool that does nothing, in one run: `python -m
benchmarks.files`.

The project holds 100,000 files, 10,000 of them in one directory, and a file of 10,000 appends. With
`--quick` few of them are written and found by a search, and the others are rows that share the
content of one. Rounds are interleaved; figures are medians of rounds.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable
from itertools import count
from time import perf_counter
from typing import Any

import asyncpg
from mcp import Client

from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.report import Report, Table, judged
from benchmarks.rounds import RATIO_COLUMNS, Measured, interleaved, ratios
from benchmarks.service import Service, add_arguments, call, service, settled
from benchmarks.yardsticks import null_tool, raw_commits

PROJECT = "measured"
FILE_BYTES = 1000
SMALL_BYTES = 200
FILLERS = 4
CROWDED = "/crowded"
APPENDED = "/appended.log"
SIZES = {
    "files": Size(100_000, 100_000, "files in the project"),
    "written": Size(100_000, 4_000, "how many of them are written and not copied as rows"),
    "crowded": Size(10_000, 2_000, "written files in one directory"),
    "appends": Size(10_000, 1_000, "appends to one file"),
    "rest": Size(20.0, 5.0, "seconds for background jobs before measuring"),
    "rounds": Size(5, 5, "interleaved rounds"),
    "calls": Size(40, 30, "calls of each kind in a round"),
}


def text(chatter: Chatter, size_bytes: int) -> str:
    """Made-up prose of about so many bytes, in lines."""
    lines: list[str] = []
    held = 0
    while held < size_bytes:
        lines.append(chatter.message())
        held += len(lines[-1]) + 1
    return "\n".join(lines)[:size_bytes]


async def write(
    client: Client, path: str, content: str, *, mode: str = "TRUNCATE"
) -> dict[str, Any]:
    """One write."""
    return await call(client, "file_write", project=PROJECT, path=path, content=content, mode=mode)


async def copied(running: Service, like: str, rest: int, place: str) -> None:
    """Add so many files that share the content of one; a tree of files cannot tell them from
    others. Their paths are what the SQL expression `place` makes of their number `n`."""
    connection = await asyncpg.connect(running.superuser_dsn())
    columns = (
        "revision, stream, size_bytes, is_text, indexed_bytes, sha256, owner, created_at,"
        " updated_at"
    )
    try:
        await connection.execute(
            f"INSERT INTO files (tenant, project, incarnation, path, {columns}) SELECT tenant,"
            f" project, gen_random_uuid(), {place} || '/' || lpad(n::text, 7, '0') || '.md',"
            f" {columns} FROM files, generate_series(1, {rest}) n WHERE path = '{like}'",
        )
        await connection.execute("VACUUM (ANALYZE)")
    finally:
        await connection.close()


async def fill(running: Service, arguments: argparse.Namespace) -> None:
    """Store what the measured calls meet."""
    numbers = iter(range(arguments.written))

    async def some(seed: int) -> None:
        chatter = Chatter(seed=seed)
        async with running.client() as client:
            for number in numbers:
                directory = (
                    CROWDED if number < arguments.crowded else f"/d{number // 1000}/e{number % 100}"
                )
                await write(client, f"{directory}/{number}.md", text(chatter, SMALL_BYTES))

    async def appended() -> None:
        chatter = Chatter(seed=99)
        async with running.client() as client:
            for _ in range(arguments.appends):
                await write(client, APPENDED, f"{chatter.message()}\n", mode="APPEND")
            await write(client, "/small.log", text(chatter, FILE_BYTES))

    await asyncio.gather(appended(), *(some(seed) for seed in range(FILLERS)))
    if (rest := arguments.files - arguments.written) > 0:
        await copied(running, f"{CROWDED}/0.md", rest, "'/f' || n / 1000 || '/e' || n % 100")


async def timings(running: Service, arguments: argparse.Namespace) -> Measured:
    """All rounds."""
    chatter, fresh = Chatter(seed=2), count()
    async with (
        running.client(wire=arguments.wire) as client,
        null_tool(arguments.wire) as null,
        raw_commits(running) as commit,
    ):

        def tool(name: str, **given: Any) -> Awaitable[object]:
            return call(client, name, project=PROJECT, **given)

        def some_file() -> str:
            return f"{CROWDED}/{next(fresh) * 7919 % arguments.crowded}.md"

        return await interleaved(
            {
                "null tool": lambda: null.call_tool("null", {"session_id": "x"}),
                "raw commit": commit,
                "file_stat": lambda: tool("file_stat", path=some_file()),
                "file_read": lambda: tool("file_read", path=some_file()),
                "file_write, new, 1 KB": lambda: write(
                    client, f"/new/{next(fresh)}.md", text(chatter, FILE_BYTES)
                ),
                "file_write, replaced, 1 KB": lambda: write(
                    client, some_file(), text(chatter, FILE_BYTES)
                ),
                "append to 1 KB": lambda: write(
                    client, "/small.log", f"{chatter.message()}\n", mode="APPEND"
                ),
                "append after many": lambda: write(
                    client, APPENDED, f"{chatter.message()}\n", mode="APPEND"
                ),
                "file_list, page of 256": lambda: tool("file_list", path=CROWDED),
                "file_search": lambda: tool("file_search", query=chatter.question()),
                "file_search in a directory": lambda: tool(
                    "file_search",
                    query=chatter.question(),
                    path_prefix=f"/d{arguments.written // 2000}",
                ),
                "file_list_versions, page of 50": lambda: tool("file_list_versions", path=APPENDED),
            },
            rounds=arguments.rounds,
            calls=arguments.calls,
        )


def report(measured: Measured, arguments: argparse.Namespace) -> Report:
    """Tables and figures."""
    rows, found = ratios(measured, lambda name: "write" in name or "append" in name)
    title = (
        f"Files: {arguments.files:,}, {arguments.written:,} of them written,"
        f" {arguments.crowded:,} in one directory; wire {arguments.wire}"
    )
    figures = {
        "file_read p50": found["file_read"][0],
        "file_stat p50": found["file_stat"][0],
        "file_write p50, new, 1 KB": found["file_write, new, 1 KB"][0],
        "file_write p50, replaced, 1 KB": found["file_write, replaced, 1 KB"][0],
    }
    return Report(
        "files",
        "Files beside their goals",
        [Table(title, RATIO_COLUMNS, rows)],
        judged("files", figures),
    )


async def measure(arguments: argparse.Namespace) -> Report:
    """Fill, measure, report."""
    # the largest file is written beside the others, who wait for it
    async with service(arguments, MEMSVC_DATABASE__LOCK_TIMEOUT_MS="30000") as running:
        started = perf_counter()
        await fill(running, arguments)
        await settled(running)
        print(f"filled in {perf_counter() - started:.0f} s", file=sys.stderr)
        await asyncio.sleep(arguments.rest)
        return report(await timings(running, arguments), arguments)


COMMAND = Command(__doc__, measure, SIZES, add_arguments)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
