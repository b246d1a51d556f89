"""The prompt of a turn: memory block, history, recent context and input, within a token limit."""

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final

from memsvc.core.items import Item
from memsvc.styles.turns import block, budget
from memsvc.styles.turns.recall.recalled import RankedRecall

CACHE_ENTRIES_MAX: Final = 4096
"""Summaries whose cost is cached."""


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

    `summary` replaces everything before the recent items, and a block of it alone costs
    `summary_cost`."""

    recalled: RankedRecall
    history: list[Item]
    history_line: budget.ItemSequence
    recent: list[Item]
    recent_refs: list[str]
    recent_line: budget.ItemSequence
    current: list[Item]
    current_cost: int
    summary: dict[str, Any] | None = None
    summary_cost: int = 0


class PromptBuilder:
    """Builder of prompts; a memory block may have at most `recall_tok_max` tokens."""

    def __init__(self, costs: budget.Costs, recall_tok_max: int) -> None:
        self._costs = costs
        self._recall_tok_max = recall_tok_max
        self._summaries: OrderedDict[bytes, int] = OrderedDict()

    @cached_property  # lazy: counting loads a vocabulary, which a worker may never need
    def _policy_cost(self) -> int:
        return self._costs.item(block.policy_message())

    @cached_property
    def _without_summary(self) -> int:
        return self._first_cost(block.build({}, summary={"id": ""}))

    def summary_cost(self, summary: dict[str, Any] | None) -> int:
        """Return the cost of a memory block that holds only a summary of older context."""
        if not summary:
            return 0
        _, text = block.split_summary(block.build({}, summary=summary)[1])
        return self._without_summary + self._summary_tokens(text)

    def _summary_tokens(self, summary: str) -> int:
        """Return the tokens of a summary, cached by its hash for hundreds of turns."""
        mark = blake2b(summary.encode(), digest_size=16).digest()
        tokens = self._summaries.pop(mark, None)
        self._summaries[mark] = tokens = self._costs.text(summary) if tokens is None else tokens
        if len(self._summaries) > CACHE_ENTRIES_MAX:
            self._summaries.popitem(last=False)
        return tokens

    def block_tok_max(self, summary_cost: int) -> int:
        """Return the token limit of a memory block.

        A summary of older context comes on top of recall."""
        return self._recall_tok_max + max(0, summary_cost - budget.BLOCK_TOKENS)

    def _block_cost(self, memory: list[Item], summary_cost: int) -> int:
        """Return the cost of a block whose summary was counted before, in a block of its own."""
        if not memory:
            return 0
        return self._first_cost(memory) + (
            summary_cost - self._without_summary if summary_cost else 0
        )

    def _first_cost(self, memory: list[Item]) -> int:
        """Return the cost of a block without its summary."""
        return (
            self._policy_cost
            + budget.ITEM_TOKENS
            + self._costs.text(block.split_summary(memory[1])[0])
        )

    def within_limit(self, parts: PromptParts, capacity: int) -> PreparedPrompt:
        """Return the whole input within the room that the current input leaves."""
        recalled = parts.recalled
        summary_cost = parts.summary_cost
        if summary_cost > capacity - parts.history_line.cost(parts.history_line.kept(capacity)):
            return self.within_limit(replace(parts, summary=None, summary_cost=0), capacity)
        base_cost = summary_cost or budget.BLOCK_TOKENS
        block_max = self.block_tok_max(summary_cost)
        costs = [
            summary_cost,
            *(
                base_cost + chunk_cost
                for chunk_cost in accumulate(chunk.tokens for chunk in recalled.chunks)
            ),
        ]
        costs = [cost for cost in costs if cost <= block_max]
        while True:
            kept = budget.split_capacity(
                capacity, recalled=costs, history=parts.history_line, recent=parts.recent_line
            )
            memory = block.build(recalled.first(kept.recalled), summary=parts.summary)
            block_cost = self._block_cost(memory, summary_cost)
            used = (
                block_cost
                + parts.history_line.cost(kept.history)
                + parts.recent_line.cost(kept.recent)
            )
            tokens_over = max(used - capacity, block_cost - block_max)
            if tokens_over <= 0 or not memory:
                break
            # the block costs more than estimated: drop the last few chunks
            costs = costs[
                : max(1, kept.recalled + 1 - math.ceil(tokens_over / budget.CHUNK_TOKENS))
            ]
        before = parts.history[len(parts.history) - kept.history :]
        recent = parts.recent[len(parts.recent) - kept.recent :]
        duplicates = recalled.refs_in_first(
            kept.recalled, set(parts.recent_refs[len(parts.recent) - kept.recent :])
        )
        if duplicates:  # recent items fit that were not expected to
            return self.within_limit(
                replace(parts, recalled=recalled.without(duplicates)), capacity
            )
        limits = {
            "room_tok": capacity,
            "block_tok_max": block_max,
            "block_tok": block_cost,
            "block_cut_by": _limit_name(kept.recalled, len(costs) - 1, len(recalled.chunks)),
            "history_dropped": len(parts.history) - kept.history,
            "recent_dropped": len(parts.recent) - kept.recent,
        }
        return PreparedPrompt(
            input_items=[*memory, *before, *recent, *parts.current],
            tokens=used + parts.current_cost,
            fact_ids=recalled.ids("fact", kept.recalled),
            insight_ids=recalled.ids("insight", kept.recalled),
            recalled=recalled,
            chunks_used=kept.recalled,
            limits=limits,
        )


def _limit_name(kept: int, allowed: int, found: int) -> str | None:
    """Return which limit dropped recalled items.

    `kept` of those that recall_tok_max `allowed`, of all that were `found`."""
    if kept < allowed:
        return "max_input_tok"
    return "recall_tok_max" if kept < found else None
