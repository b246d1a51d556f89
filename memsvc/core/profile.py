"""The profile of a person: the facts that every memory block tells, whatever the question."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, get_args

from memsvc.core.facts import Fact, Statement

ProfileClass = Literal[
    "instruction",
    "answer_language",
    "name",
    "pronouns",
    "allergy",
    "condition",
    "medication",
    "diet",
]
"""A class of facts in a profile."""
PROFILE_CLASSES: Final[tuple[ProfileClass, ...]] = get_args(ProfileClass)
"""All classes, in the order in which a profile tells them."""
PRIVATE_CLASSES: Final[frozenset[ProfileClass]] = frozenset(
    ("allergy", "condition", "medication", "diet")
)
"""Classes that are not told where somebody else listens."""

_CLASS_BY_FACT_ID: Final[Mapping[str, ProfileClass]] = {
    "user_instruction": "instruction",
    "user_name": "name",
    "user_nickname": "name",
    "user_pronouns": "pronouns",
    "user_allergy": "allergy",
    "user_condition": "condition",
    "user_medication": "medication",
    "user_diet": "diet",
    "user_food_rule": "diet",
}
FACT_IDS: Final = tuple(_CLASS_BY_FACT_ID)
"""Ids of the facts that a profile is made of."""


def profile_class(statement: Statement) -> ProfileClass | None:
    """Return the class of a statement in a profile; None where it is in none."""
    if statement.fact_id == "user_instruction" and statement.key == "answer language":
        return "answer_language"
    return _CLASS_BY_FACT_ID.get(statement.fact_id)


def profile_facts(
    facts: Iterable[Fact], classes: Collection[str], *, is_shared: bool
) -> list[tuple[ProfileClass, Fact]]:
    """Return the facts of a profile in an order that new facts do not change: class, then age.

    In a session that several people share, nothing about their health or diet is among them."""
    told = [
        (name, fact)
        for fact in facts
        if (name := profile_class(fact.statement)) in classes
        and name is not None
        and not (is_shared and name in PRIVATE_CLASSES)
    ]
    order = {name: at for at, name in enumerate(PROFILE_CLASSES)}
    return sorted(told, key=lambda pair: (order[pair[0]], pair[1].valid_from, pair[1].entry))
