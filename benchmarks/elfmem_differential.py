"""The same calls to elfmem and to this service, compared: `python -m benchmarks.elfmem_differential
--elfmem VENV`.

elfmem 0.20.0 is no dependency: install `elfmem[cli,mcp]` into an environment of its own and name
that. Both are given the same fake model and embedder on the loopback. elfmem hides a block until it
is consolidated, so both consolidate before they recall. Compared are statuses, ids, confidence and
decay to six places, scores, texts and errors; what differs on purpose (docs/knowledge.md) is told
as that, and anything else makes the command fail.
"""

import argparse
import os
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from benchmarks.command import Command
from benchmarks.report import Report, Table, judged
from benchmarks.service import Service, add_arguments, service
from tests.endpoints import DIMENSIONS, Provider, provider

PLACES = 6
ALIGNMENT = 0.4
BLOCKS: tuple[tuple[str, list[str]], ...] = (
    ("Giraffes sleep less than two hours a night.", ["zoo"]),
    ("The staging database is read-only on Mondays.", ["database"]),
    ("Ship the release before the summer holidays.", ["self/goal"]),
    ("I tell the truth even when it is unwelcome.", ["self/constitutional"]),
    ("Copper conducts heat better than steel.", []),
)
PAIRS = (
    (
        "Redis caches sessions with a ttl of one hour.",
        "Redis caches sessions with a ttl of one hour and evicts by lru.",
        "redis sessions",
    ),
    (
        "Backups of the warehouse are encrypted with the old key.",
        "Backups of the warehouse are never encrypted with the old key.",
        "warehouse backups never encrypted with the old key",
    ),
)
"""Two blocks of which one is shown, near-identical or contradicting, and a question about them."""
BESIDE_PAIRS = (
    "Friday lunch is at noon.",
    "The billing team has five people.",
    "A service needs a health check.",
    "Fridays are quiet in support.",
    "Billing runs on Postgres.",
    "Kafka carries the audit events.",
)
OURS = {
    "MEMSVC_KNOWLEDGE__PRIOR_STRENGTH": "1",
    "MEMSVC_KNOWLEDGE__ALIGNMENT_MIN": "0",
    "MEMSVC_KNOWLEDGE__INBOX_THRESHOLD": "1000",
}
"""Where the seed of this style and elfmem 0.20.0 differ in a number, the options that make it the
same."""


@dataclass
class Comparison:
    """What was compared: what, there, here, and whether that is as it should be."""

    rows: list[tuple[str, object, object, str]] = field(default_factory=list)

    def same(self, what: str, theirs: object, ours: object) -> None:
        """Both have to be the same."""
        self.rows.append((what, theirs, ours, "same" if theirs == ours else "DIFFERS"))

    def differs(self, what: str, theirs: object, ours: object) -> None:
        """They differ on purpose."""
        self.rows.append(
            (what, theirs, ours, "differs on purpose" if theirs != ours else "same by now")
        )

    @property
    def failed(self) -> bool:
        """Whether anything differs that should not."""
        return any(verdict == "DIFFERS" for *_, verdict in self.rows)


