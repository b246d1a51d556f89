"""Recall traces: references and scores of each before_turn, so that people can see why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from memsvc.core.call_context import step_done
from memsvc.core.ports import Clock, Meter
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import recalls
from memsvc.store.batch_writer import BatchWriter
from memsvc.store.database import Database, Tx
from memsvc.store.recall_content import EntryPlace
from memsvc.store.recalls import PlaceContent, RecallPosition, RecallRecord
from memsvc.styles.turns.options import TraceOptions
from memsvc.styles.turns.prompt import PreparedPrompt

DROPPED_MAX: Final = 20
"""Candidates not shown, best first, that a trace lists."""
PURGE_JOB: Final = "turns.forget_traces"
PURGE_INTERVAL_S: Final = 6 * 60 * 60
ROWS_A_STEP: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNote:
    """A prepared prompt, before it becomes a trace."""

    scope: Scope
    at: datetime
    recall: UUID
    session: str
    turn: str
    user: str
    prepared: PreparedPrompt


@dataclass(frozen=True, slots=True)
class RecallTrace:
    """One recall, with the current content of the entries that it refers to."""

    record: RecallRecord
    quoted: Mapping[EntryPlace, PlaceContent]


class RecallTraces:
    """Background writer and reader of recall traces."""

    def __init__(
        self, database: Database, clock: Clock, meter: Meter, options: TraceOptions
    ) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self.writer = BatchWriter[TraceNote](
            database,
            clock,
            options,
            kind="recalls",
            write=_write,
            dropped=lambda count: meter.add("memsvc_traces_dropped_total", count),
            keep_after_purge=False,
        )
        self.job = Job(name=PURGE_JOB, run=self._purge, interval_s=PURGE_INTERVAL_S)

    def note(
        self, scope: Scope, *, session: str, turn: str, user: str, prepared: PreparedPrompt
    ) -> None:
        """Record what a prompt was given and why; nothing where traces are switched off."""
        if self._options.days > 0:
            at = self._clock.now()
            self.writer.record(
                TraceNote(
                    scope=scope,
                    at=at,
                    recall=uuid4(),
                    session=session,
                    turn=turn,
                    user=user,
                    prepared=prepared,
                )
            )

    async def page(
        self,
        scope: Scope,
        session: str,
        turn: str,
        before: RecallPosition | None,
        *,
        limit: int,
        chars_max: int,
    ) -> Sequence[RecallTrace]:
        """Return the recalls of a session or a turn, latest first, with their current content."""
        async with self._database.begin(scope, read_only=True) as tx:
            found = await recalls.page(tx, session, turn, before, limit=limit)
            places = {
                place
                for record in found
                for candidate in record.details["candidates"]
                if (place := place_of(candidate))
            }
            quoted = (
                await recalls.read_places(tx, sorted(places), chars_max=chars_max) if places else {}
            )
        return [RecallTrace(record, quoted) for record in found]

    async def _purge(self, scope: Scope, _: str) -> None:
        oldest: datetime = self._clock.now() - timedelta(days=self._options.days)
        while True:
            async with self._database.begin(scope) as tx:
                if await recalls.forget_before(tx, oldest, limit=ROWS_A_STEP) < ROWS_A_STEP:
                    return
            step_done()


async def _write(tx: Tx, notes: Sequence[TraceNote]) -> None:
    await recalls.insert(tx, [_record(note) for note in notes])


def _record(note: TraceNote) -> RecallRecord:
    prepared = note.prepared
    details = prepared.recalled.details(prepared.chunks_used, places=True)
    visible_candidates = [candidate for candidate in details["candidates"] if candidate["shown"]]
    other_candidates = [candidate for candidate in details["candidates"] if not candidate["shown"]][
        :DROPPED_MAX
    ]
    return RecallRecord(
        scope=note.scope,
        at=note.at,
        recall=note.recall,
        session=note.session,
        turn=note.turn,
        user_id=note.user,
        tokens=prepared.tokens,
        details=details
        | {"candidates": visible_candidates + other_candidates, "limits": prepared.limits},
    )


def place_of(candidate: Mapping[str, Any]) -> EntryPlace | None:
    """Return the place of a candidate of a trace; None for a passage, which is not an entry."""
    place = candidate.get("place")
    return EntryPlace(*place) if place else None
