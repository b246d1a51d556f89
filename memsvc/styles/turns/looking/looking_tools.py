"""The inspection tools, for people rather than agents: sessions, messages, recalls."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from memsvc.core.cursors import cursor_of, read_cursor
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.store import recalls, timeline
from memsvc.store.database import Database
from memsvc.store.recalled import Place
from memsvc.store.recalls import Quoted
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import books
from memsvc.styles.turns.layout import turn_of
from memsvc.styles.turns.looking.contract import (
    ListedRecall,
    ListedSession,
    ListRecallsArguments,
    ListRecallsResult,
    ListSessionsArguments,
    ListSessionsResult,
    ListTurnsArguments,
    ListTurnsResult,
    RecallCandidate,
    TurnItem,
)
from memsvc.styles.turns.looking.traces import Traced, Traces, place_of
from memsvc.styles.turns.recall.pieces import cut_out
from memsvc.styles.turns.recall.recall import TEXT_CHARS_READ

TEXT_CHARS: Final = 4000
LINE_BYTES_MAX: Final = 32 * 1024
TURN_ITEMS_MAX: Final = 4000
"""Items of a searched turn; it has no more, unless options.items_max was raised."""


class LookingTools:
    """Functions of the inspection tools."""

    def __init__(self, database: Database, traces: Traces) -> None:
        self._database = database
        self._traces = traces

    async def list_sessions(self, scope: Scope, asked: ListSessionsArguments) -> ListSessionsResult:
        before = timeline.Before(*read_cursor(asked.cursor, datetime, str)) if asked.cursor else None
        async with self._database.begin(scope, read_only=True) as tx:
            found = await timeline.sessions(
                tx, named=asked.q.strip(), user=asked.user_id, before=before, most=asked.limit + 1
            )
        page = found[: asked.limit]
        return ListSessionsResult(
            sessions=[
                ListedSession(
                    session_id=one.session,
                    user_id=one.user_id,
                    shared=one.shared,
                    turns=one.turns,
                    items=one.counters.get("items", 0),
                    facts=one.counters.get("facts", 0),
                    created_at=one.created_at,
                    updated_at=one.updated_at,
                    last_maintenance_at=one.last_maintenance_at,
                )
                for one in page
            ],
            next_cursor=cursor_of(page[-1].updated_at, page[-1].session) if len(found) > len(page) else None,
        )

    async def list_turns(self, scope: Scope, asked: ListTurnsArguments) -> ListTurnsResult:
        before, book = min(int(asked.cursor), ENTRY_MAX) if asked.cursor else ENTRY_MAX, books.turns(asked.session_id)
        async with self._database.begin(scope, read_only=True) as tx:
            if asked.turn_id and not asked.cursor:
                before = await timeline.behind(tx, asked.session_id, book.number, asked.turn_id, most=TURN_ITEMS_MAX)
            found = await timeline.items(
                tx,
                book.number,
                before=before,
                most=asked.limit + 1,
                chars_max=TEXT_CHARS,
                line_bytes_max=LINE_BYTES_MAX,
            )
        page = found[: asked.limit]
        return ListTurnsResult(
            items=[
                TurnItem(
                    event_id=one.ref,
                    turn_id=turn_of(one.ref),
                    said_at=one.said_at,
                    role=one.role,
                    speaker=one.speaker,
                    text=one.text,
                    cut=one.chars > len(one.text),
                    tokens=one.tokens,
                    item=orjson.loads(one.line)["item"] if one.line else None,
                )
                for one in page
            ],
            next_cursor=str(page[-1].entry) if len(found) > len(page) else None,
        )

    async def list_recalls(self, scope: Scope, asked: ListRecallsArguments) -> ListRecallsResult:
        before = recalls.Before(*read_cursor(asked.cursor, datetime, UUID)) if asked.cursor else None
        found = await self._traces.page(
            scope, asked.session_id, asked.turn_id, before, most=asked.limit + 1, chars_max=TEXT_CHARS_READ
        )
        page = found[: asked.limit]
        last = page[-1].record if len(found) > len(page) else None
        return ListRecallsResult(
            recalls=[_listed(one) for one in page], next_cursor=cursor_of(last.at, last.recall) if last else None
        )


def _listed(one: Traced) -> ListedRecall:
    record = one.record
    return ListedRecall(
        recall_id=record.recall.hex,
        recalled_at=record.at,
        turn_id=record.turn,
        user_id=record.user_id,
        context_token_count=record.tokens,
        candidates=[_candidate(told, record.session, one.quoted) for told in record.told["candidates"]],
        confidence=record.told.get("confidence"),
        limits=record.told["limits"],
    )


def _candidate(told: Mapping[str, Any], session: str, quoted: Mapping[Place, Quoted]) -> RecallCandidate:
    place = place_of(told)
    stands = quoted.get(place) if place else None
    text = None
    if stands is not None:
        start, stop = told.get("cut") or (0, len(stands.text))
        text = cut_out(stands.text, start, stop)
    return RecallCandidate(
        kind=told["kind"],
        ref=told["ref"] or (stands.ref if stands else ""),
        session_id=(stands.session if stands else None) or told.get("session", session),
        turn_id=_turn_of(told, stands),
        fact_id=stands.fact_id if stands else None,
        shown=told["shown"],
        reason=told.get("reason"),
        score=told["score"],
        parts=told.get("parts", {}),
        text=text,
        role=stands.role if stands else "",
        speaker=stands.speaker if stands else "",
        said_at=stands.said_at if stands else None,
        key=stands.key if stands else None,
        tier=stands.tier if stands else None,
        state=stands.state if stands else None,
    )


def _turn_of(told: Mapping[str, Any], stands: Quoted | None) -> str | None:
    if stands is not None and stands.turn:
        return stands.turn
    return turn_of(told["ref"] or (stands.ref if stands else "")) if told["kind"] == "turn" else None


def looking_tools(functions: LookingTools) -> list[Tool]:
    """Return the inspection tools."""
    logged = frozenset({"project", "session_id", "turn_id", "user_id"})
    return [
        Tool(
            name="memory_list_sessions",
            title="List sessions",
            description="List the sessions of a project, the latest first, with what is counted of each.",
            arguments=ListSessionsArguments,
            result=ListSessionsResult,
            run=functions.list_sessions,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
            administrative=True,
        ),
        Tool(
            name="memory_list_turns",
            title="List what was said",
            description="List what was said in a session, item by item with the turn of each, the latest first.",
            arguments=ListTurnsArguments,
            result=ListTurnsResult,
            run=functions.list_turns,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
            administrative=True,
        ),
        Tool(
            name="memory_list_recalls",
            title="List what was recalled",
            description=(
                "List what memory_before_turn recalled for a session or one of its turns, and why: what each prompt "
                "had, what came close, the scores, and what limits left out."
            ),
            arguments=ListRecallsArguments,
            result=ListRecallsResult,
            run=functions.list_recalls,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
            administrative=True,
        ),
    ]