class Side:
    """One of the two, called by the same names; an error is its body or its text."""

    def __init__(self, client: Client, running: Service | None = None) -> None:
        self._client = client
        self._running = running

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(f"elfmem_{tool}", arguments)
        text = getattr(result.content[0], "text", "") if result.content else ""
        if result.is_error:
            try:
                return {"error": orjson.loads(text)["message"]}
            except orjson.JSONDecodeError:
                return {"error": text}
        body = result.structured_content
        return body if body is not None else dict(orjson.loads(text))

    async def told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The same of this service's REST: agents do not see every tool over MCP."""
        assert self._running is not None
        url = f"{self._running.url.removesuffix('/mcp')}/api/tools/elfmem_{tool}"
        headers = {"Authorization": f"Bearer {self._running.key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            answer = await http.post(url, json=arguments)
        return dict(answer.raise_for_status().json())


@asynccontextmanager
async def elfmem(executable: Path, model: Provider, folder: Path) -> AsyncIterator[Client]:
    """elfmem on standard streams."""
    config = folder / "elfmem.yaml"
    config.write_text(
        f"llm: {{model: gpt-fake, base_url: '{model.url}/v1'}}\n"
        f"embeddings: {{model: fake, base_url: '{model.url}/v1', dimensions: {DIMENSIONS}}}\n"
        "memory: {max_inbox_per_run: 100}\n"
    )
    arguments = ["serve", "--db", str(folder / "agent.db"), "--config", str(config)]
    environment = {
        "OPENAI_API_KEY": "none",
        "HOME": str(folder),
        "PATH": os.environ.get("PATH", ""),
    }
    server = StdioServerParameters(
        command=str(executable), args=arguments, env=environment, cwd=folder
    )
    async with Client(stdio_client(server), mode="legacy") as client:
        yield client


def beliefs(database: Path) -> dict[str, tuple[float, float]]:
    """Confidence and decay of each block of elfmem, by text: its tools do not tell them."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT content, confidence, decay_lambda FROM blocks").fetchall()
    return {
        content: (round(confidence, PLACES), round(decay, PLACES))
        for content, confidence, decay in rows
    }


async def compare(theirs: Side, ours: Side, database: Path, told: Comparison) -> None:
    """The script, side by side."""
    ids: dict[str, tuple[str, str]] = {}
    for text, tags in BLOCKS:
        there, here = (
            await theirs("remember", content=text, tags=tags),
            await ours("remember", content=text, tags=tags),
        )
        told.same(f"remember: status of {text[:20]}", there["status"], here["status"])
        told.same("  its id", there["block_id"], here["block_id"])
        ids[text] = (there["block_id"], here["block_id"])
    told.differs("  visible before consolidation", there["visible"], here["visible"])
    again = [await side("remember", content=BLOCKS[0][0].upper()) for side in (theirs, ours)]
    told.same("remember the same again", *(one["status"] for one in again))
    await _statuses(theirs, ours, told)
    done = [await side("dream") for side in (theirs, ours)]
    for name in ("processed", "promoted", "deduplicated", "inbox_remaining"):
        told.same(f"dream: {name}", *(one[name] for one in done))
    await _outcomes(theirs, ours, ids, told)
    await _beliefs(ours, database, ids, told)
    await _errors(theirs, ours, ids, told)
    await _recalls(theirs, ours, told)
    await _pairs(theirs, ours, told)
    again = [await side("remember", content=BLOCKS[0][0]) for side in (theirs, ours)]
    told.differs("remember what is active already", *(one["status"] for one in again))
    gone = [
        await side("forget", block_id=ids[BLOCKS[1][0]][at])
        for at, side in enumerate((theirs, ours))
    ]
    told.same("forget", *(one["status"] for one in gone))
    gone = [
        await side("forget", block_id=ids[BLOCKS[1][0]][at])
        for at, side in enumerate((theirs, ours))
    ]
    told.same("forget again", *(one["status"] for one in gone))


async def _statuses(theirs: Side, ours: Side, told: Comparison) -> None:
    there, here = await theirs("status"), await ours("status")
    for name in ("inbox_count", "active_count", "archived_count", "last_consolidated"):
        told.same(f"status: {name}", there[name], here[name])


async def _outcomes(
    theirs: Side, ours: Side, ids: dict[str, tuple[str, str]], told: Comparison
) -> None:
    texts = [text for text, _ in BLOCKS]
    cases = (
        (0.9, 1.0, texts),
        (0.1, 2.0, texts[:1]),
        (0.5, 1.0, texts[1:2]),
        (0.2, 1.0, texts[4:]),
    )
    for signal, weight, chosen in cases:
        done = [
            await side(
                "outcome",
                block_ids=[ids[text][at] for text in chosen],
                signal=signal,
                weight=weight,
            )
            for at, side in enumerate((theirs, ours))
        ]
        for name in (
            "blocks_updated",
            "blocks_penalized",
            "outcome_edges_created",
            "edges_reinforced",
        ):
            told.same(f"outcome {signal}: {name}", *(one[name] for one in done))
        told.same(
            f"outcome {signal}: delta",
            *(round(one["mean_confidence_delta"], PLACES) for one in done),
        )
        told.same(
            f"outcome {signal}: skipped",
            *([one["reason"] for one in side["skipped"]] for side in done),
        )
    unknown = [await side("outcome", block_ids=["nope"], signal=1.0) for side in (theirs, ours)]
    told.same(
        "outcome of an unknown block",
        *([one["reason"] for one in side["skipped"]] for side in unknown),
    )


async def _beliefs(
    ours: Side, database: Path, ids: dict[str, tuple[str, str]], told: Comparison
) -> None:
    there = beliefs(database)
    for text, _ in BLOCKS:
        here = await ours.told("show", block_id=ids[text][1])
        told.same(f"confidence of {text[:20]}", there[text][0], round(here["confidence"], PLACES))
        told.same(f"decay of {text[:20]}", there[text][1], round(here["decay_per_h"], PLACES))


async def _errors(
    theirs: Side, ours: Side, ids: dict[str, tuple[str, str]], told: Comparison
) -> None:
    first = ids[BLOCKS[0][0]]
    wrong: Sequence[tuple[str, dict[str, Any]]] = (
        ("outcome", {"block_ids": [first[0]], "signal": 1.5}),
        ("outcome", {"block_ids": [first[0]], "signal": 1.0, "weight": 0.0}),
        ("recall", {"query": "x", "frame": "bad"}),
        ("edit", {"block_id": first[0]}),
        ("edit", {"block_id": "nope-nope-nope", "content": "x"}),
        ("connect", {"source": first[0], "target": first[0]}),
        ("connect", {"source": first[0], "target": "nope-nope-nope"}),
    )
    for tool, arguments in wrong:
        there, here = await theirs(tool, **arguments), await ours(tool, **arguments)
        plain = (
            there["error"].split(": ", 1)[1]
            if there["error"].startswith("Error")
            else there["error"]
        )
        told.same(f"{tool}: {here['error'][:40]}", plain.split(" — Recovery:")[0], here["error"])


async def _recalls(theirs: Side, ours: Side, told: Comparison) -> None:
    for query, frame in (("giraffes sleep", "attention"), ("", "self"), ("release", "task")):
        there, here = (
            await theirs("recall", query=query, frame=frame),
            await ours("recall", query=query, frame=frame),
        )
        best = [side["blocks"][0]["content"] if side["blocks"] else "" for side in (there, here)]
        told.same(f"recall {frame}: the first block", *best)
        told.same(
            f"recall {frame}: the heading", *(side["text"].split("\n")[0] for side in (there, here))
        )
    there, here = await theirs("recall", query=""), await ours("recall", query="")
    scores = [{one["content"]: one["score"] for one in side["blocks"]} for side in (there, here)]
    told.same("recall without a question: scores", *scores)
    shown = [
        len((await side("recall", query="quantum chromodynamics"))["blocks"])
        for side in (theirs, ours)
    ]
    told.same("recall of what is not there", *shown)


async def _pairs(theirs: Side, ours: Side, told: Comparison) -> None:
    """Of near-identical and contradicting blocks one is shown, and that first."""
    for side in (theirs, ours):
        for text in (*(text for pair in PAIRS for text in pair[:2]), *BESIDE_PAIRS):
            await side("remember", content=text, tags=[])
        await side("dream")
    for one, other, query in PAIRS:
        for top_k in (2, 5):
            there, here = [
                [
                    "of the pair" if block["content"] in (one, other) else block["content"]
                    for block in (await side("recall", query=query, top_k=top_k))["blocks"]
                ]
                for side in (theirs, ours)
            ]
            # elfmem may lose the pair: it measures diversity before it takes one of them out
            compared = told.same if "of the pair" in there else told.differs
            compared(f"pair {query[:20]}: first of {top_k}", there[0], here[0])
            told.same("  first and once here", ("of the pair", 1), (here[0], here.count(here[0])))


async def measure(arguments: argparse.Namespace) -> Report | None:
    """Compare, and say how it came out."""
    given = arguments.elfmem
    executable = given / "bin" / "elfmem" if given is not None and given.is_dir() else given
    if executable is None or not executable.exists():
        print("skipped: there is no elfmem to compare with; name one with --elfmem")
        return None
    told = Comparison()
    answer = {"alignment_score": ALIGNMENT, "tags": [], "summary": ""}
    with tempfile.TemporaryDirectory(prefix="elfmem-") as folder:
        async with provider() as model:
            model.says = orjson.dumps(answer).decode()
            model.finds = {"alignment": ALIGNMENT, "tags": [], "contradictions": []}
            settings = OURS | {
                "MEMSVC_MODEL__MODEL": "openai:fake",
                "MEMSVC_MODEL__BASE_URL": model.url,
                "MEMSVC_MODEL__API_KEY": "none",
                "MEMSVC_EMBEDDINGS__PROVIDER": "openai",
                "MEMSVC_EMBEDDINGS__BASE_URL": f"{model.url}/v1",
                "MEMSVC_EMBEDDINGS__MODEL": "fake",
                "MEMSVC_EMBEDDINGS__DIMENSIONS": str(DIMENSIONS),
            }
            async with (
                elfmem(executable, model, Path(folder)) as there,
                service(arguments, **settings) as running,
                running.client() as here,
            ):
                await compare(Side(there), Side(here, running), Path(folder) / "agent.db", told)
    rows = [
        (what, str(there)[:40], str(here)[:40], verdict) for what, there, here, verdict in told.rows
    ]
    differ = sum(verdict == "DIFFERS" for *_, verdict in told.rows)
    figures = {"answers compared": float(len(told.rows)), "answers that differ": float(differ)}
    return Report(
        "elfmem_differential",
        "Knowledge beside elfmem",
        [Table("The same calls", ("what", "elfmem", "here", ""), rows)],
        judged("elfmem_differential", figures),
        failed=told.failed,
        digits=0,
    )


def options(parser: argparse.ArgumentParser) -> None:
    """What to compare with."""
    parser.add_argument(
        "--elfmem", type=Path, help="an environment with elfmem[cli,mcp] in it, or its executable"
    )
    add_arguments(parser)


COMMAND = Command(__doc__, measure, options=options)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
