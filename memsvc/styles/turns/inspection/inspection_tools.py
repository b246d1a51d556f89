"""The inspection tools, for people rather than agents: sessions, messages, recalls."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import orjson
from pydantic import Field

from memsvc.core.cursors import decode_cursor, encode_cursor
from memsvc.core.errors import invalid
from memsvc.core.facts import record_id
from memsvc.core.scope import Scope
from memsvc.store import conversation, recalls
from memsvc.store.database import Database
from memsvc.store.recall_content import EntryPlace
from memsvc.store.recalls import PlaceContent
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.inspection.inspection_models import (
    ITEM_CURSOR,
    Cursor,
    ListedRecall,
    ListedSession,
    ListedTurnItem,
    RecallCandidate,
    RecallList,
    SessionList,
    TurnItemList,
    inspection_tool,
)
from memsvc.styles.turns.inspection.recall_traces import RecallTrace, RecallTraces, place_of
from memsvc.styles.turns.recall.recall import TEXT_CHARS_READ
from memsvc.styles.turns.recall.sentence_quotes import quote_text
from memsvc.styles.turns.turn_models import DEFAULT_SESSION, SessionId, TurnId, TurnUser

TEXT_CHARS: Final = 4000
LINE_BYTES_MAX: Final = 32 * 1024
TURN_ITEMS_MAX: Final = 4000
"""Items of a searched turn; it has no more, unless options.items_max was raised."""


class InspectionTools:
    """The inspection tools."""

    def __init__(self, database: Database, traces: RecallTraces) -> None:
        self._database = database
        self._traces = traces

    @inspection_tool("memory_list_sessions", title="List sessions")
    async def list_sessions(
        self,
        scope: Scope,
        q: Annotated[
            str,
            Field(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$"),
            "sessions whose names have this in them, of the latest 10,000",
        ] = "",
        user_id: Annotated[TurnUser, "sessions in which this person spoke last"] = "",
        limit: Annotated[int, Field(ge=1, le=200), "sessions at the most"] = 50,
        cursor: Cursor = "",
    ) -> SessionList:
        """List the sessions of a project, the latest first, with what is counted of each."""
        before = (
            conversation.SessionPosition(*decode_cursor(cursor, datetime, str)) if cursor else None
        )
        async with self._database.begin(scope, read_only=True) as tx:
            found = await conversation.sessions(
                tx, named=q.strip(), user=user_id, before=before, limit=limit + 1
            )
        page = found[:limit]
        return SessionList(
            sessions=[
                ListedSession(
                    session.session,
                    session.user_id,
                    session.shared,
                    session.turns,
                    session.counters.get("items", 0),
                    session.counters.get("facts", 0),
                    session.created_at,
                    session.updated_at,
                    session.last_maintenance_at,
                )
                for session in page
            ],
            next_cursor=encode_cursor(page[-1].updated_at, page[-1].session)
            if len(found) > len(page)
            else None,
        )

    @inspection_tool("memory_list_turns", title="List what was said")
    async def list_turns(
        self,
        scope: Scope,
        session_id: SessionId = DEFAULT_SESSION,
        turn_id: Annotated[
            TurnId, "a turn to begin with: it, and what was said before; else the latest one"
        ] = "",
        limit: Annotated[int, Field(ge=1, le=200), "items at the most"] = 50,
        cursor: Annotated[str, Field(max_length=10), "next_cursor of the page before"] = "",
    ) -> TurnItemList:
        """List what was said in a session, item by item with the turn of each, the latest first."""
        if cursor and not ITEM_CURSOR.match(cursor):
            raise invalid("cursor must be the next_cursor of an earlier answer")
        before, index = (
            min(int(cursor), ENTRY_MAX) if cursor else ENTRY_MAX,
            turn_index.turns(session_id),
        )
        async with self._database.begin(scope, read_only=True) as tx:
            if turn_id and not cursor:
                before = await conversation.entry_after(
                    tx, session_id, index.number, turn_id, limit=TURN_ITEMS_MAX
                )
            found = await conversation.items(
                tx,
                index.number,
                before=before,
                limit=limit + 1,
                chars_max=TEXT_CHARS,
                line_bytes_max=LINE_BYTES_MAX,
            )
        page = found[:limit]
        return TurnItemList(
            items=[
                ListedTurnItem(
                    item.ref,
                    turn_of(item.ref),
                    item.said_at,
                    item.role,
                    item.speaker,
                    item.text,
                    item.chars > len(item.text),
                    item.tokens,
                    orjson.loads(item.line)["item"] if item.line else None,
                )
                for item in page
            ],
            next_cursor=str(page[-1].entry) if len(found) > len(page) else None,
        )

    @inspection_tool("memory_list_recalls", title="List what was recalled")
    async def list_recalls(
        self,
        scope: Scope,
        session_id: SessionId = DEFAULT_SESSION,
        turn_id: Annotated[TurnId, "the turn; every turn of the session if not given"] = "",
        limit: Annotated[int, Field(ge=1, le=50), "recalls at the most"] = 10,
        cursor: Cursor = "",
    ) -> RecallList:
        """List what memory_before_turn recalled for a session or one of its turns, and why.

        That is what each prompt had, what came close, the scores, and what limits left out."""
        before = recalls.RecallPosition(*decode_cursor(cursor, datetime, UUID)) if cursor else None
        found = await self._traces.page(
            scope,
            session_id,
            turn_id,
            before,
            limit=limit + 1,
            chars_max=TEXT_CHARS_READ,
        )
        page = found[:limit]
        last = page[-1].record if len(found) > len(page) else None
        return RecallList(
            [_listed(one) for one in page],
            encode_cursor(last.at, last.recall) if last else None,
        )


def _listed(trace: RecallTrace) -> ListedRecall:
    record = trace.record
    return ListedRecall(
        record.recall.hex,
        record.at,
        record.turn,
        record.user_id,
        record.tokens,
        [
            _candidate(candidate, record.session, trace.quoted)
            for candidate in record.details["candidates"]
        ],
        record.details.get("confidence"),
        record.details["limits"],
    )


def _candidate(
    candidate: Mapping[str, Any], session: str, quoted: Mapping[EntryPlace, PlaceContent]
) -> RecallCandidate:
    place = place_of(candidate)
    stored = quoted.get(place) if place else None
    text = None
    if stored is not None:
        cut: Any = candidate.get("cut") or [(0, len(stored.text))]
        # traces of earlier versions have one range, not a list of them
        ranges = [cut] if isinstance(cut[0], int) else cut
        text = quote_text(stored.text, ranges)
    return RecallCandidate(
        candidate["kind"],
        _ref(candidate, stored),
        (stored.session if stored else None) or candidate.get("session", session),
        _turn_of(candidate, stored),
        stored.fact_id if stored else None,
        candidate["shown"],
        candidate.get("reason"),
        candidate["score"],
        candidate.get("parts", {}),
        text,
        stored.role if stored else "",
        stored.speaker if stored else "",
        stored.said_at if stored else None,
        stored.key if stored else None,
        stored.tier if stored else None,
        stored.state if stored else None,
    )


def _ref(candidate: Mapping[str, Any], stored: PlaceContent | None) -> str:
    if stored is not None and stored.fact_id and stored.session:
        return record_id(stored.session, stored.ref)
    return candidate["ref"] or (stored.ref if stored else "")


def _turn_of(candidate: Mapping[str, Any], stored: PlaceContent | None) -> str | None:
    if stored is not None and stored.turn:
        return stored.turn
    return (
        turn_of(candidate["ref"] or (stored.ref if stored else ""))
        if candidate["kind"] == "turn"
        else None
    )
