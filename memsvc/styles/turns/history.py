"""Detection of new items in a conversation: no item is stored twice, and no real repeat is lost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from itertools import pairwise, takewhile
from typing import Final

import orjson

from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.items import Item, role_of, unsendable_field, user_message
from memsvc.store.context import StoredItem
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import TurnItem, items_of
from memsvc.styles.turns.turn_models import BeforeTurnArguments

ECHO_ITEMS_MIN: Final = 3
"""User items that count as an echo when they are all of what before_turn shows: nobody repeats
three messages in the same order and then says something else."""
MATRIX_SIZE_MAX: Final = 100_000
"""Pairs of items that are compared to align a conversation with the store."""
_INSTRUCTION_ROLES = frozenset({"developer", "system"})


@frozen
class Conversation:
    """A caller's input, split into earlier items and the new ones of this turn.

    Items in `trailing` follow the turn, such as an answer that is to be generated again: they are
    neither sent to the model nor stored."""

    history: list[TurnItem]
    current: list[TurnItem]
    trailing: list[TurnItem] = field(default_factory=list)


def split_conversation(items: Sequence[TurnItem], start: int, count: int) -> Conversation:
    """Split a whole conversation in three.

    `start` and `count` are clamped, a `count` of 0 or less means the rest."""
    start = min(max(start, 0), len(items))
    stop = start + count if 0 < count <= len(items) - start else len(items)
    return Conversation(list(items[:start]), list(items[start:stop]), list(items[stop:]))


async def conversation_of(
    args: BeforeTurnArguments, options: TurnOptions, now: datetime
) -> Conversation:
    """Return the current input and what comes before it, in whichever form they were given."""
    items = await items_of(args.conversation_items, "conversation_items", options, now)
    if items:
        conversation = split_conversation(items, args.current_input_start, args.current_input_count)
        if not conversation.current:
            raise invalid(
                "current_input_start must be less than the number of items in conversation_items"
            )
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
    return Conversation([], await items_of(values, "current_input", options, now))


def delta(
    items: Sequence[TurnItem],
    stored: Sequence[int],
    *,
    window: int,
    block_found: bool,
    has_more: bool,
) -> list[TurnItem]:
    """Return the given input without the recalled context before it.

    `stored` are the digests of the session's latest items, oldest first; `has_more` means that
    there are more before them, `window` how many of them before_turn shows as recent context. A
    client echoes a run of stored items at the head of its input: any part of the store (other turns
    may have been stored meanwhile) when the assistant's words are in the run; the end of the store
    when a memory block proves that the input was prepared by before_turn; or the whole recent
    context. Instructions may come before it, and so may older parts of a long conversation. The
    input is never emptied."""
    digests = [item.digest for item in items]
    is_reply = [item.role == "assistant" for item in items]
    lead = next((at for at, item in enumerate(items) if item.role not in _INSTRUCTION_ROLES), 0)
    known = set(stored)
    for start in (lead, 0):
        size = _whole_store(digests[start:], is_reply[start:], stored) if has_more else 0
        size = size or _echo(
            digests[start:], is_reply[start:], stored, window, block_found=block_found
        )
        if size:
            fresh = [items[at] for at in range(start) if digests[at] not in known]
            return [*fresh, *items[min(start + size, len(items) - 1) :]]
    return list(items)


def _echo(
    head: Sequence[int],
    is_reply: Sequence[bool],
    stored: Sequence[int],
    window: int,
    *,
    block_found: bool,
) -> int:
    """Return how many items at the head echo the store: up to its end, else any part of it.

    What follows may repeat the end of the store."""
    end_size = _overlap(head, stored)
    inner = (_same_start(head, stored[start:]) for start in range(len(stored)))
    run = end_size or max(inner, default=0)
    window_size = min(window, len(stored))
    is_recent = window_size >= ECHO_ITEMS_MIN and list(head[:window_size]) == list(
        stored[-window_size:]
    )
    if not is_recent and not any(is_reply[:run]) and not (block_found and end_size):
        return 0  # the user may really have repeated it: rather stored twice than lost
    return run


def _whole_store(head: Sequence[int], is_reply: Sequence[bool], stored: Sequence[int]) -> int:
    """Return where the loaded part of the store ends within the head; earlier items are older."""
    size = len(stored)
    for stop in range(len(head) - 1, size - 1, -1):
        if any(is_reply[stop - size : stop]) and list(head[stop - size : stop]) == list(stored):
            return stop
    return 0


def new_positions(
    recent: Sequence[Item], digests: Sequence[int], conversation: Conversation
) -> tuple[list[int], int]:
    """Return the positions in `recent` that the caller does not already have, in order.

    Returns also how many of them come before all of the history that the caller has.
    `recent` are stored items, oldest first, and `digests` theirs. An item that the caller has hides
    one stored copy of it: the one at the same place of the conversation, else the latest. An end of
    the store that is the current input itself (a retried turn) is hidden too, and so are answers
    that the caller has replaced, because they were edited or generated again, and items that no
    model's API takes, which older versions stored."""
    existing = (
        [*conversation.history, *conversation.current, *conversation.trailing]
        if conversation.trailing
        else conversation.history
    )
    stored, item_hash_list = list(digests), [item.digest for item in existing]
    current_hash_list = [item.digest for item in conversation.current]
    if (
        not conversation.trailing
        and current_hash_list
        and stored[-len(current_hash_list) :] == current_hash_list
    ):
        del stored[-len(current_hash_list) :]
    pairs = _match_positions(stored, item_hash_list)
    hidden = {position for position, _ in pairs} | _replaced(recent, existing, pairs, len(stored))
    hidden |= {position for position, item in enumerate(recent) if unsendable_field(item)}
    remaining_counts = Counter(item_hash_list)
    remaining_counts.subtract(item_hash_list[at] for _, at in pairs)
    positions = []
    for position in range(len(stored) - 1, -1, -1):
        if position in hidden:
            continue
        if remaining_counts[stored[position]] > 0:
            remaining_counts[stored[position]] -= 1
        else:
            positions.append(position)
    sent = [position for position, at in pairs if at < len(conversation.history)]
    older = sum(position < sent[0] for position in positions) if sent else 0
    return positions[::-1], older


