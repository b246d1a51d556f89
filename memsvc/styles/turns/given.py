"""Parsing of callers' input: items, conversations, and ids for turns that have none."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.items import Item, canonical, normalise_item, says_nothing, user_message
from memsvc.styles.turns.contract import BeforeTurnArguments
from memsvc.styles.turns.history import Conversation, cut
from memsvc.styles.turns.options import TurnOptions


def items_of(given: Sequence[Any], name: str, options: TurnOptions) -> list[Item]:
    """Return the normalised items of the argument `name`.

    INVALID_ARGUMENT names the first invalid item, PAYLOAD_TOO_LARGE the first that no file could
    hold."""
    if len(given) > options.items_max:
        raise invalid(f"{name} may hold {options.items_max} items at the most, not {len(given)}")
    items = [normalise_item(item, f"{name}[{index}]") for index, item in enumerate(given)]
    most = options.item_bytes_max
    for index, item in enumerate(items):
        if (size_bytes := len(canonical(item))) > most:
            raise MemsvcError(Code.PAYLOAD_TOO_LARGE, f"{name}[{index}] has {size_bytes} bytes; {most} at the most")
    return items


def output_items_of(given: Sequence[Any], options: TurnOptions) -> list[Item]:
    """Return the model's output items, as `items_of`.

    INVALID_ARGUMENT for a message without content."""
    items = items_of(given, "output_items", options)
    for index, item in enumerate(items):
        if says_nothing(item):
            raise invalid(f"output_items[{index}].content is required: a message without it says nothing")
    return items


def conversation_of(asked: BeforeTurnArguments, options: TurnOptions) -> Conversation:
    """Return the current input and what comes before it, in whichever form they were given."""
    whole = items_of(asked.conversation_items, "conversation_items", options)
    if whole:
        conversation = cut(whole, asked.current_input_start, asked.current_input_count)
        if not conversation.current:
            raise invalid("current_input_start leaves no current input in conversation_items")
        return conversation
    given = asked.current_input
    if isinstance(given, str):
        given = [user_message(given)] if given.strip() else []
    elif isinstance(given, dict):
        given = [given]
    elif not isinstance(given, list):
        raise invalid("current_input must be an array of response items or a string")
    if not given and asked.current_input_text.strip():
        given = [user_message(asked.current_input_text)]
    if not given:
        raise invalid("current_input is required when conversation_items is empty")
    return Conversation([], items_of(given, "current_input", options))


def new_turn_id(now: datetime) -> str:
    """Return an id for a turn whose caller gave none."""
    return f"turn-{int(now.timestamp() * 1000)}-{secrets.token_hex(3)}"
