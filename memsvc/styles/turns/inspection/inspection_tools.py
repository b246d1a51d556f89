"""The inspection tools, for people rather than agents: sessions, messages, recalls."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from memsvc.core.cursors import decode_cursor, encode_cursor
from memsvc.core.facts import record_id
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.store import recalls, timeline
from memsvc.store.database import Database
from memsvc.store.recall_content import EntryPlace
from memsvc.store.recalls import PlaceContent
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.inspection.inspection_models import (
    ListedRecall,
    ListedSession,
    ListedTurnItem,
    ListRecallsArguments,
    ListRecallsResult,
    ListSessionsArguments,
    ListSessionsResult,
    ListTurnsArguments,
    ListTurnsResult,
    RecallCandidate,
)
from memsvc.styles.turns.inspection.recall_traces import RecallTrace, RecallTraces, place_of
from memsvc.styles.turns.recall.recall import TEXT_CHARS_READ
from memsvc.styles.turns.recall.sentence_quotes import quote_text

TEXT_CHARS: Final = 4000
LINE_BYTES_MAX: Final = 32 * 1024
TURN_ITEMS_MAX: Final = 4000
"""Items of a searched turn; it has no more, unless options.items_max was raised."""


class InspectionTools:
    """Functions of the inspection tools."""

    def __init__(self, database: Database, traces: RecallTraces) -> None:
        self._database = database
        self._traces = traces

    async def list_sessions(self, scope: Scope, args: ListSessionsArguments) -> ListSessionsResult:
        before = (
            timeline.SessionPosition(*decode_cursor(args.cursor, datetime, str))
            if args.cursor
            else None
        )
        async with self._database.begin(scope, read_only=True) as tx:
            found = await timeline.sessions(
                tx, named=args.q.strip(), user=args.user_id, before=before, limit=args.limit + 1
            )
        page = found[: args.limit]
        return ListSessionsResult(
            sessions=[
                ListedSession(
                    session_id=session.session,
                    user_id=session.user_id,
                    shared=session.shared,
                    turns=session.turns,
                    items=session.counters.get("items", 0),
                    facts=session.counters.get("facts", 0),
                    created_at=session.created_at,
                    updated_at=session.updated_at,
                    last_maintenance_at=session.last_maintenance_at,
                )
                for session in page
            ],
            next_cursor=encode_cursor(page[-1].updated_at, page[-1].session)
            if len(found) > len(page)
            else None,
        )

    async def list_turns(self, scope: Scope, args: ListTurnsArguments) -> ListTurnsResult:
        before, index = (
            min(int(args.cursor), ENTRY_MAX) if args.cursor else ENTRY_MAX,
            turn_index.turns(args.session_id),
        )
        async with self._database.begin(scope, read_only=True) as tx:
            if args.turn_id and not args.cursor:
                before = await timeline.entry_after(
                    tx, args.session_id, index.number, args.turn_id, limit=TURN_ITEMS_MAX
                )
            found = await timeline.items(
                tx,
                index.number,
                before=before,
                limit=args.limit + 1,
                chars_max=TEXT_CHARS,
                line_bytes_max=LINE_BYTES_MAX,
            )
        page = found[: args.limit]
        return ListTurnsResult(
            items=[
                ListedTurnItem(
                    event_id=item.ref,
                    turn_id=turn_of(item.ref),
                    said_at=item.said_at,
                    role=item.role,
                    speaker=item.speaker,
                    text=item.text,
                    cut=item.chars > len(item.text),
                    tokens=item.tokens,
                    item=orjson.loads(item.line)["item"] if item.line else None,
                )
                for item in page
            ],
            next_cursor=str(page[-1].entry) if len(found) > len(page) else None,
        )

    async def list_recalls(self, scope: Scope, args: ListRecallsArguments) -> ListRecallsResult:
        before = (
            recalls.RecallPosition(*decode_cursor(args.cursor, datetime, UUID))
            if args.cursor
            else None
        )
        found = await self._traces.page(
            scope,
            args.session_id,
            args.turn_id,
            before,
            limit=args.limit + 1,
            chars_max=TEXT_CHARS_READ,
        )
        page = found[: args.limit]
        last = page[-1].record if len(found) > len(page) else None
        return ListRecallsResult(
            recalls=[_listed(one) for one in page],
            next_cursor=encode_cursor(last.at, last.recall) if last else None,
        )


def _listed(trace: RecallTrace) -> ListedRecall:
    record = trace.record
    return ListedRecall(
        recall_id=record.recall.hex,
        recalled_at=record.at,
        turn_id=record.turn,
        user_id=record.user_id,
        context_token_count=record.tokens,
        candidates=[
            _candidate(candidate, record.session, trace.quoted)
            for candidate in record.details["candidates"]
        ],
        confidence=record.details.get("confidence"),
        limits=record.details["limits"],
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
        kind=candidate["kind"],
        ref=_ref(candidate, stored),
        session_id=(stored.session if stored else None) or candidate.get("session", session),
        turn_id=_turn_of(candidate, stored),
        fact_id=stored.fact_id if stored else None,
        shown=candidate["shown"],
        reason=candidate.get("reason"),
        score=candidate["score"],
        parts=candidate.get("parts", {}),
        text=text,
        role=stored.role if stored else "",
        speaker=stored.speaker if stored else "",
        said_at=stored.said_at if stored else None,
        key=stored.key if stored else None,
        tier=stored.tier if stored else None,
        state=stored.state if stored else None,
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


def inspection_tools(functions: InspectionTools) -> list[Tool]:
    """Return the inspection tools."""
    logged = frozenset({"project", "session_id", "turn_id", "user_id"})
    return [
        Tool(
            name="memory_list_sessions",
            title="List sessions",
            description="List the sessions of a project, the latest first, with what is counted"
            " of each.",
            arguments=ListSessionsArguments,
            result=ListSessionsResult,
            run=functions.list_sessions,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
            is_admin=True,
        ),
        Tool(
            name="memory_list_turns",
            title="List what was said",
            description="List what was said in a session, item by item with the turn of each, the"
            " latest first.",
            arguments=ListTurnsArguments,
            result=ListTurnsResult,
            run=functions.list_turns,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
            is_admin=True,
        ),
        Tool(
            name="memory_list_recalls",
            title="List what was recalled",
            description=(
                "List what memory_before_turn recalled for a session or one of its turns, and"
                " why: what each prompt had, what came close, the scores, and what limits left"
                " out."
            ),
            arguments=ListRecallsArguments,
            result=ListRecallsResult,
            run=functions.list_recalls,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
            is_admin=True,
        ),
    ]
