"""Parsing of callers' input: items, conversations, and ids for turns that have none."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.items import is_empty_message, normalize_item, user_message
from memsvc.styles.turns.history import Conversation, split_conversation
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import TurnItem
from memsvc.styles.turns.turn_models import BeforeTurnArguments


def items_of(values: Sequence[Any], name: str, options: TurnOptions) -> list[TurnItem]:
    """Return the normalised items of the argument `name`.

    INVALID_ARGUMENT names the first invalid item, PAYLOAD_TOO_LARGE the first that no file could
    hold."""
    if len(values) > options.items_max:
        raise invalid(f"{name} may hold {options.items_max} items at the most, not {len(values)}")
    items = [
        TurnItem(normalize_item(item, f"{name}[{index}]")) for index, item in enumerate(values)
    ]
    bytes_max = options.item_bytes_max
    for index, item in enumerate(items):
        if (size_bytes := len(item.content)) > bytes_max:
            raise MemsvcError(
                Code.PAYLOAD_TOO_LARGE,
                f"{name}[{index}] has {size_bytes} bytes; {bytes_max} at the most",
            )
    return items


def output_items_of(values: Sequence[Any], options: TurnOptions) -> list[TurnItem]:
    """Return the model's output items, as `items_of`.

    INVALID_ARGUMENT for a message without content."""
    items = items_of(values, "output_items", options)
    for index, item in enumerate(items):
        if is_empty_message(item.item):
            raise invalid(
                f"output_items[{index}].content is required: a message without it says nothing"
            )
    return items


def conversation_of(args: BeforeTurnArguments, options: TurnOptions) -> Conversation:
    """Return the current input and what comes before it, in whichever form they were given."""
    items = items_of(args.conversation_items, "conversation_items", options)
    if items:
        conversation = split_conversation(items, args.current_input_start, args.current_input_count)
        if not conversation.current:
            raise invalid("current_input_start leaves no current input in conversation_items")
        return conversation
    values = args.current_input
    if isinstance(values, str):
        values = [user_message(values)] if values.strip() else []
    elif isinstance(values, dict):
        values = [values]
    elif not isinstance(values, list):
        raise invalid("current_input must be an array of response items or a string")
    if not values and args.current_input_text.strip():
        values = [user_message(args.current_input_text)]
    if not values:
        raise invalid("current_input is required when conversation_items is empty")
    return Conversation([], items_of(values, "current_input", options))


def new_turn_id(now: datetime) -> str:
    """Return an id for a turn whose caller gave none."""
    return f"turn-{int(now.timestamp() * 1000)}-{secrets.token_hex(3)}"
