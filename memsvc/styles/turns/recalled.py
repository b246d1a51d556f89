"""What was recalled for a prompt, and what was left out and why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Piece:
    """One recalled thing as the block shows it, with what it costs in tokens and where it came from."""

    shown: dict[str, Any]
    fact_id: str | None
    ref: str
    score: float
    parts: Mapping[str, float]
    tokens: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that is not shown, and why."""

    kind: Literal["fact", "turn"]
    ref: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was recalled, best first: facts before turns of the same relevance."""

    pieces: Sequence[Piece]
    dropped: Sequence[Dropped]

    def first(self, count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The facts and the turns among the first so many pieces, as the block shows them."""
        kept = self.pieces[:count]
        return [one.shown for one in kept if one.fact_id], [one.shown for one in kept if not one.fact_id]

    def tokens(self, count: int) -> int:
        """What the first so many pieces cost in the block."""
        return sum(one.tokens for one in self.pieces[:count])

    def among(self, count: int, refs: Collection[str]) -> set[str]:
        """Which of these items are among the first so many pieces."""
        return {one.ref for one in self.pieces[:count] if one.fact_id is None and one.ref in refs}

    def without(self, refs: Collection[str]) -> "Recalled":
        """The same without these items, which the recent context shows."""
        gone = [one for one in self.pieces if one.fact_id is None and one.ref in refs]
        dropped = [Dropped("turn", one.ref, one.score, "in the recent context") for one in gone]
        return Recalled([one for one in self.pieces if one not in gone], [*self.dropped, *dropped])

    def fact_ids(self, count: int) -> list[str]:
        """The ids of the facts among the first so many pieces, each once."""
        return list(dict.fromkeys(one.fact_id for one in self.pieces[:count] if one.fact_id))

    def explanation(self, count: int) -> dict[str, Any]:
        """Why each candidate is shown or not, best first."""
        shown = [
            {"ref": one.ref, "kind": "fact" if one.fact_id else "turn", "shown": at < count, "score": one.score}
            | {"parts": {name: round(part, 4) for name, part in one.parts.items()}}
            | ({} if at < count else {"reason": "over the token budget"})
            for at, one in enumerate(self.pieces)
        ]
        dropped = [
            {"ref": one.ref, "kind": one.kind, "shown": False, "score": one.score, "reason": one.reason}
            for one in self.dropped
        ]
        return {"candidates": sorted([*shown, *dropped], key=lambda one: -float(str(one["score"])))}
