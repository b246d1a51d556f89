"""Recall quality on BEAM: `python -m benchmarks.beam PATH`, with a folder of its chats, such as
chats/100K of its repository, which is not shipped.

A chat is a folder with chat.json and probing_questions/probing_questions.json. Evidence are the
messages that a question names as its sources, and their sessions; of abstention questions there are
none, so they are judged, with `--judge`, and not scored.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.locomo import Category, Conversation, Question, Said
from benchmarks.recall import DataSet, command

CATEGORIES: dict[Category, str] = {
    name: name.replace("_", " ")
    for name in (
        "contradiction_resolution",
        "event_ordering",
        "information_extraction",
        "instruction_following",
        "knowledge_update",
        "multi_session_reasoning",
        "preference_following",
        "summarization",
        "temporal_reasoning",
        "abstention",
    )
}
ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary")
SPEAKERS = ("user", "assistant")
CHAT = "chat.json"
QUESTIONS = "probing_questions/probing_questions.json"
PLAN_MARK = re.compile(r"\s*->->[^\n]*\s*\Z")
"""The point of the writer's plan that a message ends with."""
UNDATED = datetime(2024, 1, 1, tzinfo=UTC)
"""When messages were said that come before any date."""


def chats(path: Path) -> list[Path]:
    """The chats that have questions, in the folder and those in it, by number."""
    folders = {file.parent for file in path.rglob(CHAT)} if path.is_dir() else set()
    asked = (folder for folder in folders if (folder / QUESTIONS).is_file())
    return sorted(asked, key=lambda one: (str(one.parent), one.name.zfill(6)))


def files(path: Path) -> Sequence[Path]:
    """The files that are read."""
    return [folder / name for folder in chats(path) for name in (CHAT, QUESTIONS)]


def load(path: Path) -> list[Conversation]:
    """Every chat with its questions."""
    return [_conversation(folder) for folder in chats(path)]


def _conversation(folder: Path) -> Conversation:
    messages: list[Said] = []
    names: dict[int, str] = {}
    said_at = UNDATED
    for number, batch in enumerate(_batches(json.loads((folder / CHAT).read_text("utf-8"))), 1):
        for message in (one for turn in batch["turns"] for one in turn):
            said_at = _day(message.get("time_anchor") or batch.get("time_anchor")) or said_at
            names[message["id"]] = f"D{number}:{message['id']}"
            if text := PLAN_MARK.sub("", message["content"]).strip():
                messages.append(Said(names[message["id"]], message["role"], text, said_at))
    name = f"{folder.parent.name}-{folder.name}"
    questions = [
        _question(f"{name}/{kind}/{at}", kind, asked, names)
        for kind, found in json.loads((folder / QUESTIONS).read_text("utf-8")).items()
        for at, asked in enumerate(found)
    ]
    return Conversation(name, SPEAKERS, messages, questions)


def _batches(chat: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The sessions of a chat; those of 10M tokens have them in named plans."""
    for one in chat:
        if "turns" in one:
            yield one
        else:
            for plan in one.values():
                yield from plan or ()


def _question(name: str, kind: str, asked: dict[str, Any], names: dict[int, str]) -> Question:
    sources = _numbers(asked.get("source_chat_ids"))
    return Question(
        asked["question"],
        frozenset(names[one] for one in sources if one in names),
        kind,
        str(next((asked[one] for one in ANSWERS if one in asked), "")),
        name,
        rubric=tuple(asked.get("rubric") or ()),
    )


def _numbers(sources: Any) -> Iterator[int]:
    """The ids of messages, which stand alone, in a list, or in lists by name."""
    match sources:
        case int():
            yield sources
        case list():
            for one in sources:
                yield from _numbers(one)
        case dict():
            yield from _numbers(list(sources.values()))
        case _:
            return


def _day(text: str | None) -> datetime | None:
    """A day such as March-15-2024; None where there is none."""
    return datetime.strptime(text, "%B-%d-%Y").replace(tzinfo=UTC) if text else None


COMMAND = command(__doc__, DataSet("beam", "BEAM folder", load, CATEGORIES, files))

if __name__ == "__main__":
    sys.exit(COMMAND.run())
