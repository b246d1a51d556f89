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
from memsvc.store import facts, reading
from memsvc.store.database import Tx
from memsvc.store.reading import Spoken
from memsvc.styles.turns import block, books
from memsvc.styles.turns.models.shown import Message, Shown, most_related

MESSAGES_MAX: Final = 40
MESSAGES_TOK: Final = 6000
TEXT_CHARS_MAX: Final = 8000
"""Characters of one message in the model's input."""
EARLIER_MESSAGES: Final = 6
EARLIER_CHARS_MAX: Final = 1000
FACTS_SHOWN: Final = 60
CUT: Final = " [...]"


@dataclass(frozen=True, slots=True)
class Window:
    """The entries `start` to `stop` - 1 of a session, with the model's input for them."""

    start: int
    stop: int
    shown: Shown

    def first_half(self) -> "Window":
        """Return a window of about the first half of its messages."""
        messages = self.shown.messages[: len(self.shown.messages) // 2]
        return replace(self, stop=messages[-1].entry + 1, shown=replace(self.shown, messages=messages))


async def next_window(tx: Tx, session: str, tokens: TokenCounter, now: datetime) -> Window | None:
    """Return the next window; None when all was read.

    It may hold no message: memory blocks and removed messages are skipped."""
    start = await reading.watermark(tx, session)
    if start is None:
        return None
    book = books.turns(session).number
    spoken = await reading.spoken(tx, book, start, before=EARLIER_MESSAGES, most=MESSAGES_MAX, chars_max=TEXT_CHARS_MAX)
    said = [one for one in spoken if one.entry >= start]
    if not said:
        return None
    user, messages, stop = _together(said, tokens)
    before = [_told(one, EARLIER_CHARS_MAX) for one in spoken if one.entry < start]
    shelves = [shelf.number for shelf in books.facts(session, user)]
    believed = list(fact_rules.latest_by_identity(await facts.holding(tx, shelves, now)).values())
    earlier = [told[1] for told in before if told is not None and told[0] == user]
    shown = Shown(session, user, messages, earlier, _related(believed, messages))
    return Window(start, stop, shown)


def _related(believed: Sequence[Fact], messages: Sequence[Message]) -> list[Fact]:
    return most_related(believed, messages, most=FACTS_SHOWN)


def _together(said: Sequence[Spoken], tokens: TokenCounter) -> tuple[str, list[Message], int]:
    """Return the first messages of one user within the token limit, the user and the stop entry.

    There is at least one message; the stop entry follows the last one."""
    messages: list[Message] = []
    of = ""
    stop = said[0].entry
    left = MESSAGES_TOK
    for one in said:
        told = _told(one, TEXT_CHARS_MAX)
        if told is not None:
            user, message = told
            cost = one.tokens if len(one.text) <= TEXT_CHARS_MAX else tokens.count(message.text)
            if messages and (user != of or cost > left):
                break
            of = user
            left -= cost
            messages.append(message)
        stop = one.entry + 1
    return of, messages, stop


def _told(one: Spoken, chars_max: int) -> tuple[str, Message] | None:
    """Return a message and its user; None for a memory block, or a removed event."""
    if one.line is None or block.is_data(user_message(one.text)):
        return None
    event = orjson.loads(one.line)
    text = one.text if len(one.text) <= chars_max else one.text[:chars_max] + CUT
    stored_at = datetime.fromisoformat(event["ts"])
    return event.get("user_id") or "", Message(one.entry, one.ref, one.role, one.speaker, text, one.said_at, stored_at)
