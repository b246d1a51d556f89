"""Two statements, one after the other, through three kinds of memory: `python -m benchmarks.pairs`.

Of a distinct pair the second statement is about another subject, so the first one must stay; of a
reversed pair the second says that the first no longer holds. Each pair goes through a whiteboard
without a model, through knowledge (remembered twice, consolidated by rules, recalled by the words
of the first) and through memories by rules. The pairs of `working.json` may be looked at; `--data`
takes another file of the same shape, of which nothing is printed unless `--failed` is given.
"""

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import orjson
from mcp import Client

from benchmarks.beliefs import Outcomes
from benchmarks.command import Command
from benchmarks.report import Report, Table, judged
from benchmarks.service import add_arguments, call, service

WORKING: Final = Path(__file__).with_name("pairs_data") / "working.json"

Pair = Mapping[str, str]
Told = tuple[set[str], set[str]]
"""What a memory tells of the first statement before the second one, and what it tells after it."""
Store = Callable[[Client, str, Pair], Awaitable[Told]]


async def board(client: Client, user: str, pair: Pair) -> Told:
    """The lines of a whiteboard."""
    told: list[set[str]] = []
    where = {"user_id": user, "conversation_id": "pair"}
    for text in (pair["first"], pair["second"]):
        entries = [{"role": "user", "content": text}]
        await call(client, "context_update", **where, entries=entries)
        found = await call(client, "whiteboard_get", **where)
        told.append({line for line in found["text"].splitlines() if line.startswith("- ")})
    return told[0], told[1]


async def knowledge(client: Client, project: str, pair: Pair) -> Told:
    """The blocks that a recall by the first statement shows."""
    for text in (pair["first"], pair["second"]):
        await call(client, "elfmem_remember", project=project, content=text)
    await call(client, "elfmem_dream", project=project, no_llm=True)
    recalled = await call(client, "elfmem_recall", project=project, query=pair["first"])
    return {pair["first"]}, {block["content"] for block in recalled["blocks"]}


async def memories(client: Client, user: str, pair: Pair) -> Told:
    """The memories of a user."""
    told: list[set[str]] = []
    for text in (pair["first"], pair["second"]):
        messages = [{"role": "user", "content": text}]
        await call(client, "memories_add", user_id=user, messages=messages)
        listed = await call(client, "memories_list", user_id=user)
        told.append({memory["memory"] for memory in listed["results"]})
    return told[0], told[1]


STORES: Final[Mapping[str, Store]] = {
    "board": board,
    "knowledge": knowledge,
    "memories": memories,
}
LOST: Final = "distinct, lost"
RESOLVED: Final = "reversed, resolved"


async def measure(arguments: argparse.Namespace) -> Report:
    """Store each pair and look up what became of the first statement."""
    pairs = orjson.loads(arguments.data.read_bytes())
    scores = {(store, what): Outcomes() for store in STORES for what in (LOST, RESOLVED)}
    async with service(arguments) as running, running.client(wire=arguments.wire) as client:
        for at, pair in enumerate(pairs):
            what = LOST if pair["kind"] == "distinct" else RESOLVED
            for store, put in STORES.items():
                before, after = await put(client, f"{store}-{at}", pair)
                if not before and store == "memories":
                    continue  # rules make a memory only of what somebody says about themselves
                gone = not before or not before <= after
                is_wrong = gone is (what == LOST)
                note = f"{pair['lang']}: {pair['first']} | {pair['second']} -> {sorted(after)}"
                scores[store, what].add(happened=gone, item=note if is_wrong else "")
    if arguments.failed:
        for (store, what), outcomes in scores.items():
            for note in outcomes.shown:
                print(f"{store}, {what}: {note}")
    return report(scores)


def report(scores: Mapping[tuple[str, str], Outcomes]) -> Report:
    """Return the shares as a table, and the numbers of lost statements beside their goals."""
    rows = [
        [store, what, outcomes.happened, outcomes.count, outcomes.share, outcomes.interval]
        for (store, what), outcomes in scores.items()
    ]
    lost: dict[str, float | None] = {
        f"{store}: statements lost to another subject": outcomes.happened
        for (store, what), outcomes in scores.items()
        if what == LOST
    }
    columns = ["memory", "pairs", "number", "of", "%", "95 %"]
    return Report(
        "pairs",
        "Pairs beside their goals",
        [Table("Pairs: what became of the first statement", columns, rows, digits=1)],
        judged("pairs", lost),
    )


def options(parser: argparse.ArgumentParser) -> None:
    """Which pairs."""
    parser.add_argument("--data", type=Path, default=WORKING, help="the pairs, as JSON")
    parser.add_argument("--failed", action="store_true", help="list the pairs that failed")
    add_arguments(parser)


COMMAND = Command(__doc__, measure, options=options)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
