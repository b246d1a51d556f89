"""The prompt of a turn: memory block, history, recent context and input, within a token limit."""

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from memsvc.core.items import Item
from memsvc.styles.turns import block, budget
from memsvc.styles.turns.recall.recalled import RankedRecall
from memsvc.styles.turns.turn_items import TurnItem

_KEY_END: Final = re.compile(r'(?<=[A-Za-z0-9])(?=":)')
"""Where a block may be split: the tokens of the parts add up to those of the whole."""


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """The input for the model, its cost, and what was recalled into it.

    The first `chunks_used` of what was `recalled` are in the input."""

    input_items: list[Item]
    tokens: int
    fact_ids: list[str]
    insight_ids: list[str]
    recalled: RankedRecall
    chunks_used: int
    limits: dict[str, Any]

    @property
    def details(self) -> dict[str, Any]:
        """Return why each candidate is in the input or not, and what limits left out."""
        return self.recalled.details(self.chunks_used) | {"limits": self.limits}


@dataclass(frozen=True, slots=True)
class PromptParts:
    """The parts of a prompt; lists are oldest first.

    The first `older` recent items were said before the history that the caller sends, the last
    `last_exchange` ones in the latest turn. `summary` replaces everything before the recent items,
    and a block of it alone costs `summary_cost`."""

    recalled: RankedRecall
    history: list[TurnItem]
    history_line: budget.ItemSequence
    recent: list[Item]
    recent_refs: list[str]
    recent_line: budget.ItemSequence
    older: int
    last_exchange: int
    current: list[TurnItem]
    current_cost: int
    summary: dict[str, Any] | None = None
    summary_cost: int = 0


@dataclass(frozen=True, slots=True)
class _FittedBlock:
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
        return self._first_cost(block.build([], summary={"id": ""}))

    def summary_cost(self, summary: dict[str, Any] | None) -> int:
        """Return the cost of a memory block that holds only a summary of older context."""
        if not summary:
            return 0
        _, text = block.split_summary(block.build([], summary=summary)[1])
        return self._without_summary + self._costs.text(text)

    def block_tok_max(self, summary_cost: int) -> int:
        """Return the token limit of a memory block.

        A summary of older context comes on top of recall."""
        return self._recall_tok_max + max(0, summary_cost - budget.BLOCK_TOKENS)

    def _first_cost(self, memory: list[Item]) -> int:
        """Return the cost of a block without its summary."""
        parts = _KEY_END.split(block.split_summary(memory[1])[0])
        return self._policy_cost + budget.ITEM_TOKENS + sum(map(self._costs.text, parts))

    def _fitted(
        self, recalled: RankedRecall, summary: dict[str, Any] | None, summary_cost: int, room: int
    ) -> "_FittedBlock":
        """Return the block of as many chunks as fit into the room, counted exactly."""
        chunks = recalled.chunks
        summary_tokens = summary_cost - self._without_summary if summary_cost else 0
        estimates = [*accumulate((chunk.tokens for chunk in chunks), initial=0)]

        def block_of(count: int) -> _FittedBlock:
            memory = block.build(chunks[:count], summary=summary)
            cost = self._first_cost(memory) + summary_tokens if memory else 0
            return _FittedBlock(count, memory, cost)

        fitted, too_many = _FittedBlock(-1, [], 0), len(chunks) + 1
        estimate = float(room - budget.BLOCK_TOKENS - summary_tokens)
        while fitted.count + 1 < too_many:
            count = bisect_right(estimates, estimate) - 1
            tried = block_of(min(max(count, fitted.count + 1), too_many - 1))
            if tried.cost <= room or not tried.count:
                fitted = tried
            else:
                too_many = tried.count
            # what the chunks so far cost beside their estimate, the others probably do as well
            chunks_cost = max(1, tried.cost - summary_tokens - budget.BLOCK_TOKENS)
            estimate = (room - summary_tokens - budget.BLOCK_TOKENS) * (
                estimates[tried.count] / chunks_cost
            )
        return fitted

    def within_limit(self, parts: PromptParts, capacity: int) -> PreparedPrompt:
        """Return the whole input within the room that the current input leaves."""
        recalled, summary_cost = parts.recalled, parts.summary_cost
        block_max = self.block_tok_max(summary_cost)
        fitted = _FittedBlock(0, [], 0)

        def block_cost(room: int) -> int:
            nonlocal fitted
            fitted = self._fitted(recalled, parts.summary, summary_cost, min(room, block_max))
            return fitted.cost

        kept = budget.split_capacity(
            capacity,
            history=parts.history_line,
            recent=parts.recent_line,
            last_exchange=parts.last_exchange,
            block_cost=block_cost,
        )
        if fitted.cost > kept.block_room:  # only a summary is left, and that is too long
            return self.within_limit(replace(parts, summary=None, summary_cost=0), capacity)
        before = [item.item for item in parts.history[len(parts.history) - kept.history :]]
        current = [item.item for item in parts.current]
        start = len(parts.recent) - kept.recent
        older, newer = parts.recent[start : parts.older], parts.recent[max(start, parts.older) :]
        duplicates = recalled.refs_in_first(fitted.count, set(parts.recent_refs[start:]))
        if duplicates:  # recent items fit that were not expected to
            return self.within_limit(
                replace(parts, recalled=recalled.without(duplicates)), capacity
            )
        limits = {
            "room_tok": capacity,
            "block_tok_max": block_max,
            "block_tok": fitted.cost,
            "block_cut_by": None
            if fitted.count == len(recalled.chunks)
            else "max_input_tok"
            if kept.block_room < block_max
            else "recall_tok_max",
            "history_dropped": len(parts.history) - kept.history,
            "recent_dropped": start,
        }
        return PreparedPrompt(
            input_items=[*fitted.memory, *older, *before, *newer, *current],
            tokens=fitted.cost
            + parts.history_line.cost(kept.history)
            + parts.recent_line.cost(kept.recent)
            + parts.current_cost,
            fact_ids=recalled.ids("fact", fitted.count),
            insight_ids=recalled.ids("insight", fitted.count),
            recalled=recalled,
            chunks_used=fitted.count,
            limits=limits,
        )
