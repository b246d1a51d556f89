"""Turns a second over 0 to N workers of a Citus cluster, what its nodes are told, and what a dead
one stops: `python -m benchmarks.scale --dsn postgresql://postgres@COORDINATOR/postgres`.

A superuser's DSN of a coordinator whose workers are joined; on each it makes databases of its own
and drops them. A node is killed only if its process is on this machine and ours to kill. Calls go
through the tools without a wire. No workers: the coordinator as plain PostgreSQL, which the ratios
are to, in rounds that alternate.
"""

import argparse
import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter

import asyncpg
import pytest
import structlog

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.report import Curve, Figure, Report, Table, judged
from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.store.database import Database, DatabaseOptions
from tests.door import Door, Refused, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.nodes import TELL, Node, at, node_of, told
from tests.servers import TestServer

SIZES = {
    "seconds": Size(10.0, 3.0, "how long each part writes"),
    "rounds": Size(5, 2, "rounds of the ratios to plain PostgreSQL"),
    "tenants": Size(24, 12, "tenants, each a client that writes a session"),
    "at_once": Size(8, 4, "clients at once"),
}


@dataclass
class Written:
    """Turns that were acknowledged and calls that failed, by node, and how long each call took."""

    turns: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    before_ms: list[float] = field(default_factory=list)
    after_ms: list[float] = field(default_factory=list)


class Tenant:
    """A tenant with one session, which goes on from turn to turn."""

    def __init__(self, door: Door, node: str, number: int) -> None:
        self.door, self.node = door, node
        self._chatter, self._turn = Chatter(seed=number), 0

    async def turn(self, written: Written) -> None:
        """Ask what is remembered and store a turn; one that fails is sent again next time."""
        whose = {"project": "default", "session_id": "s", "user_id": "ada"}
        chatter = Chatter(seed=self._turn)
        said = {"role": "user", "content": f"I like {chatter.question()[:-1]}. {chatter.message()}"}
        try:
            begun = perf_counter()
            await self.door("memory_before_turn", **whose, current_input=self._chatter.question())
            between = perf_counter()
            await self.door(
                "memory_after_turn",
                **whose,
                turn_id=f"turn-{self._turn}",
                input_items=[said],
                output_items=[{"role": "assistant", "content": chatter.message()}],
            )
        except Refused:
            written.errors[self.node] += 1
            await asyncio.sleep(0.05)
            return
        written.before_ms.append((between - begun) * 1000)
        written.after_ms.append((perf_counter() - between) * 1000)
        written.turns[self.node] += 1
        self._turn += 1

    async def stored(self) -> tuple[int, int]:
        """The turns that it was told are stored, and those that are, or -1 if one is twice."""
        turns: list[str] = []
        cursor = ""
        while True:
            page = await self.door(
                "memory_list_turns", project="default", session_id="s", limit=200, cursor=cursor
            )
            turns += [one["event_id"] for one in page["items"] if one["role"] == "user"]
            if not (cursor := page["next_cursor"] or ""):
                return self._turn, len(turns) if len({*turns}) == len(turns) else -1


@dataclass(frozen=True, slots=True)
class Cluster:
    """A database over some workers, with its tenants."""

    server: TestServer
    dsn: str
    tenants: Sequence[Tenant]

    async def write(self, seconds: float, at_once: int) -> Written:
        """Let so many tenants at once write for so long, each its turn."""
        written, until = Written(), perf_counter() + seconds
        waiting = list(self.tenants)

        async def client() -> None:
            while perf_counter() < until:
                tenant = waiting.pop(0)
                await tenant.turn(written)
                waiting.append(tenant)

        await asyncio.gather(*(client() for _ in range(at_once)))
        return written

    async def lost_and_twice(self) -> tuple[float, float]:
        """How many acknowledged turns are not stored, and how many tenants have one twice."""
        counts = [await tenant.stored() for tenant in self.tenants]
        lost = sum(max(0, told - found) for told, found in counts if found >= 0)
        return float(lost), float(sum(found < 0 for _, found in counts))


@asynccontextmanager
async def cluster(
    dsn: str, workers: int, tenants: int, *, tells: bool = False
) -> AsyncIterator[Cluster]:
    """A new database over the first so many workers, which `tells` what it sends to each."""
    server = TestServer(dsn)
    await asyncio.to_thread(lambda: asyncio.run(server.prepare(relax=False, workers=workers)))
    try:
        urls = server.urls(server.template)
        connection = await asyncpg.connect(urls.superuser)
        try:
            for setting in TELL if workers and tells else ():
                await connection.execute(f"ALTER DATABASE {server.template} SET {setting}")
            scopes = [Scope(bytes([number]) * 32, "default") for number in range(tenants)]
            nodes = [await node_of(connection, scope.tenant) if workers else "" for scope in scopes]
        finally:
            await connection.close()
        tokens, meter = O200kCounter(), RecordingMeter()
        tokens.load()
        database = await Database.open(urls.app, DatabaseOptions(), meter)
        try:
            door = open_door(database, FakeClock(), tokens, meter, scopes[0])
            async with door.at_work():
                made = [
                    Tenant(door.as_tenant(scope), node, number)
                    for number, (scope, node) in enumerate(zip(scopes, nodes, strict=True))
                ]
                yield Cluster(server, urls.superuser, made)
        finally:
            await database.close()
    finally:
        await asyncio.to_thread(lambda: asyncio.run(server.close()))


