"""How lasting a block is, by its tags and its category: elfmem's tiers."""

from collections.abc import Collection
from typing import Final

from memsvc.core.decay import Tier

SELF: Final = "self/"
"""How the tags of identity begin."""
CONSTITUTIONAL: Final = "self/constitutional"
GOAL: Final = "self/goal"
DURABLE_TAGS: Final = frozenset({"self/value", "self/constraint", GOAL})
INFERRED_TAGS: Final = ("self/constraint", "self/value", "self/style", GOAL, "self/context")
"""What a model may find that a block is. That it is constitutional, and so shown with every identity for good, is for
the caller to say: a text that an agent read could talk a model into it."""
MIND: Final = "mind"
OBSERVATION: Final = "observation"
KNOWLEDGE: Final = "knowledge"
"""The category of a block of which nothing is said."""


def tier_of(tags: Collection[str], category: str) -> Tier:
    """The tier of a block."""
    if CONSTITUTIONAL in tags:
        return Tier.PERMANENT
    if not DURABLE_TAGS.isdisjoint(tags) or category == MIND:
        return Tier.DURABLE
    return Tier.EPHEMERAL if category == OBSERVATION else Tier.STANDARD


def is_self(tags: Collection[str]) -> bool:
    """Whether a block says who the agent is."""
    return any(tag.startswith(SELF) for tag in tags)
