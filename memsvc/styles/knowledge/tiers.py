"""Tiers of blocks, by tags and category: elfmem's."""

from collections.abc import Collection
from typing import Final

from memsvc.core.decay import DecayTier

SELF: Final = "self/"
"""Prefix of the tags of identity."""
CONSTITUTIONAL: Final = "self/constitutional"
GOAL: Final = "self/goal"
DURABLE_TAGS: Final = frozenset({"self/value", "self/constraint", GOAL})
INFERRED_TAGS: Final = ("self/constraint", "self/value", "self/style", GOAL, "self/context")
"""Tags that a model may infer. Only the caller can call a block constitutional, and so always
included with the identity: a text that an agent read could talk a model into it."""
MIND: Final = "mind"
OBSERVATION: Final = "observation"
KNOWLEDGE: Final = "knowledge"
"""Category of a block without a given one."""


def tier_of(tags: Collection[str], category: str) -> DecayTier:
    """Return the tier of a block."""
    if CONSTITUTIONAL in tags:
        return DecayTier.PERMANENT
    if not DURABLE_TAGS.isdisjoint(tags) or category == MIND:
        return DecayTier.DURABLE
    return DecayTier.EPHEMERAL if category == OBSERVATION else DecayTier.STANDARD


def is_self(tags: Collection[str]) -> bool:
    """Return whether a block belongs to the agent's identity."""
    return any(tag.startswith(SELF) for tag in tags)
