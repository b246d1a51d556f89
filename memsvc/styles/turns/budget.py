"""How many tokens an item costs, and what must go when a prompt would not fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memsvc.core.background import LOOP_CHARS_MAX, counted
from memsvc.core.errors import invalid
from memsvc.core.items import Item, counted_texts, media_count
from memsvc.core.ports import TokenCounter
from memsvc.styles.turns.options import TurnOptions

ITEM_TOKENS = 4
"""What an item costs beside its texts: its role and its bounds."""
AS_QUICK: Final = 8
"""How many times as quickly tokens are counted as rules read the same text, about."""
TOO_MUCH = 2**62
"""What an item costs that no prompt can hold."""
BLOCK_TOKENS = 140
PIECE_TOKENS = 60
"""What a memory block costs beside its pieces, and a piece beside its text, about: the exact cost is counted once the
block stands."""


class Costs:
    """What items cost: the tokens of their texts, names, arguments and outputs, 4 an item, a flat sum for each picture,
    file or sound; and the `text_chars_max` characters of a text that are indexed."""

    def __init__(self, counter: TokenCounter, options: TurnOptions, known: Mapping[int, int] | None = None) -> None:
        """`known` are the costs of items by their `id`."""
        self._counter = counter
        self._options = options
        self._known = known or {}
        self.text_chars_max = options.text_chars_max

    async def counted(self, items: Sequence[Item]) -> "Costs":
        """Return the same costs, with those of these items counted in a thread if they are long together."""
        chars = sum(len(text) for item in items for text in counted_texts(item)) // AS_QUICK
        if chars <= LOOP_CHARS_MAX:
            return self
        known = await counted(chars, lambda: {id(item): self.item(item) for item in items})
        return Costs(self._counter, self._options, known)

    def text(self, text: str) -> int:
        """Tokens of a text."""
        return self._counter.count(text) if text else 0

    async def counted_text(self, text: str) -> int:
        """Return the tokens of a text; a long one is counted in a thread."""
        return await counted(len(text) // AS_QUICK, self.text, text)

    def item(self, item: Item) -> int:
        """Tokens of an item."""
        known = self._known.get(id(item))
        if known is not None:
            return known
        return ITEM_TOKENS + sum(map(self.text, counted_texts(item))) + media_count(item) * self._options.media_tok


def check_fits(current_tokens: int, max_input_tok: int) -> None:
    """INVALID_ARGUMENT, saying by how much, when the current input with its instructions alone is over the limit."""
    if current_tokens > max_input_tok:
        raise invalid(
            f"the current input has {current_tokens} tokens, {current_tokens - max_input_tok} more than max_input_tok "
            f"({max_input_tok})",
            recovery="send a shorter input or raise max_input_tok",
        )


@dataclass(frozen=True, slots=True)
class Line:
    """Items in order, oldest first: what each costs, and where the line may begin when its head is cut off."""

    costs: Sequence[int]
    starts: Sequence[int]

    def kept(self, room: int) -> int:
        """How many items from the end fit into the room, cut only where the line may begin."""
        kept, spent = 0, 0
        starts = set(self.starts)
        for position in range(len(self.costs) - 1, -1, -1):
            spent += self.costs[position]
            if spent > room:
                break
            if position in starts:
                kept = len(self.costs) - position
        return kept

    def cost(self, kept: int) -> int:
        """What so many items from the end cost."""
        return sum(self.costs[len(self.costs) - kept :])


@dataclass(frozen=True, slots=True)
class Fit:
    """How much of each part fits: items of the block from its start, of history and recent context from their end."""

    recalled: int
    history: int
    recent: int


def fit(room: int, *, recalled: Sequence[int], history: Line, recent: Line) -> Fit:
    """What fits into `room` tokens beside the current input: recent context goes first, oldest first, then the least
    relevant recalled items, then the caller's history, oldest first. `recalled[n]` is what a block of n items costs."""
    kept_history = history.kept(room)
    room -= history.cost(kept_history)
    kept_recalled = max((count for count, cost in enumerate(recalled) if cost <= room), default=0)
    room -= recalled[kept_recalled] if recalled else 0
    return Fit(kept_recalled, kept_history, recent.kept(room))
