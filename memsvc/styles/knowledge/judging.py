"""Judgement of a block by a model that knows the identity, or by rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from time import perf_counter
from typing import Final

import orjson
from pydantic import BaseModel, ConfigDict, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.likeness import CONTRADICTION_SCORE, contradict, overlap
from memsvc.core.ports import Llm, Meter, TokenCounter
from memsvc.core.scope import Scope
from memsvc.core.secrets import masked
from memsvc.core.untrusted import escaped
from memsvc.store.notions import Notion
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.knowledge.tiers import INFERRED_TAGS, is_self
from memsvc.styles.model_budget import ModelBudget, SpentError

PURPOSE: Final = "judgement"
RULES: Final = "rules"
NEUTRAL: Final = 0.5
"""Alignment of a block where there is no identity to measure it against."""
STATED: Final = 0.9
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


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of a block: its alignment with the identity, its tags, and its contradictions.

    `contradicts` has the confidence by block, `scored_by` is the model or the rules, `spent` the
    token usage.
    """

    alignment: float
    tags: tuple[str, ...]
    contradicts: dict[str, float]
    scored_by: str
    spent: dict[str, int]


class Judging:
    """Judges blocks, by rules where the model is missing, fails or is over its daily limit."""

    def __init__(
        self,
        budget: ModelBudget,
        tokens: TokenCounter,
        meter: Meter,
        options: KnowledgeOptions,
        llm: Llm | None,
    ) -> None:
        self._budget = budget
        self._tokens = tokens
        self._meter = meter
        self._options = options
        self._llm = llm if options.judge_with_model else None
        prompt = resources("memsvc.styles.knowledge").joinpath("prompts/judge.md").read_text("utf-8")
        self._instructions = prompt.format(tags=", ".join(f"`{tag}`" for tag in INFERRED_TAGS))

    async def judge(
        self, scope: Scope, block: Notion, identity: Sequence[Notion], others: Sequence[Notion], *, by_rules: bool
    ) -> Judgement:
        """Return the judgement of a block; no transaction may be open meanwhile.

        The others are ordered by similarity.
        """
        if self._llm is None or by_rules or not await self._may_ask(scope):
            return self._by_rules(block, identity, others)
        text = shown(block, identity, others)
        started = perf_counter()
        try:
            answer = await self._llm.extract(self._instructions, text, Answer, output_tokens_max=OUTPUT_TOKENS_MAX)
        except MemsvcError as error:
            self._meter.add("memsvc_model_calls_total", purpose=PURPOSE, status="error")
            if error.code is Code.UNAVAILABLE:
                await self._budget.give_back(scope, purpose=PURPOSE, most=self._options.judgements_a_day)
            return self._by_rules(block, identity, others)
        self._meter.add("memsvc_model_calls_total", purpose=PURPOSE, status="success")
        self._meter.add("memsvc_model_duration_ms", (perf_counter() - started) * 1000, purpose=PURPOSE)
        spent = {
            "llm_calls": 1,
            "llm_input_tokens": self._tokens.count(self._instructions) + self._tokens.count(text),
            "llm_output_tokens": self._tokens.count(answer.model_dump_json()),
        }
        return self._believed(answer, others, spent)

    def _by_rules(self, block: Notion, identity: Sequence[Notion], others: Sequence[Notion]) -> Judgement:
        judgement = by_the_rules(block, identity, others)
        sure = self._options.contradiction_min <= CONTRADICTION_SCORE
        return judgement if sure else replace(judgement, contradicts={})

    def _believed(self, answer: Answer, others: Sequence[Notion], spent: dict[str, int]) -> Judgement:
        by_name = {f"b{number}": other.notion for number, other in enumerate(others[:OTHERS_MAX], 1)}
        contradicts = {
            by_name[one.id]: one.score
            for one in answer.contradictions
            if one.id in by_name and one.score >= self._options.contradiction_min
        }
        tags = tuple(tag for tag in INFERRED_TAGS if tag in answer.tags)
        model = self._llm.model if self._llm is not None else RULES
        return Judgement(answer.alignment, tags, contradicts, model, spent)

    async def _may_ask(self, scope: Scope) -> bool:
        """Return whether the tenant's daily limit allows a call, and count it."""
        try:
            await self._budget.take(scope, purpose=PURPOSE, most=self._options.judgements_a_day)
        except SpentError:
            return False
        return True


def by_the_rules(block: Notion, identity: Sequence[Notion], others: Sequence[Notion]) -> Judgement:
    """Return the judgement by words shared with the identity, negation, numbers and opposites."""
    if is_self(block.tags):
        alignment = STATED
    elif identity:
        alignment = max(overlap(block.text, own.text) for own in identity)
    else:
        alignment = NEUTRAL
    contradicts = {other.notion: CONTRADICTION_SCORE for other in others if contradict(block.text, other.text)}
    return Judgement(alignment, (), contradicts, RULES, {})


def shown(block: Notion, identity: Sequence[Notion], others: Sequence[Notion]) -> str:
    """Return the model's input: escaped data, without what looks like a secret."""
    own: list[str] = []
    for one in identity:
        if sum(map(len, own)) + len(one.text) > IDENTITY_CHARS_MAX:
            break
        own.append(masked(one.text))
    body = {
        "identity": own,
        "block": {"content": masked(block.text), "tags": list(block.tags)},
        "others": [
            {"id": f"b{number}", "content": masked(other.text[:OTHER_CHARS_MAX])}
            for number, other in enumerate(others[:OTHERS_MAX], 1)
        ],
    }
    return escaped(orjson.dumps(body).decode())
