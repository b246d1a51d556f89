"""Recall traces: references and scores of each before_turn, so that people can see why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.core.underway import step_done
from memsvc.store import recalls
from memsvc.store.behind import Behind
from memsvc.store.database import Database, Tx
from memsvc.store.recalled import Place
from memsvc.store.recalls import Before, Quoted, RecallRecord
from memsvc.styles.turns.options import TraceOptions
from memsvc.styles.turns.prompt import Prepared

DROPPED_MAX: Final = 20
"""Candidates not shown, best first, that a trace lists."""
PAST_JOB: Final = "turns.forget_traces"
PAST_EVERY_S: Final = 6 * 60 * 60
STEP: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A prepared prompt, before it becomes a trace."""

    scope: Scope
    at: datetime
    recall: UUID
    session: str
    turn: str
    user: str
    prepared: Prepared


@dataclass(frozen=True, slots=True)
class Traced:
    """One recall, with the current content of the entries that it refers to."""

    record: RecallRecord
    quoted: Mapping[Place, Quoted]


class Traces:
    """Background writer and reader of recall traces."""

    def __init__(self, database: Database, clock: Clock, meter: Meter, options: TraceOptions) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self.behind = Behind[Note](
            database,
            clock,
            options,
            what="recalls",
            write=_write,
            dropped=lambda count: meter.add("memsvc_traces_dropped_total", count),
            outliving=False,
        )
        self.job = Job(name=PAST_JOB, run=self._forget_past, every_s=PAST_EVERY_S)

    def note(self, scope: Scope, *, session: str, turn: str, user: str, prepared: Prepared) -> None:
        """Record what a prompt was given and why; nothing where traces are switched off."""
        if self._options.days > 0:
            at = self._clock.now()
            self.behind.record(
                Note(scope=scope, at=at, recall=uuid4(), session=session, turn=turn, user=user, prepared=prepared)
            )

    async def page(
        self, scope: Scope, session: str, turn: str, before: Before | None, *, most: int, chars_max: int
    ) -> Sequence[Traced]:
        """Return the recalls of a session or a turn, latest first, with their current content."""
        async with self._database.begin(scope, read_only=True) as tx:
            found = await recalls.page(tx, session, turn, before, most=most)
            places = {place for record in found for one in record.told["candidates"] if (place := place_of(one))}
            quoted = await recalls.quoted(tx, sorted(places), chars_max=chars_max) if places else {}
        return [Traced(record, quoted) for record in found]

    async def _forget_past(self, scope: Scope, _: str) -> None:
        oldest: datetime = self._clock.now() - timedelta(days=self._options.days)
        while True:
            async with self._database.begin(scope) as tx:
                if await recalls.forget_before(tx, oldest, most=STEP) < STEP:
                    return
            step_done()


async def _write(tx: Tx, notes: Sequence[Note]) -> None:
    await recalls.insert(tx, [_record(note) for note in notes])


def _record(note: Note) -> RecallRecord:
    prepared = note.prepared
    told = prepared.recalled.explanation(prepared.pieces_shown, places=True)
    shown = [one for one in told["candidates"] if one["shown"]]
    dropped = [one for one in told["candidates"] if not one["shown"]][:DROPPED_MAX]
    return RecallRecord(
        scope=note.scope,
        at=note.at,
        recall=note.recall,
        session=note.session,
        turn=note.turn,
        user_id=note.user,
        tokens=prepared.tokens,
        told=told | {"candidates": shown + dropped, "limits": prepared.limits},
    )


def place_of(told: Mapping[str, Any]) -> Place | None:
    """Return the place of a candidate of a trace; None for a passage, which is not an entry."""
    place = told.get("place")
    return Place(*place) if place else None
