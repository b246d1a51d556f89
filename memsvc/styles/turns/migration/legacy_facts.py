"""The facts of a session folder, replayed from their records to their final state.

Records have times to the second only. Within one, replacements are read from the records that state
them and from the order of the turns, never from their ids: a replaced fact stays replaced, a
deleted one stays deleted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memsvc.core.facts import State, Tier, normalised_value
from memsvc.styles.turns.migration.legacy import Broken, Kind, Reading, Record, moment
from memsvc.styles.turns.migration.legacy_turns import turn_name, user_name

CONFIDENCE = 0.78
"""Confidence of a fact that has none between 0 and 1."""
_ENDED = {
    "superseded": State.SUPERSEDED,
    "contradicted": State.SUPERSEDED,
    "deleted": State.DELETED,
    "expired": State.DELETED,
}


@dataclass(slots=True)
class OldFact:
    """One fact and its final state; `expires_at` is None for facts kept for good or without one."""

    record: str
    fact_id: str
    key: str
    value: str
    tier: Tier
    confidence: float
    user: str
    turn: str
    item: str
    valid_from: datetime
    expires_at: datetime | None
    slot: str = ""
    cues: str = ""
    state: State = State.ACTIVE
    valid_to: datetime | None = None
    superseded_by: str | None = None
    told: bool = False  # whether a record states its end, or only a later fact implies it

    def end(self, state: State, at: datetime, by: str | None = None, *, told: bool) -> None:
        """Mark the fact as no longer valid."""
        self.state, self.valid_to, self.superseded_by, self.told = state, at, by, told


@dataclass(slots=True)
class _Story:
    """History of one identity: its facts in order, the valid one, and early endings.

    An early ending is recorded before its fact."""

    facts: dict[str, OldFact] = field(default_factory=dict)
    current: OldFact | None = None
    early: list[tuple[datetime, str, str]] = field(default_factory=list)


def facts(reading: Reading, order: Mapping[str, int], now: datetime) -> list[OldFact]:
    """Return every fact of the records, oldest first; `order` numbers the turns in their order."""
    stories: dict[tuple[str, str, str], _Story] = {}
    for at, body in _in_order(reading, order, now):
        user = user_name(body, "source_user_id")
        identity = (_text(body, "fact_id") or _text(body, "key"), _text(body, "key"), _text(body, "slot"))
        story = stories.setdefault(identity, _Story())
        match body.get("type"):
            case "fact_delete":
                if story.current is not None:
                    story.current.end(State.DELETED, moment(body.get("deleted_at"), now) or at, told=True)
                    story.current = None
            case "fact_supersede":
                _supersede(story, body, at)
            case _:
                _begin(story, _fact(body, user, at), body, at)
    found = [fact for story in stories.values() for fact in story.facts.values()]
    return sorted(found, key=lambda fact: fact.valid_from)


def _in_order(reading: Reading, order: Mapping[str, int], now: datetime) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Yield the records in the order in which they were written.

    By time, then by turn, then as the longest log has them."""
    records = reading.of(Kind.FACT)
    whole = [record for record in records if record.file.count("/") == 0]  # all records in one file, in order
    logged = {_mark(record.body) for record in whole}
    apart = [record for record in records if record.file.count("/") and _mark(record.body) not in logged]
    told = [*_indexed(reading, records), *whole, *apart]
    dated = []
    seen = set()
    for record in told:
        at = moment(record.body.get("ts"), now)
        if at is None or not _text(record.body, "key") or not _text(record.body, "id"):
            reading.broken.append(Broken(record.file, record.line, "a fact without id, key or time"))
            continue
        mark = _mark(record.body)
        if mark not in seen:
            seen.add(mark)
            dated.append((at, order.get(turn_name(_text(record.body, "source_turn_id")), len(order)), record.body))
    dated.sort(key=lambda one: one[:2])
    for at, _, body in dated:
        yield at, body


def _indexed(reading: Reading, records: list[Record]) -> list[Record]:
    """Return the facts of the index of active facts that have no record."""
    known = {_text(record.body, "id") for record in records}
    return [
        Record(Kind.FACT, body | {"type": "fact_upsert"}, record.file, record.line)
        for record in reading.of(Kind.INDEX)
        for body in record.body["facts"].values()
        if isinstance(body, dict) and _text(body, "id") not in known
    ]


def _supersede(story: _Story, body: dict[str, Any], at: datetime) -> None:
    by, value = _text(body, "superseded_by"), normalised_value(_text(body, "value"))
    old = story.facts.get(_text(body, "of")) or next(
        (
            fact
            for fact in reversed(story.facts.values())
            if fact.record != by and not fact.told and normalised_value(fact.value) == value
        ),
        None,
    )
    if old is None:
        story.early.append((at, by, value))
        return
    old.end(State.SUPERSEDED, at, by, told=True)
    new = story.facts.get(by)
    if story.current is old:
        story.current = None
    if new is not None and not new.told and new.state is not State.ACTIVE:  # only sorted before the fact it replaced
        new.state, new.valid_to, new.superseded_by = State.ACTIVE, None, None
        story.current = new


def _begin(story: _Story, fact: OldFact, body: dict[str, Any], at: datetime) -> None:
    if fact.record in story.facts:
        return
    story.facts[fact.record] = fact
    state = _ENDED.get(_text(body, "state"))
    early = (at, normalised_value(fact.value))
    told = next((one for one in story.early if (one[0], one[2]) == early and one[1] != fact.record), None)
    if told is not None:
        story.early.remove(told)
        fact.end(State.SUPERSEDED, at, told[1], told=True)
    elif state is not None:
        fact.end(state, at, _text(body, "superseded_by") or None, told=True)
    else:
        if story.current is not None:
            story.current.end(State.SUPERSEDED, at, fact.record, told=False)
        story.current = fact


def _fact(body: dict[str, Any], user: str, at: datetime) -> OldFact:
    tier, confidence = _text(body, "tier"), body.get("confidence")
    return OldFact(
        record=_text(body, "id"),
        fact_id=_text(body, "fact_id") or _text(body, "key"),
        key=_text(body, "key"),
        value=_text(body, "value"),
        tier=Tier(tier) if tier in list(Tier) else Tier.L2,
        confidence=float(confidence) if isinstance(confidence, int | float) and 0 < confidence <= 1 else CONFIDENCE,
        user=user,
        turn=turn_name(_text(body, "source_turn_id")) if _text(body, "source_turn_id") else "",
        item=_text(body, "source_item_id"),
        valid_from=at,
        expires_at=_day(body.get("expires_at")),
        slot=_text(body, "slot"),
        cues=_text(body, "cues"),
    )


def _day(text: Any) -> datetime | None:
    return moment(text, datetime.max.replace(tzinfo=UTC))


def _text(body: Mapping[str, Any], member: str) -> str:
    value = body.get(member)
    return value.replace("\x00", "") if isinstance(value, str) else ""


def _mark(body: Mapping[str, Any]) -> tuple[str, str]:
    return _text(body, "id"), _text(body, "type")
