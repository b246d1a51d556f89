"""The next part of a session for a model: messages of one user, earlier ones, and current facts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import orjson

from memsvc.core import facts as fact_rules
from memsvc.core.facts import Fact
from memsvc.core.items import user_message
from memsvc.core.ports import TokenCounter
from memsvc.store import conversation, facts
from memsvc.store.conversation import TranscriptItem
from memsvc.store.database import Tx
from memsvc.styles.turns import block, turn_index
from memsvc.styles.turns.models.model_input import InputMessage, ModelInput, most_related

MESSAGES_MAX: Final = 40
MESSAGES_TOK: Final = 6000
TEXT_CHARS_MAX: Final = 8000
"""Characters of one message in the model's input."""
CONTEXT_MESSAGES: Final = 6
CONTEXT_CHARS_MAX: Final = 1000
FACT_LIMIT: Final = 60
ELLIPSIS: Final = " [...]"


@dataclass(frozen=True, slots=True)
class Window:
    """The entries `start` to `stop` - 1 of a session, with the model's input for them."""

    start: int
    stop: int
    model_input: ModelInput

    def first_part(self) -> "Window":
        """Return a window of about the first half of its messages."""
        messages = self.model_input.messages[: len(self.model_input.messages) // 2]
        return replace(
            self,
            stop=messages[-1].entry + 1,
            model_input=replace(self.model_input, messages=messages),
        )


async def next_window(tx: Tx, session: str, tokens: TokenCounter, now: datetime) -> Window | None:
    """Return the next window; None when all was read.

    It may hold no message: memory blocks and removed messages are skipped."""
    start = await conversation.read_position(tx, session)
    if start is None:
        return None
    index_id = turn_index.turns(session).number
    entries = await conversation.read_messages(
        tx, index_id, start, before=CONTEXT_MESSAGES, limit=MESSAGES_MAX, chars_max=TEXT_CHARS_MAX
    )
    new_entries = [one for one in entries if one.entry >= start]
    if not new_entries:
        return None
    user, messages, stop = _select_messages(new_entries, tokens)
    before = [_load_message(one, CONTEXT_CHARS_MAX) for one in entries if one.entry < start]
    index_ids = [index.number for index in turn_index.facts(session, user)]
    current_facts = list(
        fact_rules.latest_by_identity(await facts.current_facts(tx, index_ids, now)).values()
    )
    context = [loaded[1] for loaded in before if loaded is not None and loaded[0] == user]
    model_input = ModelInput(session, user, messages, context, _related(current_facts, messages))
    return Window(start, stop, model_input)


def _related(current_facts: Sequence[Fact], messages: Sequence[InputMessage]) -> list[Fact]:
    return most_related(current_facts, messages, limit=FACT_LIMIT)


def _select_messages(
    entries: Sequence[TranscriptItem], tokens: TokenCounter
) -> tuple[str, list[InputMessage], int]:
    """Return the first messages of one user within the token limit, the user and the stop entry.

    There is at least one message; the stop entry follows the last one."""
    messages: list[InputMessage] = []
    owner = ""
    stop = entries[0].entry
    left = MESSAGES_TOK
    for entry in entries:
        loaded = _load_message(entry, TEXT_CHARS_MAX)
        if loaded is not None:
            user, message = loaded
            cost = entry.tokens if len(entry.text) <= TEXT_CHARS_MAX else tokens.count(message.text)
            if messages and (user != owner or cost > left):
                break
            owner = user
            left -= cost
            messages.append(message)
        stop = entry.entry + 1
    return owner, messages, stop


def _load_message(entry: TranscriptItem, chars_max: int) -> tuple[str, InputMessage] | None:
    """Return a message and its user; None for a memory block, or a removed event."""
    if entry.line is None or block.is_data(user_message(entry.text)):
        return None
    event = orjson.loads(entry.line)
    text = entry.text if len(entry.text) <= chars_max else entry.text[:chars_max] + ELLIPSIS
    stored_at = datetime.fromisoformat(event["ts"])
    return event.get("user_id") or "", InputMessage(
        entry.entry, entry.ref, entry.role, entry.speaker, text, entry.said_at, stored_at
    )
