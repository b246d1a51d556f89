"""State of a rebuild that reads a session's files: its position, turns and totals."""

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
    """State after a step. VOID: the files that it depends on changed, so it has to start again."""

    MORE = "more"
    DONE = "done"
    VOID = "void"


@dataclass(slots=True)
class Walk:
    """Position of a rebuild, after the file `after`, and its results so far.

    `read` are the files that were read, by path: a change of one invalidates the whole walk."""

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
        """Return the number of the next entry: its existing one, unless that is out of order."""
        return max(self.refs.get(ref, -1), self.stop)


def done(turn: str, placed: Sequence[tuple[int, Line]]) -> Done:
    """Return the guard of a turn, from its lines."""
    inputs = [line.item for _, line in placed if line.way == "in"]
    outputs = [line.item for _, line in placed if line.way == "out"]
    last = placed[-1][1]
    return Done(turn, fingerprint([inputs, outputs]), placed[0][0], last.result, last.said_at)


def resulting(one: Done, held: Done | None) -> Done:
    """Return a guard with a result.

    Lines without one keep the existing result, or a minimal one."""
    if one.result is not None:
        return one
    told: dict[str, Any] = held.result if held else {"turn_id": one.turn, "stored_items": 0, "fact_ids": []}
    return Done(one.turn, one.fingerprint, one.first_entry, told, one.at)


def counted(walk: Walk, wanted: dict[str, Done], before: Session | None) -> Count | None:
    """Return the session's row according to the files; None when they hold no turn.

    Where days of it were removed, the totals stay as they were `before`."""
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
