"""Recall of file_search on LoCoMo, one file a session: `python -m benchmarks.file_recall --data
locomo.json`.

Each conversation is a project. Scored are the messages that a question cites as its evidence, by
whether they lie in the first passages, and their sessions, by whether a passage of them is among
those. With `--embeddings URL` the service that is started has an embedder at that OpenAI-compatible
address as well, with `--model-folder` one that runs in it.
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from mcp import Client

from benchmarks.command import Command
from benchmarks.locomo import CATEGORIES, Conversation, Question, load
from benchmarks.report import Report, Table, judged
from benchmarks.service import add_arguments, call, local_embedder, service

SCORED = (1, 2, 3, 4)
CUTS = (5, 10, 20)

Ranges = dict[str, tuple[str, int, int]]
"""By message: its file, its first byte there and the byte after its last."""


async def store(client: Client, conversation: Conversation, project: str) -> Ranges:
    """Write a conversation as files; where each message is."""
    texts: defaultdict[str, bytes] = defaultdict(bytes)
    ranges: Ranges = {}
    for message in conversation.messages:
        path = f"/session_{message.dia_id.split(':')[0][1:]}.md"
        if not texts[path]:
            texts[path] = f"# {message.said_at:%d %B %Y}\n\n".encode()
        start = len(texts[path])
        texts[path] += f"{message.speaker}: {message.text}\n".encode()
        ranges[message.dia_id] = (path, start, len(texts[path]) - 1)
    for path, content in texts.items():
        await call(
            client,
            "file_write",
            project=project,
            path=path,
            content=content.decode(),
            mode="TRUNCATE",
        )
    return ranges


class Scores:
    """Recall by cut and category, of messages and of sessions; 0 is all categories that are
    scored."""

    def __init__(self) -> None:
        self.messages: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        self.sessions: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        self.bytes: list[int] = []

    def add(self, question: Question, chunks: list[dict[str, object]], ranges: Ranges) -> None:
        """Score one question by the passages found for it, best first."""
        self.bytes.append(sum(len(str(chunk["chunk_content"]).encode()) for chunk in chunks[:10]))
        for category in (0, question.category):
            for cut in CUTS:
                found = chunks[:cut]
                hits = [
                    one
                    for one in question.evidence
                    if any(_holds(chunk, ranges[one]) for chunk in found)
                ]
                files = {chunk["file_path"] for chunk in found}
                wanted = {ranges[one][0] for one in question.evidence}
                self.messages[cut, category].append(len(hits) / len(question.evidence))
                self.sessions[cut, category].append(len(wanted & files) / len(wanted))


def _holds(chunk: dict[str, Any], place: tuple[str, int, int]) -> bool:
    """Whether a passage holds the middle of a message: one that is cut in two counts where most of
    it is."""
    path, start, end = place
    middle = (start + end) // 2
    return (
        chunk["file_path"] == path
        and chunk["file_seek_start_bytes"] <= middle < chunk["file_seek_end_bytes"]
    )


def report(scores: Scores) -> Report:
    """Tables and figures."""
    rows: list[list[object]] = []
    for category in (0, *SCORED):
        values = [
            mean(kind[cut, category]) for kind in (scores.messages, scores.sessions) for cut in CUTS
        ]
        rows.append(
            [CATEGORIES.get(category, "all scored"), len(scores.messages[5, category]), *values]
        )
    columns = [
        "category",
        "questions",
        *(f"{kind}@{cut}" for kind in ("message", "session") for cut in CUTS),
    ]
    title = f"LoCoMo: evidence through file_search, ten passages of {mean(scores.bytes):,.0f} bytes"
    tables = [Table(title, columns, rows, digits=4)]
    figures = {
        "message@10": mean(scores.messages[10, 0]),
        "session@10": mean(scores.sessions[10, 0]),
    }
    return Report(
        "file_recall", "Recall of file_search", tables, judged("file_recall", figures), digits=4
    )


async def measure(arguments: argparse.Namespace) -> Report | None:
    """Store, ask, score."""
    if not arguments.data.exists():
        print(f"skipped: there is no LoCoMo file at {arguments.data}")
        return None
    settings = local_embedder(arguments.model_folder) if arguments.model_folder else {}
    if arguments.embeddings:
        settings = {
            "MEMSVC_EMBEDDINGS__PROVIDER": "openai",
            "MEMSVC_EMBEDDINGS__BASE_URL": arguments.embeddings,
            "MEMSVC_EMBEDDINGS__MODEL": arguments.model,
        }
    scores = Scores()
    async with (
        service(arguments, **settings) as running,
        running.client(wire=arguments.wire) as client,
    ):
        asked: list[tuple[str, Question, Ranges]] = []
        for number, conversation in enumerate(load(arguments.data)):
            ranges = await store(client, conversation, f"locomo{number}")
            asked += [
                (f"locomo{number}", one, ranges)
                for one in conversation.questions
                if one.category in SCORED
            ]
        await asyncio.sleep(arguments.rest)
        for project, question, ranges in asked:
            found = await call(
                client, "file_search", project=project, query=question.text, limit=20
            )
            scores.add(question, found["chunks"], ranges)
    return report(scores)


def options(parser: argparse.ArgumentParser) -> None:
    """Which data, and which embedder."""
    parser.add_argument("--data", type=Path, required=True, help="the LoCoMo file")
    parser.add_argument("--embeddings", help="base URL of an OpenAI-compatible endpoint")
    parser.add_argument("--model", default="embedder", help="model to ask there")
    parser.add_argument(
        "--model-folder", type=Path, help="folder of a local model, instead of an endpoint"
    )
    parser.add_argument(
        "--rest",
        type=float,
        default=0.0,
        help="seconds between storing and asking, for the vectors",
    )
    add_arguments(parser)


COMMAND = Command(__doc__, measure, options=options)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
