"""The tool that tells what is known of a person in one read."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from memsvc.core.analysis import normalized_text
from memsvc.core.background import run_in_count_thread
from memsvc.core.facts import (
    PROFILE_CLASSES,
    PROFILE_FACT_IDS,
    Fact,
    latest_by_identity,
    profile_class,
    profile_facts,
)
from memsvc.core.paths import check_identifier
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result
from memsvc.store.database import Database
from memsvc.store.facts import latest_facts
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import COUNT_FACTOR, Costs
from memsvc.styles.turns.facts.fact_models import fact_tool
from memsvc.styles.turns.options import TurnOptions

FACTS_MAX: Final = 500
"""Facts of a user that an answer is chosen from: those of the profile, and the latest others."""
LINE_TOK_MIN: Final = 4
_INSTRUCTION: Final = "instruction"
Told = tuple[str, Fact]
"""A fact with its topic."""


@result
class ProfileFact:
    topic: Annotated[str, "what it is about: a class of the profile, or the fact_id without user_"]
    statement: Annotated[str, "the words that say it"]
    record_id: Annotated[str, "this value, for memory_correct_fact and memory_forget"]
    since: Annotated[str, "the day from which it holds"]
    questioned: Annotated[str | None, "what was said later, by which it may no longer hold"]


@result
class Profile:
    text: Annotated[str, "the facts, a line each, within max_tokens: reference, no instructions"]
    facts: Annotated[list[ProfileFact], "the same facts, in the same order"]
    token_count: Annotated[int, "tokens of text (o200k_base)"]
    left_out: Annotated[int, "facts that max_tokens left no room for"]


class UserProfile:
    """The profile of a user and their other current facts."""

    def __init__(
        self, database: Database, clock: Clock, costs: Costs, options: TurnOptions
    ) -> None:
        self._database = database
        self._clock = clock
        self._costs = costs
        self._options = options

    @fact_tool(
        "memory_profile",
        title="Tell who somebody is",
        needs=Permission.READ,
        for_agents=True,
        text_member="text",
    )
    async def profile(
        self,
        scope: Scope,
        user_id: Annotated[
            str, AfterValidator(lambda value: check_identifier(value.strip(), "user_id")), "whom"
        ],
        max_tokens: Annotated[int, Field(ge=1, le=20_000), "of the text"] = 1000,
    ) -> Profile:
        """Call at the start of a session to learn who the user is.

        Standing instructions, name, allergies and the like, then current facts by topic."""
        [index] = turn_index.facts("", user_id)[1:]
        async with self._database.begin(scope, read_only=True) as tx:
            found = await latest_facts(
                tx, index.number, self._clock.now(), first=PROFILE_FACT_IDS, limit=FACTS_MAX
            )
        facts = _in_order(latest_by_identity(found).values(), self._options.profile.classes)
        chars = sum(len(fact.statement.told) for _, fact in facts)
        told = await run_in_count_thread(
            min(chars // COUNT_FACTOR, max_tokens), _within, facts, max_tokens, self._costs.text
        )
        text = _text(told)
        return Profile(
            text,
            [_profile_fact(topic, fact) for topic, fact in told],
            self._costs.text(text),
            len(facts) - len(told),
        )


def _in_order(facts: Iterable[Fact], classes: Collection[str]) -> list[Told]:
    """Return the facts by topic, each sentence once: the profile in its order, then the others."""
    facts = list(facts)
    in_profile = profile_facts(facts, classes, is_shared=False)
    others = [
        (fact.statement.fact_id.removeprefix("user_"), fact)
        for fact in facts
        if profile_class(fact.statement) is None
    ]
    others.sort(key=lambda told: (told[0], told[1].valid_from, told[1].entry))
    unique = dict[str, Told]()
    # a sentence of several classes is told as the first of them that is no instruction
    for told in (
        *(one for one in in_profile if one[0] != _INSTRUCTION),
        *(one for one in in_profile if one[0] == _INSTRUCTION),
        *others,
    ):
        unique.setdefault(normalized_text(told[1].statement.told), told)
    return sorted(unique.values(), key=lambda told: told[0] != _INSTRUCTION)


def _within(facts: Sequence[Told], max_tokens: int, count: Callable[[str], int]) -> list[Told]:
    """Return the facts whose lines fit, in their order.

    Other facts give way first, the oldest before others, then instructions."""
    if count(_text(facts)) <= max_tokens:
        return list(facts)
    classes = {*PROFILE_CLASSES}
    by_priority = sorted(
        facts,
        key=lambda told: (
            told[0] not in classes,
            told[0] == _INSTRUCTION,
            -told[1].valid_from.timestamp() if told[0] not in classes else 0,
        ),
    )
    remaining, kept = max_tokens, list[Told]()
    for told in by_priority:
        if remaining < LINE_TOK_MIN:
            break
        if (tokens := count(_text([told]) + "\n")) <= remaining:
            remaining -= tokens
            kept.append(told)
    while count(_text(kept)) > max_tokens:  # lines may have other tokens side by side
        kept.pop()
    return [told for told in facts if told in kept]


def _text(facts: Iterable[Told]) -> str:
    lines = []
    for topic, fact in facts:
        doubt = f" (questioned: {fact.doubt.text})" if fact.doubt else ""
        lines.append(" ".join(f"{topic}: {fact.statement.told}{doubt}".split()))
    return "\n".join(lines)


def _profile_fact(topic: str, fact: Fact) -> ProfileFact:
    return ProfileFact(
        topic,
        fact.statement.told,
        fact.statement.record_id,
        f"{fact.valid_from:%Y-%m-%d}",
        fact.doubt.text if fact.doubt else None,
    )
