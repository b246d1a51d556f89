"""Recall quality on LongMemEval: `python -m benchmarks.longmemeval FILE`, with
longmemeval_s.json, longmemeval_m.json or longmemeval_oracle.json (also `_cleaned`), which are not
shipped.

Each of its questions has a history of its own, which is stored before it is asked, at the time
that it names. Evidence are the turns that have the answer, and the sessions that it names. Of
abstention questions nothing is to be recalled, so they are judged, with `--judge`, and not scored.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.judge import ABSTAIN
from benchmarks.locomo import Category, Conversation, Question, Said
from benchmarks.recall import DataSet, command

ABSTENTION = "abstention"
CATEGORIES: dict[Category, str] = {
    name: name
    for name in (
        "single-session-user",
        "single-session-assistant",
        "single-session-preference",
        "multi-session",
        "temporal-reasoning",
        "knowledge-update",
        ABSTENTION,
    )
}
SPEAKERS = ("user", "assistant")


def load(path: Path) -> list[Conversation]:
    """Every instance of a LongMemEval file as a conversation with one question."""
    return [_conversation(instance) for instance in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(instance: dict[str, Any]) -> Conversation:
    ids: Sequence[str] = instance["haystack_session_ids"]
    sessions = zip(
        ids,
        map(_time, instance["haystack_dates"]),
        instance["haystack_sessions"],
        strict=True,
    )
    numbered = enumerate(sorted(sessions, key=lambda one: one[1]), 1)  # oracle files are unsorted
    messages, evidence, evidence_sessions = [], set(), set()
    for number, (session, said_at, turns) in numbered:
        if session in instance["answer_session_ids"]:
            evidence_sessions.add(f"D{number}")
        for at, turn in enumerate(turns, 1):
            name = f"D{number}:{at}"
            if turn.get("has_answer"):
                evidence.add(name)
            if turn["content"].strip():
                messages.append(Said(name, turn["role"], turn["content"], said_at))
    abstains = instance["question_id"].endswith("_abs")
    answer = str(instance["answer"])
    question = Question(
        instance["question"],
        frozenset() if abstains else frozenset(evidence),
        ABSTENTION if abstains else instance["question_type"],
        f"{ABSTAIN}: {answer}" if abstains else answer,
        name=instance["question_id"],
        sessions=frozenset() if abstains else frozenset(evidence_sessions),
        asked_at=_time(instance["question_date"]),
    )
    return Conversation(instance["question_id"], SPEAKERS, messages, [question])


def _time(text: str) -> datetime:
    """A time such as 2023/05/20 (Sat) 02:21."""
    return datetime.strptime(text, "%Y/%m/%d (%a) %H:%M").replace(tzinfo=UTC)


COMMAND = command(__doc__, DataSet("longmemeval", "LongMemEval file", load, CATEGORIES))

if __name__ == "__main__":
    sys.exit(COMMAND.run())
