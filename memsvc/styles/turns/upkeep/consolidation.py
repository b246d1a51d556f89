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
from memsvc.store.context import SaidItem
from memsvc.store.database import Tx
from memsvc.store.insights import Insight, NewInsight
from memsvc.store.journals import append
from memsvc.store.locks import Lock, book_lock
from memsvc.store.sessions import ENTRY_MAX, Session
from memsvc.styles.turns import books
from memsvc.styles.turns.books import Book
from memsvc.styles.turns.facts.extraction import extract
from memsvc.styles.turns.layout import OWNER, insights_file, timestamp, turn_of
from memsvc.styles.turns.upkeep.insights import Found, of_facts, together, topics

EVENTS_MIN: Final = 6
"""New raw events of a session from which a run is worthwhile."""
STEP_ITEMS: Final = 500
LOOK_BACK_ITEMS: Final = 400
"""Older items that are read again to find recurring topics."""
TEXT_CHARS_READ: Final = 4000
FALLEN_A_STEP: Final = 100

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def locks(found: Session) -> list[Lock]:
    """Return the locks that `step` needs beside the session's, in order."""
    return [book_lock(name) for name in sorted(book.name for book in books.insights(found.session, found.user_id))]


async def step(tx: Tx, session: Session, *, now: datetime) -> tuple[int, bool]:
    """Consolidate at most STEP_ITEMS new events.

    Return the number of insights, and whether more may follow.

    The caller holds the session's lock and `locks`."""
    latest = await sessions.find(tx, session.session)
    if latest is None:
        return 0, False
    found = replace(latest, user_id=session.user_id)  # the locks are those of the user at that time
    book = books.turns(found.session).number
    first = found.consolidated_entry
    fresh = await context.said(tx, book, first, ENTRY_MAX, most=STEP_ITEMS, chars_max=TEXT_CHARS_READ)
    if len(fresh) < EVENTS_MIN:
        return 0, False
    back = max(0, first - LOOK_BACK_ITEMS)
    earlier = await context.said(tx, book, back, first, most=LOOK_BACK_ITEMS, chars_max=TEXT_CHARS_READ)
    made = [*await _of_facts(tx, found, fresh, now), *topics([*earlier, *fresh], first, found.session, book)]
    written = await _write(tx, found, made, now)
    counters = {"consolidation_run_count": 1, "insights_written": written}
    await sessions.consolidated(tx, found.session, fresh[-1].entry + 1, counters=counters, now=now)
    return written, len(fresh) == STEP_ITEMS


async def withdraw(tx: Tx, session: str, shelves: Sequence[Book], *, now: datetime) -> int:
    """Remove some insights of these indexes whose facts were replaced, deleted or have expired.

    Returns how many. Recall does not show them even before that. The caller holds the locks of the
    session and the indexes, and calls again until it is 0."""
    fallen = await insights.fallen(tx, [book.number for book in shelves], now, most=FALLEN_A_STEP)
    if fallen:
        await insights.remove(tx, fallen)
        lines = b"".join(_withdrawn(one, now) for one in fallen)
        await append(tx, {insights_file(session, now): lines}, owner=OWNER, now=now)
        await sessions.count(tx, session, {"insights_withdrawn": len(fallen)})
    return len(fallen)


async def _of_facts(tx: Tx, found: Session, fresh: Sequence[SaidItem], now: datetime) -> list[Found]:
    shelves = [book.number for book in books.facts(found.session, found.user_id)]
    # the index does not tell users apart: in a session of several users no repeat counts
    statements = [] if found.shared else _statements(fresh, found)
    turns = list(dict.fromkeys(turn_of(item.ref) for item in fresh))
    touched = await facts.learnt(tx, shelves, found.session, turns, found.consolidated_at or _NEVER)
    identities = {one.statement.identity for one in touched} | {one.identity for one in statements}
    if not identities:
        return []
    history = await facts.history(tx, shelves, sorted(identities))
    return [*of_facts(history, statements, now), *together(_current(history, touched), found.session, now)]


def _current(history: Sequence[Fact], touched: Sequence[Fact]) -> list[Fact]:
    """Return the touched facts that no newer one of any index has replaced."""
    latest = {fact.statement.identity: (fact.book, fact.entry) for fact in history}
    return [fact for fact in touched if latest[fact.statement.identity] == (fact.book, fact.entry)]


def _statements(fresh: Sequence[SaidItem], found: Session) -> list[Statement]:
    """Return the user's statements in these items, whether or not they changed anything."""
    stated: list[Statement] = []
    spoken = [item for item in fresh if item.role == "user"]
    for turn, said in groupby(spoken, key=lambda item: turn_of(item.ref)):
        messages = [(item.ref, user_message(item.text)) for item in said]
        claims = extract(messages, session=found.session, turn=turn, user=found.user_id)
        stated += [claim for claim in claims if isinstance(claim, Statement)]
    return stated


async def _write(tx: Tx, found: Session, made: Sequence[Found], now: datetime) -> int:
    """Store new insights in rows, index and file; return how many."""
    by_facts = dict(
        zip(
            [book.number for book in books.facts(found.session, found.user_id)],
            books.insights(found.session, found.user_id),
            strict=True,
        )
    )
    own = books.insights(found.session, "")[0]
    lines = b""
    written = 0
    for shelf in dict.fromkeys([own, *by_facts.values()]):
        here = {one.insight.insight: one.insight for one in made if _shelf(one, by_facts, own) == shelf}
        known = await insights.known(tx, shelf.number, list(here)) if here else set()
        fresh = [one for name, one in here.items() if name not in known]
        if fresh:
            await insights.put(tx, shelf.name, fresh, now)
            lines += b"".join(_line(one, now) for one in fresh)
            written += len(fresh)
    if lines:
        await append(tx, {insights_file(found.session, now): lines}, owner=OWNER, now=now)
    return written


def _shelf(one: Found, by_facts: dict[int, Book], own: Book) -> Book:
    return own if one.fact_book is None else by_facts[one.fact_book]


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


def _withdrawn(one: Insight, now: datetime) -> bytes:
    record = {"id": one.insight, "ts": timestamp(now), "type": one.kind, "status": "withdrawn"}
    return orjson.dumps(record) + b"\n"
