"""Recall quality on LoCoMo through the public tools: `python -m benchmarks.recall --data locomo.json`.

Each conversation is stored turn by turn with memory_after_turn and each question asked with memory_before_turn, by the
MCP SDK's own client. Scored are the messages that a question cites as its evidence.
"""

import argparse
import asyncio
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import orjson
from mcp import Client

from benchmarks import table
from benchmarks.locomo import CATEGORIES, Conversation, Question, item, load
from benchmarks.service import add_arguments, call, service
from memsvc.adapters.tokens import O200kCounter
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions

SCORED = (1, 2, 3, 4)
CUTS = (5, 10, 20)
BLOCK_TOKENS = 1000
IN_CONTEXT = "in the recent context"
OFF_TOPIC = Path(__file__).with_name("off_topic.txt")


@dataclass
class Scores:
    """What is measured of the questions, by category; 0 is all that are scored."""

    recall: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    rank: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    shown: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    sessions: list[float] = field(default_factory=list)
    block_tokens: list[int] = field(default_factory=list)
    miscounted: int = 0
    silent: list[bool] = field(default_factory=list)

    def add(self, question: Question, ranked: list[str], shown: set[str]) -> None:
        """Score one question by the messages recalled for it, best first, and those of them in the prompt."""
        wanted = question.evidence
        for category in (0, question.category):
            for cut in CUTS:
                self.recall[cut, category].append(len(wanted & set(ranked[:cut])) / len(wanted))
            self.rank[category].append(next((1 / place for place, one in enumerate(ranked, 1) if one in wanted), 0.0))
            self.shown[category].append(len(wanted & shown) / len(wanted))
        days = {one.split(":")[0] for one in wanted}
        self.sessions.append(len(days & {one.split(":")[0] for one in ranked[:10]}) / len(days))


async def store(client: Client, conversation: Conversation) -> dict[str, str]:
    """Store a conversation; the message behind each event id."""
    behind: dict[str, str] = {}
    for number, (asked, answered) in enumerate(conversation.turns()):
        turn = f"turn-{number}"
        await call(
            client,
            "memory_after_turn",
            session_id=conversation.name,
            turn_id=turn,
            input_items=[item(message, "user") for message in asked],
            output_items=[item(message, "assistant") for message in answered],
        )
        behind |= {f"{turn}-in-{at}": message.dia_id for at, message in enumerate(asked)}
        behind |= {f"{turn}-out-{at}": message.dia_id for at, message in enumerate(answered)}
    return behind


async def ask(client: Client, conversation: Conversation, behind: dict[str, str], scores: Scores) -> None:
    """Ask all questions of a conversation."""
    costs = Costs(O200kCounter(), TurnOptions().media_tok)
    for question in conversation.questions:
        if question.category not in SCORED:
            continue
        prepared = await before(client, conversation.name, question.text)
        counted = sum(map(costs.item, prepared["input_items"]))
        scores.miscounted += counted != prepared["context_token_count"]
        ranked = [behind[one["ref"]] for one in in_prompt(prepared)]
        scores.add(question, ranked, shown_within(prepared, behind, costs))
        scores.block_tokens.append(sum(map(costs.item, block_of(prepared))))


async def before(client: Client, session: str, text: str) -> dict[str, Any]:
    """The prompt for a question."""
    return await call(client, "memory_before_turn", session_id=session, current_input=text, explain=True)


def block_of(prepared: dict[str, Any]) -> list[dict[str, Any]]:
    """The two messages of the memory block, if there is one."""
    items: list[dict[str, Any]] = prepared["input_items"]
    has_block = len(items) > 1 and items[0].get("role") == "developer"
    return items[:2] if has_block else []


def in_prompt(prepared: dict[str, Any]) -> list[dict[str, Any]]:
    """The recalled items that the prompt shows, in the block or in the recent context, best first."""
    candidates = [one for one in prepared["explanation"]["candidates"] if one["kind"] == "turn"]
    return [one for one in candidates if one["shown"] or one["reason"] == IN_CONTEXT]


def shown_within(prepared: dict[str, Any], behind: dict[str, str], costs: Costs) -> set[str]:
    """The messages in the first 1,000 tokens of the memory block, and those in the recent context."""
    candidates = in_prompt(prepared)
    shown = {behind[one["ref"]] for one in candidates if not one["shown"]}
    if block := block_of(prepared):
        body = orjson.loads(block[1]["content"][0]["text"].split("\n", 1)[1].rsplit("\n", 1)[0])
        spent = costs.item(block[0])
        for candidate, piece in zip((one for one in candidates if one["shown"]), body["turns"], strict=True):
            spent += costs.text(orjson.dumps(piece).decode())
            if spent > BLOCK_TOKENS:
                break
            shown.add(behind[candidate["ref"]])
    return shown


async def off_topic(client: Client, conversation: Conversation, scores: Scores) -> None:
    """Ask what was never spoken of; nothing should be recalled."""
    for question in OFF_TOPIC.read_text(encoding="utf-8").splitlines():
        scores.silent.append(not block_of(await before(client, conversation.name, question)))


def report(scores: Scores, file: Path | None) -> None:
    """Print the figures, and write them where asked."""
    rows = []
    figures: dict[str, Any] = {"categories": {}}
    named = {0: "all scored"} | {one: CATEGORIES[one] for one in SCORED}
    for category, name in named.items():
        recall = {cut: mean(scores.recall[cut, category]) for cut in CUTS}
        one = {f"recall@{cut}": round(value, 4) for cut, value in recall.items()}
        one |= {"mrr": round(mean(scores.rank[category]), 4), "shown": round(mean(scores.shown[category]), 4)}
        figures["categories"][name] = one | {"questions": len(scores.rank[category])}
        rows.append([name, len(scores.rank[category]), *(f"{value:.4f}" for value in one.values())])
    columns = ["category", "questions", *(f"recall@{cut}" for cut in CUTS), "MRR", "shown in 1,000 tokens"]
    table.show("LoCoMo, evidence messages through before_turn", columns, rows)
    figures |= {
        "day recall@10": round(mean(scores.sessions), 4),
        "off-topic questions without a memory block": round(mean(scores.silent), 4) if scores.silent else None,
        "mean tokens of the memory block": round(mean(scores.block_tokens), 1),
        "prompts whose token count was not exact": scores.miscounted,
    }
    table.show("more", ["figure", "value"], [[name, value] for name, value in figures.items() if name != "categories"])
    table.write(file, figures)


async def run(arguments: argparse.Namespace) -> None:
    """Measure."""
    scores = Scores()
    async with service(arguments) as running, running.client(wire=arguments.wire) as client:
        for conversation in load(arguments.data):
            behind = await store(client, conversation)
            await ask(client, conversation, behind, scores)
            await off_topic(client, conversation, scores)
            print(
                f"{conversation.name}: {len(behind)} messages stored, {len(conversation.questions)} questions",
                file=sys.stderr,
            )
    report(scores, arguments.json)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the LoCoMo file")
    parser.add_argument("--wire", default="2026-07-28", help="MCP revision to speak: 2026-07-28 or legacy")
    add_arguments(parser)
    arguments = parser.parse_args()
    if not arguments.data.exists():
        print(f"skipped: there is no LoCoMo file at {arguments.data}")
        return
    asyncio.run(run(arguments))


if __name__ == "__main__":
    main()
