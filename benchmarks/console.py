"""Time of each page of the console beside a tool that does nothing, in one run: `python -m benchmarks.console`.

One project with a session of many turns, many facts of one user, and very many files, some of which were written and
are searched, the others rows that share the content of one: a tree shows them alike. Without a browser: what is
measured is the whole page, from the request to its last byte. Rounds are interleaved; figures are medians of rounds.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from itertools import islice
from time import perf_counter
from urllib.parse import urlsplit

import asyncpg
import httpx
import orjson
from mcp import Client

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.files import text
from benchmarks.latency import WARM_UP, Measured, null_tool, timed
from benchmarks.service import Service, add_arguments, call, service
from memsvc.adapters.postgres import EmbeddedPostgres

SESSION, USER, CROWDED, FIRST = "measured", "ada", "/crowded", "/d0/w000000.md"
GOAL = 10
FILE_BYTES = 400
LINES_A_CALL = 1000
BEHIND = ("volume", "usage")
"""Pages that count what there is: they come behind others, and are held to nothing."""


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
            await call(client, "file_write", project="default", path=path, content=content, mode="TRUNCATE")
        first = {"project": "default", "path": FIRST, "mode": "TRUNCATE"}
        await call(client, "file_write", **first, content=text(chatter, FILE_BYTES))
    await _more_files(running, arguments)


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
        {"id": f"f{at}", "ts": moment, "type": "fact_upsert", "fact_id": f"fact_{at}", "key": f"key {at}"}
        | {"value": fact, "tier": "L0", "source_turn_id": "t0"}
        for at, fact in enumerate(islice(_facts(chatter), arguments.facts))
    )
    for name, lines in (("log.jsonl", said), ("memory_facts.jsonl", held)):
        while part := list(islice(lines, LINES_A_CALL)):
            files = {name: _lines(part)}
            await call(client, "memory_import_session", project="default", session_id=SESSION, files=files)
    for turn in ("asked-1", "asked-2"):
        spoken = {"project": "default", "session_id": SESSION, "user_id": USER, "turn_id": turn}
        await call(client, "memory_before_turn", **spoken, current_input=chatter.question())
        await call(client, "memory_after_turn", **spoken, input_items=[_message("My name is Ada. I live in Kobe.")])


async def _styles(client: Client, chatter: Chatter) -> None:
    whose = {"project": "default", "user_id": USER}
    links = "".join(f"- [[page-{number}]]\n" for number in range(200))
    await call(client, "update_document", project="default", id="root", content=f"# All\n{links}")
    for number in range(200):
        said = [_message(f"I like {chatter.question()[:-1]}. {chatter.message()}")]
        await call(client, "context_update", **whose, conversation_id=f"c{number}", entries=said)
        await call(client, "memories_add", **whose, messages=said)
        await call(client, "elfmem_remember", project="default", content=f"{number}: {chatter.message()}")


async def _more_files(running: Service, arguments: argparse.Namespace) -> None:
    if running.data_dir is None:
        raise SystemExit("the console is measured on a service of its own")
    started = await asyncio.to_thread(EmbeddedPostgres(running.data_dir).start)  # joins the one of the service
    database = urlsplit(started.admin_url).path
    connection = await asyncpg.connect(urlsplit(started.superuser_url)._replace(path=database).geturl())
    columns = "revision, stream, size_bytes, is_text, indexed_bytes, sha256, owner, created_at, updated_at"
    rest = max(0, arguments.files - arguments.written)
    place = f"CASE WHEN n <= {rest // 10} THEN '{CROWDED}' ELSE '/e' || n / 1000 END || '/' || lpad(n::text, 7, '0')"
    await connection.execute(
        f"INSERT INTO files (tenant, project, incarnation, path, {columns})"
        f" SELECT tenant, project, gen_random_uuid(), {place} || '.md', {columns}"
        f" FROM files, generate_series(1, {rest}) n WHERE path = '{FIRST}'"
    )
    await connection.execute("ANALYZE")
    await connection.close()


async def pages(http: httpx.AsyncClient, running: Service) -> dict[str, Callable[[], Awaitable[object]]]:
    """Each page of the console, to be asked for by somebody who has signed in."""
    origin = running.url.removesuffix("/mcp")
    signed_in = await http.post(f"{origin}/console/sign-in", data={"key": running.key}, follow_redirects=True)
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
        "playground": page("playground"),
        "a tool": page("playground", tool="memory_after_turn"),
        "settings": page("settings"),
        "keys": page("keys"),
        "volume": page("volume"),
        "usage": page("usage"),
    }


async def measure(running: Service, arguments: argparse.Namespace) -> Measured:
    """All rounds."""
    async with httpx.AsyncClient(timeout=120) as http, null_tool(arguments.wire) as null:
        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "null tool": lambda: null.call_tool("null", {"session_id": SESSION}),
            **await pages(http, running),
        }
        await timed(WARM_UP, kinds["null tool"])
        for one in kinds.values():
            await timed(2, one)
        measured = Measured({name: [] for name in kinds})
        for _ in range(arguments.rounds):
            for name, one in kinds.items():
                measured.rounds[name].append(await timed(arguments.calls, one))
    return measured


def report(measured: Measured, arguments: argparse.Namespace) -> None:
    """Print the figures, and write them where asked."""
    null = measured.p50("null tool")
    rows, figures = [], {}
    for name in measured.rounds:
        p50, p95 = measured.p50(name), measured.p95(name)
        figures[name] = {"p50_ms": p50, "p95_ms": p95, "p50_ratio": p50 / null, "p95_ratio": p95 / null}
        told = "" if name in BEHIND or p50 / null < GOAL else f"over {GOAL}"
        rows.append([name, f"{p50:.2f}", f"{p95:.2f}", f"{p50 / null:.2f}", f"{p95 / null:.2f}", told])
    title = f"{arguments.facts} facts, {arguments.turns} turns, {arguments.files} files, wire {arguments.wire}"
    table.show(title, ["page", "p50 ms", "p95 ms", "p50 ratio", "p95 ratio", "to the goal"], rows)
    table.write(arguments.json, figures)


def _message(said: str) -> dict[str, str]:
    return {"type": "message", "role": "user", "content": said}


def _facts(chatter: Chatter):
    while True:
        yield chatter.message()[:100]


def _lines(values) -> str:
    return b"".join(orjson.dumps(value) + b"\n" for value in values).decode()


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
    parser.add_argument("--facts", type=int, default=10_000, help="facts of the measured session")
    parser.add_argument("--turns", type=int, default=5_000, help="turns of it")
    parser.add_argument("--files", type=int, default=100_000, help="files in the project, a tenth in one directory")
    parser.add_argument("--written", type=int, default=2_000, help="how many of them are written, and so searched")
    parser.add_argument("--rest", type=float, default=10.0, help="seconds for background jobs before measuring")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--calls", type=int, default=20, help="requests for each page in a round")
    parser.add_argument("--wire", default="2026-07-28", help="MCP revision of the null tool: 2026-07-28 or legacy")
    add_arguments(parser)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
