"""The LoCoMo conversations as turns to store and questions to ask."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Category = int | str
CATEGORIES: dict[Category, str] = dict(
    enumerate(("multi-hop", "temporal", "open-domain", "single-hop", "adversarial"), 1)
)


@dataclass(frozen=True, slots=True)
class Said:
    """One message: who said what, when, and the id that questions cite it by."""

    dia_id: str
    speaker: str
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the messages that answer it, and what else its set says: `answer` is "" where
    it names none, `sessions` are those of the evidence where it names them itself, `rubric` what an
    answer must have."""

    text: str
    evidence: frozenset[str]
    category: Category
    answer: str
    name: str = ""
    sessions: frozenset[str] = frozenset()
    rubric: tuple[str, ...] = ()
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation, its messages in order."""

    name: str
    speakers: tuple[str, str]
    messages: list[Said]
    questions: list[Question]

    def turns(self) -> Iterator[tuple[list[Said], list[Said]]]:
        """The messages as turns of an agent: what the first speaker says, and what the second one
        answers."""
        asked: list[Said] = []
        answered: list[Said] = []
        for message in self.messages:
            if message.speaker == self.speakers[0] and answered:
                yield asked, answered
                asked, answered = [], []
            (asked if message.speaker == self.speakers[0] else answered).append(message)
        yield asked, answered


def load(path: Path) -> list[Conversation]:
    """Every conversation of a LoCoMo file, with the questions whose evidence is in it."""
    return [_conversation(sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def item(message: Said, role: str) -> dict[str, Any]:
    """The message as a response item."""
    return {
        "type": "message",
        "role": role,
        "content": message.text,
        "metadata": {
            "item_id": message.dia_id,
            "speaker": message.speaker,
            "occurred_at": message.said_at.isoformat(),
        },
    }


def _conversation(sample: dict[str, Any]) -> Conversation:
    whole = sample["conversation"]
    messages = []
    for number in sorted(
        int(key.split("_")[1])
        for key in whole
        if key.startswith("session_") and key.count("_") == 1
    ):
        said_at = datetime.strptime(
            whole[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y"
        ).replace(tzinfo=UTC)
        messages += [
            Said(one["dia_id"], one["speaker"], one["text"], said_at)
            for one in whole[f"session_{number}"]
        ]
    known = {message.dia_id for message in messages}
    questions = [
        Question(
            asked["question"],
            frozenset(asked["evidence"]) & known,
            asked["category"],
            str(asked.get("answer", "")),
            f"{sample['sample_id']}/{number}",
        )
        for number, asked in enumerate(sample["qa"])
        if frozenset(asked["evidence"]) & known
    ]
    return Conversation(
        sample["sample_id"], (whole["speaker_a"], whole["speaker_b"]), messages, questions
    )
