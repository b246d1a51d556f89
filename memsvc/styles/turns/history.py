"""Which items of a conversation are new: no item twice, and no honest repeat lost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memsvc.core.items import Item, digest, role_of

_INSTRUCTING = frozenset({"developer", "system"})


@dataclass(frozen=True, slots=True)
class Conversation:
    """A caller's input, cut into what came before and what is new in this turn."""

    history: list[Item]
    current: list[Item]


def cut(items: Sequence[Item], start: int, count: int) -> Conversation:
    """History and current input of a whole conversation; `start` and `count` are clamped, `count` 0 means the rest."""
    start = min(max(start, 0), len(items))
    stop = start + count if 0 < count <= len(items) - start else len(items)
    return Conversation(list(items[:start]), list(items[start:stop]))


def delta(given: Sequence[Item], stored: Sequence[int], *, block_found: bool) -> list[Item]:
    """The given input without the recalled context that stands before it.

    `stored` are the digests of the session's latest items, oldest first. What the client echoes is a run of stored
    items at the head of its input: the end of the store, or any part of it (other turns may have been stored
    meanwhile) when a memory block proves that the input was prepared by before_turn, or when the assistant's words
    are in the run. Instructions may stand before it, and so may older parts of a long conversation. The input is
    never emptied.
    """
    digests = [digest(item) for item in given]
    spoken = [role_of(item) == "assistant" for item in given]
    lead = next((at for at, item in enumerate(given) if role_of(item) not in _INSTRUCTING), 0)
    known = set(stored)
    for start in (lead, 0):
        size = _echo(digests[start:], spoken[start:], stored, block_found=block_found)
        if size:
            fresh = [given[at] for at in range(start) if digests[at] not in known]
            return [*fresh, *given[min(start + size, len(given) - 1) :]]
    return list(given)


def _echo(head: Sequence[int], spoken: Sequence[bool], stored: Sequence[int], *, block_found: bool) -> int:
    """How many items at the head are an echo of the store."""
    run = max(_overlap(head, stored), _inner_run(head, stored))
    if not block_found and not any(spoken[:run]):
        run = 0  # the user may just have said the same again: rather stored twice than lost
    return max(run, _whole_store(head, spoken, stored))


def _whole_store(head: Sequence[int], spoken: Sequence[bool], stored: Sequence[int]) -> int:
    """Where all that is looked at of the store ends within the head; what stands before that is older still."""
    size = len(stored)
    for stop in range(len(head) - 1, size - 1, -1):
        if size and any(spoken[stop - size : stop]) and list(head[stop - size : stop]) == list(stored):
            return stop
    return 0


def unseen(recent: Sequence[int], history: Sequence[Item], current: Sequence[Item]) -> list[int]:
    """The positions in `recent` (digests, oldest first) that the caller does not hold already, in order.

    An item that the caller's history holds once hides one stored copy of it, the latest; an end of the store that is
    the current input itself (a turn that is tried again) is hidden too.
    """
    hidden = Counter(digest(item) for item in history)
    now = [digest(item) for item in current]
    stop = len(recent)
    if now and list(recent[-len(now) :]) == now:
        stop -= len(now)
    positions = []
    for position in range(stop - 1, -1, -1):
        if hidden[recent[position]] > 0:
            hidden[recent[position]] -= 1
        else:
            positions.append(position)
    return positions[::-1]


def starts(items: Sequence[Item], *, cut: bool) -> list[int]:
    """Where a conversation may begin when its head is cut off: a call never loses its output, nor a reasoning item what
    it led to. With `cut` the head is gone already, and outputs whose call went with it cannot begin it either."""
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
