"""Model input from a session: escaped data without secrets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from memsvc.core.analysis import terms
from memsvc.core.facts import Fact
from memsvc.core.secrets import masked
from memsvc.core.untrusted import escaped
from memsvc.styles.turns.layout import timestamp


@dataclass(frozen=True, slots=True)
class Message:
    """A message in a model's input.

    `stored_at` is when its turn was stored, `said_at` its own time."""

    entry: int
    event: str
    role: str
    speaker: str
    text: str
    said_at: datetime
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class Shown:
    """Input of a model: new messages of one user of a session, earlier ones, and current facts.

    The model sees only the ids made here: `m1`, `m2` ... and `f1`, `f2` ... in this order."""

    session: str
    user: str
    messages: Sequence[Message]
    earlier: Sequence[Message]
    facts: Sequence[Fact]

    def text(self, now: datetime) -> str:
        """Return all of it as one JSON object that no text can close, with secrets masked."""
        body = {
            "today": f"{now:%Y-%m-%d, %A}",
            "facts": [_fact(f"f{at}", fact) for at, fact in enumerate(self.facts, 1)],
            "earlier": [_message(message) for message in self.earlier],
            "messages": [{"id": f"m{at}"} | _message(one) for at, one in enumerate(self.messages, 1)],
        }
        return escaped(orjson.dumps(body).decode())


def most_related(facts: Sequence[Fact], messages: Iterable[Message], *, most: int) -> list[Fact]:
    """Return the facts that share the most words with the messages, newest first among equals."""
    if len(facts) <= most:
        return list(facts)
    said = {term for message in messages for term in terms(message.text)}
    by_words = sorted(
        facts,
        key=lambda fact: (
            len(said & set(terms(f"{fact.statement.key.replace('_', ' ')} {fact.statement.value}"))),
            fact.valid_from,
        ),
        reverse=True,
    )
    return by_words[:most]


def _fact(name: str, fact: Fact) -> dict[str, Any]:
    statement = fact.statement
    return {
        "id": name,
        "key": statement.key,
        "value": masked(statement.value),
        "tier": statement.tier.value,
        "since": f"{fact.valid_from:%Y-%m-%d}",
    }


def _message(message: Message) -> dict[str, Any]:
    body = {"role": message.role, "at": timestamp(message.said_at), "text": masked(message.text)}
    return body | ({"speaker": message.speaker} if message.speaker else {})
