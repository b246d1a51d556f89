"""Recall quality on LoCoMo through the public tools: `python -m benchmarks.recall --data
locomo.json`.

Each conversation is stored turn by turn with memory_after_turn and each question asked with
memory_before_turn, by the MCP SDK's own client. Scored are the messages that a question cites as
its evidence: one that the prompt shows whole, or by a quote that `is_shown` takes for enough. With
`--model-folder` the service has an embedder that runs in it; with `--apart` each of the dated
sessions of a conversation is a session of its own, of one user who asks in a new one; `--long` says
that the file holds chats with an assistant, of long messages, which has goals of its own.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import Any

import orjson
from mcp import Client

from benchmarks.command import Command
from benchmarks.goals import GOALS
from benchmarks.judge import Judge, add_judge, judge
from benchmarks.locomo import CATEGORIES, Category, Conversation, Question, Said, item, load
from benchmarks.report import Report, judged
from benchmarks.scores import (
    IN_FULL,
    TIGHT_TOKENS,
    Result,
    Scores,
    Shown,
    by_category,
    by_fold,
    commit,
    data_hash,
    environment_settings,
    in_tokens,
    is_shown,
    write_rankings,
)
from benchmarks.service import add_arguments, another, call, local_embedder, service
from memsvc.adapters.tokens import O200kCounter
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions

SCORED = (1, 2, 3, 4)
TOKENS_MAX = "MEMSVC_SETTINGS__MCP__MEMORY__RECALL_TOK_MAX"
IN_CONTEXT = "in the recent context"
OFF_TOPIC = Path(__file__).with_name("off_topic.txt")


@dataclass(frozen=True, slots=True)
class DataSet:
    """Conversations and questions in files of a form: the benchmark's name, what the files are
    called, what reads them, and the kinds of questions."""

    name: str
    title: str
    load: Callable[[Path], list[Conversation]]
    categories: Mapping[Category, str]
    files: Callable[[Path], Sequence[Path]] = lambda path: [path]


LOCOMO = DataSet("recall", "LoCoMo file", load, {one: CATEGORIES[one] for one in SCORED})


@dataclass(frozen=True, slots=True)
class Asking:
    """Where a conversation of this name is asked about, and the message behind each recalled item:
    by its session, which is "" for the asking one itself, and its event id."""

    conversation: str
    session: str
    user: str
    behind: dict[tuple[str, str], Said]


async def store(client: Client, conversation: Conversation, *, apart: bool) -> Asking:
    """Store a conversation, in one session, or with `apart` in as many as it has."""
    behind: dict[tuple[str, str], Said] = {}
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
        behind |= {(place, f"{turn}-in-{at}"): message for at, message in enumerate(asked)}
        behind |= {(place, f"{turn}-out-{at}"): message for at, message in enumerate(answered)}
    session = f"{conversation.name}-asking" if apart else conversation.name
    return Asking(conversation.name, session, user, behind)


@cache
def _costs() -> Costs:
    """What texts cost; its vocabulary is loaded once."""
    return Costs(O200kCounter(), TurnOptions())


async def ask(
    client: Client, tight: Client, asking: Asking, question: Question, judge: Judge | None
) -> tuple[Result, bool]:
    """Ask a question of a conversation, also where the memory block is tight; what it recalled, and
    whether the prompt told its tokens rightly."""
    costs = _costs()
    prepared = await before(client, asking, current_input(question))
    counted = sum(map(costs.item, prepared["input_items"]))
    beside = await before(tight, asking, current_input(question))
    memory = orjson.dumps(prepared["input_items"][:-1]).decode()
    result = Result(
        asking.conversation,
        question,
        shown_of(asking, question, prepared),
        shown_of(asking, question, beside),
        block_tokens=sum(map(costs.item, block_of(prepared))),
        prompt_tokens=counted,
        judged=await judge.score(question, memory) if judge else None,
    )
    return result, counted == prepared["context_token_count"]


def current_input(question: Question) -> str | dict[str, Any]:
    """A question as a client sends it: with its time where the set has one."""
    if question.asked_at is None:
        return question.text
    return {
        "type": "message",
        "role": "user",
        "content": question.text,
        "metadata": {"occurred_at": question.asked_at.isoformat()},
    }


def shown_of(asking: Asking, question: Question, prepared: dict[str, Any]) -> Shown:
    """Judge what a prompt shows of a conversation; the recent context is whole."""
    told = told_of(body_of(prepared))
    ranked, enough = [], set()
    for one in in_prompt(prepared):
        message = asking.behind[one.get("session", ""), one["ref"]]
        turn = (one.get("session", asking.session), one["ref"].rsplit("-", 2)[0])
        ranked.append(message.dia_id)
        if not one["shown"] or any(
            is_shown(message.text, text, question.answer) for text in told[turn]
        ):
            enough.add(message.dia_id)
    return Shown(ranked, enough)


def told_of(body: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """What a block tells of the messages of each session and turn."""
    return {
        (session["session"], turn): [*_texts(said)]
        for session in body.get("turns", ())
        for turn, said in session["said"].items()
    }


def _texts(said: Mapping[str, Any]) -> Iterator[str]:
    for item_fields in said.get("items", [said]):
        for name in ("user", "assistant"):
            texts = item_fields.get(name, [])
            yield from (texts if isinstance(texts, list) else [texts])


async def before(client: Client, asking: Asking, text: str | dict[str, Any]) -> dict[str, Any]:
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


def report(data: DataSet, scores: Scores, arguments: argparse.Namespace) -> Report:
    """Tables and figures."""
    name = f"{data.name}, sessions apart" if arguments.apart else data.name
    if data is LOCOMO and arguments.long:
        name = "recall, long messages"
    elif arguments.model_folder and not arguments.apart:
        name = f"{data.name} with an embedder"
    elif data is LOCOMO and not arguments.apart and is_words_alone():
        name = "recall by words alone"
    shown = ("recall@10", "MRR", "sessions@10", IN_FULL, in_tokens(arguments.tokens), "judged")
    figures = {
        **dict.fromkeys(GOALS[name]),
        **{column: scores.mean(column) for column in shown if column in scores.columns()},
        "prompts whose token count is wrong": float(scores.miscounted),
        "mean tokens of the memory block": mean(one.block_tokens for one in scores.results),
    }
    if data is LOCOMO:
        figures["recall@10, multi-hop"] = scores.mean("recall@10", 1)
        figures["off-topic questions that recall nothing"] = mean(scores.silent)
    tables = [by_category(scores, data.categories), by_fold(scores)]
    return Report(
        name, f"{name.capitalize()}, beside its goals", tables, judged(name, figures), digits=4
    )


def is_words_alone() -> bool:
    """Return whether the environment turns search by meaning off."""
    return os.environ.get("MEMSVC_EMBEDDINGS__PROVIDER") == ""


async def measured(data: DataSet, arguments: argparse.Namespace) -> Report | None:
    """Store, ask, score; None where there is nothing to ask."""
    settings = local_embedder(arguments.model_folder) if arguments.model_folder else {}
    tight_settings = settings | {TOKENS_MAX: str(arguments.tokens)}
    conversations = data.load(arguments.data)[: arguments.first] if arguments.data.exists() else []
    if not conversations:
        print(f"skipped: there is no {data.title} at {arguments.data}")
        return None
    scores = Scores(tight_tokens=arguments.tokens)
    run = {
        "benchmark": data.name,
        "commit": commit(),
        "data_sha256": data_hash(data.files(arguments.data)),
        "settings": settings | environment_settings(),
        "tight_tokens": arguments.tokens,
        "apart": arguments.apart,
        "wire": arguments.wire,
        "judge": arguments.judge,
    }
    async with (
        judge(arguments) as judging,
        service(arguments, **settings) as running,
        running.client(wire=arguments.wire) as client,
        another(running, **tight_settings) as beside,
        beside.client(wire=arguments.wire) as tight,
    ):
        for conversation in conversations:
            asking = await store(client, conversation, apart=arguments.apart)
            await asyncio.sleep(arguments.rest)
            for question in conversation.questions:
                has_evidence = question.evidence or question.sessions
                if question.category in data.categories and (has_evidence or judging):
                    result, is_counted = await ask(client, tight, asking, question, judging)
                    scores.results.append(result)
                    scores.miscounted += not is_counted
            if data is LOCOMO:
                await off_topic(client, asking, scores)
            counts = (
                f"{len(asking.behind)} messages stored, {len(conversation.questions)} questions"
            )
            print(f"{conversation.name}: {counts}", file=sys.stderr)
    if arguments.rankings:
        write_rankings(arguments.rankings, scores, run)
    return report(data, scores, arguments)


def options(parser: argparse.ArgumentParser, data: DataSet) -> None:
    """Which data, which embedder, which sessions, what is written and who judges."""
    if data is LOCOMO:
        parser.add_argument("--data", type=Path, required=True, help="the LoCoMo file")
        parser.add_argument(
            "--long", action="store_true", help="the file holds chats of long messages, as BEAM's"
        )
    else:
        parser.add_argument("data", type=Path, help=f"{data.title}, as published")
    parser.add_argument("--first", type=int, help="only so many conversations")
    parser.add_argument(
        "--tokens", type=int, default=TIGHT_TOKENS, help="tokens of the tight memory block"
    )
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
    parser.add_argument(
        "--rankings", type=Path, help="file of JSON lines for what each question recalled"
    )
    add_judge(parser)
    add_arguments(parser)


def command(about: str | None, data: DataSet) -> Command:
    """The command that measures a data set."""
    return Command(about, partial(measured, data), options=partial(options, data=data))


COMMAND = command(__doc__, LOCOMO)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
