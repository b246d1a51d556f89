"""Detection of new items in a conversation: no item is stored twice, and no real repeat is lost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Final

import orjson

from memsvc.core.items import Item, digest, role_of
from memsvc.store.context import StoredItem

ECHO_ITEMS_MIN: Final = 3
"""User items that count as an echo when they are all of what before_turn shows: nobody repeats
three messages in the same order and then says something else."""
ALIGNED_CELLS_MAX: Final = 100_000
"""Pairs of items that are compared to align a conversation with the store."""
_INSTRUCTING = frozenset({"developer", "system"})


@dataclass(frozen=True, slots=True)
class Conversation:
    """A caller's input, split into earlier items and the new ones of this turn.

    Items in `behind` follow the turn, such as an answer that is to be generated again: they are
    neither sent to the model nor stored."""

    history: list[Item]
    current: list[Item]
    behind: list[Item] = field(default_factory=list)


def cut(items: Sequence[Item], start: int, count: int) -> Conversation:
    """Split a whole conversation in three.

    `start` and `count` are clamped, a `count` of 0 or less means the rest."""
    start = min(max(start, 0), len(items))
    stop = start + count if 0 < count <= len(items) - start else len(items)
    return Conversation(list(items[:start]), list(items[start:stop]), list(items[stop:]))


def delta(given: Sequence[Item], stored: Sequence[int], *, window: int, block_found: bool, older: bool) -> list[Item]:
    """Return the given input without the recalled context before it.

    `stored` are the digests of the session's latest items, oldest first; `older` means that there
    are more before them, `window` how many of them before_turn shows as recent context. A client
    echoes a run of stored items at the head of its input: any part of the store (other turns may
    have been stored meanwhile) when the assistant's words are in the run; the end of the store when
    a memory block proves that the input was prepared by before_turn; or the whole recent context.
    Instructions may come before it, and so may older parts of a long conversation. The input is
    never emptied."""
    digests = [digest(item) for item in given]
    spoken = [role_of(item) == "assistant" for item in given]
    lead = next((at for at, item in enumerate(given) if role_of(item) not in _INSTRUCTING), 0)
    known = set(stored)
    for start in (lead, 0):
        size = _whole_store(digests[start:], spoken[start:], stored) if older else 0
        size = size or _echo(digests[start:], spoken[start:], stored, window, block_found=block_found)
        if size:
            fresh = [given[at] for at in range(start) if digests[at] not in known]
            return [*fresh, *given[min(start + size, len(given) - 1) :]]
    return list(given)


def _echo(head: Sequence[int], spoken: Sequence[bool], stored: Sequence[int], window: int, *, block_found: bool) -> int:
    """Return how many items at the head echo the store: up to its end, else any part of it.

    What follows may repeat the end of the store."""
    ends = _overlap(head, stored)
    run = ends or _inner_run(head, stored)
    whole = min(window, len(stored))
    shown = whole >= ECHO_ITEMS_MIN and list(head[:whole]) == list(stored[-whole:])
    if not shown and not any(spoken[:run]) and not (block_found and ends):
        return 0  # the user may really have repeated it: rather stored twice than lost
    return run


def _whole_store(head: Sequence[int], spoken: Sequence[bool], stored: Sequence[int]) -> int:
    """Return where the loaded part of the store ends within the head; earlier items are older."""
    size = len(stored)
    for stop in range(len(head) - 1, size - 1, -1):
        if size and any(spoken[stop - size : stop]) and list(head[stop - size : stop]) == list(stored):
            return stop
    return 0


def unseen(recent: Sequence[Item], digests: Sequence[int], told: Conversation) -> list[int]:
    """Return the positions in `recent` that the caller does not already have, in order.

    `recent` are stored items, oldest first, and `digests` theirs. An item that the caller has hides
    one stored copy of it: the one at the same place of the conversation, else the latest. An end of
    the store that is the current input itself (a retried turn) is hidden too, and so are answers
    that the caller has replaced, because they were edited or generated again."""
    held = [*told.history, *told.current, *told.behind] if told.behind else told.history
    stored, marks = list(digests), [digest(item) for item in held]
    now = [digest(item) for item in told.current]
    if not told.behind and now and stored[-len(now) :] == now:
        del stored[-len(now) :]
    pairs = _aligned(stored, marks)
    hidden = {position for position, _ in pairs} | _replaced(recent, held, pairs, len(stored))
    spare = Counter(marks)
    spare.subtract(marks[at] for _, at in pairs)
    positions = []
    for position in range(len(stored) - 1, -1, -1):
        if position in hidden:
            continue
        if spare[stored[position]] > 0:
            spare[stored[position]] -= 1
        else:
            positions.append(position)
    return positions[::-1]


def _replaced(recent: Sequence[Item], held: Sequence[Item], pairs: Sequence[tuple[int, int]], stop: int) -> set[int]:
    """Return the stored items, none of a user, for which the caller has other ones.

    These follow an item that both have, or start the loaded part of the store, where their question
    is out of sight."""
    replaced: set[int] = set()
    spans = list(pairwise([*pairs, (stop, len(held))]))
    if pairs and pairs[0][1] and role_of(held[pairs[0][1] - 1]) != "user":
        spans.append(((-1, pairs[0][1] - 2), pairs[0]))
    for (position, at), (next_position, next_at) in spans:
        if at + 1 < next_at and role_of(held[at + 1]) != "user":
            answers = takewhile(lambda one: role_of(recent[one]) != "user", range(position + 1, next_position))
            replaced.update(answers)
    return replaced


def _aligned(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Return the positions of a longest common subsequence, as late as possible in `other`.

    Of long inputs only the end is compared."""
    end = 0
    while end < min(len(one), len(other)) and one[-1 - end] == other[-1 - end]:
        end += 1
    rows, columns = len(one) - end, len(other) - end
    first = max(0, columns - ALIGNED_CELLS_MAX // max(rows, 1))
    lengths = [[0] * (columns - first + 1)]
    for row in range(rows):
        above, line = lengths[-1], [0]
        for column in range(first, columns):
            at = column - first
            line.append(above[at] + 1 if one[row] == other[column] else max(above[at + 1], line[at]))
        lengths.append(line)
    pairs = [(len(one) - 1 - at, len(other) - 1 - at) for at in range(end)]
    row, column = rows, columns
    while row and column > first:
        if one[row - 1] == other[column - 1]:
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif lengths[row - 1][column - first] >= lengths[row][column - 1 - first]:
            row -= 1
        else:
            column -= 1
    return pairs[::-1]


def starts(items: Sequence[Item], *, cut: bool) -> list[int]:
    """Return where a conversation may start after its head is dropped.

    A call never loses its output, nor a reasoning item its result. With `cut` the head is already
    gone, and outputs of dropped calls cannot start it either."""
    bound_until = 0
    calls: dict[str, int] = {}
    free = [True] * (len(items) + 1)
    for at, item in enumerate(items):
        call = item.get("call_id")
        if item.get("type") == "reasoning":
            free[at + 1] = False
        elif call is not None and not str(item.get("type")).endswith("_output"):
            calls[call] = at
        elif call is not None and call in calls:
            free[calls[call] + 1 : at + 1] = [False] * (at - calls[call])
        elif call is not None and cut:
            bound_until = at + 1
    whole = [] if bound_until else [0]
    return whole + [at for at in range(max(1, bound_until), len(items)) if free[at]]


def as_said(stored: Sequence[StoredItem]) -> list[Item]:
    """Return stored items as they were sent.

    Items too long to load are replaced by a stub that shows their owner: a tool's is the missing
    output of an earlier call, else it acts like reasoning, from which nothing may be split."""
    said: list[Item] = []
    waiting: dict[str, None] = {}
    for one in stored:
        item: Item = {"type": "message", "role": one.role}
        if one.line:
            item = orjson.loads(one.line)["item"]
        elif one.role == "tool":
            call = next(iter(waiting), None)
            item = {"type": "function_call_output", "call_id": call} if call else {"type": "reasoning"}
        if call := item.get("call_id"):
            if str(item["type"]).endswith("_output"):
                waiting.pop(call, None)
            else:
                waiting[call] = None
        said.append(item)
    return said


def _overlap(head: Sequence[int], stored: Sequence[int]) -> int:
    for size in range(min(len(head), len(stored)), 0, -1):
        if list(stored[-size:]) == list(head[:size]):
            return size
    return 0


def _inner_run(head: Sequence[int], stored: Sequence[int]) -> int:
    longest = 0
    for start in range(len(stored)):
        size = 0
        while size < len(head) and start + size < len(stored) and stored[start + size] == head[size]:
            size += 1
        longest = max(longest, size)
    return longest
