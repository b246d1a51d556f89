"""Token costs of items, and what is dropped when a prompt does not fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from memsvc.core.background import run_in_count_thread
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.items import Item, counted_parts
from memsvc.core.ports import TokenCounter
from memsvc.core.text_cache import TextCache
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_items import TurnItem

ITEM_TOKENS = 4
"""Tokens of an item beside its texts, for its role and delimiters."""
COUNT_FACTOR: Final = 8
"""How many times faster tokens are counted than rules read the same text, about."""
CACHED_CHARS_MAX: Final = 16_384
CACHE_ENTRIES_MAX: Final = 8192
"""Longest text whose tokens are cached, and how many of them."""
TOO_LARGE = 2**62
"""Cost of an item that fits into no prompt."""
BLOCK_TOKENS = 90
CHUNK_TOKENS = 10
"""Estimated tokens of a memory block beside its chunks, and of a chunk beside its text: where to
begin to look for what fits. What fits is counted on the finished block."""


class Costs:
    """Token costs of items, and the `text_chars_max` characters of a text that are indexed.

    An item costs the tokens of its texts, names, arguments and outputs, plus 4, plus a flat sum for
    each picture, file or sound."""

    def __init__(self, counter: TokenCounter, options: TurnOptions) -> None:
        self._counter = counter
        self._options = options
        self._counts = TextCache[int](CACHE_ENTRIES_MAX)
        self.text_chars_max = options.text_chars_max

    async def counted(self, items: Sequence[TurnItem]) -> list[TurnItem]:
        """Return these items with their tokens, counted in a thread if they are long."""
        chars = sum(len(text) for item in items for text in item.counted_texts)
        return await run_in_count_thread(
            chars // COUNT_FACTOR,
            lambda: [
                replace(item, tokens=self._of_parts(item.counted_texts, item.media))
                for item in items
            ],
        )

    def text(self, text: str) -> int:
        """Return the tokens of a text, cached by its hash: history and memory are sent again."""
        if not text or len(text) > CACHED_CHARS_MAX:
            return self._counter.count(text) if text else 0
        return self._counts.get(text, self._counter.count)

    async def counted_text(self, text: str) -> int:
        """Return the tokens of a text; a long one is counted in a thread."""
        return await run_in_count_thread(len(text) // COUNT_FACTOR, self.text, text)

    def item(self, item: Item) -> int:
        """Return the tokens of an item."""
        return self._of_parts(*counted_parts(item))

    def _of_parts(self, texts: Iterable[str], media: int) -> int:
        return ITEM_TOKENS + sum(map(self.text, texts)) + media * self._options.media_tok


def check_limit(current_tokens: int, max_input_tok: int) -> None:
    """Raise INVALID_ARGUMENT, with the excess, when the fixed input is over the limit."""
    if current_tokens > max_input_tok:
        raise invalid(
            f"the current input has {current_tokens} tokens, which is"
            f" {current_tokens - max_input_tok} more than max_input_tok ({max_input_tok})",
            recovery="send a shorter input or raise max_input_tok",
        )


@frozen
class ItemSequence:
    """Items in order, oldest first: their costs, and where they may start after a cut."""

    costs: Sequence[int]
    start_positions: Sequence[int]

    def kept(self, capacity: int) -> int:
        """Return how many items from the end fit into the room, starting only where allowed."""
        kept, used = 0, 0
        start_positions = set(self.start_positions)
        for position in range(len(self.costs) - 1, -1, -1):
            used += self.costs[position]
            if used > capacity:
                break
            if position in start_positions:
                kept = len(self.costs) - position
        return kept

    def kept_last(self, capacity: int, count: int) -> int:
        """Return how many of the last `count` items fit into the room."""
        return self.kept(min(capacity, self.cost(count)))

    def cost(self, kept: int) -> int:
        """Return the cost of this many items from the end."""
        return sum(self.costs[len(self.costs) - kept :])


@frozen
class BudgetResult:
    """Share of each part that fits.

    Items of history and recent context from their end, and the room that the block may use."""

    history: int
    block_max: int
    recent: int


def split_capacity(
    capacity: int,
    *,
    history: ItemSequence,
    recent: ItemSequence,
    last_exchange: int,
    block_cost: Callable[[int], int],
) -> BudgetResult:
    """Return what fits into `capacity` tokens beside the current input.

    Recent context but its `last_exchange` items is dropped first, oldest first, then the least
    relevant recalled items, then the last exchange, then the caller's history, oldest first.
    `block_cost` returns the cost of the largest block within a room."""
    kept_history = history.kept(capacity)
    capacity -= history.cost(kept_history)
    block_max = capacity - recent.cost(recent.kept_last(capacity, last_exchange))
    return BudgetResult(kept_history, block_max, recent.kept(capacity - block_cost(block_max)))
