"""Inspection by people rather than agents: sessions, their messages, and traces of recalls."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID, uuid4

import orjson
from pydantic import Field

from memsvc.core.call_context import step_done
from memsvc.core.cursors import decode_cursor, encode_cursor
from memsvc.core.errors import invalid
from memsvc.core.facts import record_id
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock, Meter
from memsvc.core.ranking import EntryPlace
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import Job, NextCursor
from memsvc.store import conversation, recalls
from memsvc.store.batch_writer import BatchWriter
from memsvc.store.conversation import ListedSession
from memsvc.store.database import Database
from memsvc.store.recalls import PlaceContent, RecallRecord
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.options import TraceOptions
from memsvc.styles.turns.prompt import PreparedPrompt
from memsvc.styles.turns.recall.recall import TEXT_CHARS_READ
from memsvc.styles.turns.recall.sentence_quotes import quote_text
from memsvc.styles.turns.turn_models import SessionId, TurnId, TurnUser

DROPPED_MAX: Final = 20
"""Candidates not shown, best first, that a trace lists."""
PURGE_JOB: Final = "turns.forget_traces"
PURGE_INTERVAL_S: Final = 6 * 60 * 60
ROWS_A_STEP: Final = 5_000

CURSOR_CHARS_MAX: Final = 700
ITEM_CURSOR: Final = re.compile(r"[1-9]\d{0,9}\Z")
Cursor = Annotated[str, Field(max_length=CURSOR_CHARS_MAX), "next_cursor of the previous page"]
inspection_tool = partial(
    tool,
    toolset="turns",
    needs=Permission.READ,
    logs=("session_id", "turn_id", "user_id"),
    is_admin=True,
)

TEXT_CHARS: Final = 4000
LINE_BYTES_MAX: Final = 32 * 1024
TURN_ITEMS_MAX: Final = 4000
"""Items of a searched turn; it has no more, unless options.items_max was raised."""


@frozen
class TraceNote:
    """A prepared prompt, before it becomes a trace."""

    scope: Scope
    at: datetime
    recall: UUID
    session: str
    turn: str
    user: str
    prepared: PreparedPrompt


class RecallTraces:
    """Background writer of recall traces."""

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
            write=lambda tx, notes: recalls.insert(tx, [_record(note) for note in notes]),
            dropped=lambda count: meter.add("memsvc_traces_dropped_total", count),
            keep_after_purge=False,
        )
        self.job = Job(PURGE_JOB, self._purge, interval_s=PURGE_INTERVAL_S)

    def note(
        self, scope: Scope, *, session: str, turn: str, user: str, prepared: PreparedPrompt
    ) -> None:
        """Record what a prompt was given and why; nothing where traces are switched off."""
        if self._options.days > 0:
            self.writer.record(
                TraceNote(scope, self._clock.now(), uuid4(), session, turn, user, prepared)
            )

    async def _purge(self, scope: Scope, _: str) -> None:
        oldest: datetime = self._clock.now() - timedelta(days=self._options.days)
        while True:
            async with self._database.begin(scope) as tx:
                if await recalls.forget_before(tx, oldest, limit=ROWS_A_STEP) < ROWS_A_STEP:
                    return
            step_done()


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


@result
class SessionList:
    sessions: Annotated[list[ListedSession], "sessions, latest first"]
    next_cursor: NextCursor = None


@result
class ListedTurnItem:
    event_id: Annotated[
        str, "id of the item, as in the session's event files and in the evidence of facts"
    ]
    turn_id: Annotated[str, "id of the turn"]
    said_at: Annotated[datetime, "time of the message or tool call"]
    role: Annotated[str, "role of the item: user, assistant, tool and so on"]
    speaker: Annotated[str, "name of the speaker, or id of the turn's user, if known"]
    text: Annotated[str, "text of the item, at most 4,000 characters"]
    cut: Annotated[bool, "whether the text was cut"]
    tokens: Annotated[int, "number of tokens that the item takes in a prompt"]
    item: Annotated[
        dict[str, Any] | None,
        "the item as it was stored; null if it is archived or larger than 32 KB",
    ]


def _turn_item(item: conversation.SessionItem) -> ListedTurnItem:
    """Return an item with its speaker: for a user's message without a name, the turn's user."""
    event = orjson.loads(item.line) if item.line else {}
    user = event.get("user_id") or "" if item.role == "user" else ""
    return ListedTurnItem(
        item.ref,
        turn_of(item.ref),
        item.said_at,
        item.role,
        item.speaker or user,
        item.text,
        item.chars > len(item.text),
        item.tokens,
        event.get("item"),
    )


@result
class TurnItemList:
    items: Annotated[
        list[ListedTurnItem],
        "items, latest first; forgotten items are omitted",
    ]
    next_cursor: NextCursor = None


@result
class RecallCandidate:
    kind: Annotated[
        str,
        "kind of candidate: turn, fact, insight, or chunk (a passage of a file,"
        " whiteboard or document)",
    ]
    ref: Annotated[str, "id of the event, insight or passage, or record_id of the fact"]
    session_id: Annotated[str, "session of the recall candidate"]
    turn_id: Annotated[
        str | None, "turn of the recall candidate; for a fact, the turn in which it was stated"
    ]
    fact_id: Annotated[str | None, "for a fact, its fact_id"]
    shown: Annotated[bool, "whether the recall candidate was in the prompt"]
    reason: Annotated[str | None, "reason why the recall candidate was not in the prompt"]
    score: Annotated[float, "score by which the recall candidate was ranked"]
    parts: Annotated[dict[str, float], "components of the score, by name"]
    text: Annotated[
        str | None,
        "text of the recall candidate in the prompt; null for forgotten items and for"
        " passages (their text can change)",
    ]
    role: Annotated[str, "role of the item, such as user"]
    speaker: Annotated[str, "name of the speaker, if known"]
    said_at: Annotated[datetime | None, "time of the message, tool call or fact; null if unknown"]
    key: Annotated[str | None, "kind of fact; only for a fact"]
    tier: Annotated[str | None, "for a fact, its retention tier"]
    state: Annotated[str | None, "for a fact, its current state: active, superseded or deleted"]


@result
class ListedRecall:
    recall_id: Annotated[str, "id of the recall"]
    recalled_at: Annotated[datetime, "time of the recall"]
    turn_id: Annotated[str, "turn for which memory was recalled, if given"]
    user_id: Annotated[str, "user for whom memory was recalled, if given"]
    context_token_count: Annotated[int, "number of tokens of the whole prompt"]
    candidates: Annotated[
        list[RecallCandidate],
        "recall candidates in the prompt, and the best candidates that were left out",
    ]
    confidence: Annotated[
        dict[str, Any] | None,
        "two numbers: confidence that recalled items are relevant, and the minimum to show them",
    ]
    limits: Annotated[dict[str, Any], "token limits, and numbers of items left out because of them"]


@result
class RecallList:
    recalls: Annotated[
        list[ListedRecall], "recalls, latest first; a new recall may take a second to appear"
    ]
    next_cursor: NextCursor = None


@frozen
class InspectionTools:
    """The inspection tools."""

    database: Database

    @inspection_tool("memory_list_sessions", "List sessions")
    async def list_sessions(
        self,
        scope: Scope,
        q: Annotated[
            str,
            Field(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$"),
            "text that the session's name must contain; only the latest 10,000 sessions are"
            " searched",
        ] = "",
        user_id: Annotated[TurnUser, "only sessions in which this user was the last to speak"] = "",
        limit: Annotated[int, Field(ge=1, le=200), "maximum number of sessions"] = 50,
        cursor: Cursor = "",
    ) -> SessionList:
        """List a project's sessions, latest first, with the number of turns and items in each."""
        before = (
            conversation.SessionPosition(*decode_cursor(cursor, datetime, str)) if cursor else None
        )
        async with self.database.begin_read(scope) as tx:
            found = await conversation.sessions(
                tx, named=q.strip(), user=user_id, before=before, limit=limit + 1
            )
        page = found[:limit]
        return SessionList(
            sessions=page,
            next_cursor=encode_cursor(page[-1].updated_at, page[-1].session_id)
            if len(found) > len(page)
            else None,
        )

    @inspection_tool("memory_list_turns", "List turns")
    async def list_turns(
        self,
        scope: Scope,
        session_id: SessionId = "",
        turn_id: Annotated[
            TurnId, "turn to start with; earlier turns follow; default: the latest turn"
        ] = "",
        limit: Annotated[int, Field(ge=1, le=200), "maximum number of items"] = 50,
        cursor: Annotated[str, Field(max_length=10), "next_cursor of the previous page"] = "",
    ) -> TurnItemList:
        """List the items of a session with their turns, latest first."""
        if cursor and not ITEM_CURSOR.match(cursor):
            raise invalid("cursor must be the next_cursor of an earlier answer")
        before = min(int(cursor), ENTRY_MAX) if cursor else ENTRY_MAX
        index_id = turn_index.turns(session_id).number
        async with self.database.begin_read(scope) as tx:
            if turn_id and not cursor:
                before = await conversation.entry_after(
                    tx, session_id, index_id, turn_id, limit=TURN_ITEMS_MAX
                )
            found = await conversation.items(
                tx,
                index_id,
                before=before,
                limit=limit + 1,
                chars_max=TEXT_CHARS,
                line_bytes_max=LINE_BYTES_MAX,
            )
        page = found[:limit]
        return TurnItemList(
            items=[_turn_item(item) for item in page],
            next_cursor=str(page[-1].entry) if len(found) > len(page) else None,
        )

    @inspection_tool("memory_list_recalls", "List recalls")
    async def list_recalls(
        self,
        scope: Scope,
        session_id: SessionId = "",
        turn_id: Annotated[TurnId, "id of the turn; default: all turns of the session"] = "",
        limit: Annotated[int, Field(ge=1, le=50), "maximum number of recalls"] = 10,
        cursor: Cursor = "",
    ) -> RecallList:
        """List what memory_before_turn recalled for a session or one of its turns, and why.

        Shows what each prompt contained, what was nearly recalled, scores, and what was left out
        because of limits."""
        before = recalls.RecallPosition(*decode_cursor(cursor, datetime, UUID)) if cursor else None
        async with self.database.begin_read(scope) as tx:
            found = await recalls.page(tx, session_id, turn_id, before, limit=limit + 1)
            places = sorted(
                {
                    place
                    for record in found
                    for candidate in record.details["candidates"]
                    if (place := place_of(candidate))
                }
            )
            quoted = (
                await recalls.read_places(tx, places, chars_max=TEXT_CHARS_READ) if places else {}
            )
        page = found[:limit]
        last = page[-1] if len(found) > len(page) else None
        return RecallList(
            [_listed(one, quoted) for one in page],
            encode_cursor(last.at, last.recall) if last else None,
        )


