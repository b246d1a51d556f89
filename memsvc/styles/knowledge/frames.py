"""Frames: what a recall is for. The weights, budgets and guarantees are elfmem's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from memsvc.core.errors import MemsvcError, invalid
from memsvc.styles.knowledge.scoring import Weights
from memsvc.styles.knowledge.tiers import CONSTITUTIONAL, GOAL

Name = Literal["self", "attention", "task", "simulate"]
PEER: Final = "peer/"
"""How the tags begin of what another agent wrote: knowledge, whatever it says that it is."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: `only` and `guaranteed` are tags, or beginnings of tags and `%`; with `identity_apart`, what is
    constitutional stays out; one without `question` ignores what is asked. `boosts` multiply the score by category or,
    as `tag:`, by the beginning of a tag."""

    name: Name
    weights: Weights
    budget_tok: int
    guaranteed: tuple[str, ...] = ()
    only: str = ""
    identity_apart: bool = False
    question: bool = True
    boosts: Mapping[str, float] = field(default_factory=dict)

    def boost(self, category: str, tags: tuple[str, ...]) -> float:
        """The factor of a block's score."""
        by_tag = [
            factor
            for key, factor in self.boosts.items()
            if key.startswith("tag:") and any(tag.startswith(key.removeprefix("tag:")) for tag in tags)
        ]
        return max([self.boosts.get(category, 1.0), *by_tag])

    def excludes(self, tags: tuple[str, ...]) -> bool:
        """Whether blocks with these tags have no place here, unless they are guaranteed one."""
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
    """The frame; INVALID_ARGUMENT when there is none of this name."""
    frame = FRAMES.get(name)
    if frame is None:
        raise _unknown(name)
    return frame


def _unknown(name: str) -> MemsvcError:
    valid = ", ".join(f"'{one}'" for one in FRAMES)
    return invalid(f"Unknown frame: '{name}'. Available: {list(FRAMES)}", recovery=f"Valid frames: {valid}.")


def of_peer(tags: tuple[str, ...]) -> bool:
    """Whether another agent wrote it."""
    return any(tag.startswith(PEER) for tag in tags)
