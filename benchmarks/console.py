"""Time of each page of the console beside a tool that does nothing, in one run: `python -m
benchmarks.console`.

One project with a session of many turns, many facts of one user, and very many files, some of which
were written and are searched, the others rows that share the content of one: a tree shows them
alike. Without a browser: what is measured is the whole page, from the request to its last byte.
Rounds are interleaved; figures are medians of rounds.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from time import perf_counter

import httpx2
import orjson
from mcp import Client

from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.files import copied, text
from benchmarks.goals import GOALS
from benchmarks.report import Figure, Report, Table, judged
from benchmarks.rounds import RATIO_COLUMNS, Measured, interleaved, ratios
from benchmarks.service import Service, add_arguments, call, service, settled
from benchmarks.yardsticks import null_tool

SESSION, USER, CROWDED, FIRST = "measured", "ada", "/crowded", "/d0/w000000.md"
FILE_BYTES = 400
LINES_A_CALL = 1000
BEHIND = ("volume", "usage")
"""Pages that count what there is: they come behind others, and are held to nothing."""
SIZES = {
    "facts": Size(10_000, 10_000, "facts of the measured session"),
    "turns": Size(5_000, 3_000, "turns of it"),
    "files": Size(100_000, 100_000, "files in the project, a tenth in one directory"),
    "written": Size(2_000, 300, "how many of them are written, and so searched"),
    "rest": Size(10.0, 5.0, "seconds for background jobs before measuring"),
    "rounds": Size(5, 5, "interleaved rounds"),
    "calls": Size(20, 8, "requests for each page in a round"),
}


async def fill(running: Service, arguments: argparse.Namespace) -> None:
    """Store what the pages show."""
    chatter = Chatter(seed=1)
    async with running.client() as client:
        await _turns(client, chatter, arguments)
        await _styles(client, chatter)
        for number in range(arguments.written):
            where = CROWDED if number % 2 else f"/d{number // 1000}"
            content = text(chatter, FILE_BYTES)
            path = f"{where}/w{number:06}.md"
            await call(
                client, "file_write", project="default", path=path, content=content, mode="TRUNCATE"
            )
        first = {"project": "default", "path": FIRST, "mode": "TRUNCATE"}
        await call(client, "file_write", **first, content=text(chatter, FILE_BYTES))
    rest = max(0, arguments.files - arguments.written)
    await copied(
        running,
        FIRST,
        rest,
        f"CASE WHEN n <= {rest // 10} THEN '{CROWDED}' ELSE '/e' || n / 1000 END",
    )


async def _turns(client: Client, chatter: Chatter, arguments: argparse.Namespace) -> None:
    moment = "2026-01-02T09:00:00Z"
    said = (
        {
            "id": f"t{at}-in-0",
            "ts": moment,
            "type": "input_item",
            "turn_id": f"t{at}",
            "item": _message(chatter.message()),
        }
        for at in range(arguments.turns)
    )
    held = (
        {
            "id": f"f{at}",
            "ts": moment,
            "type": "fact_upsert",
            "fact_id": f"fact_{at}",
            "key": f"key {at}",
        }
        | {"value": fact, "tier": "L0", "source_turn_id": "t0"}
        for at, fact in enumerate(islice(_facts(chatter), arguments.facts))
    )
    for name, lines in (("log.jsonl", said), ("memory_facts.jsonl", held)):
        while part := list(islice(lines, LINES_A_CALL)):
            files = {name: _lines(part)}
            await call(
                client, "memory_import_session", project="default", session_id=SESSION, files=files
            )
    for turn in ("asked-1", "asked-2"):
        spoken = {"project": "default", "session_id": SESSION, "user_id": USER, "turn_id": turn}
        await call(client, "memory_before_turn", **spoken, current_input=chatter.question())
        await call(
            client,
            "memory_after_turn",
            **spoken,
            input_items=[_message("My name is Ada. I live in Kobe.")],
        )


async def _styles(client: Client, chatter: Chatter) -> None:
    whose = {"project": "default", "user_id": USER}
    links = "".join(f"- [[page-{number}]]\n" for number in range(200))
    await call(client, "update_document", project="default", id="root", content=f"# All\n{links}")
    for number in range(200):
        said = [_message(f"I like {chatter.question()[:-1]}. {chatter.message()}")]
        await call(client, "context_update", **whose, conversation_id=f"c{number}", entries=said)
        await call(client, "memories_add", **whose, messages=said)
        await call(
            client, "elfmem_remember", project="default", content=f"{number}: {chatter.message()}"
        )


async def pages(
    http: httpx2.AsyncClient, running: Service
) -> dict[str, Callable[[], Awaitable[object]]]:
    """Each page of the console, to be asked for by somebody who has signed in."""
    origin = running.url.removesuffix("/mcp")
    signed_in = await http.post(
        f"{origin}/console/sign-in", data={"key": running.key}, follow_redirects=True
    )
    base = str(signed_in.raise_for_status().url)

    def page(place: str, **query: str) -> Callable[[], Awaitable[object]]:
        async def asked() -> None:
            (await http.get(base + place, params=query)).raise_for_status()

        return asked

    version = orjson.loads(
        (
            await http.post(
                f"{origin}/api/tools/file_list_versions",
                json={"project": "default", "path": FIRST},
                headers={"Authorization": f"Bearer {running.key}"},
            )
        ).content
    )["versions"][0]["id"]
    return {
        "overview": page(""),
        "sessions": page("sessions"),
        "session": page("session", id=SESSION),
        "recall": page("recall", id=SESSION, turn="asked-2"),
        "whose facts": page("facts"),
        "facts": page("facts", session=SESSION, user=USER),
        "a fact": page("fact", id="fact_7", session=SESSION, user=USER),
        "memories": page("memories", user=USER),
        "knowledge": page("knowledge"),
        "boards": page("boards"),
        "a board": page("board", user=USER, id="c7"),
        "notebook": page("notebook"),
        "files": page("files"),
        "a crowded directory": page("files", path=CROWDED),
        "a file": page("file", path=FIRST),
        "a version": page("file-version", path=FIRST, id=version),
        "a file, edited": page("edit-file", path=FIRST),
        "files found": page("files", q=Chatter(seed=3).question()),
        "call log": page("calls"),
        "jobs": page("jobs"),
        "playground": page("playground"),
        "a tool": page("playground", tool="memory_after_turn"),
        "settings": page("settings"),
        "keys": page("keys"),
        "volume": page("volume"),
        "usage": page("usage"),
    }


async def timings(running: Service, arguments: argparse.Namespace) -> Measured:
    """All rounds."""
    async with httpx2.AsyncClient(timeout=120) as http, null_tool(arguments.wire) as null:
        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "null tool": lambda: null.call_tool("null", {"session_id": SESSION}),
            **await pages(http, running),
        }
        return await interleaved(kinds, rounds=arguments.rounds, calls=arguments.calls, warm_up=4)


def report(measured: Measured, arguments: argparse.Namespace) -> Report:
    """Tables and figures."""
    rows, found = ratios(measured, lambda _: False)
    goal = GOALS["console"]["the slowest page"]
    pages = [
        Figure(name, ratio, None if name in BEHIND else goal) for name, (ratio, _) in found.items()
    ][1:]
    verdicts = ["", *(page.verdict for page in pages)]
    title = (
        f"Console: {arguments.facts:,} facts, {arguments.turns:,} turns, {arguments.files:,}"
        f" files; goal {goal}"
    )
    held_to = [page for page in pages if page.goal is not None]
    figures: dict[str, float | None] = {
        "the slowest page": max(page.value or 0.0 for page in held_to),
        "pages over the goal": sum(page.verdict == "missed" for page in held_to),
    }
    return Report(
        "console",
        "The console beside its goal",
        [
            Table(
                title,
                (*RATIO_COLUMNS, ""),
                [[*row, verdict] for row, verdict in zip(rows, verdicts, strict=True)],
            )
        ],
        judged("console", figures),
        bars=held_to,
    )


async def measure(arguments: argparse.Namespace) -> Report:
    """Fill, measure, report."""
    async with service(arguments) as running:
        started = perf_counter()
        await fill(running, arguments)
        await settled(running)
        print(f"filled in {perf_counter() - started:.0f} s", file=sys.stderr)
        await asyncio.sleep(arguments.rest)
        return report(await timings(running, arguments), arguments)


def _message(said: str) -> dict[str, str]:
    return {"type": "message", "role": "user", "content": said}


def _facts(chatter: Chatter) -> Iterator[str]:
    while True:
        yield chatter.message()[:100]


def _lines(values: Iterable[object]) -> str:
    return b"".join(orjson.dumps(value) + b"\n" for value in values).decode()


COMMAND = Command(__doc__, measure, SIZES, add_arguments)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
