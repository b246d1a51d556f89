"""Recalled chunks of a prompt, and what was left out and why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from memsvc.store.recalled import Place

Kind = Literal["fact", "insight", "chunk", "turn"]
IN_CONTEXT: Final = "in the recent context"


@dataclass(frozen=True, slots=True)
class Piece:
    """One recalled chunk of the block, with its token cost and its source.

    `session` is set for an item of another session, else "". `place` is its entry, `cut` the range
    shown of a longer text."""

    kind: Kind
    shown: dict[str, Any]
    ref: str
    score: float
    parts: Mapping[str, float]
    tokens: int
    id: str
    session: str = ""
    place: Place | None = None
    cut: tuple[int, int] | None = None

    @property
    def fact_id(self) -> str | None:
        """Return the id of the fact, if it is one."""
        return self.id if self.kind == "fact" else None

    @property
    def is_own_turn(self) -> bool:
        """Return whether it is an item of the session itself."""
        return self.kind == "turn" and not self.session


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that is not shown, and why; one that was not read has no `ref`, but a place."""

    kind: Kind
    ref: str
    score: float
    reason: str
    session: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """Recalled chunks in order of priority, which is also their order within a kind.

    `confidence` explains why past items count as an answer or not."""

    pieces: Sequence[Piece]
    dropped: Sequence[Dropped]
    confidence: Mapping[str, Any] | None = None

    def first(self, count: int) -> dict[Kind, list[dict[str, Any]]]:
        """Return the first chunks by kind, as the block shows them."""
        shown: dict[Kind, list[dict[str, Any]]] = {"fact": [], "insight": [], "chunk": [], "turn": []}
        for one in self.pieces[:count]:
            shown[one.kind].append(one.shown)
        return shown

    def among(self, count: int, refs: Collection[str]) -> set[str]:
        """Return which of these items of the session are among the first chunks."""
        return {one.ref for one in self.pieces[:count] if one.is_own_turn and one.ref in refs}

    def without(self, refs: Collection[str]) -> "Recalled":
        """Return the same without these items of the session, which the recent context shows."""
        gone = [one for one in self.pieces if one.is_own_turn and one.ref in refs]
        dropped = [Dropped("turn", one.ref, one.score, IN_CONTEXT, place=one.place) for one in gone]
        kept = [one for one in self.pieces if one not in gone]
        return replace(self, pieces=kept, dropped=[*self.dropped, *dropped])

    def ids(self, kind: Kind, count: int) -> list[str]:
        """Return the ids of this kind among the first chunks, each once."""
        return list(dict.fromkeys(one.id for one in self.pieces[:count] if one.kind == kind))

    def explanation(self, count: int, *, places: bool = False) -> dict[str, Any]:
        """Return why each candidate is shown, and its position, or not, best first.

        Includes the confidence in past items and, on request, the place and range of each."""
        shown = [
            {"ref": one.ref, "kind": one.kind, "shown": at < count, "score": one.score}
            | ({"session": one.session} if one.session else {})
            | {"parts": {name: round(part, 4) for name, part in one.parts.items()}}
            | ({"position": at + 1} if at < count else {"reason": "over the token budget"})
            | (_placed(one.place, one.cut) if places else {})
            for at, one in enumerate(self.pieces)
        ]
        dropped = [
            {"ref": one.ref, "kind": one.kind, "shown": False, "score": one.score, "reason": one.reason}
            | ({"session": one.session} if one.session else {})
            | (_placed(one.place, None) if places else {})
            for one in self.dropped
        ]
        candidates = sorted([*shown, *dropped], key=lambda one: -float(str(one["score"])))
        return {"candidates": candidates} | ({"confidence": self.confidence} if self.confidence else {})


def _placed(place: Place | None, cut: tuple[int, int] | None) -> dict[str, Any]:
    return ({"place": [*place]} if place else {}) | ({"cut": cut} if cut else {})
