"""The files of a session as a rebuild walks through them: how far it came, and what they say of turns and session."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from memsvc.core.items import fingerprint
from memsvc.store import guard
from memsvc.store.derived import Count, Done, Extent
from memsvc.store.sessions import Session
from memsvc.styles.turns.upkeep.event_files import EventFile, Line


class Onward(Enum):
    """How a walk goes on after a step. VOID: what it rests on changed meanwhile, so that it has to begin again."""

    MORE = "more"
    DONE = "done"
    VOID = "void"


@dataclass(slots=True)
class Walk:
    """How far the events of a session were read, up to and with the file `after`, and what they come to so far. `read`
    are the files that this was learnt from, by path: one that changes meanwhile makes the whole walk void."""

    refs: dict[str, int]
    forgotten: set[str]
    after: EventFile | None = None
    read: dict[str, Extent] = field(default_factory=dict)
    stop: int = 0
    users: list[str] = field(default_factory=list)
    turns: dict[str, Done] = field(default_factory=dict)
    items: int = 0
    facts: int = 0
    created_at: datetime | None = None

    def number(self, ref: str) -> int:
        """The number of the next entry: the one that it has, unless that would be out of order."""
        return max(self.refs.get(ref, -1), self.stop)


def done(turn: str, placed: Sequence[tuple[int, Line]]) -> Done:
    """The guard of a turn, from its lines."""
    inputs = [line.item for _, line in placed if line.way == "in"]
    outputs = [line.item for _, line in placed if line.way == "out"]
    last = placed[-1][1]
    return Done(turn, fingerprint([inputs, outputs]), placed[0][0], last.result, last.said_at)


def resulting(one: Done, held: Done | None) -> Done:
    """Lines that were written before they held a turn's result leave it as it is, or as much as they tell."""
    if one.result is not None:
        return one
    told: dict[str, Any] = held.result if held else {"turn_id": one.turn, "stored_items": 0, "fact_ids": []}
    return Done(one.turn, one.fingerprint, one.first_entry, told, one.at)


def counted(walk: Walk, wanted: dict[str, Done], before: Session | None) -> Count | None:
    """What the files say of the session's row; None when they hold no turn. Where days of it were removed, what is
    counted from the beginning stays as it was `before`."""
    stored = [one for one in wanted.values() if one.fingerprint != guard.ANY_CONTENT]
    if not stored or walk.created_at is None:
        return None
    counters = {"items": walk.items, "facts": sum(len(one.result["fact_ids"]) for one in stored)}
    return Count(
        user_id=walk.users[-1] if walk.users else before.user_id if before else "",
        latest_turn=stored[-1].turn,
        turns=before.turns if before else len(stored),
        counters={name: before.counters.get(name, 0) for name in counters} if before else counters,
        created_at=before.created_at if before else walk.created_at,
        updated_at=max(one.at for one in stored),
        shared=len(set(walk.users)) > 1 or (before is not None and before.shared),
    )