async def over(arguments: argparse.Namespace, workers: int, sent: Counter[str]) -> list[object]:
    """A row of the table: what so many workers do, and what they are told, which takes time."""
    async with cluster(arguments.dsn, workers, arguments.tenants) as here:
        await here.write(arguments.seconds / 3, arguments.at_once)  # warm
        begun = perf_counter()
        written = await here.write(arguments.seconds, arguments.at_once)
        seconds = perf_counter() - begun
    async with cluster(arguments.dsn, workers, arguments.tenants, tells=True) as here:
        await here.write(arguments.seconds / 3, arguments.at_once)
        sent.clear()
        counted = await here.write(arguments.seconds / 3, arguments.at_once)
    own = {node: sent[node] / max(1, count) for node, count in counted.turns.items() if node}
    return [
        workers,
        len({tenant.node for tenant in here.tenants} - {""}),
        written.turns.total() / seconds,
        table.p50(written.before_ms),
        table.p50(written.after_ms),
        max(own.values(), default=None),
        max(sent.values()) / sent.total() if sent else None,
    ]


async def beside_plain(arguments: argparse.Namespace, workers: int) -> tuple[float, float]:
    """How many times as long before_turn and after_turn take as on plain PostgreSQL, one client,
    medians of rounds that alternate."""
    async with (
        cluster(arguments.dsn, 0, 2) as plain,
        cluster(arguments.dsn, workers, 2) as spread,
    ):
        seconds = arguments.seconds / 3
        rounds = [
            (await plain.write(seconds, 1), await spread.write(seconds, 1))
            for _ in range(arguments.rounds + 1)
        ]
        before = [
            table.p50(other.before_ms) / table.p50(one.before_ms) for one, other in rounds[1:]
        ]
        after = [table.p50(other.after_ms) / table.p50(one.after_ms) for one, other in rounds[1:]]
        return table.p50(before), table.p50(after)


async def with_one_dead(
    arguments: argparse.Namespace, workers: int
) -> tuple[Table, dict[str, float | None]]:
    """What tenants of each node get before, while and after one is dead, and what was lost."""
    async with cluster(arguments.dsn, workers, arguments.tenants) as here:
        dead = here.server.nodes[-1]
        node = await Node.find(at(here.dsn, dead))
        rows: list[list[object]] = []
        elsewhere: float | None = None
        lost = twice = None
        if node is not None:
            for what in ("before", "one node dead", "after"):
                if what == "one node dead":
                    node.kill()
                elif what == "after":
                    await node.start()
                    await asyncio.sleep(1)
                written = await here.write(arguments.seconds, arguments.at_once)
                others = [name for name in here.server.nodes if name != dead]
                errors = sum(written.errors[name] for name in others)
                turns = sum(written.turns[name] for name in others)
                rows.append([what, turns, errors, written.turns[dead], written.errors[dead]])
                elsewhere = errors if what == "one node dead" else elsewhere
            lost, twice = await here.lost_and_twice()
        columns = ("", "turns elsewhere", "errors elsewhere", "turns there", "errors there")
        return Table(f"kill -9 of one of {workers} workers", columns, rows), {
            "errors of tenants of other nodes": elsewhere,
            "turns lost": lost,
            "tenants with a turn twice": twice,
        }


async def while_moving(
    arguments: argparse.Namespace, workers: int
) -> tuple[Table, dict[str, float | None]]:
    """What goes wrong while shards move to a worker that joins."""
    async with cluster(arguments.dsn, workers - 1, arguments.tenants) as here:
        moving = asyncio.create_task(here.server.grow())
        turns = errors = 0
        while not moving.done():
            written = await here.write(1, arguments.at_once)
            turns += written.turns.total()
            errors += written.errors.total()
        await moving
        lost, twice = await here.lost_and_twice()
    title = f"worker {workers} joins, and shards move to it"
    return Table(title, ("turns", "errors", "lost", "twice"), [[turns, errors, lost, twice]]), {
        "errors while shards move": errors,
        "turns lost or twice while shards move": lost + twice,
    }


async def measure(arguments: argparse.Namespace) -> Report:
    """Measure over each number of workers, beside plain PostgreSQL, and with one dead."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with told(pytest.MonkeyPatch()) as sent:
        rows = []
        for workers in range(arguments.workers + 1):
            rows.append(await over(arguments, workers, sent))
            print(f"{workers} workers: {rows[-1]}", file=sys.stderr)
        before, after = await beside_plain(arguments, arguments.workers)
        deaths, found = await with_one_dead(arguments, arguments.workers)
        moves, harm = await while_moving(arguments, arguments.workers)
    columns = (
        *("workers", "with tenants", "turns a second", "before_turn p50 ms", "after_turn p50 ms"),
        *("statements a turn", "share of the busiest"),
    )
    least = float(str(rows[1][5]))
    told_more = [(float(str(row[0])), float(str(row[5])) / least) for row in rows[1:]]
    figures = found | harm | {"before_turn p50": before, "after_turn p50": after}
    bars = [Figure(f"turns a second, {row[0]} workers", float(str(row[2]))) for row in rows]
    title = f"{arguments.tenants} tenants, {arguments.at_once} at once, all on one machine"
    return Report(
        "scale",
        "Scale-out beside its goals",
        [Table(title, columns, rows), deaths, moves],
        [*judged("scale", figures), *bars],
        [Curve("statements a turn", "workers", told_more, 1.1)],
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is."""
    parser.add_argument("--dsn", required=True, help="a superuser's, of the coordinator")
    parser.add_argument("--workers", type=int, default=3, help="how many of its workers, at most")


COMMAND = Command(__doc__, measure, SIZES, add_arguments)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
