"""What `memory_feedback` changes: `python -m benchmarks.feedback --data LOCOMO_FILE`.

Each conversation is stored and asked as in `benchmarks.recall`. Then every second question is rated
as an agent would: the first recalled turn of its evidence helped; with `--wrong` also, far too
hastily, what stood first without being evidence was wrong. All are asked again. The rated questions
tell what a rating gives the one who asks again, the others what it costs those who ask something
else.
"""

import argparse
import sys
from pathlib import Path

from mcp import Client

from benchmarks.command import Command
from benchmarks.locomo import Question, load
from benchmarks.recall import (
    SCORED,
    Asking,
    before,
    current_input,
    in_prompt,
    shown_of,
    store,
)
from benchmarks.report import Report, Table, judged
from benchmarks.scores import Result, Scores
from benchmarks.service import add_arguments, call, service

FIGURES = ("recall@5", "recall@10", "MRR")


async def rate(client: Client, asking: Asking, question: Question, *, wrong: bool) -> None:
    """Rate what a question recalled: what helped, and with `wrong` what stood before it."""
    ranked = [
        (one["ref"].rsplit("-", 2)[0], asking.behind["", one["ref"]].dia_id)
        for one in in_prompt(await before(client, asking, current_input(question)))
    ]
    helpful = {turn: "helped" for turn, message in ranked if message in question.evidence}
    verdicts = dict(list(helpful.items())[:1])
    if wrong:
        first = {turn: "wrong" for turn, message in ranked[:1] if message not in question.evidence}
        verdicts = first | verdicts
    for turn, verdict in verdicts.items():
        await call(
            client,
            "memory_feedback",
            session_id=asking.session,
            turn_id=turn,
            verdict=verdict,
        )


async def measure(arguments: argparse.Namespace) -> Report | None:
    """Ask, rate, and ask again."""
    if not arguments.data.exists():
        print(f"skipped: there is no LoCoMo file at {arguments.data}")
        return None
    results: dict[tuple[str, str], list[Result]] = {}
    async with service(arguments) as running, running.client(wire=arguments.wire) as client:
        for conversation in load(arguments.data)[: arguments.first]:
            asking = await store(client, conversation, apart=False)
            questions = [
                one for one in conversation.questions if one.category in SCORED and one.evidence
            ]
            parts = {"rated": questions[::2], "not rated": questions[1::2]}
            for when in ("before", "after"):
                for part, asked in parts.items():
                    for question in asked:
                        prepared = await before(client, asking, current_input(question))
                        shown = shown_of(asking, question, prepared)
                        results.setdefault((part, when), []).append(
                            Result(asking.conversation, question, shown, shown)
                        )
                if when == "before":
                    for question in parts["rated"]:
                        await rate(client, asking, question, wrong=arguments.wrong)
            print(f"{conversation.name}: {len(questions)} questions", file=sys.stderr)
    scores = {key: Scores(found) for key, found in results.items()}
    rows = [
        [part, when, len(found.results), *(found.mean(name) for name in FIGURES)]
        for (part, when), found in scores.items()
    ]
    values = {
        f"{name} of {part} questions, gained": (scores[part, "after"].mean(name) or 0.0)
        - (scores[part, "before"].mean(name) or 0.0)
        for part in ("rated", "not rated")
        for name in FIGURES
    }
    columns = ("questions", "when", "count", *FIGURES)
    return Report(
        "feedback",
        "Recall before and after half of the questions were rated",
        [Table("Evidence messages through before_turn", columns, rows)],
        judged("feedback", values),
        digits=4,
    )


def options(parser: argparse.ArgumentParser) -> None:
    """Which conversations, and which service."""
    parser.add_argument("--data", type=Path, required=True, help="the LoCoMo file")
    parser.add_argument("--first", type=int, help="only so many conversations")
    parser.add_argument("--wrong", action="store_true", help="rate what stood first as wrong, too")
    add_arguments(parser)


COMMAND = Command(__doc__, measure, options=options)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
