"""The prompt of a turn: memory block, history, recent context and input, within a token limit."""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from itertools import accumulate
from typing import Final

from memsvc.core.frozen import frozen
from memsvc.core.items import Item
from memsvc.core.json_text import JsonObject
from memsvc.store.context import StoredItem
from memsvc.styles.turns import block, budget
from memsvc.styles.turns.recall.recalled import RankedRecall
from memsvc.styles.turns.turn_items import TurnItem

_KEY_END: Final = re.compile('(?<=[0-9A-Za-z])(?=":)')
"""Where a block may be split, before the end of a key: the tokens of the parts add up to those of
the whole."""
EXTRA_TOKENS: Final = 7
"""Tokens by which a chunk's estimate is mostly too high: fewer blocks are tried for a prompt."""


@frozen
class PreparedPrompt:
    """The input for the model, its cost, and what was recalled into it.

    The first `chunks_used` of what was `recalled` are in the input."""

    input_items: list[Item]
    tokens: int
    fact_ids: list[str]
    insight_ids: list[str]
    recalled: RankedRecall
    chunks_used: int
    limits: JsonObject

    @property
    def details(self) -> JsonObject:
        """Return why each candidate is in the input or not, and what limits left out."""
        return self.recalled.details(self.chunks_used) | {"limits": self.limits}


@frozen
class RecentContext:
    """Recent context that the caller does not send itself, oldest first, with its costs.

    The first `older` items were said before the history that the caller sends, the last
    `last_exchange` ones in the latest turn of the session."""

    stored: list[StoredItem]
    items: list[Item]
    line: budget.ItemSequence
    older: int
    last_exchange: int


@frozen
class PromptParts:
    """The parts of a prompt; lists are oldest first.

    `summary` replaces everything before the recent items, and a block of it alone costs
    `summary_cost`."""

    recalled: RankedRecall
    history: list[TurnItem]
    history_line: budget.ItemSequence
    recent: RecentContext
    current: list[TurnItem]
    current_cost: int
    summary: JsonObject | None
    summary_cost: int


@frozen
class _PromptBlock:
    """The memory block of the first `count` chunks, and its exact cost."""

    count: int
    memory: list[Item]
    cost: int


class PromptBuilder:
    """Builder of prompts; a memory block may have at most `recall_tok_max` tokens."""

    def __init__(self, costs: budget.Costs, recall_tok_max: int) -> None:
        self._costs = costs
        self._recall_tok_max = recall_tok_max

    @cached_property  # lazy: counting loads a vocabulary, which a worker may never need
    def _policy_cost(self) -> int:
        return self._costs.item(block.policy_message())

    @cached_property
    def _without_summary(self) -> int:
        return self._first_cost(block.build([], summary={"id": ""}), self._costs.text)

    def summary_cost(self, summary: JsonObject | None) -> int:
        """Return the cost of a memory block that holds only a summary of older context."""
        if not summary:
            return 0
        _, text = block.split_summary(block.build([], summary=summary)[1])
        return self._without_summary + self._costs.text(text)

    def block_tok_max(self, summary_cost: int) -> int:
        """Return the token limit of a memory block.

        A summary of older context comes on top of recall."""
        return self._recall_tok_max + max(0, summary_cost - budget.BLOCK_TOKENS)

    def _first_cost(self, memory: list[Item], count: Callable[[str], int]) -> int:
        """Return the cost of a block without its summary."""
        parts = _KEY_END.split(block.split_summary(memory[1])[0])
        return self._policy_cost + budget.ITEM_TOKENS + sum(map(count, parts))

    def _best_block(
        self,
        recalled: RankedRecall,
        summary: JsonObject | None,
        summary_cost: int,
        tokens_max: int,
    ) -> "_PromptBlock":
        """Return the block of as many chunks as fit into the room, counted exactly."""
        chunks = recalled.chunks
        summary_tokens = summary_cost - self._without_summary if summary_cost else 0
        running_costs = [*accumulate((chunk.tokens - EXTRA_TOKENS for chunk in chunks), initial=0)]
        count_once = cache(self._costs.text)  # blocks of more or fewer chunks have the same parts

        def block_of(count: int) -> _PromptBlock:
            memory = block.build(chunks[:count], summary=summary)
            cost = self._first_cost(memory, count_once) + summary_tokens if memory else 0
            return _PromptBlock(count, memory, cost)

        best, too_many = _PromptBlock(-1, [], 0), len(chunks) + 1
        expected = float(tokens_max - budget.BLOCK_TOKENS - summary_tokens)
        while best.count + 1 < too_many:
            count = bisect_right(running_costs, expected) - 1
            candidate = block_of(min(max(count, best.count + 1), too_many - 1))
            if candidate.cost <= tokens_max or not candidate.count:
                best = candidate
            else:
                too_many = candidate.count
            # what the chunks so far cost beside their estimate, the others probably do as well
            chunks_cost = max(1, candidate.cost - summary_tokens - budget.BLOCK_TOKENS)
            expected = (tokens_max - summary_tokens - budget.BLOCK_TOKENS) * (
                running_costs[candidate.count] / chunks_cost
            )
        return best

    def within_limit(self, parts: PromptParts, capacity: int) -> PreparedPrompt:
        """Return the whole input within the room that the current input leaves."""
        recalled, recent, summary_cost = parts.recalled, parts.recent, parts.summary_cost
        block_max = self.block_tok_max(summary_cost)
        best = _PromptBlock(0, [], 0)

        def block_cost(tokens_max: int) -> int:
            nonlocal best
            best = self._best_block(
                recalled, parts.summary, summary_cost, min(tokens_max, block_max)
            )
            return best.cost

        kept = budget.split_capacity(
            capacity,
            history=parts.history_line,
            recent=recent.line,
            last_exchange=recent.last_exchange,
            block_cost=block_cost,
        )
        if best.cost > kept.block_max:  # only a summary is left, and that is too long
            return self.within_limit(replace(parts, summary=None, summary_cost=0), capacity)
        before = [item.as_sent.item for item in parts.history[len(parts.history) - kept.history :]]
        current = [item.as_sent.item for item in parts.current]
        start = len(recent.items) - kept.recent
        older, newer = recent.items[start : recent.older], recent.items[max(start, recent.older) :]
        duplicates = recalled.refs_in_first(
            best.count, {item.ref for item in recent.stored[start:]}
        )
        if duplicates:  # recent items fit that were not expected to
            return self.within_limit(
                replace(parts, recalled=recalled.without(duplicates)), capacity
            )
        limits = {
            "room_tok": capacity,
            "block_tok_max": block_max,
            "block_tok": best.cost,
            "block_cut_by": None
            if best.count == len(recalled.chunks)
            else "max_input_tok"
            if kept.block_max < block_max
            else "recall_tok_max",
            "history_dropped": len(parts.history) - kept.history,
            "recent_dropped": start,
        }
        return PreparedPrompt(
            input_items=[*best.memory, *older, *before, *newer, *current],
            tokens=best.cost
            + parts.history_line.cost(kept.history)
            + recent.line.cost(kept.recent)
            + parts.current_cost,
            fact_ids=recalled.ids("fact", best.count),
            insight_ids=recalled.ids("insight", best.count),
            recalled=recalled,
            chunks_used=best.count,
            limits=limits,
        )
