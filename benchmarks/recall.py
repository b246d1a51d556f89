"""Recall quality on LoCoMo through the public tools: `python -m benchmarks.recall --data
locomo.json`.

Each conversation is stored turn by turn with memory_after_turn and each question asked with
memory_before_turn, by the MCP SDK's own client. Scored are the messages that a question cites as
its evidence. With `--model-folder` the service has an embedder that runs in it; with `--apart` each
of the dated sessions of a conversation is a session of its own, of one user who asks in a new one.
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import Any

import orjson
from mcp import Client

from benchmarks.command import Command
from benchmarks.locomo import CATEGORIES, Conversation, Question, item, load
from benchmarks.report import Report, Table, judged
from benchmarks.service import add_arguments, another, call, local_embedder, service
from memsvc.adapters.tokens import O200kCounter
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions

SCORED = (1, 2, 3, 4)
CUTS = (5, 10, 20)
BLOCK_TOKENS = 1000
TOKENS_MAX = "MEMSVC_SETTINGS__MCP__MEMORY__RECALL_TOK_MAX"
SESSIONS = 10
IN_CONTEXT = "in the recent context"
OFF_TOPIC = Path(__file__).with_name("off_topic.txt")


@dataclass
class Scores:
    """What is measured of the questions, by category; 0 is all that are scored."""

    recall: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    rank: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    shown: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    sessions: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    block_tokens: list[int] = field(default_factory=list)
    miscounted: int = 0
    silent: list[bool] = field(default_factory=list)

    def add(self, question: Question, ranked: list[str], shown: set[str]) -> None:
        """Score one question by the messages recalled for it, best first, and those of them in the
        prompt."""
        wanted = question.evidence
        for category in (0, question.category):
            for cut in CUTS:
                self.recall[cut, category].append(len(wanted & set(ranked[:cut])) / len(wanted))
            self.rank[category].append(
                next((1 / place for place, one in enumerate(ranked, 1) if one in wanted), 0.0)
            )
            self.shown[category].append(len(wanted & shown) / len(wanted))
            self.sessions[category].append(session_recall(wanted, ranked))


def session_recall(wanted: frozenset[str], ranked: list[str]) -> float:
    """The share of the evidence's dated sessions that is among the first ten which the recalled
    messages are of."""
    sessions = {one.split(":")[0] for one in wanted}
    first = list(dict.fromkeys(one.split(":")[0] for one in ranked))[:SESSIONS]
    return len(sessions & set(first)) / len(sessions)


@dataclass(frozen=True, slots=True)
class Asking:
    """Where a conversation is asked about, and the message behind each recalled item: by its
    session, which is "" for the asking one itself, and its event id."""

    session: str
    user: str
    behind: dict[tuple[str, str], str]


async def store(client: Client, conversation: Conversation, *, apart: bool) -> Asking:
    """Store a conversation, in one session, or with `apart` in as many as it has."""
    behind: dict[tuple[str, str], str] = {}
    user = conversation.name if apart else ""
    for number, (asked, answered) in enumerate(conversation.turns()):
        turn = f"turn-{number}"
        session = (
            f"{conversation.name}-{(asked or answered)[0].dia_id.split(':')[0]}"
            if apart
            else conversation.name
        )
        await call(
            client,
            "memory_after_turn",
            session_id=session,
            turn_id=turn,
            user_id=user,
            input_items=[item(message, "user") for message in asked],
            output_items=[item(message, "assistant") for message in answered],
        )
        place = session if apart else ""
        behind |= {(place, f"{turn}-in-{at}"): message.dia_id for at, message in enumerate(asked)}
        behind |= {
            (place, f"{turn}-out-{at}"): message.dia_id for at, message in enumerate(answered)
        }
    return Asking(f"{conversation.name}-asking" if apart else conversation.name, user, behind)


async def ask(
    client: Client, tight: Client, conversation: Conversation, asking: Asking, scores: Scores
) -> None:
    """Ask all questions of a conversation, also where the memory block has 1,000 tokens."""
    costs = Costs(O200kCounter(), TurnOptions())
    for question in conversation.questions:
        if question.category not in SCORED:
            continue
        prepared = await before(client, asking, question.text)
        counted = sum(map(costs.item, prepared["input_items"]))
        scores.miscounted += counted != prepared["context_token_count"]
        ranked = [_message(asking, one) for one in in_prompt(prepared)]
        shown = in_prompt(await before(tight, asking, question.text))
        scores.add(question, ranked, {_message(asking, one) for one in shown})
        scores.block_tokens.append(sum(map(costs.item, block_of(prepared))))


def _message(asking: Asking, candidate: dict[str, Any]) -> str:
    return asking.behind[candidate.get("session", ""), candidate["ref"]]


async def before(client: Client, asking: Asking, text: str) -> dict[str, Any]:
    """The prompt for a question."""
    return await call(
        client,
        "memory_before_turn",
        session_id=asking.session,
        user_id=asking.user,
        current_input=text,
        explain=True,
    )


def block_of(prepared: dict[str, Any]) -> list[dict[str, Any]]:
    """The two messages of the memory block, if there is one."""
    items: list[dict[str, Any]] = prepared["input_items"]
    has_block = len(items) > 1 and items[0].get("role") == "developer"
    return items[:2] if has_block else []


def body_of(prepared: dict[str, Any]) -> dict[str, Any]:
    """What the memory block holds; nothing where there is none."""
    block = block_of(prepared)
    body: dict[str, Any] = (
        orjson.loads(block[1]["content"][0]["text"].split("\n", 1)[1].rsplit("\n", 1)[0])
        if block
        else {}
    )
    return body


def in_prompt(prepared: dict[str, Any]) -> list[dict[str, Any]]:
    """The recalled items that the prompt shows, best first: those of the block by position, and
    between them, by their scores, those in the recent context."""
    candidates = [one for one in prepared["explanation"]["candidates"] if one["kind"] == "turn"]
    in_block = iter(sorted((one for one in candidates if one["shown"]), key=itemgetter("position")))
    return [
        next(in_block) if one["shown"] else one
        for one in candidates
        if one["shown"] or one["reason"] == IN_CONTEXT
    ]


async def off_topic(client: Client, asking: Asking, scores: Scores) -> None:
    """Ask what was never spoken of; nothing should be recalled. The summary of older context is no
    recall."""
    for question in OFF_TOPIC.read_text(encoding="utf-8").splitlines():
        body = body_of(await before(client, asking, question))
        scores.silent.append(
            not any(body.get(kind) for kind in ("facts", "insights", "turns", "chunks"))
        )


def report(scores: Scores, arguments: argparse.Namespace) -> Report:
    """Tables and figures."""
    rows: list[list[object]] = []
    named = {0: "all scored"} | {one: CATEGORIES[one] for one in SCORED}
    for category, name in named.items():
        recall = [mean(scores.recall[cut, category]) for cut in CUTS]
        more = (scores.rank, scores.sessions, scores.shown)
        rows.append(
            [name, len(scores.rank[category]), *recall, *(mean(each[category]) for each in more)]
        )
    columns = [
        "category",
        "questions",
        *(f"recall@{cut}" for cut in CUTS),
        "MRR",
        "sessions@10",
        "in 1,000 tokens",
    ]
    figures = {
        "recall@10": mean(scores.recall[10, 0]),
        "MRR": mean(scores.rank[0]),
        "recall@10, multi-hop": mean(scores.recall[10, 1]),
        "sessions@10": mean(scores.sessions[0]),
        "evidence within 1,000 tokens": mean(scores.shown[0]),
        "off-topic questions that recall nothing": mean(scores.silent),
        "prompts whose token count is wrong": float(scores.miscounted),
        "mean tokens of the memory block": mean(scores.block_tokens),
    }
    name = "recall, sessions apart" if arguments.apart else "recall"
    if arguments.model_folder and not arguments.apart:
        name = "recall with an embedder"
    tables = [Table("LoCoMo: evidence messages through before_turn", columns, rows, digits=4)]
    return Report(
        name, f"{name.capitalize()}, beside its goals", tables, judged(name, figures), digits=4
    )


async def measure(arguments: argparse.Namespace) -> Report | None:
    """Store, ask, score."""
    if not arguments.data.exists():
        print(f"skipped: there is no LoCoMo file at {arguments.data}")
        return None
    settings = local_embedder(arguments.model_folder) if arguments.model_folder else {}
    scores = Scores()
    async with (
        service(arguments, **settings) as running,
        running.client(wire=arguments.wire) as client,
        another(running, **settings, **{TOKENS_MAX: str(BLOCK_TOKENS)}) as beside,
        beside.client(wire=arguments.wire) as tight,
    ):
        for conversation in load(arguments.data):
            asking = await store(client, conversation, apart=arguments.apart)
            await asyncio.sleep(arguments.rest)
            await ask(client, tight, conversation, asking, scores)
            await off_topic(client, asking, scores)
            counts = (
                f"{len(asking.behind)} messages stored, {len(conversation.questions)} questions"
            )
            print(f"{conversation.name}: {counts}", file=sys.stderr)
    return report(scores, arguments)


def options(parser: argparse.ArgumentParser) -> None:
    """Which data, which embedder, which sessions."""
    parser.add_argument("--data", type=Path, required=True, help="the LoCoMo file")
    parser.add_argument(
        "--model-folder",
        type=Path,
        help="folder of a local embedding model; without it, none is used",
    )
    parser.add_argument(
        "--rest",
        type=float,
        default=0.0,
        help="seconds between storing and asking, for what follows",
    )
    parser.add_argument(
        "--apart", action="store_true", help="store each dated session as a session of its own"
    )
    add_arguments(parser)


COMMAND = Command(__doc__, measure, options=options)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
