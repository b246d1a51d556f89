"""Frames of a recall, by purpose. The weights, budgets and guarantees are elfmem's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from memsvc.core.errors import MemsvcError, invalid
from memsvc.styles.knowledge.scoring import ScoreWeights
from memsvc.styles.knowledge.tiers import CONSTITUTIONAL, GOAL

Name = Literal["self", "attention", "task", "simulate"]
PEER: Final = "peer/"
"""Prefix of the tags of blocks by another agent: knowledge, whatever they claim to be."""


@dataclass(frozen=True, slots=True)
class RecallFrame:
    """Frame of a recall: weights, budget, and blocks that it includes or excludes.

    `only` and `required_tags` are tags, or beginnings of tags and `%`; with `without_identity`,
    constitutional blocks stay out; one without `question` ignores the query. `scale_by_name`
    multiply the score by category or, as `tag:`, by the beginning of a tag.
    """

    name: Name
    weights: ScoreWeights
    budget_tok: int
    required_tags: tuple[str, ...] = ()
    only: str = ""
    without_identity: bool = False
    question: bool = True
    scale_by_name: Mapping[str, float] = field(default_factory=dict)

    def factor(self, category: str, tags: tuple[str, ...]) -> float:
        """Return the factor of a block's score."""
        tag_values = [
            factor
            for key, factor in self.scale_by_name.items()
            if key.startswith("tag:")
            and any(tag.startswith(key.removeprefix("tag:")) for tag in tags)
        ]
        return max([self.scale_by_name.get(category, 1.0), *tag_values])

    def excludes(self, tags: tuple[str, ...]) -> bool:
        """Return whether blocks with these tags are left out, unless they are guaranteed."""
        return self.without_identity and CONSTITUTIONAL in tags and not of_peer(tags)


FRAMES: Final[dict[str, RecallFrame]] = {
    frame.name: frame
    for frame in (
        RecallFrame(
            "self",
            ScoreWeights(0.10, 0.30, 0.05, 0.25, 0.30),
            600,
            required_tags=(CONSTITUTIONAL,),
            only="self/%",
            question=False,
        ),
        RecallFrame(
            "attention", ScoreWeights(0.35, 0.15, 0.25, 0.15, 0.10), 2000, without_identity=True
        ),
        RecallFrame(
            "task",
            ScoreWeights(0.20, 0.20, 0.20, 0.20, 0.20),
            800,
            required_tags=(GOAL,),
            without_identity=True,
        ),
        RecallFrame(
            "simulate",
            ScoreWeights(0.25, 0.25, 0.15, 0.20, 0.15),
            2000,
            required_tags=(CONSTITUTIONAL, "mind/%"),
            scale_by_name={"tag:self/": 10.0, "mind": 6.0, "decision": 5.0},
        ),
    )
}


def frame_named(name: str) -> RecallFrame:
    """Return the frame of this name; INVALID_ARGUMENT when there is none."""
    frame = FRAMES.get(name)
    if frame is None:
        raise _unknown(name)
    return frame


def _unknown(name: str) -> MemsvcError:
    valid = ", ".join(f"'{one}'" for one in FRAMES)
    return invalid(
        f"Unknown frame: '{name}'. Available: {list(FRAMES)}", recovery=f"Valid frames: {valid}."
    )


def of_peer(tags: tuple[str, ...]) -> bool:
    """Return whether another agent wrote a block with these tags."""
    return any(tag.startswith(PEER) for tag in tags)
