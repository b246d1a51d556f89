"""Model input from a session: escaped data without secrets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from memsvc.core.analysis import terms
from memsvc.core.facts import Fact
from memsvc.core.secrets import replace_secrets
from memsvc.core.untrusted import escaped
from memsvc.styles.turns.file_layout import timestamp


@dataclass(frozen=True, slots=True)
class InputMessage:
    """A message in a model's input.

    `stored_at` is when its turn was stored, `message_at` its own time."""

    entry: int
    event: str
    role: str
    speaker: str
    text: str
    message_at: datetime
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class ModelInput:
    """Input of a model: new messages of one user of a session, earlier ones, and current facts.

    The model sees only the ids made here: `m1`, `m2` ... and `f1`, `f2` ... in this order."""

    session: str
    user: str
    messages: Sequence[InputMessage]
    previous: Sequence[InputMessage]
    facts: Sequence[Fact]

    def text(self, now: datetime) -> str:
        """Return all of it as one JSON object that no text can close, with secrets masked."""
        body = {
            "today": f"{now:%Y-%m-%d, %A}",
            "facts": [_fact(f"f{at}", fact) for at, fact in enumerate(self.facts, 1)],
            "earlier": [_message(message) for message in self.previous],
            "messages": [
                {"id": f"m{at}"} | _message(one) for at, one in enumerate(self.messages, 1)
            ],
        }
        return escaped(orjson.dumps(body).decode())


def most_related(
    facts: Sequence[Fact], messages: Iterable[InputMessage], *, limit: int
) -> list[Fact]:
    """Return the facts that share the most words with the messages, newest first among equals."""
    if len(facts) <= limit:
        return list(facts)
    message_terms = {term for message in messages for term in terms(message.text)}
    by_words = sorted(
        facts,
        key=lambda fact: (
            len(
                message_terms
                & set(terms(f"{fact.statement.key.replace('_', ' ')} {fact.statement.value}"))
            ),
            fact.valid_from,
        ),
        reverse=True,
    )
    return by_words[:limit]


def _fact(name: str, fact: Fact) -> dict[str, Any]:
    statement = fact.statement
    return {
        "id": name,
        "key": statement.key,
        "value": replace_secrets(statement.value),
        "statement": replace_secrets(statement.statement),
        "tier": statement.tier.value,
        "since": f"{fact.valid_from:%Y-%m-%d}",
    }


def _message(message: InputMessage) -> dict[str, Any]:
    body = {
        "role": message.role,
        "at": timestamp(message.message_at),
        "text": replace_secrets(message.text),
    }
    return body | ({"speaker": message.speaker} if message.speaker else {})
