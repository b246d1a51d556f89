"""State of a rebuild that reads a session's files: its position, turns and totals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from memsvc.core.items import canonical, fingerprint
from memsvc.store import guard
from memsvc.store.derived import DoneTurn, FileSize, SessionCounts
from memsvc.store.sessions import StoredSession
from memsvc.styles.turns.maintenance.event_files import EventFile, EventLine


class WalkStatus(Enum):
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
    read: dict[str, FileSize] = field(default_factory=dict)
    stop: int = 0
    users: list[str] = field(default_factory=list)
    turns: dict[str, DoneTurn] = field(default_factory=dict)
    items: int = 0
    facts: int = 0
    created_at: datetime | None = None

    def number(self, ref: str) -> int:
        """Return the number of the next entry: its existing one, unless that is out of order."""
        return max(self.refs.get(ref, -1), self.stop)


def done(turn: str, lines_by_number: Sequence[tuple[int, EventLine]]) -> DoneTurn:
    """Return the guard of a turn, from its lines."""
    inputs = [canonical(line.item) for _, line in lines_by_number if line.direction == "in"]
    output_items = [canonical(line.item) for _, line in lines_by_number if line.direction == "out"]
    last = lines_by_number[-1][1]
    return DoneTurn(
        turn,
        fingerprint([inputs, output_items]),
        lines_by_number[0][0],
        last.result,
        last.message_at,
    )


def with_result(turn_guard: DoneTurn, existing: DoneTurn | None) -> DoneTurn:
    """Return a guard with a result.

    Lines without one keep the existing result, or a minimal one."""
    if turn_guard.result is not None:
        return turn_guard
    result: dict[str, Any] = (
        existing.result
        if existing
        else {"turn_id": turn_guard.turn, "stored_items": 0, "fact_ids": []}
    )
    return DoneTurn(
        turn_guard.turn, turn_guard.fingerprint, turn_guard.first_entry, result, turn_guard.at
    )


def session_counts(
    walk: Walk, guard_by_turn: dict[str, DoneTurn], before: StoredSession | None
) -> SessionCounts | None:
    """Return the session's row according to the files; None when they hold no turn.

    Where days of it were removed, the totals stay as they were `before`."""
    stored = [
        turn_guard
        for turn_guard in guard_by_turn.values()
        if turn_guard.fingerprint != guard.ANY_CONTENT
    ]
    if not stored or walk.created_at is None:
        return None
    counters = {
        "items": walk.items,
        "facts": sum(len(turn_guard.result["fact_ids"]) for turn_guard in stored),
    }
    return SessionCounts(
        user_id=walk.users[-1] if walk.users else before.user_id if before else "",
        latest_turn=stored[-1].turn,
        turns=before.turns if before else len(stored),
        counters={name: before.counters.get(name, 0) for name in counters} if before else counters,
        created_at=before.created_at if before else walk.created_at,
        updated_at=max(turn_guard.at for turn_guard in stored),
        shared=len(set(walk.users)) > 1 or (before is not None and before.shared),
    )