def _listed(record: RecallRecord, quoted: Mapping[EntryPlace, PlaceContent]) -> ListedRecall:
    return ListedRecall(
        record.recall.hex,
        record.at,
        record.turn,
        record.user_id,
        record.tokens,
        [
            _candidate(candidate, record.session, quoted)
            for candidate in record.details["candidates"]
        ],
        record.details.get("confidence"),
        record.details["limits"],
    )


_FORGOTTEN: Final = PlaceContent("", "", "", "")


def _candidate(
    candidate: Mapping[str, Any], session: str, quoted: Mapping[EntryPlace, PlaceContent]
) -> RecallCandidate:
    place = place_of(candidate)
    stored = (quoted.get(place) if place else None) or _FORGOTTEN
    text = None
    if stored.said_at is not None:
        cut: Any = candidate.get("cut") or [(0, len(stored.text))]
        # traces of earlier versions have one range, not a list of them
        ranges = [cut] if isinstance(cut[0], int) else cut
        text = quote_text(stored.text, ranges)
    ref = candidate["ref"] or stored.ref
    turn = turn_of(ref) if candidate["kind"] == "turn" else None
    if stored.fact_id and stored.session:
        ref = record_id(stored.session, stored.ref)
    return RecallCandidate(
        candidate["kind"],
        ref,
        stored.session or candidate.get("session", session),
        stored.turn or turn,
        stored.fact_id,
        candidate["shown"],
        candidate.get("reason"),
        candidate["score"],
        candidate.get("parts", {}),
        text,
        stored.role,
        stored.speaker,
        stored.said_at,
        stored.key,
        stored.tier,
        stored.state,
    )
