"""Recalled chunks of a prompt, and what was left out and why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from memsvc.store.recall_content import EntryPlace
from memsvc.styles.turns.file_layout import exact_timestamp

Kind = Literal["profile", "fact", "insight", "chunk", "turn"]
IN_CONTEXT: Final = "in the recent context"
OVER_THE_BUDGET: Final = "over the token budget"


@dataclass(frozen=True, slots=True)
class RecalledChunk:
    """One recalled chunk of the block, with its estimated tokens and its source.

    `fields` are as the block shows them; of an item they include what the block groups by (session,
    turn, time and speaker), and `more` to say of it. `session` is set for an item of another
    session, else "". `place` is its entry, `text_ranges` what is quoted of a longer text."""

    kind: Kind
    fields: dict[str, Any]
    ref: str
    score: float
    parts: Mapping[str, float]
    tokens: int
    id: str
    session: str = ""
    place: EntryPlace | None = None
    text_ranges: Sequence[tuple[int, int]] | None = None

    @property
    def is_session_turn(self) -> bool:
        """Return whether it is an item of the session itself."""
        return self.kind == "turn" and not self.session


@dataclass(frozen=True, slots=True)
class DroppedCandidate:
    """A candidate that is not shown, and why; one that was not read has no `ref`, but a place."""

    kind: Kind
    ref: str
    score: float
    reason: str
    session: str = ""
    place: EntryPlace | None = None


@dataclass(frozen=True, slots=True)
class RankedRecall:
    """Recalled chunks in order of priority, which is also their order within a kind but turns.

    `confidence` explains why past items count as an answer or not."""

    chunks: Sequence[RecalledChunk]
    dropped: Sequence[DroppedCandidate]
    confidence: Mapping[str, Any] | None = None

    def refs_in_first(self, count: int, refs: Collection[str]) -> set[str]:
        """Return which of these items of the session are among the first chunks."""
        return {
            chunk.ref
            for chunk in self.chunks[:count]
            if chunk.is_session_turn and chunk.ref in refs
        }

    def without(self, refs: Collection[str]) -> "RankedRecall":
        """Return the same without these items of the session, which the recent context shows."""
        gone = [chunk for chunk in self.chunks if chunk.is_session_turn and chunk.ref in refs]
        dropped = [
            DroppedCandidate("turn", chunk.ref, chunk.score, IN_CONTEXT, place=chunk.place)
            for chunk in gone
        ]
        kept = [chunk for chunk in self.chunks if chunk not in gone]
        return replace(self, chunks=kept, dropped=[*self.dropped, *dropped])

    def ids(self, kind: Kind, count: int) -> list[str]:
        """Return the ids of this kind among the first chunks, each once.

        Facts are those that the question asks for, also where the profile tells them."""
        return list(
            dict.fromkeys(
                chunk.id
                for chunk in self.chunks[:count]
                if chunk.kind == kind
                or (kind == "fact" and chunk.kind == "profile" and chunk.parts)
            )
        )

    def details(self, count: int, *, places: bool = False) -> dict[str, Any]:
        """Return why each candidate is shown, and its position, or not, best first.

        Includes the confidence in past items and, on request, place and quoted ranges of each."""
        listed = [
            {
                "ref": candidate.ref,
                "kind": candidate.kind,
                "shown": at < count,
                "score": candidate.score,
            }
            | ({"session": candidate.session} if candidate.session else {})
            | {"parts": {name: round(part, 4) for name, part in candidate.parts.items()}}
            | _exact_time(candidate.fields.get("time"))
            | ({"position": at + 1} if at < count else {"reason": OVER_THE_BUDGET})
            | (_place_fields(candidate.place, candidate.text_ranges) if places else {})
            for at, candidate in enumerate(self.chunks)
        ]
        dropped = [
            {
                "ref": candidate.ref,
                "kind": candidate.kind,
                "shown": False,
                "score": candidate.score,
                "reason": candidate.reason,
            }
            | ({"session": candidate.session} if candidate.session else {})
            | (_place_fields(candidate.place, None) if places else {})
            for candidate in self.dropped
        ]
        candidates = sorted(
            [*listed, *dropped], key=lambda candidate: -float(str(candidate["score"]))
        )
        return {"candidates": candidates} | (
            {"confidence": self.confidence} if self.confidence else {}
        )


def _exact_time(time: object) -> dict[str, str]:
    return {"time": exact_timestamp(time)} if isinstance(time, datetime) else {}


def _place_fields(
    place: EntryPlace | None, text_ranges: Sequence[tuple[int, int]] | None
) -> dict[str, Any]:
    return ({"place": [*place]} if place else {}) | ({"cut": text_ranges} if text_ranges else {})
