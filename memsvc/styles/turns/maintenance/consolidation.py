"""Consolidation: insights from new events and facts, each stored once, while it is valid."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from itertools import groupby
from math import log
from typing import Any, Final, Literal

import orjson

from memsvc.core.analysis import is_stop_word, terms
from memsvc.core.facts import Fact, FactState, FactTier, Identity, Statement, normalized_value
from memsvc.core.frozen import frozen
from memsvc.core.rules.extraction import extract
from memsvc.store import context, fact_history, facts, insights, sessions
from memsvc.store.context import IndexedItem
from memsvc.store.database import Tx
from memsvc.store.insights import Insight, NewInsight
from memsvc.store.locks import Lock, index_lock
from memsvc.store.sessions import ENTRY_MAX, StoredSession
from memsvc.store.style_files import append
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.file_layout import OWNER, insights_file, json_line, timestamp, turn_of
from memsvc.styles.turns.turn_index import TurnIndex

Kind = Literal["fact_stability", "fact_evolution", "fact_cooccurrence", "recurring_topic"]

CONFIDENCE_BY_KIND: Final[Mapping[Kind, float]] = {
    "fact_stability": 0.84,
    "fact_evolution": 0.78,
    "fact_cooccurrence": 0.7,
    "recurring_topic": 0.6,
}
SAME_TURN_FACTS_MAX: Final = 4
_ALONE: Final = frozenset({"user_instruction", "user_statement"})
TOPICS_MAX: Final = 3
TOPIC_TURNS_MIN: Final = 3
TOPIC_DAYS_MIN: Final = 2
TOPIC_SHARE_MAX: Final = 0.5
"""A word in more than every other turn is a habit of speech, not a topic."""
SOURCES_MAX: Final = 5

_WORD: Final = re.compile(r"[^\W\d_]{4,40}")

EVENTS_MIN: Final = 6
"""New raw events of a session from which a run is worthwhile."""
STEP_ITEMS: Final = 500
LOOK_BACK_ITEMS: Final = 400
"""Older items that are read again to find recurring topics."""
TEXT_CHARS_READ: Final = 4000
INVALID_A_STEP: Final = 100

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class FoundInsight:
    """An insight, and the index of its facts; None when it is about the session itself."""

    fact_index_id: int | None
    insight: NewInsight


@frozen
class _Topic:
    turns: set[str] = field(default_factory=set)
    days: set[str] = field(default_factory=set)
    words: Counter[str] = field(default_factory=Counter)
    items: list[IndexedItem] = field(default_factory=list)


def of_facts(
    history: Sequence[Fact], repeated: Sequence[Statement], now: datetime
) -> list[FoundInsight]:
    """Return insights from the history of identities, oldest fact first.

    A value that was stated again in another turn, and a value that changed. `repeated` are
    statements of the user that changed nothing. Only for valid facts, never for deleted ones."""
    by_identity: dict[Identity, list[Fact]] = defaultdict(list)
    for fact in history:
        by_identity[fact.statement.identity].append(fact)
    found = []
    for identity, values in by_identity.items():
        current = values[-1]
        if not current.is_valid(now) or current.statement.tier is FactTier.L1:
            continue
        repeats = [one for one in repeated if one.identity == identity]
        found += [
            one
            for one in (_unchanged_insight(values, repeats), _change_insight(values))
            if one is not None
        ]
    return found


def same_turn_insights(facts: Iterable[Fact], session: str, now: datetime) -> list[FoundInsight]:
    """Return insights about valid facts that were stated in the same turn of the session.

    Several facts of one kind are a list, one sentence that states all of them says it itself, and
    an instruction or a statement without a topic tells nothing of what it stands beside: none of
    these is worth an insight."""
    by_turn: dict[tuple[int, str], list[Fact]] = defaultdict(list)
    for fact in facts:
        evidence = fact.statement.evidence
        if (
            fact.is_valid(now)
            and fact.statement.tier is not FactTier.L1
            and evidence.session == session
            and fact.statement.fact_id not in _ALONE
        ):
            by_turn[fact.index_id, evidence.turn].append(fact)
    found = []
    for turn_facts in by_turn.values():
        distinct = {fact.statement.identity: fact for fact in turn_facts}
        kinds = {fact.statement.fact_id for fact in turn_facts}
        clauses = list(dict.fromkeys(fact.statement.told.rstrip(".") for fact in distinct.values()))
        if min(len(kinds), len(clauses)) >= 2 and len(distinct) <= SAME_TURN_FACTS_MAX:
            day = f"{turn_facts[0].valid_from:%Y-%m-%d}"
            summary = f"Said together on {day}: {'; '.join(clauses)}"
            found.append(_fact_insight("fact_cooccurrence", list(distinct.values()), [], summary))
    return found


def topics(
    items: Sequence[IndexedItem], new_from: int, session: str, index_id: int
) -> list[FoundInsight]:
    """Return recurring topics of the user: words of several turns on several days.

    A word occurs in the latest items (from the entry `new_from` on), but not in most turns. The
    best ones, with their turns."""
    user_items = [item for item in items if item.role == "user"]
    seen: dict[str, _Topic] = defaultdict(_Topic)
    for item in user_items:
        for word in {match[0] for match in _WORD.finditer(item.text)}:
            stems = [] if is_stop_word(word) else terms(word)
            if len(stems) == 1:
                topic = seen[stems[0]]
                topic.turns.add(turn_of(item.ref))
                topic.days.add(f"{item.said_at:%Y-%m-%d}")
                topic.words[word.lower()] += 1
                topic.items.append(item)
    turns = len({turn_of(item.ref) for item in user_items})
    ranked = sorted(
        (
            (-len(topic.turns) * log(1 + turns / len(topic.turns)), stem)
            for stem, topic in seen.items()
            if len(topic.turns) >= TOPIC_TURNS_MIN
            and len(topic.days) >= TOPIC_DAYS_MIN
            and len(topic.turns) <= TOPIC_SHARE_MAX * turns
            and topic.items[-1].entry >= new_from
        )
    )
    return [_topic(stem, seen[stem], session, index_id) for _, stem in ranked[:TOPICS_MAX]]


def insight_id(kind: Kind, identity: Sequence[str], summary: str) -> str:
    """Return the id of an insight, the same whenever it is found for the same facts."""
    content = orjson.dumps(
        {"identity": list(identity), "type": kind, "summary": summary}, option=orjson.OPT_SORT_KEYS
    )
    return "insight-" + hashlib.sha1(content, usedforsecurity=False).hexdigest()[:16]


def _unchanged_insight(facts: Sequence[Fact], repeats: Sequence[Statement]) -> FoundInsight | None:
    current = facts[-1]
    value = normalized_value(current.statement.value)
    others = [fact.valid_from for fact in facts if _value(fact.statement) != value]
    ends = [fact.valid_to for fact in facts if fact.state is FactState.DELETED and fact.valid_to]
    since = max([*others, *ends], default=None)
    evidence_statements = [
        fact.statement
        for fact in facts
        if fact.state is not FactState.DELETED
        and _value(fact.statement) == value
        and (since is None or fact.valid_from >= since)
    ] + [
        statement
        for statement in repeats
        if _value(statement) == value
        and (since is None or statement.message_at is None or statement.message_at >= since)
    ]
    turns = list(
        dict.fromkeys((one.evidence.session, one.evidence.turn) for one in evidence_statements)
    )
    if len(turns) < 2 or current.doubt is not None:
        return None
    key = current.statement.key.replace("_", " ")
    summary = f"Stated again and unchanged: {key}: {current.statement.value}"
    return _fact_insight("fact_stability", [current], [], summary, turns=turns)


def _change_insight(facts: Sequence[Fact]) -> FoundInsight | None:
    chain: list[Fact] = []
    for fact in facts:
        if fact.state is FactState.DELETED:
            continue
        if chain and _value(chain[-1].statement) == _value(fact.statement):
            chain.pop()
        chain.append(fact)
    if len(chain) < 2:
        return None
    values = " to ".join(f"{fact.statement.value} ({fact.valid_from:%Y-%m-%d})" for fact in chain)
    summary = f"{chain[-1].statement.key.replace('_', ' ')} changed from {values}"
    return _fact_insight("fact_evolution", [chain[-1]], chain[:-1], summary)


def _fact_insight(
    kind: Kind,
    holds: Sequence[Fact],
    past: Sequence[Fact],
    summary: str,
    *,
    turns: Sequence[tuple[str, str]] = (),
) -> FoundInsight:
    facts = [*past, *holds]
    cited = turns or [
        (one.statement.evidence.session, one.statement.evidence.turn) for one in facts
    ]
    identity = [part for fact in holds for part in fact.statement.identity]
    evidence: dict[str, Any] = {
        "facts": list(dict.fromkeys(fact.statement.fact_id for fact in facts)),
        "turns": [{"session": session, "turn": turn} for session, turn in dict.fromkeys(cited)],
        "holds": [fact.place for fact in holds],
        "past": [fact.place for fact in past],
        "sources": [],
    }
    keywords = " ".join(
        dict.fromkeys(fact.statement.keywords for fact in holds if fact.statement.keywords)
    )
    made = NewInsight(
        insight_id(kind, identity, summary),
        kind,
        summary,
        keywords,
        CONFIDENCE_BY_KIND[kind],
        evidence,
    )
    return FoundInsight(holds[-1].index_id, made)


def _topic(stem: str, topic: _Topic, session: str, index_id: int) -> FoundInsight:
    word = min(topic.words, key=lambda one: (-topic.words[one], one))
    cited = topic.items[-SOURCES_MAX:]
    evidence: dict[str, Any] = {
        "facts": [],
        "turns": [
            {"session": session, "turn": turn}
            for turn in dict.fromkeys(turn_of(item.ref) for item in cited)
        ],
        "holds": [],
        "past": [],
        "sources": [[index_id, item.entry] for item in cited],
    }
    kind: Kind = "recurring_topic"
    made = NewInsight(
        insight_id(kind, [stem], ""),
        kind,
        f"The user comes back to this on several days: {word}",
        "",
        CONFIDENCE_BY_KIND[kind],
        evidence,
    )
    return FoundInsight(None, made)


def _value(statement: Statement) -> str:
    return normalized_value(statement.value)


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
    if len(new_items) < EVENTS_MIN:  # too few to be consolidated yet, but not to change something
        made = await _of_facts(tx, found, new_items, now) if new_items else []
        changes = [one for one in made if one.insight.kind == "fact_evolution"]
        written = await _write(tx, found, changes, now)
        if written:
            await sessions.count(tx, found.session, {"insights_written": written})
        return written, False
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
) -> list[Insight]:
    """Remove some insights of these indexes whose facts were replaced, deleted or have expired.

    Return them. Recall does not show them even before that. The caller holds the locks of the
    session and the indexes, and calls again until there are none."""
    invalid = await insights.list_invalid(
        tx, [index.number for index in indexes], now, limit=INVALID_A_STEP
    )
    if invalid:
        await insights.remove(tx, invalid)
        lines = b"".join(_record(one, now, "withdrawn") for one in invalid)
        await append(tx, {insights_file(session, now): lines}, owner=OWNER, now=now)
        await sessions.count(tx, session, {"insights_withdrawn": len(invalid)})
    return invalid


async def _of_facts(
    tx: Tx, found: StoredSession, new_items: Sequence[IndexedItem], now: datetime
) -> list[FoundInsight]:
    index_ids = turn_index.fact_ids(found.session, found.user_id)
    # the index does not tell users apart: in a session of several users no repeat counts
    statements = [] if found.shared else _statements(new_items, found)
    turns = list(dict.fromkeys(turn_of(item.ref) for item in new_items))
    changed = await fact_history.facts_from_turns(
        tx, index_ids, found.session, turns, found.consolidated_at or _NEVER
    )
    identities = {one.statement.identity for one in changed} | {one.identity for one in statements}
    if not identities:
        return []
    history = await facts.history(tx, index_ids, sorted(identities))
    latest = {fact.statement.identity: fact.place for fact in history}
    current = [fact for fact in changed if latest[fact.statement.identity] == fact.place]
    return [
        *of_facts(history, statements, now),
        *same_turn_insights(current, found.session, now),
    ]


def _statements(new_items: Sequence[IndexedItem], found: StoredSession) -> list[Statement]:
    """Return the user's statements in these items, whether or not they changed anything."""
    statements = []
    user_items = [item for item in new_items if item.role == "user"]
    said_at = {item.ref: item.said_at for item in user_items}
    for turn, turn_items in groupby(user_items, key=lambda item: turn_of(item.ref)):
        messages = [(item.ref, item.text) for item in turn_items]
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
            turn_index.fact_ids(found.session, found.user_id),
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
            if index
            == (session_index if one.fact_index_id is None else by_facts[one.fact_index_id])
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


def _line(one: NewInsight, now: datetime) -> bytes:
    return _record(
        one,
        now,
        "consolidated",
        summary=one.summary,
        confidence=one.confidence,
        related_fact_ids=one.evidence["facts"],
        related_turn_ids=[cited["turn"] for cited in one.evidence["turns"]],
    )


def _record(one: NewInsight | Insight, now: datetime, status: str, **more: object) -> bytes:
    record = {"id": one.insight, "ts": timestamp(now), "type": one.kind, "status": status}
    return json_line(record | more)
