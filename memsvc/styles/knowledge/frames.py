"""Frames of a recall, by purpose. The weights, budgets and guarantees are elfmem's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from memsvc.core.errors import MemsvcError, invalid
from memsvc.styles.knowledge.scoring import Weights
from memsvc.styles.knowledge.tiers import CONSTITUTIONAL, GOAL

Name = Literal["self", "attention", "task", "simulate"]
PEER: Final = "peer/"
"""Prefix of the tags of blocks by another agent: knowledge, whatever they claim to be."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Frame of a recall: weights, budget, and blocks that it includes or excludes.

    `only` and `guaranteed` are tags, or beginnings of tags and `%`; with `identity_apart`,
    constitutional blocks stay out; one without `question` ignores the query. `boosts` multiply the
    score by category or, as `tag:`, by the beginning of a tag.
    """

    name: Name
    weights: Weights
    budget_tok: int
    guaranteed: tuple[str, ...] = ()
    only: str = ""
    identity_apart: bool = False
    question: bool = True
    boosts: Mapping[str, float] = field(default_factory=dict)

    def boost(self, category: str, tags: tuple[str, ...]) -> float:
        """Return the factor of a block's score."""
        by_tag = [
            factor
            for key, factor in self.boosts.items()
            if key.startswith("tag:") and any(tag.startswith(key.removeprefix("tag:")) for tag in tags)
        ]
        return max([self.boosts.get(category, 1.0), *by_tag])

    def excludes(self, tags: tuple[str, ...]) -> bool:
        """Return whether blocks with these tags are left out, unless they are guaranteed."""
        return self.identity_apart and CONSTITUTIONAL in tags and not of_peer(tags)


FRAMES: Final[dict[str, Frame]] = {
    frame.name: frame
    for frame in (
        Frame(
            "self",
            Weights(0.10, 0.30, 0.05, 0.25, 0.30),
            600,
            guaranteed=(CONSTITUTIONAL,),
            only="self/%",
            question=False,
        ),
        Frame("attention", Weights(0.35, 0.15, 0.25, 0.15, 0.10), 2000, identity_apart=True),
        Frame("task", Weights(0.20, 0.20, 0.20, 0.20, 0.20), 800, guaranteed=(GOAL,), identity_apart=True),
        Frame(
            "simulate",
            Weights(0.25, 0.25, 0.15, 0.20, 0.15),
            2000,
            guaranteed=(CONSTITUTIONAL, "mind/%"),
            boosts={"tag:self/": 10.0, "mind": 6.0, "decision": 5.0},
        ),
    )
}


def frame_named(name: str) -> Frame:
    """Return the frame of this name; INVALID_ARGUMENT when there is none."""
    frame = FRAMES.get(name)
    if frame is None:
        raise _unknown(name)
    return frame


def _unknown(name: str) -> MemsvcError:
    valid = ", ".join(f"'{one}'" for one in FRAMES)
    return invalid(f"Unknown frame: '{name}'. Available: {list(FRAMES)}", recovery=f"Valid frames: {valid}.")


def of_peer(tags: tuple[str, ...]) -> bool:
    """Return whether another agent wrote a block with these tags."""
    return any(tag.startswith(PEER) for tag in tags)