def _replaced(
    recent: Sequence[Item],
    existing: Sequence[TurnItem],
    pairs: Sequence[tuple[int, int]],
    stop: int,
) -> set[int]:
    """Return the stored items, none of a user, for which the caller has other ones.

    These follow an item that both have, or start the loaded part of the store, where their question
    is out of sight."""
    replaced: set[int] = set()
    spans = list(pairwise([*pairs, (stop, len(existing))]))
    if pairs and pairs[0][1] and existing[pairs[0][1] - 1].role != "user":
        spans.append(((-1, pairs[0][1] - 2), pairs[0]))
    for (position, at), (next_position, next_at) in spans:
        if at + 1 < next_at and existing[at + 1].role != "user":
            responses = takewhile(
                lambda one: role_of(recent[one]) != "user", range(position + 1, next_position)
            )
            replaced.update(responses)
    return replaced


def _match_positions(
    first_items: Sequence[int], second_items: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the positions of a longest common subsequence, as late as possible in `second_items`.

    Of long inputs only the end is compared."""
    end = _same_start(first_items[::-1], second_items[::-1])
    rows, columns = len(first_items) - end, len(second_items) - end
    first = max(0, columns - MATRIX_SIZE_MAX // max(rows, 1))
    table = [[0] * (columns - first + 1)]
    for row in range(rows):
        previous, line = table[-1], [0]
        for column in range(first, columns):
            at = column - first
            line.append(
                previous[at] + 1
                if first_items[row] == second_items[column]
                else max(previous[at + 1], line[at])
            )
        table.append(line)
    pairs = [(len(first_items) - 1 - at, len(second_items) - 1 - at) for at in range(end)]
    row, column = rows, columns
    while row and column > first:
        if first_items[row - 1] == second_items[column - 1]:
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif table[row - 1][column - first] >= table[row][column - 1 - first]:
            row -= 1
        else:
            column -= 1
    return pairs[::-1]


def start_positions(items: Sequence[Item], *, truncated: bool) -> list[int]:
    """Return where a conversation may start after its head is dropped.

    A call never loses its output, nor a reasoning item its result. With `cut` the head is already
    gone, and outputs of dropped calls cannot start it either."""
    start_min = 0
    calls = {}
    allowed = [True] * (len(items) + 1)
    for at, item in enumerate(items):
        call = item.get("call_id")
        if item.get("type") == "reasoning":
            allowed[at + 1] = False
        elif call is not None and not str(item.get("type")).endswith("_output"):
            calls[call] = at
        elif call is not None and call in calls:
            allowed[calls[call] + 1 : at + 1] = [False] * (at - calls[call])
        elif call is not None and truncated:
            start_min = at + 1
    whole = [] if start_min else [0]
    return whole + [at for at in range(max(1, start_min), len(items)) if allowed[at]]


def load_items(stored: Sequence[StoredItem]) -> list[Item]:
    """Return stored items as they were sent.

    Items too long to load are replaced by a stub that shows their owner: a tool's is the missing
    output of an earlier call, else it acts like reasoning, from which nothing may be split."""
    items = []
    open_calls: dict[str, None] = {}
    for stored_item in stored:
        item: Item = {"type": "message", "role": stored_item.role, "content": []}
        if stored_item.line:
            item = orjson.loads(stored_item.line)["item"]
        elif stored_item.role == "tool":
            call = next(iter(open_calls), None)
            item = (
                {"type": "function_call_output", "call_id": call} if call else {"type": "reasoning"}
            )
        if call := item.get("call_id"):
            if str(item["type"]).endswith("_output"):
                open_calls.pop(call, None)
            else:
                open_calls[call] = None
        items.append(item)
    return items


def _overlap(head: Sequence[int], stored: Sequence[int]) -> int:
    sizes = range(min(len(head), len(stored)), 0, -1)
    return next((size for size in sizes if list(stored[-size:]) == list(head[:size])), 0)


def _same_start(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = zip(first, second, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
