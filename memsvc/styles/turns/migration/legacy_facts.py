"""The facts of a session folder, replayed from their records to their final state.

Records have times to the second only. Within one, replacements are read from the records that state
them and from the order of the turns, never from their ids: a replaced fact stays replaced, a
deleted one stays deleted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memsvc.core.facts import FactState, FactTier, normalized_value
from memsvc.styles.turns.migration.legacy import (
    InvalidRecord,
    LegacyKind,
    LegacyRecord,
    LegacyRecords,
    record_timestamp,
)
from memsvc.styles.turns.migration.legacy_turns import turn_name, user_name

CONFIDENCE = 0.78
"""Confidence of a fact that has none between 0 and 1."""
_STATE_BY_NAME = {
    "superseded": FactState.SUPERSEDED,
    "contradicted": FactState.SUPERSEDED,
    "deleted": FactState.DELETED,
    "expired": FactState.DELETED,
}


@dataclass(slots=True)
class OldFact:
    """One fact and its final state; `expires_at` is None for facts kept for good or without one."""

    record: str
    fact_id: str
    key: str
    value: str
    tier: FactTier
    confidence: float
    user: str
    turn: str
    item: str
    valid_from: datetime
    expires_at: datetime | None
    slot: str = ""
    keywords: str = ""
    state: FactState = FactState.ACTIVE
    valid_to: datetime | None = None
    superseded_by: str | None = None
    has_record: bool = False  # whether a record states its end, or only a later fact implies it

    def end(
        self, state: FactState, at: datetime, by: str | None = None, *, has_record: bool
    ) -> None:
        """Mark the fact as no longer valid."""
        self.state, self.valid_to, self.superseded_by, self.has_record = state, at, by, has_record


@dataclass(slots=True)
class _FactHistory:
    """History of one identity: its facts in order, the valid one, and early endings.

    An early ending is recorded before its fact."""

    facts: dict[str, OldFact] = field(default_factory=dict)
    current: OldFact | None = None
    early: list[tuple[datetime, str, str]] = field(default_factory=list)


def facts(reading: LegacyRecords, order: Mapping[str, int], now: datetime) -> list[OldFact]:
    """Return every fact of the records, oldest first; `order` numbers the turns in their order."""
    history_by_identity: dict[tuple[str, str, str], _FactHistory] = {}
    for at, body in _in_order(reading, order, now):
        user = user_name(body, "source_user_id")
        identity = (
            _text(body, "fact_id") or _text(body, "key"),
            _text(body, "key"),
            _text(body, "slot"),
        )
        history = history_by_identity.setdefault(identity, _FactHistory())
        match body.get("type"):
            case "fact_delete":
                if history.current is not None:
                    history.current.end(
                        FactState.DELETED,
                        record_timestamp(body.get("deleted_at"), now) or at,
                        has_record=True,
                    )
                    history.current = None
            case "fact_supersede":
                _replace_fact(history, body, at)
            case _:
                _begin(history, _fact(body, user, at), body, at)
    found = [fact for history in history_by_identity.values() for fact in history.facts.values()]
    return sorted(found, key=lambda fact: fact.valid_from)


def _in_order(
    reading: LegacyRecords, order: Mapping[str, int], now: datetime
) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Yield the records in the order in which they were written.

    By time, then by turn, then as the longest log has them."""
    records = reading.of(LegacyKind.FACT)
    complete_log = [
        record for record in records if record.file.count("/") == 0
    ]  # all records in one file, in order
    logged = {_record_key(record.body) for record in complete_log}
    others = [
        record
        for record in records
        if record.file.count("/") and _record_key(record.body) not in logged
    ]
    candidates = [*_indexed(reading, records), *complete_log, *others]
    records_by_time = []
    seen = set()
    for record in candidates:
        at = record_timestamp(record.body.get("ts"), now)
        if at is None or not _text(record.body, "key") or not _text(record.body, "id"):
            reading.broken.append(
                InvalidRecord(record.file, record.line, "a fact without id, key or time")
            )
            continue
        mark = _record_key(record.body)
        if mark not in seen:
            seen.add(mark)
            records_by_time.append(
                (
                    at,
                    order.get(turn_name(_text(record.body, "source_turn_id")), len(order)),
                    record.body,
                )
            )
    records_by_time.sort(key=lambda one: one[:2])
    for at, _, body in records_by_time:
        yield at, body


