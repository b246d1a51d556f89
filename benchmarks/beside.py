"""One tenant's calls, alone in a database and beside others by the thousand, interleaved."""

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from mcp import Client

from benchmarks.chatter import Chatter
from benchmarks.crowd import copies, key_of
from benchmarks.report import Table
from benchmarks.rounds import interleaved
from benchmarks.service import call, service, settled

SESSION, USER = "measured", "ada"
OWN_ITEMS, BATCH_ITEMS = 1_000, 500
FEW = 50
"""Files, memories, blocks and documents of each tenant, beside its messages."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What each call takes, and the largest ratio of them."""

    table: Table
    worst: float


async def beside_others(arguments: argparse.Namespace) -> Beside:
    """Two services with the same tenant, of which one has so many others."""
    async with service(arguments) as alone, service(arguments) as crowded:
        async with crowded.client(key=key_of(0)) as client:
            await stored(client, arguments.entries)
        for running, tenants in ((alone, 0), (crowded, arguments.tenants)):
            async with running.client() as client:
                await stored(client, OWN_ITEMS)
            await copies(running, tenants)
        for running in (alone, crowded):
            await settled(running)
        async with alone.client() as one, crowded.client() as other:
            kinds = {"alone": calls(one), "beside": calls(other)}
            measured = await interleaved(
                {
                    f"{name}, {where}": kinds[where][name]
                    for name in kinds["alone"]
                    for where in kinds
                },
                rounds=arguments.rounds,
                calls=arguments.calls,
            )
    times = {name: measured.times(f"{name}, beside", f"{name}, alone") for name in kinds["alone"]}
    rows = [
        [name, measured.p50(f"{name}, alone"), measured.p50(f"{name}, beside"), ratio]
        for name, ratio in times.items()
    ]
    title = (
        f"A tenant of {OWN_ITEMS:,} items beside {arguments.tenants:,} others of"
        f" {arguments.entries:,} entries, {arguments.tenants * arguments.entries:,} in all"
    )
    return Beside(
        Table(title, ("call", "alone, p50 ms", "beside them, p50 ms", "ratio"), rows),
        max(times.values()),
    )


def asked(client: Client, tool: str, **arguments: Any) -> Awaitable[dict[str, Any]]:
    """A call of the project that all of this is in."""
    return call(client, tool, project="default", **arguments)


async def stored(client: Client, items: int) -> None:
    """Something of every kind: a session of so many items, some of them facts, and a few of all
    else."""
    chatter = Chatter(seed=7)
    facts = chatter.facts()
    for number in range(max(1, items // BATCH_ITEMS)):
        said = [
            {
                "role": "user",
                "content": f"{next(facts)} {chatter.message()}" if at < FEW else chatter.message(),
            }
            for at in range(min(items, BATCH_ITEMS))
        ]
        whose = {"session_id": SESSION, "user_id": USER, "turn_id": f"fill-{number}"}
        await asked(client, "memory_after_turn", **whose, input_items=said)
    links = "".join(f"- [[page-{number}]]\n" for number in range(FEW))
    await asked(client, "update_document", id="root", content=f"# All\n{links}")
    for number in range(FEW):
        await asked(
            client, "file_write", path=f"/f/{number}.md", content=chatter.message(), mode="TRUNCATE"
        )
        remembered = [{"role": "user", "content": f"{next(facts)} {chatter.message()}"}]
        await asked(client, "memories_add", user_id=USER, messages=remembered)
        await asked(client, "elfmem_remember", content=f"{number}: {chatter.message()}")


def calls(client: Client) -> dict[str, Callable[[], Awaitable[object]]]:
    """Calls of every style, of which those that write leave as much behind in either service."""
    chatter, turns, files = Chatter(seed=8), count(), count()
    whose = {"session_id": SESSION, "user_id": USER}

    def after() -> Awaitable[object]:
        said = [
            {"role": "user", "content": chatter.message()},
            {"role": "user", "content": chatter.message()},
        ]
        return asked(
            client, "memory_after_turn", **whose, turn_id=f"turn-{next(turns)}", input_items=said
        )

    def path() -> str:
        return f"/f/{next(files) % FEW}.md"

    return {
        "before_turn": lambda: asked(
            client, "memory_before_turn", **whose, current_input=chatter.question()
        ),
        "after_turn": after,
        "list_facts": lambda: asked(client, "memory_list_facts", **whose),
        "file_stat": lambda: asked(client, "file_stat", path=path()),
        "file_read": lambda: asked(client, "file_read", path=path()),
        "file_write": lambda: asked(
            client, "file_write", path=path(), content=chatter.message(), mode="TRUNCATE"
        ),
        "file_list": lambda: asked(client, "file_list", path="/f"),
        "file_search": lambda: asked(client, "file_search", query=chatter.question()),
        "memories_search": lambda: asked(
            client, "memories_search", user_id=USER, query=chatter.question()
        ),
        "search_documents": lambda: asked(client, "search_documents", query=chatter.question()),
        "elfmem_recall": lambda: asked(client, "elfmem_recall", query=chatter.question()),
    }
