"""The prompt of a turn: memory block, history, recent context and current input, within the limit of tokens."""

import math
from dataclasses import dataclass, replace
from typing import Any

from memsvc.core.items import Item
from memsvc.styles.turns import block, budget
from memsvc.styles.turns.recalled import Recalled


@dataclass(frozen=True, slots=True)
class Prepared:
    """The input for the model, with what it costs and what was recalled into it."""

    input_items: list[Item]
    tokens: int
    fact_ids: list[str]
    explanation: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Parts:
    """What a prompt is put together from; lists are oldest first."""

    recalled: Recalled
    history: list[Item]
    history_line: budget.Line
    recent: list[Item]
    recent_refs: list[str]
    recent_line: budget.Line
    current: list[Item]
    current_cost: int


class Prompts:
    """Puts prompts together; a memory block may have `recall_tok_max` tokens at the most."""

    def __init__(self, costs: budget.Costs, recall_tok_max: int) -> None:
        self._costs = costs
        self._recall_tok_max = recall_tok_max
        self._policy_cost = costs.item(block.policy_message())

    def fitted(self, parts: Parts, room: int, *, explain: bool) -> Prepared:
        """The whole input within the room that the current input leaves."""
        recalled = parts.recalled
        costs = [0, *(budget.BLOCK_TOKENS + recalled.tokens(count + 1) for count in range(len(recalled.pieces)))]
        costs = [cost for cost in costs if cost <= self._recall_tok_max]
        while True:
            kept = budget.fit(room, recalled=costs, history=parts.history_line, recent=parts.recent_line)
            memory = block.build(*recalled.first(kept.recalled))
            block_cost = self._policy_cost + self._costs.item(memory[1]) if memory else 0
            spent = block_cost + parts.history_line.cost(kept.history) + parts.recent_line.cost(kept.recent)
            over = max(spent - room, block_cost - self._recall_tok_max)
            if over <= 0 or not memory:
                break
            # the block came out dearer than its pieces were thought to be: without the last few
            costs = costs[: max(1, kept.recalled + 1 - math.ceil(over / budget.PIECE_TOKENS))]
        before = parts.history[len(parts.history) - kept.history :]
        recent = parts.recent[len(parts.recent) - kept.recent :]
        twice = recalled.among(kept.recalled, set(parts.recent_refs[len(parts.recent) - kept.recent :]))
        if twice:  # there was room for recent items that were thought not to fit
            return self.fitted(replace(parts, recalled=recalled.without(twice)), room, explain=explain)
        return Prepared(
            input_items=[*memory, *before, *recent, *parts.current],
            tokens=spent + parts.current_cost,
            fact_ids=recalled.fact_ids(kept.recalled),
            explanation=recalled.explanation(kept.recalled) if explain else None,
        )
