"""Consolidation: insights from new events and facts, each stored once, while it is valid."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

import orjson

from memsvc.core.facts import Fact, Statement
from memsvc.core.items import user_message
from memsvc.store import context, facts, insights, sessions
from memsvc.store.append_log import append
from memsvc.store.context import IndexedItem
from memsvc.store.database import Tx
from memsvc.store.insights import Insight, NewInsight
from memsvc.store.locks import Lock, index_lock
from memsvc.store.sessions import ENTRY_MAX, StoredSession
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.facts.extraction import extract
from memsvc.styles.turns.file_layout import OWNER, insights_file, timestamp, turn_of
from memsvc.styles.turns.maintenance.insight_rules import (
    FoundInsight,
    of_facts,
    same_turn_insights,
    topics,
)
from memsvc.styles.turns.turn_index import TurnIndex

EVENTS_MIN: Final = 6
"""New raw events of a session from which a run is worthwhile."""
STEP_ITEMS: Final = 500
LOOK_BACK_ITEMS: Final = 400
"""Older items that are read again to find recurring topics."""
TEXT_CHARS_READ: Final = 4000
INVALID_A_STEP: Final = 100

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def locks(found: StoredSession) -> list[Lock]:
    """Return the locks that `step` needs beside the session's, in order."""
    return [
        index_lock(name)
        for name in sorted(
            index.name for index in turn_index.insights(found.session, found.user_id)
        )
    ]


async def step(tx: Tx, session: StoredSession, *, now: datetime) -> tuple[int, bool]:
    """Consolidate at most STEP_ITEMS new events.

    Return the number of insights, and whether more may follow.

    The caller holds the session's lock and `locks`."""
    latest = await sessions.find(tx, session.session)
    if latest is None:
        return 0, False
    found = replace(latest, user_id=session.user_id)  # the locks are those of the user at that time
    index_id = turn_index.turns(found.session).number
    first = found.consolidated_entry
    new_items = await context.read_items(
        tx, index_id, first, ENTRY_MAX, limit=STEP_ITEMS, chars_max=TEXT_CHARS_READ
    )
    if len(new_items) < EVENTS_MIN:
        return 0, False
    start = max(0, first - LOOK_BACK_ITEMS)
    previous = await context.read_items(
        tx, index_id, start, first, limit=LOOK_BACK_ITEMS, chars_max=TEXT_CHARS_READ
    )
    made = [
        *await _of_facts(tx, found, new_items, now),
        *topics([*previous, *new_items], first, found.session, index_id),
    ]
    written = await _write(tx, found, made, now)
    counters = {"consolidation_run_count": 1, "insights_written": written}
    await sessions.set_consolidated(
        tx, found.session, new_items[-1].entry + 1, counters=counters, now=now
    )
    return written, len(new_items) == STEP_ITEMS


async def remove_invalid(
    tx: Tx, session: str, indexes: Sequence[TurnIndex], *, now: datetime
) -> int:
    """Remove some insights of these indexes whose facts were replaced, deleted or have expired.

    Returns how many. Recall does not show them even before that. The caller holds the locks of the
    session and the indexes, and calls again until it is 0."""
    invalid = await insights.list_invalid(
        tx, [index.number for index in indexes], now, limit=INVALID_A_STEP
    )
    if invalid:
        await insights.remove(tx, invalid)
        lines = b"".join(_removal_line(one, now) for one in invalid)
        await append(tx, {insights_file(session, now): lines}, owner=OWNER, now=now)
        await sessions.count(tx, session, {"insights_withdrawn": len(invalid)})
    return len(invalid)


async def _of_facts(
    tx: Tx, found: StoredSession, new_items: Sequence[IndexedItem], now: datetime
) -> list[FoundInsight]:
    index_ids = [index.number for index in turn_index.facts(found.session, found.user_id)]
    # the index does not tell users apart: in a session of several users no repeat counts
    statements = [] if found.shared else _statements(new_items, found)
    turns = list(dict.fromkeys(turn_of(item.ref) for item in new_items))
    changed = await facts.facts_from_turns(
        tx, index_ids, found.session, turns, found.consolidated_at or _NEVER
    )
    identities = {one.statement.identity for one in changed} | {one.identity for one in statements}
    if not identities:
        return []
    history = await facts.history(tx, index_ids, sorted(identities))
    return [
        *of_facts(history, statements, now),
        *same_turn_insights(_current(history, changed), found.session, now),
    ]


def _current(history: Sequence[Fact], changed: Sequence[Fact]) -> list[Fact]:
    """Return the touched facts that no newer one of any index has replaced."""
    latest = {fact.statement.identity: (fact.index_id, fact.entry) for fact in history}
    return [
        fact for fact in changed if latest[fact.statement.identity] == (fact.index_id, fact.entry)
    ]


def _statements(new_items: Sequence[IndexedItem], found: StoredSession) -> list[Statement]:
    """Return the user's statements in these items, whether or not they changed anything."""
    statements: list[Statement] = []
    user_items = [item for item in new_items if item.role == "user"]
    said_at = {item.ref: item.said_at for item in user_items}
    for turn, turn_items in groupby(user_items, key=lambda item: turn_of(item.ref)):
        messages = [(item.ref, user_message(item.text)) for item in turn_items]
        claims = extract(messages, session=found.session, turn=turn, user=found.user_id)
        statements += [
            replace(claim, message_at=said_at[claim.evidence.item])
            for claim in claims
            if isinstance(claim, Statement)
        ]
    return statements


async def _write(
    tx: Tx, found: StoredSession, found_insights: Sequence[FoundInsight], now: datetime
) -> int:
    """Store new insights in rows, index and file; return how many."""
    by_facts = dict(
        zip(
            [fact_index.number for fact_index in turn_index.facts(found.session, found.user_id)],
            turn_index.insights(found.session, found.user_id),
            strict=True,
        )
    )
    session_index = turn_index.insights(found.session, "")[0]
    lines = b""
    written = 0
    for index in dict.fromkeys([session_index, *by_facts.values()]):
        insight_by_id = {
            one.insight.insight: one.insight
            for one in found_insights
            if _target_index(one, by_facts, session_index) == index
        }
        known = (
            await insights.existing_ids(tx, index.number, list(insight_by_id))
            if insight_by_id
            else set()
        )
        new_insights = [one for name, one in insight_by_id.items() if name not in known]
        if new_insights:
            await insights.put(tx, index.name, new_insights, now)
            lines += b"".join(_line(one, now) for one in new_insights)
            written += len(new_insights)
    if lines:
        await append(tx, {insights_file(found.session, now): lines}, owner=OWNER, now=now)
    return written


def _target_index(
    one: FoundInsight, by_facts: dict[int, TurnIndex], session_index: TurnIndex
) -> TurnIndex:
    return session_index if one.fact_index_id is None else by_facts[one.fact_index_id]


def _line(one: NewInsight, now: datetime) -> bytes:
    record = {
        "id": one.insight,
        "ts": timestamp(now),
        "type": one.kind,
        "status": "consolidated",
        "summary": one.summary,
        "confidence": one.confidence,
        "related_fact_ids": one.evidence["facts"],
        "related_turn_ids": [cited["turn"] for cited in one.evidence["turns"]],
    }
    return orjson.dumps(record) + b"\n"


def _removal_line(one: Insight, now: datetime) -> bytes:
    record = {"id": one.insight, "ts": timestamp(now), "type": one.kind, "status": "withdrawn"}
    return orjson.dumps(record) + b"\n"