def _indexed(reading: LegacyRecords, records: list[LegacyRecord]) -> list[LegacyRecord]:
    """Return the facts of the index of active facts that have no record."""
    known = {_text(record.body, "id") for record in records}
    return [
        LegacyRecord(LegacyKind.FACT, body | {"type": "fact_upsert"}, record.file, record.line)
        for record in reading.of(LegacyKind.INDEX)
        for body in record.body["facts"].values()
        if isinstance(body, dict) and _text(body, "id") not in known
    ]


def _replace_fact(history: _FactHistory, body: dict[str, Any], at: datetime) -> None:
    by, value = _text(body, "superseded_by"), normalized_value(_text(body, "value"))
    old = history.facts.get(_text(body, "of")) or next(
        (
            fact
            for fact in reversed(history.facts.values())
            if fact.record != by and not fact.has_record and normalized_value(fact.value) == value
        ),
        None,
    )
    if old is None:
        history.early.append((at, by, value))
        return
    old.end(FactState.SUPERSEDED, at, by, has_record=True)
    new = history.facts.get(by)
    if history.current is old:
        history.current = None
    if (
        new is not None and not new.has_record and new.state is not FactState.ACTIVE
    ):  # only sorted before the fact it replaced
        new.state, new.valid_to, new.superseded_by = FactState.ACTIVE, None, None
        history.current = new


def _begin(history: _FactHistory, fact: OldFact, body: dict[str, Any], at: datetime) -> None:
    if fact.record in history.facts:
        return
    history.facts[fact.record] = fact
    state = _STATE_BY_NAME.get(_text(body, "state"))
    key = (at, normalized_value(fact.value))
    ending = next(
        (one for one in history.early if (one[0], one[2]) == key and one[1] != fact.record), None
    )
    if ending is not None:
        history.early.remove(ending)
        fact.end(FactState.SUPERSEDED, at, ending[1], has_record=True)
    elif state is not None:
        fact.end(state, at, _text(body, "superseded_by") or None, has_record=True)
    else:
        if history.current is not None:
            history.current.end(FactState.SUPERSEDED, at, fact.record, has_record=False)
        history.current = fact


def _fact(body: dict[str, Any], user: str, at: datetime) -> OldFact:
    tier, confidence = _text(body, "tier"), body.get("confidence")
    return OldFact(
        record=_text(body, "id"),
        fact_id=_text(body, "fact_id") or _text(body, "key"),
        key=_text(body, "key"),
        value=_text(body, "value"),
        tier=FactTier(tier) if tier in list(FactTier) else FactTier.L2,
        confidence=float(confidence)
        if isinstance(confidence, int | float) and 0 < confidence <= 1
        else CONFIDENCE,
        user=user,
        turn=turn_name(_text(body, "source_turn_id")) if _text(body, "source_turn_id") else "",
        item=_text(body, "source_item_id"),
        valid_from=at,
        expires_at=_day(body.get("expires_at")),
        slot=_text(body, "slot"),
        keywords=_text(body, "cues"),
    )


def _day(text: Any) -> datetime | None:
    return record_timestamp(text, datetime.max.replace(tzinfo=UTC))


def _text(body: Mapping[str, Any], member: str) -> str:
    value = body.get(member)
    return value.replace("\x00", "") if isinstance(value, str) else ""


def _record_key(body: Mapping[str, Any]) -> tuple[str, str]:
    return _text(body, "id"), _text(body, "type")
