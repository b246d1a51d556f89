"""Judgement of a block by a model that knows the identity, or by rules."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import orjson
from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.package_texts import package_text
from memsvc.core.ports import Llm, Meter, TokenCounter
from memsvc.core.scope import Scope
from memsvc.core.secrets import replace_secrets
from memsvc.core.untrusted import escaped
from memsvc.core.word_similarity import CONTRADICTION_SCORE, is_contradiction, overlap
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge.block_index import INFERRED_TAGS, is_self
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.model_budget import BudgetExhaustedError, ModelBudget, timed_call

BUDGET_NAME: Final = "judgement"
RULES: Final = "rules"
_INSTRUCTIONS: Final = package_text(__package__, "prompts/judge.md").format(
    tags=", ".join(f"`{tag}`" for tag in INFERRED_TAGS)
)
DEFAULT_ALIGNMENT: Final = 0.5
"""Alignment of a block where there is no identity to measure it against."""
IDENTITY_ALIGNMENT: Final = 0.9
"""Alignment of a block whose tags make it a part of the identity."""
OUTPUT_TOKENS_MAX: Final = 512
IDENTITY_CHARS_MAX: Final = 6000
OTHERS_MAX: Final = 10
"""Most similar blocks that the model gets with the new one."""
OTHER_CHARS_MAX: Final = 1000


class Contradiction(BaseModel):
    """Given block that cannot be true together with the new one."""

    model_config = ConfigDict(extra="ignore")

    id: str = Field(max_length=16)
    score: float = Field(ge=0, le=1)


class Answer(BaseModel):
    """Answer of the model."""

    model_config = ConfigDict(extra="ignore")

    alignment: float = Field(ge=0, le=1)
    tags: list[str] = Field(default_factory=list, max_length=20)
    contradictions: list[Contradiction] = Field(default_factory=list, max_length=50)


@frozen
class Verdict:
    """Judgement of a block: its alignment with the identity, its tags, and its contradictions.

    `conflict_scores` has the confidence by block, `scored_by` is the model or the rules,
    `token_usage` the token usage; `model_was_late` when the rules judged for that.
    """

    alignment: float
    tags: tuple[str, ...]
    conflict_scores: dict[str, float]
    scored_by: str
    token_usage: dict[str, int]
    model_was_late: bool = False


@frozen
class JudgeService:
    """Judges blocks, by rules where the model is missing, fails or is over its daily limit."""

    budget: ModelBudget
    tokens: TokenCounter
    meter: Meter
    options: KnowledgeOptions
    llm: Llm | None

    async def judge(
        self,
        scope: Scope,
        block: KnowledgeBlock,
        identity: Sequence[KnowledgeBlock],
        others: Sequence[KnowledgeBlock],
        *,
        by_rules: bool,
    ) -> Verdict:
        """Return the judgement of a block; no transaction may be open meanwhile.

        The others are ordered by similarity. A model that takes longer than it may counts as away.
        """
        if self.llm is None or by_rules:
            return self._by_rules(block, identity, others)
        try:
            await self.budget.consume(scope, kind=BUDGET_NAME, limit=self.options.judgements_a_day)
        except BudgetExhaustedError:
            return self._by_rules(block, identity, others)
        text = prompt_input(block, identity, others)
        try:
            with timed_call(self.meter, BUDGET_NAME):
                async with asyncio.timeout(self.options.block_timeout_s):
                    answer = await self.llm.extract(
                        _INSTRUCTIONS, text, Answer, output_tokens_max=OUTPUT_TOKENS_MAX
                    )
        except (MemsvcError, TimeoutError) as error:
            is_late = isinstance(error, TimeoutError)
            if is_late or (isinstance(error, MemsvcError) and error.code is Code.UNAVAILABLE):
                await self.budget.release(
                    scope, kind=BUDGET_NAME, limit=self.options.judgements_a_day
                )
            return replace(self._by_rules(block, identity, others), model_was_late=is_late)
        token_usage = {
            "llm_calls": 1,
            "llm_input_tokens": self.tokens.count(_INSTRUCTIONS) + self.tokens.count(text),
            "llm_output_tokens": self.tokens.count(answer.model_dump_json()),
        }
        return self._verdict_of(answer, others, token_usage)

    def _by_rules(
        self,
        block: KnowledgeBlock,
        identity: Sequence[KnowledgeBlock],
        others: Sequence[KnowledgeBlock],
    ) -> Verdict:
        verdict = by_the_rules(block, identity, others)
        is_relevant = self.options.contradiction_min <= CONTRADICTION_SCORE
        return verdict if is_relevant else replace(verdict, conflict_scores={})

    def _verdict_of(
        self, answer: Answer, others: Sequence[KnowledgeBlock], token_usage: dict[str, int]
    ) -> Verdict:
        by_name = {
            f"b{number}": other.block_id for number, other in enumerate(others[:OTHERS_MAX], 1)
        }
        conflict_scores = {
            by_name[conflict.id]: conflict.score
            for conflict in answer.contradictions
            if conflict.id in by_name and conflict.score >= self.options.contradiction_min
        }
        tags = tuple(tag for tag in INFERRED_TAGS if tag in answer.tags)
        model = self.llm.model if self.llm is not None else RULES
        return Verdict(answer.alignment, tags, conflict_scores, model, token_usage)


def by_the_rules(
    block: KnowledgeBlock, identity: Sequence[KnowledgeBlock], others: Sequence[KnowledgeBlock]
) -> Verdict:
    """Return the judgement by words shared with the identity, negation, numbers and opposites."""
    if is_self(block.tags):
        alignment = IDENTITY_ALIGNMENT
    elif identity:
        alignment = max(overlap(block.text, identity_block.text) for identity_block in identity)
    else:
        alignment = DEFAULT_ALIGNMENT
    conflict_scores = {
        other.block_id: CONTRADICTION_SCORE
        for other in others
        if is_contradiction(block.text, other.text)
    }
    return Verdict(alignment, (), conflict_scores, RULES, {})


def prompt_input(
    block: KnowledgeBlock, identity: Sequence[KnowledgeBlock], others: Sequence[KnowledgeBlock]
) -> str:
    """Return the model's input: escaped data, without what looks like a secret."""
    identity_texts: list[str] = []
    for block_item in identity:
        if sum(map(len, identity_texts)) + len(block_item.text) > IDENTITY_CHARS_MAX:
            break
        identity_texts.append(replace_secrets(block_item.text))
    body = {
        "identity": identity_texts,
        "block": {"content": replace_secrets(block.text), "tags": list(block.tags)},
        "others": [
            {"id": f"b{number}", "content": replace_secrets(other.text[:OTHER_CHARS_MAX])}
            for number, other in enumerate(others[:OTHERS_MAX], 1)
        ],
    }
    return escaped(orjson.dumps(body).decode())
